package scheduler

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"tenon.sh/engine/kube"
	"tenon.sh/engine/requirement"
	"tenon.sh/engine/volume"
)

// unboundClaim is a claim without a volume: at its pod's landing it takes a free volume, or a driver makes one.
type unboundClaim struct {
	id    volume.ClaimID
	size  resource.Quantity
	needs volume.Claim
}

// readClaims returns, for each volume of the pod that not every node reaches, the alternative terms for the node. ok is false if kube-scheduler
// lets the pod wait on every node.
func (state *replayState) readClaims(p *podInfo) (places [][][]requirement.Expression, ok bool) {
	for i := range p.pod.Spec.Volumes {
		mount := &p.pod.Spec.Volumes[i]
		claim, id, problem := state.volumes.ClaimOf(p.pod, mount)
		if problem != "" {
			return nil, false
		}
		if claim == nil {
			continue
		}
		needs := state.volumes.Read(claim)
		if needs.Problem != "" {
			return nil, false
		}
		named := mount.Ephemeral == nil
		if needs.Waits && (named || len(needs.Free) > 0) {
			p.unbound = append(p.unbound, unboundClaim{id, claim.Spec.Resources.Requests[corev1.ResourceStorage], needs})
			state.users[id]++
		}
		if len(needs.Free) > 0 {
			continue
		}
		places = append(places, needs.Places)
		if named {
			places = append(places, needs.Labelled)
		}
	}
	slices.SortStableFunc(p.unbound, func(a, b unboundClaim) int { return a.size.Cmp(b.size) })
	return slices.DeleteFunc(places, func(terms [][]requirement.Expression) bool { return len(terms) == 0 }), true
}

// volumesOn returns, for each unbound claim of the pod, the free volume that it takes on the node; nil if the claim has a volume by now or gets
// a new one. It returns false if some claim gets none.
func (state *replayState) volumesOn(p *podInfo, n *nodeInfo) ([]*volume.FreeVolume, bool) {
	there := func(places [][]requirement.Expression) bool { return len(places) == 0 || n.meetsOne(places) }
	out := make([]*volume.FreeVolume, len(p.unbound))
	for i := range p.unbound {
		c := &p.unbound[i]
		if places, bound := state.bound[c.id]; bound {
			if !there(places) {
				return nil, false
			}
			continue
		}
		at := slices.IndexFunc(c.needs.Free, func(v volume.FreeVolume) bool {
			return !state.taken[v.Name] && there(v.Places) && !slices.ContainsFunc(out, func(other *volume.FreeVolume) bool { return other != nil && other.Name == v.Name })
		})
		switch {
		case at >= 0:
			out[i] = &c.needs.Free[at]
		case !c.needs.Makes || !there(c.needs.Places):
			return nil, false
		}
	}
	return out, true
}

// takeVolumes gives volumes to the claims of a pod that lands on the node. Other pods of these claims must then land where the volumes can be
// reached.
func (state *replayState) takeVolumes(p *podInfo, n *nodeInfo) {
	found, _ := state.volumesOn(p, n)
	for i, v := range found {
		c := &p.unbound[i]
		_, bound := state.bound[c.id]
		if v != nil {
			state.taken[v.Name] = true
		}
		switch {
		case bound || state.users[c.id] < 2:
		case v != nil:
			state.bound[c.id] = v.Places
		default:
			var here []requirement.Expression
			for _, key := range state.volumes.Reach(&c.needs) {
				if value, ok := n.label(key); ok {
					here = append(here, requirement.Expect(key, requirement.In, []string{value}))
				}
			}
			state.bound[c.id] = [][]requirement.Expression{here}
		}
	}
}

// countUsers counts the running pods by claim that only one pod at a time may use.
func (state *replayState) countUsers() {
	if !slices.ContainsFunc(state.queue, func(p *podInfo) bool { return len(p.once) > 0 }) {
		return
	}
	state.inUse = map[volume.ClaimID]int{}
	for _, pod := range state.replay.Snapshot.Pods {
		_, stays := state.byNodeName[pod.Spec.NodeName]
		if stays = stays || state.replay.On != nil; stays && pod.Spec.NodeName != "" && !kube.IsTerminal(pod) && !state.lands(state.cache.InfoOf(pod)) {
			state.use(state.volumes.Once(pod))
		}
	}
}

func (state *replayState) use(claims []volume.ClaimID) {
	for _, id := range claims {
		state.inUse[id]++
	}
}

// attachRunning counts the volumes that are already attached or attaching.
func (state *replayState) attachRunning() {
	for _, a := range state.replay.Snapshot.VolumeAttachments {
		i, there := state.byNodeName[a.Spec.NodeName]
		if behind, ok := state.volumes.AttachmentBehind(a); ok && there {
			state.nodes[i].attach(behind)
		}
	}
}

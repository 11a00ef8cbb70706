package provisioning

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/capacity"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
)

// SortPods decides for each pod without a node whether it is expected on a machine. It returns the pods that are not, and the pods that
// leave their machine.
func (rd *Reading) SortPods() []*corev1.Pod {
	if rd.trial != nil {
		return rd.sortTrial()
	}
	started := rd.startedMachines()
	waiting, untried := rd.sortUnbound(started)
	for _, pod := range rd.recheckExpected() {
		if kube.IsPending(pod) || rd.Gangs.Of(pod) != nil {
			waiting = append(waiting, pod)
		} else if kube.IsUntried(pod) {
			untried = append(untried, pod)
		}
	}
	waiting = append(waiting, rd.willBeRefused(untried, waiting)...)
	rd.proposed = map[*corev1.Pod]*inventory.Machine{}
	for _, m := range rd.Machines {
		if !m.Leaving {
			continue
		}
		for _, pod := range rd.LeavingPods(m) {
			waiting = append(waiting, pod)
			if to := started.newest[string(pod.UID)]; to != nil {
				rd.proposed[pod] = to
			}
		}
	}
	return waiting
}

// started holds the machines on which pods without a node may be expected.
type started struct {
	nominated map[string]*inventory.Machine // by name, the machines to which pods are nominated
	newest    map[string]*inventory.Machine // by pod, the newest machine that was started for it
	untried   map[string]*inventory.Machine // by pod, the newest of these machines that kube-scheduler may not have tried yet
}

func (rd *Reading) startedMachines() *started {
	st := &started{nominated: map[string]*inventory.Machine{}, newest: map[string]*inventory.Machine{}, untried: map[string]*inventory.Machine{}}
	for _, pod := range rd.Pods.Unbound {
		if name := pod.Status.NominatedNodeName; name != "" {
			st.nominated[name] = nil
		}
	}
	leaves := map[string]bool{} // pods on leaving machines: other pods do not use a machine that was tried
	for _, m := range rd.Machines {
		if m.Leaving {
			for _, pod := range m.Bound {
				leaves[string(pod.UID)] = true
			}
		}
	}
	for _, m := range rd.Machines {
		if m.Leaving || m.IsUncounted() || m.Gone {
			continue
		}
		if _, nominated := st.nominated[m.Name()]; nominated {
			st.nominated[m.Name()] = m
		}
		if m.Claim == nil {
			continue
		}
		tried := m.IsTried(rd.Snapshot.Now)
		if tried && len(leaves) == 0 {
			continue
		}
		for _, uid := range m.Planned {
			if tried && !leaves[uid] {
				continue
			}
			// A pod that could not run on its first machine was planned again, so the newest plan counts.
			if isNewer(m, st.newest[uid]) {
				st.newest[uid] = m
			}
			if !tried && isNewer(m, st.untried[uid]) {
				st.untried[uid] = m
			}
		}
	}
	return st
}

// isNewer reports whether the claim of m is not older than the claim of the other machine, which may be nil.
func isNewer(m, other *inventory.Machine) bool {
	return other == nil || !m.Claim.CreationTimestamp.Before(&other.Claim.CreationTimestamp)
}

// of returns the machine on which the pod is expected, or nil.
func (st *started) of(pod *corev1.Pod) *inventory.Machine {
	if m := st.nominated[pod.Status.NominatedNodeName]; m != nil {
		return m
	}
	return st.untried[string(pod.UID)]
}

// sortUnbound adds the pods that are expected on a machine to that machine. It returns the other pods that wait for a place, and the pods that
// kube-scheduler has not tried yet.
func (rd *Reading) sortUnbound(started *started) (waiting, untried []*corev1.Pod) {
	for _, pod := range rd.Pods.Unbound {
		if !kube.IsActive(pod) || kube.OwnedByDaemonSet(pod) || kube.IsMirror(pod) || rd.withoutGang(pod) {
			continue
		}
		if kube.IsUntried(pod) && !rd.holds.Of(pod).OK() {
			continue // kube-scheduler does not know for which pods the room is held
		}
		m := started.of(pod)
		if m != nil && rd.Backoffs.Unfit[pod] == m.MachineInfo {
			m = nil
		}
		switch asks := rd.Gangs.Of(pod) != nil; {
		case m != nil && (kube.IsQueued(pod) || pod.Status.NominatedNodeName != ""):
			m.Expected = append(m.Expected, pod)
		case kube.IsPending(pod), asks && kube.IsUntried(pod):
			waiting = append(waiting, pod)
		case kube.IsUntried(pod):
			untried = append(untried, pod)
		}
	}
	return waiting, untried
}

// recheckExpected keeps pods expected on a machine while they fit beside the pods that run there, and while the machine, once it is initialized,
// admits them. It returns the others, which wait like any pod. It ignores pods that are being preempted there, and the DaemonSets' reserves, which
// the plan included already.
func (rd *Reading) recheckExpected() (others []*corev1.Pod) {
	for _, m := range rd.Machines {
		if len(m.Expected) == 0 {
			continue
		}
		slices.SortFunc(m.Expected, kube.OlderFirst)
		taken := corev1.ResourceList{}
		for _, pod := range m.Bound {
			if !kube.IsTerminating(pod) {
				kube.AddList(taken, rd.Pods.Cache.RequestsOf(pod).List)
			}
		}
		var kept []*corev1.Pod
		for _, pod := range m.Expected {
			with, need := taken.DeepCopy(), rd.Pods.Cache.RequestsOf(pod).List
			kube.AddList(with, need)
			d := rd.Constraints.Of(pod).NodeConstraints
			if listFits(need, with, m.Usable()) && (!m.IsInitialized() || m.AwaitsTaints(rd.Snapshot.Now) || m.Admits(&d, nil)) {
				taken = with
				kept = append(kept, pod)
			} else {
				others = append(others, pod)
			}
		}
		m.Expected = kept
	}
	return others
}

// listFits reports whether, for each resource in need, the sum of the requests in `all` is at most the amount in have. Other resources may be
// overdrawn.
func listFits(need, all, have corev1.ResourceList) bool {
	for name, q := range need {
		sum, h := all[name], have[name]
		if q.Sign() > 0 && sum.Cmp(h) > 0 {
			return false
		}
	}
	return true
}

// placeAhead is how long before a protected pod's deadline the machine for its new place is started. Most machines boot in less time.
const placeAhead = 5 * time.Minute

// LeavingPods lists the pods that need another place because their machine is being removed.
func (rd *Reading) LeavingPods(m *inventory.Machine) []*corev1.Pod {
	var out []*corev1.Pod
	for _, pod := range m.Bound {
		if kube.IsReschedulable(pod) && (m.Supposed && rd.trial.Held || !rd.stays(pod) || rd.endsSoon(m, pod)) {
			out = append(out, pod)
		}
	}
	return out
}

// stays reports whether no drain sends the pod away: its annotation protects it now, or no eviction of it is ever allowed.
func (rd *Reading) stays(pod *corev1.Pod) bool {
	return kube.ProtectionOf(pod, rd.Snapshot.Now).Active || rd.budgetsOfPods().NeverAllow(pod)
}

// endsSoon reports whether the machine's deadline forces the deletion of the pod within placeAhead, although something protects the pod.
func (rd *Reading) endsSoon(m *inventory.Machine, pod *corev1.Pod) bool {
	ends := kube.DrainEnds(m.Claim)
	return !ends.IsZero() && !rd.Snapshot.Now.Before(ends.Add(-kube.GraceOf(pod)-placeAhead))
}

// toPlan returns the pods to plan for: the given pods, and the pods that are expected on a machine. That machine is their first choice. toPlan
// refuses pods that cannot be planned for.
func (rd *Reading) toPlan(pods []*corev1.Pod) []pendingClass {
	home := map[*corev1.Pod]*inventory.Machine{}
	for _, m := range rd.Machines {
		for _, pod := range m.Expected {
			home[pod] = m
			pods = append(pods, pod)
		}
	}
	proposed := rd.proposed
	if rd.trial != nil && len(rd.trial.Nominations) > 0 {
		proposed = map[*corev1.Pod]*inventory.Machine{}
		for _, pod := range pods {
			if m := rd.trial.assignedNodeOf(pod, rd.Machines); m != nil && home[pod] == nil {
				proposed[pod] = m
			}
		}
	}
	out, ups := make([]pendingClass, 0, len(pods)), scaleUpsOf(rd.Snapshot)
	if rd.trial == nil { // in trials the order of pods makes no difference, because classes have their own
		slices.SortFunc(pods, kube.OlderFirst)
	}
	for i, pod := range pods {
		info := rd.Pods.Cache.InfoOf(pod)
		c := rd.Constraints.OfInfo(info)
		if !c.Objection.OK() {
			rd.refused = append(rd.refused, engine.Unplaced{Pod: kube.PodID(pod), Reasons: []engine.Reason{c.Objection}})
			continue
		}
		to := proposed[pod]
		if r := rd.elsewhere(pod, ups); home[pod] == nil && !r.OK() {
			rd.refused = append(rd.refused, engine.Unplaced{Pod: kube.PodID(pod), Reasons: []engine.Reason{r}})
			continue
		}
		out = append(out, pendingClass{pods[i : i+1 : i+1], info, c, cmp.Or(home[pod], to), to != nil, rd.trial.batchOf(pod), nil})
	}
	if rd.trial.counts() {
		out = append(out, rd.pendingOfTrial()...)
	}
	return rd.bounded(out)
}

// leavers returns the pods that leave their machine because it is being removed, even if they have no other place.
func (rd *Reading) leavers() map[*corev1.Pod]bool {
	out := map[*corev1.Pod]bool{}
	for _, m := range rd.Machines {
		if !m.Leaving {
			continue
		}
		for _, pod := range rd.LeavingPods(m) {
			out[pod] = true
		}
	}
	return out
}

// usedBy returns the sum of the requests of the node's pods.
func (p *Problem) usedBy(r *inventory.NodePods) capacity.Vector {
	if len(r.Infos) == 0 {
		return make(capacity.Vector, p.Names.Len())
	}
	if r.UsedFor != p.namesText {
		r.Used, r.UsedFor = make(capacity.Vector, p.Names.Len()), p.namesText
		for _, info := range r.Infos {
			r.Used.Add(p.RequestFor(p.Pods.Cache.RequestsFor(info)), 1)
		}
	}
	return r.Used
}

// promise keeps room on replacements for the pods that are planned on them and still run on the nodes to be removed.
func (rd *Reading) promise() {
	byPlan := map[string]*inventory.Machine{}
	for _, m := range rd.Machines {
		if m.Replaces && !m.Leaving {
			for _, uid := range m.Planned {
				byPlan[uid] = m
			}
		}
	}
	if len(byPlan) == 0 {
		return
	}
	for _, m := range rd.Machines {
		if !m.Ordered || m.Leaving {
			continue
		}
		for _, pod := range m.Bound {
			if to := byPlan[string(pod.UID)]; to != nil && kube.IsReschedulable(pod) {
				to.Promised = append(to.Promised, pod)
			}
		}
	}
}

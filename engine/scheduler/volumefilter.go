package scheduler

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine/kube"
	"tenon.sh/engine/requirement"
	"tenon.sh/engine/volume"
)

// placesOf lists, for each volume that is tied to a place, the alternatives that a node must meet. ok is false for a pod that
// kube-scheduler lets wait wherever.
func (w *replayState) placesOf(pod *corev1.Pod) (places [][][]requirement.Expression, ok bool) {
	for i := range pod.Spec.Volumes {
		mount := &pod.Spec.Volumes[i]
		claim, _, problem := w.volumes.ClaimOf(pod, mount)
		if problem != "" {
			return nil, false
		}
		if claim == nil {
			continue
		}
		needs := w.volumes.Read(claim)
		if needs.Problem != "" {
			return nil, false
		}
		places = append(places, needs.Places)
		if mount.Ephemeral == nil {
			places = append(places, needs.Labelled)
		}
	}
	return slices.DeleteFunc(places, func(terms [][]requirement.Expression) bool { return len(terms) == 0 }), true
}

// countUsers counts the pods that run and use claims which one pod at a time may use.
func (w *replayState) countUsers() {
	if !slices.ContainsFunc(w.queue, func(p *podInfo) bool { return len(p.once) > 0 }) {
		return
	}
	w.inUse = map[volume.ClaimID]int{}
	for _, pod := range w.replay.Snapshot.Pods {
		_, stays := w.byNodeName[pod.Spec.NodeName]
		if stays = stays || w.replay.On != nil; stays && pod.Spec.NodeName != "" && !kube.IsTerminal(pod) && !w.lands(w.cache.InfoOf(pod)) {
			w.use(w.volumes.Once(pod))
		}
	}
}

func (w *replayState) use(claims []volume.ClaimID) {
	for _, id := range claims {
		w.inUse[id]++
	}
}

// attachRunning counts the volumes that are attached or attaching already.
func (w *replayState) attachRunning() {
	for _, a := range w.replay.Snapshot.VolumeAttachments {
		i, there := w.byNodeName[a.Spec.NodeName]
		if behind, ok := w.volumes.AttachmentBehind(a); ok && there {
			w.nodes[i].attach(behind)
		}
	}
}

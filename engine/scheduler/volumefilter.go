package scheduler

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine/requirement"
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

// attachRunning counts the volumes that are attached or attaching already.
func (w *replayState) attachRunning() {
	for _, a := range w.replay.Snapshot.VolumeAttachments {
		i, there := w.byNodeName[a.Spec.NodeName]
		if behind, ok := w.volumes.AttachmentBehind(a); ok && there {
			w.nodes[i].attach(behind)
		}
	}
}

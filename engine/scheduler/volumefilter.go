package scheduler

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"tenon.sh/engine/kube"
	"tenon.sh/engine/requirement"
	"tenon.sh/engine/volume"
)

// volumeReader finds what a snapshot knows of volumes.
type volumeReader struct{ volume.Reader }

// of lists, for each volume that is tied to a place, the alternatives that a node must meet. ok is false for a pod that kube-scheduler lets wait wherever: a claim is missing, or has to be
// bound before.
func (x *volumeReader) of(pod *corev1.Pod) (places [][][]requirement.Expression, ok bool) {
	ok = true
	for i := range pod.Spec.Volumes {
		claim, _, problem := x.ClaimOf(pod, &pod.Spec.Volumes[i])
		ok = ok && problem == ""
		if claim == nil {
			continue
		}
		if pv := x.Persistent[claim.Spec.VolumeName]; pv != nil {
			places = append(places, boundPlaces(pv)...)
			continue
		}
		class := x.ClassOf(claim)
		if claim.Spec.VolumeName != "" || class == nil || class.VolumeBindingMode == nil || *class.VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer {
			ok = false
			continue
		}
		if terms := allowedTerms(class); terms != nil {
			places = append(places, terms)
		}
	}
	return places, ok
}

// placeLabels are the labels of a volume that tie it to nodes with the same label, in the order of kube-scheduler's VolumeZone.
func placeLabels() []string {
	return []string{corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion, corev1.LabelTopologyZone, corev1.LabelTopologyRegion}
}

// boundPlaces are the places of a volume that exists: its node affinity, and its zone labels, which hold for nodes that
// have any such label.
func boundPlaces(pv *corev1.PersistentVolume) [][][]requirement.Expression {
	var out [][][]requirement.Expression
	if terms := kube.VolumeTerms(pv); terms != nil {
		alternatives := [][]requirement.Expression{}
		for i := range terms {
			if all := kube.ExpressionsOf(terms[i], kube.AsWritten); len(all) > 0 {
				alternatives = append(alternatives, all)
			}
		}
		out = append(out, alternatives)
	}
	var nowhere []requirement.Expression
	for _, key := range placeLabels() {
		nowhere = append(nowhere, requirement.Expression{Key: key, Op: requirement.DoesNotExist})
	}
	for _, key := range placeLabels() {
		if value, ok := pv.Labels[key]; ok {
			here := requirement.Expression{Key: key, Op: requirement.In, Values: strings.Split(value, "__")}
			out = append(out, [][]requirement.Expression{{here}, nowhere, {newerPlace(here)}})
		}
	}
	return out
}

// newerPlace is the same place by the newer name of its label.
func newerPlace(e requirement.Expression) requirement.Expression {
	switch e.Key {
	case corev1.LabelFailureDomainBetaZone:
		e.Key = corev1.LabelTopologyZone
	case corev1.LabelFailureDomainBetaRegion:
		e.Key = corev1.LabelTopologyRegion
	}
	return e
}

func allowedTerms(class *storagev1.StorageClass) [][]requirement.Expression {
	var out [][]requirement.Expression
	for _, t := range class.AllowedTopologies {
		all := make([]requirement.Expression, 0, len(t.MatchLabelExpressions))
		for _, e := range t.MatchLabelExpressions {
			all = append(all, requirement.Expression{Key: e.Key, Op: requirement.In, Values: slices.Clone(e.Values)})
		}
		out = append(out, all)
	}
	return out
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

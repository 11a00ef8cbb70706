package ondemand

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
)

// Sentence describes the consequence for the pod of the share that its owner requests, or the fault of the request. It is empty if the pod has
// no annotation about a share.
func Sentence(s *engine.Snapshot, pod *corev1.Pod) string {
	if _, asks := pod.Annotations[v1.OnDemandShareAnnotationKey]; !asks || !counts(pod) {
		return ""
	}
	owners, notes := ownersOf(s)
	name, _ := ownerOf(pod)
	i := slices.IndexFunc(owners, func(o *owner) bool { return o.name == name })
	if i < 0 {
		for _, other := range s.Pods { // the note names the first pod of the owner
			if n, _ := ownerOf(other); n != name {
				continue
			}
			if j := slices.IndexFunc(notes, func(n engine.Note) bool { return n.Object == objectOf(other) }); j >= 0 {
				return notes[j].Reason.Message()
			}
		}
		return ""
	}
	o, run := owners[i], 0
	for _, m := range o.members {
		if m.place == onDemand {
			run++
		}
	}
	text := fmt.Sprintf("%s: at least %d of the %s of %s have to run on demand, %d so far", v1.OnDemandShareAnnotationKey, o.need, engine.Plural(o.pods, "pod"), o.name, run)
	at := slices.IndexFunc(o.members, func(m member) bool { return m.pod == pod })
	switch {
	case at < 0 || at >= o.need:
		return text + "; this one may run anywhere"
	case o.members[at].place == onDemand:
		return text + "; this one counts, and moves to no spot machine"
	}
	return text + "; this one has to. kube-scheduler does not know that: where it binds the pod to a spot machine, it is made up for with others that wait"
}

// objectOf returns the name that notes use for the pod.
func objectOf(pod *corev1.Pod) string { return "Pod " + kube.PodID(pod).String() }

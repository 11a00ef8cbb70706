package gang

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"tenon.sh/engine"
)

// memberLabel, on the copies that plans are made with, names the group of a pod whose pods have to be in one place.
const memberLabel = "tenon.sh/pod-group"

// Copies remembers the copies of pods from one call to the next: whoever remembers pods does so by their address.
type Copies struct{ last, next map[*corev1.Pod]copied }

type copied struct {
	key string
	pod *corev1.Pod
}

// InOnePlace is the snapshot in which the pods of groups with a topology constraint ask for it themselves, as pods with affinity to each
// other do. It is s itself if there is no such group.
func InOnePlace(s *engine.Snapshot, known *Copies) *engine.Snapshot {
	keys := map[types.NamespacedName]string{}
	for _, group := range s.PodGroups {
		if key := group.TopologyKey(); key != "" {
			keys[types.NamespacedName{Namespace: group.Namespace, Name: group.Name}] = key
		}
	}
	known.last, known.next = known.next, nil
	if len(keys) == 0 {
		return s
	}
	known.next = map[*corev1.Pod]copied{}
	out := *s
	out.Pods = make([]*corev1.Pod, len(s.Pods))
	for i, pod := range s.Pods {
		out.Pods[i] = pod
		group := groupOf(pod)
		key := keys[types.NamespacedName{Namespace: pod.Namespace, Name: group}]
		if group == "" || key == "" {
			continue
		}
		c, there := known.last[pod]
		if !there || c.key != key {
			c = copied{key, beside(pod, group, key)}
		}
		known.next[pod] = c
		out.Pods[i] = c.pod
	}
	return &out
}

// beside is the pod with the demand to run where the others of its group do.
func beside(pod *corev1.Pod, group, key string) *corev1.Pod {
	out := *pod
	out.Labels = maps.Clone(pod.Labels)
	metav1.SetMetaDataLabel(&out.ObjectMeta, memberLabel, group)
	affinity := &corev1.Affinity{}
	if pod.Spec.Affinity != nil {
		affinity = pod.Spec.Affinity.DeepCopy()
	}
	if affinity.PodAffinity == nil {
		affinity.PodAffinity = &corev1.PodAffinity{}
	}
	required := &affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	*required = append(*required, corev1.PodAffinityTerm{
		TopologyKey: key, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{memberLabel: group}},
	})
	out.Spec.Affinity = affinity
	return &out
}

package gang

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"tenon.sh/engine"
)

// memberLabel, on copies of pods for plans, is the group of a pod whose group has to be in one place.
const memberLabel = "tenon.sh/pod-group"

// Copies keeps the copies of pods from one call to the next, because caches identify pods by their address.
type Copies struct{ last, next map[*corev1.Pod]copied }

type copied struct {
	key string
	pod *corev1.Pod
}

// InOnePlace returns the snapshot with a topology constraint of a group added to the group's pods, as affinity to each other. It returns s itself if
// no group has one.
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

// beside returns the pod with an affinity to the other pods of its group.
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

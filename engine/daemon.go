package engine

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
)

// daemon is a DaemonSet as a burden: what its pod will take of every node that it runs on.
type daemon struct {
	demand
	set  *appsv1.DaemonSet
	need corev1.ResourceList
}

// daemonsOf lists the DaemonSets by namespace and name, with the requests that their pods will have.
func daemonsOf(s *Snapshot) []daemon {
	ranges := limitRanges(s)
	var out []daemon
	for _, set := range s.DaemonSets {
		if set.DeletionTimestamp != nil {
			continue
		}
		pod := &corev1.Pod{Spec: *set.Spec.Template.Spec.DeepCopy()}
		pod.Namespace = set.Namespace
		DefaultRequests(pod, ranges[set.Namespace])
		d := daemon{set: set, need: PodRequests(pod), demand: demandOf(&pod.Spec)}
		d.tolerations = append(d.tolerations, daemonTolerations...)
		out = append(out, d)
	}
	slices.SortFunc(out, func(a, b daemon) int {
		return compareBy(a.set, b.set, func(x, y *appsv1.DaemonSet) bool {
			return x.Namespace < y.Namespace || x.Namespace == y.Namespace && x.Name < y.Name
		})
	})
	return out
}

// daemonTolerations are those that the DaemonSet controller gives to every pod it makes.
var daemonTolerations = []corev1.Toleration{
	{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
	{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
	{Key: corev1.TaintNodeDiskPressure, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
	{Key: corev1.TaintNodeMemoryPressure, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
	{Key: corev1.TaintNodePIDPressure, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
	{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
}

func limitRanges(s *Snapshot) map[string][]*corev1.LimitRange {
	byNamespace := map[string][]*corev1.LimitRange{}
	for _, r := range s.LimitRanges {
		byNamespace[r.Namespace] = append(byNamespace[r.Namespace], r)
	}
	for _, ranges := range byNamespace {
		slices.SortFunc(ranges, func(a, b *corev1.LimitRange) int {
			return compareBy(a, b, func(x, y *corev1.LimitRange) bool { return x.Name < y.Name })
		})
	}
	return byNamespace
}

// DefaultRequests fills in the requests that the API server would: the defaults of the namespace's LimitRanges, then
// the limits, for every container that names none. It changes the pod.
func DefaultRequests(pod *corev1.Pod, ranges []*corev1.LimitRange) {
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			defaultContainer(&containers[i].Resources, ranges)
		}
	}
	if r := pod.Spec.Resources; r != nil {
		r.Requests = withMissing(r.Requests, r.Limits)
	}
}

func defaultContainer(r *corev1.ResourceRequirements, ranges []*corev1.LimitRange) {
	// A limit that the author wrote comes before the range's default request, as in the API server.
	r.Requests = withMissing(r.Requests, r.Limits)
	for _, lr := range ranges {
		for _, item := range lr.Spec.Limits {
			if item.Type == corev1.LimitTypeContainer {
				r.Limits = withMissing(r.Limits, item.Default)
				r.Requests = withMissing(r.Requests, item.DefaultRequest)
			}
		}
	}
	r.Requests = withMissing(r.Requests, r.Limits)
}

func withMissing(list, from corev1.ResourceList) corev1.ResourceList {
	for name, q := range from {
		if _, ok := list[name]; ok {
			continue
		}
		if list == nil {
			list = corev1.ResourceList{}
		}
		list[name] = q
	}
	return list
}

// owns reports whether the pod belongs to the DaemonSet.
func (d *daemon) owns(pod *corev1.Pod) bool {
	if pod.Namespace != d.set.Namespace {
		return false
	}
	for _, o := range pod.OwnerReferences {
		if o.Kind == "DaemonSet" && o.APIVersion == "apps/v1" && o.Name == d.set.Name {
			return true
		}
	}
	return false
}

// startupLabels are the labels that a machine has by the time its DaemonSets run.
var startupLabels = map[string]string{v1.RegisteredLabelKey: "true", v1.InitializedLabelKey: "true"}

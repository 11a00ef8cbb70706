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
	// ports are those that its pod takes of the node.
	ports []hostPort
	key   string // as daemonKey has it
}

// daemonsOf lists the DaemonSets by namespace and name, with the requests that their pods will have.
func daemonsOf(s *Snapshot, pods []*corev1.Pod) []daemon {
	var out []daemon
	for _, pod := range daemonPods(s, pods) {
		spec := &pod.pod.Spec
		key := pod.set.Namespace + "/" + pod.set.Name
		out = append(out, daemon{set: pod.set, need: PodRequests(pod.pod), demand: demandOf(spec), ports: hostPortsOf(spec), key: key})
	}
	return out
}

// knownDaemons is what daemonsOf said the last time, and of what.
type knownDaemons struct {
	sets   []*appsv1.DaemonSet
	ranges []*corev1.LimitRange
	pods   []*corev1.Pod
	list   []daemon
}

// burdens is daemonsOf for one more compilation.
func (c *census) burdens(s *Snapshot) []daemon {
	k := &c.memo.daemons
	if !slices.Equal(k.sets, s.DaemonSets) || !slices.Equal(k.ranges, s.LimitRanges) || !slices.Equal(k.pods, c.ofDaemons) {
		*k = knownDaemons{slices.Clone(s.DaemonSets), slices.Clone(s.LimitRanges), c.ofDaemons, daemonsOf(s, c.ofDaemons)}
	}
	return slices.Clone(k.list)
}

// daemonPod is the pod that a DaemonSet will make for the next node.
type daemonPod struct {
	set *appsv1.DaemonSet
	pod *corev1.Pod
}

// daemonPods lists the pods that DaemonSets will make, whose pods are among those listed, by the sets' namespaces and names.
// Something may change pods while they are made, so the newest one tells what the next one will hold; where it may run only
// the template tells, because a pod that was made is pinned to its node.
func daemonPods(s *Snapshot, pods []*corev1.Pod) []daemonPod {
	ranges, newest := limitRanges(s), newestOfDaemons(s, pods)
	var out []daemonPod
	for _, set := range s.DaemonSets {
		if set.DeletionTimestamp != nil {
			continue
		}
		pod := &corev1.Pod{Spec: *set.Spec.Template.Spec.DeepCopy()}
		pod.Namespace, pod.Name, pod.Labels = set.Namespace, set.Name, set.Spec.Template.Labels
		if n := newest[daemonID{set.Namespace, set.Name}]; n != nil {
			live := n.Spec.DeepCopy()
			pod.Spec.Containers, pod.Spec.InitContainers = live.Containers, live.InitContainers
			pod.Spec.Resources, pod.Spec.Overhead = live.Resources, live.Overhead
		}
		DefaultRequests(pod, ranges[set.Namespace])
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, daemonTolerations...)
		out = append(out, daemonPod{set, pod})
	}
	slices.SortFunc(out, func(a, b daemonPod) int {
		return compareBy(a.set, b.set, func(x, y *appsv1.DaemonSet) bool {
			return x.Namespace < y.Namespace || x.Namespace == y.Namespace && x.Name < y.Name
		})
	})
	return out
}

type daemonID struct{ namespace, name string }

// newestOfDaemons finds the newest pod of each DaemonSet that has neither ended nor been told to; of several that are
// equally new the first by name.
func newestOfDaemons(s *Snapshot, pods []*corev1.Pod) map[daemonID]*corev1.Pod {
	newest := map[daemonID]*corev1.Pod{}
	if len(s.DaemonSets) == 0 {
		return newest
	}
	for _, pod := range pods {
		if !isActive(pod) {
			continue
		}
		for _, o := range pod.OwnerReferences {
			if o.Kind != "DaemonSet" || o.APIVersion != "apps/v1" {
				continue
			}
			id := daemonID{pod.Namespace, o.Name}
			if n := newest[id]; n == nil || newerPod(pod, n) {
				newest[id] = pod
			}
		}
	}
	return newest
}

func newerPod(a, b *corev1.Pod) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return b.CreationTimestamp.Before(&a.CreationTimestamp)
	}
	return naturally(a.Name, b.Name) < 0
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

// startupLabels are the labels that a machine has by the time its DaemonSets run.
var startupLabels = map[string]string{v1.RegisteredLabelKey: "true", v1.InitializedLabelKey: "true"}

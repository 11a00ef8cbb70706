package engine

import (
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
)

// daemon is a DaemonSet as a burden: what its pod will take of every node that it runs on.
type daemon struct {
	demand
	set  *appsv1.DaemonSet
	pod  *corev1.Pod
	need corev1.ResourceList
	// ports are those that its pod takes of the node.
	ports []hostPort
	key   string // as daemonKey has it
	// priority says which of two pods goes first that exclude each other.
	priority int32
}

// daemonsOf makes burdens of the pods that DaemonSets will make.
func daemonsOf(pods []daemonPod) []daemon {
	var out []daemon
	for _, pod := range pods {
		spec := &pod.pod.Spec
		key := pod.set.Namespace + "/" + pod.set.Name
		out = append(out, daemon{set: pod.set, pod: pod.pod, need: PodRequests(pod.pod), demand: demandOf(spec), ports: hostPortsOf(spec), key: key, priority: daemonPriority(pod.pod)})
	}
	return out
}

// knownDaemons is what DaemonSets asked for in the last call, and by what that was known.
type knownDaemons struct {
	sets   []*appsv1.DaemonSet
	ranges []*corev1.LimitRange
	facts  []*podFacts
	newest map[string]*corev1.Pod // as newestOfDaemons found them among the facts
	pods   []daemonPod
	list   []daemon // of the pods
}

// ofDaemonSets finds out what the DaemonSets ask for, given the facts of the pods that they have.
func (k *knownDaemons) ofDaemonSets(s *Snapshot, facts []*podFacts) {
	same := slices.Equal(k.sets, s.DaemonSets) && slices.Equal(k.ranges, s.LimitRanges)
	if same && slices.Equal(k.facts, facts) {
		return
	}
	newest := newestOfDaemons(facts)
	if same && maps.Equal(k.newest, newest) {
		k.facts = facts
		return
	}
	pods := daemonPods(s, newest)
	*k = knownDaemons{slices.Clone(s.DaemonSets), slices.Clone(s.LimitRanges), facts, newest, pods, daemonsOf(pods)}
}

// daemonPods is the pods that the snapshot's DaemonSets will make; they are shared, not to be changed.
func (m *Memo) daemonPods(s *Snapshot) []daemonPod {
	m.daemons.ofDaemonSets(s, m.ofDaemons)
	return m.daemons.pods
}

// burdens is what the snapshot's DaemonSets will take of nodes; it is shared, not to be changed.
func (c *census) burdens(s *Snapshot) []daemon {
	c.memo.daemons.ofDaemonSets(s, c.ofDaemons)
	return c.memo.daemons.list
}

// daemonPod is the pod that a DaemonSet will make for the next node.
type daemonPod struct {
	set *appsv1.DaemonSet
	pod *corev1.Pod
}

// daemonPods lists the pods that DaemonSets will make, by the sets' namespaces and names. Something may change pods while they
// are made, so the newest one tells what the next one will hold; where it may run only the template tells, because a pod that
// was made is pinned to its node.
func daemonPods(s *Snapshot, newest map[string]*corev1.Pod) []daemonPod {
	ranges := limitRanges(s)
	var out []daemonPod
	for _, set := range s.DaemonSets {
		if set.DeletionTimestamp != nil {
			continue
		}
		pod := &corev1.Pod{Spec: *set.Spec.Template.Spec.DeepCopy()}
		pod.Namespace, pod.Name, pod.Labels = set.Namespace, set.Name, set.Spec.Template.Labels
		if n := newest[set.Namespace+"/"+set.Name]; n != nil {
			live := n.Spec.DeepCopy()
			pod.Spec.Containers, pod.Spec.InitContainers = live.Containers, live.InitContainers
			pod.Spec.Resources, pod.Spec.Overhead, pod.Spec.Priority = live.Resources, live.Overhead, live.Priority
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

// daemonPriority is the priority of a DaemonSet's pod; a template may name no more than one of the two classes that every cluster
// has.
func daemonPriority(pod *corev1.Pod) int32 {
	switch {
	case pod.Spec.Priority != nil:
		return *pod.Spec.Priority
	case pod.Spec.PriorityClassName == "system-node-critical":
		return 2000001000
	case pod.Spec.PriorityClassName == "system-cluster-critical":
		return 2000000000
	}
	return 0
}

// newestOfDaemons finds the newest pod of each DaemonSet, by its daemonKey, that has neither ended nor been told to; of several
// that are equally new the first by name.
func newestOfDaemons(facts []*podFacts) map[string]*corev1.Pod {
	newest := map[string]*podFacts{}
	for _, f := range facts {
		if !f.active() || f.daemonKey == "" {
			continue
		}
		if n := newest[f.daemonKey]; n == nil || newerPod(f.pod, n.pod) {
			newest[f.daemonKey] = f
		}
	}
	out := make(map[string]*corev1.Pod, len(newest))
	for key, f := range newest {
		out[key] = f.pod
	}
	return out
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

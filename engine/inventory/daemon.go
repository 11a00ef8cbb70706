package inventory

import (
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
)

// Daemon is a DaemonSet with the requests and ports that its pod will take on every node where it runs.
type Daemon struct {
	kube.NodeConstraints
	Set      *appsv1.DaemonSet
	Pod      *corev1.Pod
	Requests corev1.ResourceList
	// Ports are the node's ports that its pod takes.
	Ports []kube.HostPort
	Key   string // the result of daemonKey
	// Priority decides which of two pods runs if they exclude each other.
	Priority int32
}

// daemonsOf returns the Daemons of the pods that DaemonSets will make.
func daemonsOf(pods []daemonPod) []Daemon {
	var out []Daemon
	for _, pod := range pods {
		spec := &pod.Pod.Spec
		key := pod.set.Namespace + "/" + pod.set.Name
		out = append(out, Daemon{Set: pod.set, Pod: pod.Pod, Requests: kube.PodRequests(pod.Pod), NodeConstraints: kube.NodeConstraintsOf(spec), Ports: kube.HostPortsOf(spec), Key: key, Priority: DaemonPriority(pod.Pod)})
	}
	return out
}

// knownDaemons holds the Daemons of the last call, with the objects from which they were read.
type knownDaemons struct {
	sets    []*appsv1.DaemonSet
	ranges  []*corev1.LimitRange
	classes []*nodev1.RuntimeClass
	infos   []*PodInfo
	newest  map[string]*corev1.Pod // the newest pod of each DaemonSet, by newestOfDaemons
	pods    []daemonPod
	list    []Daemon // the Daemons of the pods
}

// ofDaemonSets reads the Daemons of the DaemonSets, given the infos of their present pods.
func (k *knownDaemons) ofDaemonSets(s *engine.Snapshot, infos []*PodInfo) {
	same := slices.Equal(k.sets, s.DaemonSets) && slices.Equal(k.ranges, s.LimitRanges) && slices.Equal(k.classes, s.RuntimeClasses)
	if same && slices.Equal(k.infos, infos) {
		return
	}
	newest := newestOfDaemons(infos)
	if same && maps.Equal(k.newest, newest) {
		k.infos = infos
		return
	}
	pods := daemonPods(s, newest)
	*k = knownDaemons{slices.Clone(s.DaemonSets), slices.Clone(s.LimitRanges), slices.Clone(s.RuntimeClasses), infos, newest, pods, daemonsOf(pods)}
}

// DaemonPods returns the pods that the snapshot's DaemonSets will make. They are shared and must not be changed.
func (cache *Cache) DaemonPods(s *engine.Snapshot) []daemonPod {
	cache.daemons.ofDaemonSets(s, cache.ofDaemons)
	return cache.daemons.pods
}

// Daemons returns the Daemons of the snapshot. They are shared and must not be changed.
func (c *PodIndex) Daemons(s *engine.Snapshot) []Daemon {
	c.Cache.daemons.ofDaemonSets(s, c.ofDaemons)
	return c.Cache.daemons.list
}

// daemonPod is the pod that a DaemonSet will make for the next node.
type daemonPod struct {
	set *appsv1.DaemonSet
	Pod *corev1.Pod
}

// daemonPods returns the pods that DaemonSets will make, in order of the sets' namespaces and names. Because admission may change pods, the resources
// of the next pod are those of the newest pod. The nodes for the next pod follow from the template, because an existing pod is pinned to its node.
func daemonPods(s *engine.Snapshot, newest map[string]*corev1.Pod) []daemonPod {
	ranges := limitRanges(s)
	var out []daemonPod
	for _, set := range s.DaemonSets {
		if set.DeletionTimestamp != nil {
			continue
		}
		pod := &corev1.Pod{Spec: *set.Spec.Template.Spec.DeepCopy()}
		pod.Namespace, pod.Name, pod.Labels = set.Namespace, set.Name, set.Spec.Template.Labels
		kube.ApplyRuntimeClass(&pod.Spec, s.RuntimeClasses)
		if n := newest[set.Namespace+"/"+set.Name]; n != nil {
			live := n.Spec.DeepCopy()
			pod.Spec.Containers, pod.Spec.InitContainers = live.Containers, live.InitContainers
			pod.Spec.Resources, pod.Spec.Overhead, pod.Spec.Priority = live.Resources, live.Overhead, live.Priority
		}
		kube.DefaultRequests(pod, ranges[set.Namespace])
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, daemonTolerations...)
		out = append(out, daemonPod{set, pod})
	}
	slices.SortFunc(out, func(a, b daemonPod) int {
		return kube.CompareBy(a.set, b.set, func(x, y *appsv1.DaemonSet) bool {
			return x.Namespace < y.Namespace || x.Namespace == y.Namespace && x.Name < y.Name
		})
	})
	return out
}

// DaemonPriority returns the priority of a DaemonSet's pod. If a template names a priority class without its value, the function recognises only
// the two priority classes that every cluster has.
func DaemonPriority(pod *corev1.Pod) int32 {
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

// newestOfDaemons returns the newest active pod of each DaemonSet, by its daemonKey; of equally new pods the first by name.
func newestOfDaemons(infos []*PodInfo) map[string]*corev1.Pod {
	newest := map[string]*PodInfo{}
	for _, info := range infos {
		if !info.Active() || info.DaemonKey == "" {
			continue
		}
		if n := newest[info.DaemonKey]; n == nil || newerPod(info.Pod, n.Pod) {
			newest[info.DaemonKey] = info
		}
	}
	out := make(map[string]*corev1.Pod, len(newest))
	for key, info := range newest {
		out[key] = info.Pod
	}
	return out
}

func newerPod(a, b *corev1.Pod) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return b.CreationTimestamp.Before(&a.CreationTimestamp)
	}
	return kube.CompareNaturally(a.Name, b.Name) < 0
}

// daemonTolerations are the tolerations that the DaemonSet controller adds to every pod that it makes.
var daemonTolerations = []corev1.Toleration{
	{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
	{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
	{Key: corev1.TaintNodeDiskPressure, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
	{Key: corev1.TaintNodeMemoryPressure, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
	{Key: corev1.TaintNodePIDPressure, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
	{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
}

func limitRanges(s *engine.Snapshot) map[string][]*corev1.LimitRange {
	byNamespace := map[string][]*corev1.LimitRange{}
	for _, r := range s.LimitRanges {
		byNamespace[r.Namespace] = append(byNamespace[r.Namespace], r)
	}
	for _, ranges := range byNamespace {
		slices.SortFunc(ranges, func(a, b *corev1.LimitRange) int {
			return kube.CompareBy(a, b, func(x, y *corev1.LimitRange) bool { return x.Name < y.Name })
		})
	}
	return byNamespace
}

// startupLabels are the labels that a machine has by the time its DaemonSets run.
var startupLabels = map[string]string{v1.RegisteredLabelKey: "true", v1.InitializedLabelKey: "true"}

package provisioning

import (
	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine/constraints"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
)

// willBeRefused returns the untried pods for which kube-scheduler will find no node. kube-scheduler tries one pod after the other, which takes
// minutes for thousands of pods. A pod is returned if kube-scheduler has found no node for another pod of the same controller with the same labels,
// or if no node has room left after pods have taken the machines that were started for them. Other schedulers may wait for more than room, for
// example for the rest of a gang, so only the first condition applies to their pods.
func (rd *Reading) willBeRefused(untried, waiting []*corev1.Pod) (out []*corev1.Pod) {
	if len(untried) == 0 {
		return nil
	}
	type replica struct {
		owner *inventory.OwnerInfo
		kind  *inventory.LabelClass
	}
	cache, refused, works := rd.Pods.Cache, map[replica]bool{}, false // works is true if kube-scheduler has refused a pod
	for _, pod := range rd.Pods.Unbound {
		if info := cache.InfoOf(pod); kube.IsPending(pod) && !kube.IsBufferPod(pod) {
			refused[replica{info.Owner, info.Labels}] = true
			works = works || rd.opt.IsKubeScheduler(pod.Spec.SchedulerName)
		}
	}
	if len(refused) == 0 {
		return nil
	}
	free := rd.freeNow(waiting)
	for _, pod := range untried {
		info := cache.InfoOf(pod)
		foreseen := works && rd.opt.IsKubeScheduler(pod.Spec.SchedulerName)
		if info.Owner != nil && refused[replica{info.Owner, info.Labels}] || foreseen && !free.mayTake(rd.Constraints.OfInfo(info), cache.RequestsFor(info).UsageOf()) {
			out = append(out, pod)
		}
	}
	return out
}

// freeNodes are the existing nodes, with the cpu and memory that no pod uses or is expected to use there.
type freeNodes struct {
	machines []*inventory.Machine
	free     []kube.Usage
	left     kube.Usage // of all nodes: a pod that has lost its room to another pod will take the room that was meant for that pod
	known    map[freeKey]bool
}

type freeKey struct {
	constraints *constraints.PodConstraints
	requests    kube.Usage
}

// freeNow returns the nodes' room once the waiting pods run on the machines that were started for them. Other waiting pods take no room,
// because the existing nodes did not suit them.
func (rd *Reading) freeNow(waiting []*corev1.Pod) *freeNodes {
	out, cache := &freeNodes{known: map[freeKey]bool{}}, rd.Pods.Cache
	waits := make(map[string]*corev1.Pod, len(waiting))
	for _, pod := range waiting {
		waits[string(pod.UID)] = pod
	}
	for _, m := range rd.Machines {
		if m.Node == nil {
			continue
		}
		free := kube.UsageOf(m.Node.Status.Allocatable)
		for _, info := range m.Pods.Infos {
			free = free.Less(cache.RequestsFor(info).UsageOf())
		}
		for _, pod := range m.Expected {
			free = free.Less(cache.RequestsOf(pod).UsageOf())
		}
		for _, uid := range m.Planned {
			if pod := waits[uid]; pod != nil {
				free = free.Less(cache.RequestsOf(pod).UsageOf())
			}
		}
		out.machines, out.free, out.left = append(out.machines, m), append(out.free, free), out.left.Plus(free)
	}
	return out
}

// mayTake reports whether a node has room for the pod and no taint that keeps it off, other constraints aside.
func (n *freeNodes) mayTake(c *constraints.PodConstraints, need kube.Usage) bool {
	key := freeKey{c, need}
	may, known := n.known[key]
	for i := 0; !known && !may && need.Within(n.left) && i < len(n.machines); i++ {
		may = need.Within(n.free[i]) && kube.Untolerated(c.Tolerations, n.machines[i].Node.Spec.Taints) == nil
	}
	n.known[key] = may
	return may
}

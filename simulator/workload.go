package simulator

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"tenon.sh/engine/kube"
	"tenon.sh/engine/lifecycle"
	"tenon.sh/scenario"
)

// workloadsOf returns the workloads of a leaving node's pods. Baseline has none: it evicts all pods of a node at once, as far as
// PodDisruptionBudgets allow.
func (w *World) workloadsOf(pods []*corev1.Pod) map[types.UID]*lifecycle.Workload {
	if w.cfg.Policy == Baseline {
		return nil
	}
	out := map[types.UID]*lifecycle.Workload{}
	for _, pod := range pods {
		u, known := w.cluster.units.get(string(pod.UID))
		uid := kube.WorkloadOf(pod)
		if !known || u.load == nil || uid == "" || out[uid] != nil {
			continue
		}
		x := &lifecycle.Workload{Kind: pod.OwnerReferences[0].Kind, Name: pod.OwnerReferences[0].Name, Replicas: u.load.replicas()}
		for _, other := range u.load.units.list {
			if kube.WorkloadOf(other.pod) == uid {
				x.Pods = append(x.Pods, other.pod)
			}
		}
		out[uid] = x
	}
	return out
}

// replicas returns how many pods the controller of the load's newest version wants, or a number below zero if that is unknown.
func (l *load) replicas() int {
	if l.Kind == statefulKind || l.Kind == scenario.Deployment && l.staying == l.current {
		return l.want
	}
	return -1
}

// back subtracts one pod from those that are away: u has become ready, or the workload was scaled down. The pod that replaces a Deployment's pod may
// belong to a newer ReplicaSet.
func (l *load) back(u *unit) {
	if len(l.away) == 0 {
		return
	}
	uid := kube.WorkloadOf(u.pod)
	if l.away[uid] == 0 && l.Kind == scenario.Deployment {
		uid = slices.Min(slices.Collect(maps.Keys(l.away)))
	}
	if l.away[uid]--; l.away[uid] <= 0 {
		delete(l.away, uid)
	}
}

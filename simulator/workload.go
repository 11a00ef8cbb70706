package simulator

import (
	"maps"
	"slices"

	"tenon.sh/engine/kube"
	"tenon.sh/scenario"
)

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

package nomination

import (
	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/scheduler"
)

// mostFiltering limits the work that nominations cause in kube-scheduler: the number of nominated pods times the number of other waiting pods.
// When kube-scheduler tries a pod without a nomination, it filters each node with the pods that are nominated to it. That takes some 20 µs for
// each of these pods, so the limit is ten seconds.
const mostFiltering = 500_000

// NominationsAreDear reports whether so many nominations, among so many waiting pods, would occupy kube-scheduler for long.
func NominationsAreDear(nominated, waiting int) bool {
	return nominated*(waiting-nominated) > mostFiltering
}

// NominateFew keeps, of the pods of nodes that are to open, the pods that would find no node without a nomination. Such pods exist because
// kube-scheduler's scores spread pods over all nodes, so that large pods may find each node half full. If there are too many such pods, no pod
// is nominated, and later pods take the room that is left.
func NominateFew(s *engine.Snapshot, opt engine.Options, group []Opening) []Opening {
	waits, hints := map[string]*corev1.Pod{}, map[engine.PodID]string{}
	for _, pod := range s.Pods {
		if kube.IsQueued(pod) {
			waits[string(pod.UID)] = pod
		}
	}
	var planned []*corev1.Pod
	for _, c := range s.NodeClaims {
		for _, uid := range kube.PlannedPods(c) {
			if pod := waits[uid]; pod != nil && c.DeletionTimestamp == nil {
				planned = append(planned, pod)
			}
		}
	}
	for _, o := range group {
		for _, pod := range o.Pods {
			hints[kube.PodID(pod)] = o.Node.Name
		}
	}
	few := needHints(scheduler.Replay{Snapshot: s, Options: opt, Pods: planned}, hints, len(waits))
	out := make([]Opening, len(group))
	for i, o := range group {
		out[i].Node = o.Node
		for _, pod := range o.Pods {
			if few[kube.PodID(pod)] != "" {
				out[i].Pods = append(out[i].Pods, pod)
			}
		}
	}
	return out
}

// fewRounds is the largest number of replays. Each adds the pods that find no node because others are nominated.
const fewRounds = 4

// needHints returns the hints without which pods of the replay would find no node. It returns none if there are too many for the number of
// waiting pods.
func needHints(r scheduler.Replay, hints map[engine.PodID]string, waiting int) map[engine.PodID]string {
	few := map[engine.PodID]string{}
	r.Nominations = few
	for range fewRounds {
		before := len(few)
		for _, id := range r.Land().Stranded {
			if node := hints[id]; node != "" {
				few[id] = node
			}
		}
		switch {
		case NominationsAreDear(len(few), waiting):
			return nil
		case len(few) == before:
			return few
		}
	}
	return few
}

package nomination

import (
	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/scheduler"
)

// mostFiltering bounds what nominations may cost kube-scheduler, as pods that are nominated times other pods that wait. Whenever it
// tries a pod without a nomination, it runs its filters on every node with the pods added that are nominated there: some 20 µs for
// each of them, so that this is ten seconds.
const mostFiltering = 500_000

// NominationsAreDear reports whether kube-scheduler would be busy for long with nominations of so many pods, of all that wait.
func NominationsAreDear(nominated, waiting int) bool {
	return nominated*(waiting-nominated) > mostFiltering
}

// NominateFew leaves, of the pods of nodes that are to open, those that would find no node without being nominated: kube-scheduler's
// scores spread pods over all nodes, and so large ones may find every node half full. If these are too many still, nobody is
// nominated: what waits next takes the room that they leave.
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

// fewRounds is how often those are added that find no node because others are nominated.
const fewRounds = 4

// needHints holds those of the hints without which the replay's pods would find no node; none if they are too many for the pods
// that wait.
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

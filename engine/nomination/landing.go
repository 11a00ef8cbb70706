package nomination

import (
	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/provisioning"
	"tenon.sh/engine/scheduler"
)

// Foresee fills in what the plan is expected to cost once kube-scheduler has placed the planned pods by its own scores: with
// the nominations that Tenon writes, if the options let it, and without. It replays the scheduler pod by pod, so it is left out where nobody looks
// at the figures.
func Foresee(s *engine.Snapshot, opt engine.Options, plan *engine.Plan) {
	if len(plan.Launches) == 0 {
		return
	}
	plan.Cost.Unhinted = Land(s, opt, plan, false).PerHour
	plan.Cost.Expected = plan.Cost.Unhinted
	if !opt.NoNominations {
		plan.Cost.Expected = Land(s, opt, plan, true).PerHour
	}
}

// Land replays how the plan's pods would land on the cluster's nodes and the plan's machines. With hints, every pod that
// waits for a planned or starting machine is nominated to it, unless the options say that nobody is; pods that run now cannot be, because their successors do
// not exist yet.
// PerHour includes what further plans for stranded pods would launch, so provisioning.Plan must not call it for plans that are
// made for this purpose: those have an Effort below zero.
func Land(s *engine.Snapshot, opt engine.Options, plan *engine.Plan, hinted bool) scheduler.Landing {
	return landPlan(s, opt, plan, hinted && !opt.NoNominations, mostFurtherPlans)
}

// mostFurtherPlans bounds the plans that are made for pods that did not land: in a cluster, too, every such pod causes
// another launch, and its machine is spread over in turn.
const mostFurtherPlans = 3

// landPlan replays the plan and, as long as pods are stranded and further plans launch machines for them, these plans.
func landPlan(s *engine.Snapshot, opt engine.Options, plan *engine.Plan, hinted bool, further int) scheduler.Landing {
	r := ReplayOf(s, opt, plan, hinted)
	state, stranded := r.Run()
	out := r.Landing(state, stranded)
	if len(stranded) == 0 || further == 0 {
		return out
	}
	opt.Effort = -1 // what is left over is small; a first packing will do
	after := state.After(stranded, mostFurtherPlans-further+1)
	next := provisioning.Plan(after, opt, nil)
	if len(next.Launches) > 0 {
		out.PerHour += landPlan(after, opt, next, hinted, further-1).PerHour
	}
	return out
}

// ReplayOf is the replay of a plan.
func ReplayOf(s *engine.Snapshot, opt engine.Options, plan *engine.Plan, hinted bool) *scheduler.Replay {
	pods := make(map[engine.PodID]*corev1.Pod, len(s.Pods))
	for _, p := range s.Pods {
		pods[kube.PodID(p)] = p
	}
	r := &scheduler.Replay{Snapshot: s, Options: opt, Launches: plan.Launches, Nominations: map[engine.PodID]string{}}
	add := func(id engine.PodID, machine string) {
		pod := pods[id]
		if pod == nil {
			return
		}
		r.Pods = append(r.Pods, pod)
		switch {
		case pod.Spec.NodeName != "":
		case hinted && machine != "":
			r.Nominations[id] = machine
		case pod.Status.NominatedNodeName != "":
			r.Nominations[id] = pod.Status.NominatedNodeName
		}
	}
	for i := range plan.Launches {
		for _, id := range plan.Launches[i].Pods {
			add(id, plan.Launches[i].Name)
		}
	}
	starting := scheduler.StartedFor(s)
	for _, p := range plan.Placements {
		machine := ""
		if p.Claim != "" && starting[p.Pod.UID] == p.Claim {
			machine = p.Node
		}
		add(p.Pod, machine)
	}
	return r
}

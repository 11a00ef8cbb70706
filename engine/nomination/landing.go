package nomination

import (
	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/provisioning"
	"tenon.sh/engine/scheduler"
)

// Foresee sets the expected costs of the plan after kube-scheduler has placed the planned pods by its own scores. One figure is for the
// nominations that Tenon writes, if the options allow nominations, the other for no nominations. Foresee replays the scheduler pod by pod, so
// callers omit it if they do not show the figures.
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

// Land replays how kube-scheduler places the plan's pods on the cluster's nodes and the plan's machines. With hints, each pod that waits for a
// planned or starting machine is nominated to it, unless the options turn nominations off. Pods that run now cannot be nominated, because their
// successors do not exist yet.
//
// PerHour includes the launches of further plans for stranded pods. So provisioning.Plan must not call Land for plans that are made for this
// purpose. They have an Effort below zero.
func Land(s *engine.Snapshot, opt engine.Options, plan *engine.Plan, hinted bool) scheduler.Landing {
	return landPlan(s, opt, plan, hinted && !opt.NoNominations, mostFurtherPlans)
}

// mostFurtherPlans is the largest number of plans for stranded pods. In a cluster too, a stranded pod causes another launch, and kube-scheduler
// spreads pods over that machine as well.
const mostFurtherPlans = 3

// landPlan replays the plan. If pods are stranded and a further plan launches machines for them, it replays that plan in the same way.
func landPlan(s *engine.Snapshot, opt engine.Options, plan *engine.Plan, hinted bool, further int) scheduler.Landing {
	r := ReplayOf(s, opt, plan, hinted)
	state, stranded := r.Run()
	out := r.Landing(state, stranded)
	if len(stranded) == 0 || further == 0 {
		return out
	}
	opt.Effort = -1 // few pods are left, so the first packing is good enough
	after := state.After(stranded, mostFurtherPlans-further+1)
	next := provisioning.Plan(after, opt, nil)
	if len(next.Launches) > 0 {
		out.PerHour += landPlan(after, opt, next, hinted, further-1).PerHour
	}
	return out
}

// ReplayOf returns the replay of a plan.
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

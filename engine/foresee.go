package engine

// Foresee fills in what the plan is expected to cost once kube-scheduler has placed the planned pods by its own scores: with
// the nominations that Tenon writes, if the options let it, and without. It replays the scheduler pod by pod, so it is left out where nobody looks
// at the figures.
func Foresee(s *Snapshot, opt Options, plan *Plan) {
	if len(plan.Launches) == 0 {
		return
	}
	plan.Cost.Unhinted = Land(s, opt, plan, false).PerHour
	plan.Cost.Expected = plan.Cost.Unhinted
	if !opt.NoNominations {
		plan.Cost.Expected = Land(s, opt, plan, true).PerHour
	}
}

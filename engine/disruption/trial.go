package disruption

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/packing"
	"tenon.sh/engine/provisioning"
)

// trialOptions vary a trial.
type trialOptions struct {
	held   bool
	closed func(m *inventory.Machine) bool // beside the machines that no pod is moved to anyway; nil for none
	// nominations is where pods had better go, options what to plan with instead of the planner's; both may be nil.
	nominations map[*corev1.Pod]int
	options     *engine.Options
	batches     map[string]int // as those of trial
	freed       string         // likewise
	// usualPrices is true if machines that cost many times what others would, were they not sold out, are not started.
	usualPrices bool
}

// tried is the outcome of a trial.
type tried struct {
	plan *engine.Plan
	dear map[string]engine.Reason // by the name of the launch, with trialOptions.usualPrices
	on   map[engine.PodID]leaver  // the pods that leave
	// chosen are the machines that it is about, nil for all that were tried.
	chosen map[*inventory.Machine]bool
	// apart is true if no pod minds where others are, and nothing is paid for by what others may give back of a commitment: what holds for
	// many machines holds for some of them.
	apart bool
}

// leaver is a pod that leaves its machine.
type leaver struct {
	pod  *corev1.Pod
	from *inventory.Machine
}

// leaves is the machine that the pod leaves; nil if the outcome is not about it.
func (t *tried) leaves(id engine.PodID) *inventory.Machine {
	m := t.on[id].from
	if t.chosen != nil && !t.chosen[m] {
		return nil
	}
	return m
}

// only is the outcome for some of the machines, with which all that share new machines have to be. Both share the plan.
func (t *tried) only(hosts []*inventory.Machine) tried {
	out := *t
	out.chosen = make(map[*inventory.Machine]bool, len(hosts))
	for _, m := range hosts {
		out.chosen[m] = true
	}
	return out
}

func (d *planner) try(gone []*inventory.Machine, opt trialOptions) tried {
	t := d.newTrial(gone, opt)
	options := d.opt
	if opt.options != nil {
		options = *opt.options
	}
	p := provisioning.CompileTrial(d.s, options, d.p.Pods, t)
	solution := packing.Solve(p.Packing)
	out := tried{plan: provisioning.NewPlan(p, solution), on: map[engine.PodID]leaver{}}
	if opt.usualPrices {
		out.dear = map[string]engine.Reason{}
		for i := range solution.New {
			out.dear[out.plan.Launches[i].Name] = p.ReplacementDear(&solution.New[i])
		}
	}
	out.apart = !slices.ContainsFunc(out.plan.Launches, func(l engine.Launch) bool { return l.Commitment != "" }) && !slices.ContainsFunc(p.Packing.Classes, func(c packing.Class) bool {
		return slices.ContainsFunc(c.Levels, func(l packing.Level) bool { return l.Rules != nil })
	})
	for _, m := range p.Machines {
		if t.Gone.Has(m) {
			for _, pod := range p.LeavingPods(m) {
				out.on[kube.PodID(pod)] = leaver{pod, d.p.Machines[m.Number]}
			}
		}
	}
	if len(t.AssignedNodes) > 0 {
		out.keepOwn()
	}
	return out
}

func (d *planner) newTrial(gone []*inventory.Machine, opt trialOptions) *provisioning.Trial {
	t := &provisioning.Trial{
		Gone: inventory.MachineSetOf(len(d.p.Machines), gone), Left: make(inventory.MachineSet, len(d.p.Machines)), Closed: make(inventory.MachineSet, len(d.p.Machines)), Held: opt.held, AssignedNodes: d.assigned, Guards: d.guards,
		Nominations: opt.nominations, Batches: opt.batches, Freed: opt.freed,
	}
	for i := range d.plan.Disruptions {
		t.Begun = append(t.Begun, d.plan.Disruptions[i].Replacements...)
	}
	for i, m := range d.p.Machines {
		switch {
		case d.taken[m]:
			t.Left[i] = true
		case d.takesNobody(m) || opt.closed != nil && opt.closed(m):
			t.Closed[i] = true
		}
	}
	return t
}

// takesNobody says of a machine that pods are not moved there: it is not ready to take them, or it is to go itself.
func (d *planner) takesNobody(m *inventory.Machine) bool {
	if !m.IsInitialized() || m.Node != nil && !m.Ready {
		return true
	}
	return m.Ordered || m.IsRebooting() || m.CandidateElsewhere
}

// keepOwn leaves out what is about pods that need a place anyway.
func (t *tried) keepOwn() {
	own := func(id engine.PodID) bool { return t.leaves(id) != nil }
	p := t.plan
	p.Launches = slices.DeleteFunc(p.Launches, func(l engine.Launch) bool { return !slices.ContainsFunc(l.Pods, own) })
	p.Placements = slices.DeleteFunc(p.Placements, func(x engine.Placement) bool { return !own(x.Pod) })
	p.Unplaced = slices.DeleteFunc(p.Unplaced, func(u engine.Unplaced) bool { return !own(u.Pod) })
	p.Sequence = slices.DeleteFunc(p.Sequence, func(id engine.PodID) bool { return !own(id) })
}

// stranded lists the machines that have a pod which nothing else can run, or nothing at about the usual price where that is asked
// for, each with the first such pod's reason.
func (t *tried) stranded() map[*inventory.Machine]engine.Reason {
	out := map[*inventory.Machine]engine.Reason{}
	for _, u := range t.plan.Unplaced {
		m := t.leaves(u.Pod)
		if _, known := out[m]; m != nil && !known {
			out[m] = engine.Reason{Code: engine.CannotMove, NodePool: m.Pool(), Key: u.Pod.String(), Have: engine.Sentence(u.Reasons)}.Bounded()
		}
	}
	for _, l := range t.plan.Launches {
		r := t.dear[l.Name]
		if r.OK() {
			continue
		}
		for _, id := range l.Pods {
			if m := t.leaves(id); m != nil && out[m].OK() {
				r.NodePool = m.Pool()
				out[m] = r
			}
		}
	}
	return out
}

// groups cuts the outcome into disruptions that do not depend on one another: machines whose pods share a new machine go
// together. They come in the order of their first machines.
func (t *tried) groups(gone []*inventory.Machine) []provisioning.Group {
	group := map[*inventory.Machine]*inventory.Machine{}
	find := func(m *inventory.Machine) *inventory.Machine {
		for group[m] != nil {
			m = group[m]
		}
		return m
	}
	for i := range t.plan.Launches {
		var first *inventory.Machine
		for _, id := range t.plan.Launches[i].Pods {
			m := t.leaves(id)
			if m == nil {
				continue
			}
			if m = find(m); first == nil {
				first = m
			} else if m != first {
				group[m] = first
			}
		}
	}
	var out []provisioning.Group
	index := map[*inventory.Machine]int{}
	for _, m := range gone {
		root := find(m)
		i, known := index[root]
		if !known {
			i = len(out)
			index[root] = i
			out = append(out, provisioning.Group{})
		}
		out[i].Machines = append(out[i].Machines, m)
	}
	for _, l := range t.plan.Launches {
		for _, id := range l.Pods {
			if m := t.leaves(id); m != nil {
				i := index[find(m)]
				out[i].Launches = append(out[i].Launches, l)
				break
			}
		}
	}
	return out
}

// fill lists what pods the parts move, and where to.
func (t *tried) fill(parts []provisioning.Group) {
	index := map[*inventory.Machine]int{}
	for i, p := range parts {
		for _, m := range p.Machines {
			index[m] = i
		}
	}
	for id, l := range t.on {
		if i, ok := index[l.from]; ok {
			parts[i].Pods = append(parts[i].Pods, id)
		}
	}
	move := func(to engine.Placement) {
		if i, ok := index[t.on[to.Pod].from]; ok {
			parts[i].Moves = append(parts[i].Moves, to)
		}
	}
	for _, p := range t.plan.Placements {
		move(p)
	}
	for _, l := range t.plan.Launches {
		for _, id := range l.Pods {
			move(engine.Placement{Pod: id, Node: l.Name})
		}
	}
	for i := range parts {
		slices.SortFunc(parts[i].Pods, provisioning.ComparePods)
		slices.SortFunc(parts[i].Moves, func(a, b engine.Placement) int { return provisioning.ComparePods(a.Pod, b.Pod) })
	}
}

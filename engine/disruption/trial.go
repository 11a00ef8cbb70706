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

// trialOptions holds the settings in which trials differ.
type trialOptions struct {
	held   bool
	closed func(m *inventory.Machine) bool // closed to pods, in addition to the machines for which takesNobody is true; nil for none
	// nominations are the machines that pods should prefer. options replaces the planner's options. Both may be nil.
	nominations map[*corev1.Pod]int
	options     *engine.Options
	batches     map[string]int // as in provisioning.Trial
	freed       string         // as in provisioning.Trial
	// usualPrices is true if pods should be stranded rather than get machines that cost many times as much as sold-out ones.
	usualPrices bool
}

// tried is the outcome of a trial.
type tried struct {
	plan *engine.Plan
	dear map[string]engine.Reason // why a launch is too dear, by the launch's name; set with trialOptions.usualPrices
	on   map[engine.PodID]leaver  // the pods that leave
	// chosen are the machines that the outcome is about; nil for all machines of the trial.
	chosen map[*inventory.Machine]bool
	// apart is true if no pod has rules about other pods, and no launch uses a commitment that machines may give back. The outcome for many
	// machines then also holds for some of them.
	apart bool
}

// leaver is a pod that leaves its machine.
type leaver struct {
	pod  *corev1.Pod
	from *inventory.Machine
}

// leaves returns the machine that the pod leaves. It returns nil if the outcome is not about that machine.
func (t *tried) leaves(id engine.PodID) *inventory.Machine {
	m := t.on[id].from
	if t.chosen != nil && !t.chosen[m] {
		return nil
	}
	return m
}

// only returns the outcome for the machines in hosts. Of machines that share a new one, hosts must have all or none. Both outcomes share the plan.
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

// takesNobody reports whether no pods may move to the machine, because it is not ready to take them or is to be removed itself.
func (cs *candidates) takesNobody(m *inventory.Machine) bool {
	if !m.IsInitialized() || m.Node != nil && !m.Ready {
		return true
	}
	return m.Ordered || m.IsRebooting() || m.CandidateElsewhere
}

// keepOwn removes from the plan all pods except those that leave the trial's machines.
func (t *tried) keepOwn() {
	own := func(id engine.PodID) bool { return t.leaves(id) != nil }
	p := t.plan
	p.Launches = slices.DeleteFunc(p.Launches, func(l engine.Launch) bool { return !slices.ContainsFunc(l.Pods, own) })
	p.Placements = slices.DeleteFunc(p.Placements, func(x engine.Placement) bool { return !own(x.Pod) })
	p.Unplaced = slices.DeleteFunc(p.Unplaced, func(u engine.Unplaced) bool { return !own(u.Pod) })
	p.Sequence = slices.DeleteFunc(p.Sequence, func(id engine.PodID) bool { return !own(id) })
}

// stranded returns the machines with a pod that nothing else can run (with usualPrices, nothing at about the usual price), each with the reason for
// its first pod of this kind.
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

// groups cuts the outcome into groups that do not depend on one another: machines whose pods share a new machine are in one group. The groups are in
// the order of their first machines.
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

// fill adds to each group the pods that it moves, and their new places.
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

package engine

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine/packing"
)

// trial is what compile takes for granted beside the snapshot: some machines are leaving although nothing in the cluster
// says so.
type trial struct {
	gone hostSet // their pods need another place
	left hostSet // their pods have one already, or none
	// held is true if pods of gone machines move even if something protects them.
	held   bool
	closed hostSet // these take no pods
	guards *guards // what covers pods does not change from trial to trial
	// homes are the machines, by number, where pods are to run that need a place anyway; those that are not listed are left out of
	// the trial.
	homes map[*corev1.Pod]int
	// also are machines that stay; their pods are to be planned for all the same, in lots.
	also hostSet
	// hints are the machines, by number, where pods of gone machines had better go.
	hints map[*corev1.Pod]int
	// batches keeps apart the machines that are bought in the place of many: none replaces machines of two batches.
	batches map[string]int // by node
}

// counts reports whether the trial is only about which pods are alike: then it does not matter who comes first.
func (t *trial) counts() bool { return t != nil && t.also != nil }

func (t *trial) batchOf(pod *corev1.Pod) int {
	if t == nil || len(t.batches) == 0 {
		return 0
	}
	if _, hinted := t.hints[pod]; hinted {
		return 0
	}
	return t.batches[pod.Spec.NodeName]
}

// homeOf is the machine that a hint names; nil for none that takes pods.
func (t *trial) homeOf(pod *corev1.Pod, hosts []*host) *host {
	number, ok := t.hints[pod]
	if !ok || t.closes(hosts[number]) || hosts[number].leaving {
		return nil
	}
	return hosts[number]
}

func (t *trial) mark(hosts []*host) {
	if t == nil {
		return
	}
	for _, h := range hosts {
		if !h.leaving && (t.gone.has(h) || t.left.has(h)) {
			h.leaving, h.supposed = true, true
		}
	}
}

// loseDisks counts on disks inside of machines no more that the trial takes away: they go with their machines, as those of a
// host that is gone.
func (p *problem) loseDisks() {
	if p.trial == nil {
		return
	}
	for _, h := range p.hosts {
		if h.supposed {
			delete(p.wishes.volumes.hostnames, h.labels[corev1.LabelHostname])
		}
	}
}

func (t *trial) closes(h *host) bool { return t != nil && t.closed.has(h) }

// sortTrial settles, for a trial, where the pods are expected that need a place anyway. It returns those that the trial is
// about.
func (p *problem) sortTrial() []*corev1.Pod {
	for pod, number := range p.trial.homes {
		if h := p.hosts[number]; !h.leaving && !p.trial.closes(h) {
			h.expected = append(h.expected, pod)
		}
	}
	p.recheckExpected() // what does not fit after all is somebody else's affair
	var waiting []*corev1.Pod
	for _, h := range p.hosts {
		if p.trial.gone.has(h) {
			waiting = append(waiting, p.leavingPods(h)...)
		}
	}
	return waiting
}

// trialOptions vary a trial.
type trialOptions struct {
	held   bool
	closed func(h *host) bool // beside the machines that no pod is moved to anyway; nil for none
	// hints is where pods had better go, options what to plan with instead of the disruptor's; both may be nil.
	hints   map[*corev1.Pod]int
	options *Options
	batches map[string]int // as those of trial
}

// without is what it takes to run the cluster without the machines: Launches replace them, Placements say where their other
// pods go, and Unplaced whom nothing can run. Pods that need a place anyway come first, and are not part of the answer.
func (d *disruptor) without(gone []*host) *Plan { return d.try(gone, trialOptions{}).plan }

// tried is the outcome of a trial.
type tried struct {
	plan *Plan
	on   map[PodID]leaver // the pods that leave
	// chosen are the machines that it is about, nil for all that were tried.
	chosen map[*host]bool
	// apart is true if no pod minds where others are: what holds for many machines holds for some of them.
	apart bool
}

// leaver is a pod that leaves its machine.
type leaver struct {
	pod  *corev1.Pod
	from *host
}

// leaves is the machine that the pod leaves; nil if the outcome is not about it.
func (t *tried) leaves(id PodID) *host {
	h := t.on[id].from
	if t.chosen != nil && !t.chosen[h] {
		return nil
	}
	return h
}

// only is the outcome for some of the machines, with which all that share new machines have to be. Both share the plan.
func (t *tried) only(hosts []*host) tried {
	out := *t
	out.chosen = make(map[*host]bool, len(hosts))
	for _, h := range hosts {
		out.chosen[h] = true
	}
	return out
}

func (d *disruptor) try(gone []*host, opt trialOptions) tried {
	t := d.newTrial(gone, opt)
	options := d.opt
	if opt.options != nil {
		options = *opt.options
	}
	p := compileTrial(d.s, options, d.p.census, t)
	out := tried{plan: newPlan(p, packing.Solve(p.packing)), on: map[PodID]leaver{}}
	out.apart = !slices.ContainsFunc(p.packing.Classes, func(c packing.Class) bool {
		return slices.ContainsFunc(c.Levels, func(l packing.Level) bool { return l.Rules != nil })
	})
	for _, h := range p.hosts {
		if t.gone.has(h) {
			for _, pod := range p.leavingPods(h) {
				out.on[podID(pod)] = leaver{pod, d.p.hosts[h.number]}
			}
		}
	}
	if len(t.homes) > 0 {
		out.keepOwn()
	}
	return out
}

func (d *disruptor) newTrial(gone []*host, opt trialOptions) *trial {
	t := &trial{
		gone: hostsIn(len(d.p.hosts), gone), left: make(hostSet, len(d.p.hosts)), closed: make(hostSet, len(d.p.hosts)), held: opt.held, homes: d.homes, guards: d.guards,
		hints: opt.hints, batches: opt.batches,
	}
	for i, h := range d.p.hosts {
		switch {
		case d.taken[h]:
			t.left[i] = true
		case d.takesNobody(h) || opt.closed != nil && opt.closed(h):
			t.closed[i] = true
		}
	}
	return t
}

// takesNobody says of a machine that pods are not moved there: it is not ready to take them, or it is to go itself.
func (d *disruptor) takesNobody(h *host) bool {
	if !h.isInitialized() || h.node != nil && !h.ready {
		return true
	}
	return h.ordered || h.isRebooting()
}

// keepOwn leaves out what is about pods that need a place anyway.
func (t *tried) keepOwn() {
	own := func(id PodID) bool { return t.leaves(id) != nil }
	p := t.plan
	p.Launches = slices.DeleteFunc(p.Launches, func(l Launch) bool { return !slices.ContainsFunc(l.Pods, own) })
	p.Placements = slices.DeleteFunc(p.Placements, func(x Placement) bool { return !own(x.Pod) })
	p.Unplaced = slices.DeleteFunc(p.Unplaced, func(u Unplaced) bool { return !own(u.Pod) })
	p.Sequence = slices.DeleteFunc(p.Sequence, func(id PodID) bool { return !own(id) })
}

// stranded lists the machines that have a pod which nothing else can run, each with the first such pod's reason.
func (t *tried) stranded() map[*host]Reason {
	out := map[*host]Reason{}
	for _, u := range t.plan.Unplaced {
		h := t.leaves(u.Pod)
		if _, known := out[h]; h != nil && !known {
			out[h] = Reason{Code: CannotMove, NodePool: h.pool(), Key: u.Pod.String(), Have: Sentence(u.Reasons)}
		}
	}
	return out
}

// parts cuts the outcome into disruptions that do not depend on one another: machines whose pods share a new machine go
// together. They come in the order of their first machines.
func (t *tried) parts(gone []*host) []part {
	group := map[*host]*host{}
	find := func(h *host) *host {
		for group[h] != nil {
			h = group[h]
		}
		return h
	}
	for i := range t.plan.Launches {
		var first *host
		for _, id := range t.plan.Launches[i].Pods {
			h := t.leaves(id)
			if h == nil {
				continue
			}
			if h = find(h); first == nil {
				first = h
			} else if h != first {
				group[h] = first
			}
		}
	}
	var out []part
	index := map[*host]int{}
	for _, h := range gone {
		root := find(h)
		i, known := index[root]
		if !known {
			i = len(out)
			index[root] = i
			out = append(out, part{})
		}
		out[i].hosts = append(out[i].hosts, h)
	}
	for _, l := range t.plan.Launches {
		for _, id := range l.Pods {
			if h := t.leaves(id); h != nil {
				i := index[find(h)]
				out[i].launches = append(out[i].launches, l)
				break
			}
		}
	}
	return out
}

// fill lists what pods the parts move, and where to.
func (t *tried) fill(parts []part) {
	index := map[*host]int{}
	for i, p := range parts {
		for _, h := range p.hosts {
			index[h] = i
		}
	}
	for id, l := range t.on {
		if i, ok := index[l.from]; ok {
			parts[i].pods = append(parts[i].pods, id)
		}
	}
	move := func(to Placement) {
		if i, ok := index[t.on[to.Pod].from]; ok {
			parts[i].moves = append(parts[i].moves, to)
		}
	}
	for _, p := range t.plan.Placements {
		move(p)
	}
	for _, l := range t.plan.Launches {
		for _, id := range l.Pods {
			move(Placement{Pod: id, Node: l.Name})
		}
	}
	for i := range parts {
		slices.SortFunc(parts[i].pods, comparePods)
		slices.SortFunc(parts[i].moves, func(a, b Placement) int { return comparePods(a.Pod, b.Pod) })
	}
}

// part is machines that go together, and what replaces them. Whom that moves is filled in for those that go.
type part struct {
	hosts    []*host
	launches []Launch
	pods     []PodID
	moves    []Placement
}

// compareNames orders machines by name.
func compareNames(a, b *host) int { return compareMachineNames(a.machine, b.machine) }

func compareMachineNames(a, b *machine) int {
	return cmp.Or(naturally(a.name(), b.name()), cmp.Compare(a.claimName(), b.claimName()))
}

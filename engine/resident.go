package engine

import (
	"cmp"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine/bitset"
	"tenon.sh/engine/capacity"
	"tenon.sh/engine/topology"
)

// This file is about what pods of DaemonSets that do not run yet mean to the pods that wait: on a new machine they are there
// first.

// daemonSet is a DaemonSet as one compilation sees it: what its pod takes of nodes, what it means to other pods, and they to it.
type daemonSet struct {
	daemon
	facts *podFacts
	// resident is true if it matters to a pod that waits: its number as such, and the layout's, are those of its key.
	resident bool
	number   int
	apart    *apartTerms // nil for none
	near     []termWish
	// leaders are the DaemonSets beside whose pods it has to run, rivals those with which it shares no machine.
	leaders, rivals []int
	// doubtful is true if whether it runs on a machine hangs on more than the machine and the DaemonSets there.
	doubtful bool
}

func daemonSets(burdens []daemon) []daemonSet {
	out := make([]daemonSet, len(burdens))
	for i, d := range burdens {
		out[i].daemon = d
	}
	return out
}

// meetDaemons collects what the pods of DaemonSets want of others.
func (p *problem) meetDaemons() {
	for i := range p.daemons {
		d := &p.daemons[i]
		d.facts = p.census.memo.factsOf(d.pod)
		d.apart = p.wishes.apartOf(d.facts)
		p.crowd.ran(p.wishes, d.facts)
		if a := d.pod.Spec.Affinity; a != nil && a.PodAffinity != nil {
			d.near = p.wishes.terms(d.pod, a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
			for _, t := range d.near {
				p.crowd.selectorOf(t.selector)
			}
		}
	}
}

// houses makes the DaemonSet's pod a resident of new machines, if it matters to a pod that waits.
func (c *crowd) houses(d *daemonSet, i int) {
	r := topology.Resident{}
	matched := d.facts.kind.match(c.id, c.index)
	for g := range c.groups {
		if s := c.groups[g].selector; slices.Contains(matched, s) && !c.selectors[s].everything() {
			r.Groups = append(r.Groups, g)
		}
	}
	for s := range c.sets {
		if c.inSet(s, matched) {
			r.Sets = append(r.Sets, s)
		}
	}
	for k := range c.terms {
		t := &c.terms[k]
		if slices.Contains(matched, t.selector) {
			c.residentBears(&r, t.selected, t.key)
		}
	}
	if d.apart != nil {
		for _, t := range d.apart.required {
			c.residentBears(&r, c.terms[c.term[t]].owned, t.key)
		}
		for _, t := range d.apart.preferred {
			if k, ok := c.term[t]; ok {
				c.residentBears(&r, c.terms[k].soft, t.key)
			}
		}
	}
	if len(r.Groups)+len(r.Sets)+len(r.Bears)+len(r.HostBears) == 0 {
		return
	}
	r.Key = c.keys.Index("resident " + strconv.Itoa(i))
	d.resident, d.number = true, len(c.layout.Residents)
	c.layout.Residents = append(c.layout.Residents, r)
}

func (c *crowd) residentBears(r *topology.Resident, mark int, key string) {
	switch {
	case mark < 0:
	case isHost(key):
		if r.HostBears == nil {
			r.HostBears = bitset.New(c.layout.HostMarks)
		}
		r.HostBears.Add(mark)
	case !slices.Contains(r.Bears, mark):
		r.Bears = append(r.Bears, mark)
	}
}

// judgeDaemons finds out which DaemonSets' pods keep each other off machines, or have to run beside each other.
func (p *problem) judgeDaemons() {
	if len(p.crowd.layout.Residents) == 0 {
		return
	}
	c := p.crowd
	for i := range p.daemons {
		d := &p.daemons[i]
		for j := range p.daemons {
			e := &p.daemons[j]
			if i != j && (d.excludes(c, e) || e.excludes(c, d) || slices.ContainsFunc(d.ports, func(held hostPort) bool {
				return slices.ContainsFunc(e.ports, held.collides)
			})) {
				d.rivals = append(d.rivals, j)
			}
			if i != j && len(d.near) > 0 && len(e.near) == 0 && d.follows(c, e) {
				d.leaders = append(d.leaders, j)
			}
		}
		d.doubtful = len(d.near) > 0 && len(d.leaders) == 0 || d.spreads() || c.keptOut(d)
	}
}

// excludes reports whether the DaemonSet's pod accepts none of the other on its machine.
func (d *daemonSet) excludes(c *crowd, other *daemonSet) bool {
	return d.apart != nil && slices.ContainsFunc(d.apart.required, func(t termWish) bool { return other.isSelected(c, t) })
}

// follows reports whether the DaemonSet's pod is content with the other on its machine.
func (d *daemonSet) follows(c *crowd, other *daemonSet) bool {
	return !slices.ContainsFunc(d.near, func(t termWish) bool { return !isHost(t.key) || !other.isSelected(c, t) })
}

func (d *daemonSet) isSelected(c *crowd, t termWish) bool {
	return slices.Contains(d.facts.kind.match(c.id, c.index), c.selector[t.selector])
}

// spreads reports whether pods elsewhere decide whether there is one on a machine.
func (d *daemonSet) spreads() bool {
	return slices.ContainsFunc(d.pod.Spec.TopologySpreadConstraints, func(s corev1.TopologySpreadConstraint) bool {
		return s.WhenUnsatisfiable == corev1.DoNotSchedule && !isHost(s.TopologyKey)
	})
}

// keptOut reports whether pods on other machines may keep the DaemonSet's pod out.
func (c *crowd) keptOut(d *daemonSet) bool {
	if d.apart != nil && slices.ContainsFunc(d.apart.required, func(t termWish) bool { return !isHost(t.key) }) {
		return true
	}
	matched := d.facts.kind.match(c.id, c.index)
	return slices.ContainsFunc(c.terms, func(t crowdTerm) bool { return t.running && !isHost(t.key) && slices.Contains(matched, t.selector) })
}

// houseDaemons finds out on which options the pods of DaemonSets surely run. Of two that cannot share a machine the more important
// one runs; where they are equal, either may.
func (m *poolModel) houseDaemons(p *problem) {
	if len(p.crowd.layout.Residents) == 0 {
		return
	}
	m.absent, m.certain = make([]bitset.Set, len(p.daemons)), make([]bitset.Set, len(p.daemons))
	order := make([]int, len(p.daemons))
	for i := range order {
		order[i] = i
	}
	// The more important first, and leaders before those that follow them.
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := &p.daemons[a], &p.daemons[b]
		return cmp.Or(cmp.Compare(len(x.near), len(y.near)), cmp.Compare(y.priority, x.priority))
	})
	for _, i := range order {
		d := &p.daemons[i]
		m.absent[i], m.certain[i] = bitset.New(len(m.options)), bitset.New(len(m.options))
		if !d.doubtful {
			m.certain[i] = m.holding(p, d)
		}
		for _, rival := range d.rivals {
			if p.daemons[rival].priority > d.priority && m.certain[rival] != nil {
				m.absent[i].Or(m.certain[rival])
			}
			if p.daemons[rival].priority >= d.priority {
				m.certain[i].AndNot(m.burdened[rival])
			}
		}
		if len(d.leaders) > 0 {
			led := bitset.New(len(m.options))
			for _, leader := range d.leaders {
				led.Or(m.certain[leader])
			}
			m.certain[i].And(led)
		}
	}
}

// holding are the options that surely have the DaemonSet's pod, if nobody keeps it off: whatever becomes of their labels, and with
// room for all DaemonSets' pods.
func (m *poolModel) holding(p *problem, d *daemonSet) bitset.Set {
	out := bitset.New(len(m.options))
	for _, way := range m.ways(&d.demand, p.universe) {
		if allNil(way.Free) {
			out.Or(way.Options)
		}
	}
	need := p.names.vector(d.need)
	for o := out.Next(0); o >= 0; o = out.Next(o + 1) {
		if lacks(m.model.Options[o].Allocatable, need) {
			out.Remove(o)
		}
	}
	return out
}

// lacks reports whether there is less than nothing left of something that the need asks for.
func lacks(left, need capacity.Vector) bool {
	for i, n := range need {
		if n > 0 && left[i] < 0 {
			return true
		}
	}
	return false
}

// houses says whether machines of the option have the pod of DaemonSet i.
func (m *poolModel) houses(i, option int) int32 {
	switch {
	case !m.burdened[i].Has(option) || m.absent[i].Has(option):
		return topology.Absent
	case m.certain[i].Has(option):
		return topology.Certain
	}
	return topology.Possible
}

// nobody says that who is on a machine is counted already.
func nobody(int) int32 { return topology.Nowhere }

// expectDaemons counts the pods of DaemonSets that the machine has not got yet, as far as they matter; free is what all of them
// leave.
func (p *problem) expectDaemons(h *host, at *standing, free capacity.Vector) {
	for _, d := range p.pending {
		if !d.resident || p.isKeptOff(h, d) {
			continue
		}
		certain, rivaled := !d.doubtful && !lacks(free, p.names.vector(d.need)) && h.surelyRuns(&d.daemon, p.universe), false
		for _, other := range p.pending {
			if slices.ContainsFunc(d.rivals, func(i int) bool { return &p.daemons[i] == other }) && other.priority >= d.priority {
				rivaled = true
			}
		}
		if len(d.leaders) > 0 && !slices.ContainsFunc(d.leaders, func(i int) bool { return p.leads(h, &p.daemons[i]) }) {
			certain = false
		}
		p.crowd.expects(at, &p.crowd.layout.Residents[d.number], certain && !rivaled)
	}
}

// leads reports whether the machine has the DaemonSet's pod already, or surely will.
func (p *problem) leads(h *host, d *daemonSet) bool {
	return slices.Contains(h.roll.daemonKeys(), d.key) || slices.Contains(p.pending, d) && !d.doubtful && len(d.rivals) == 0 && h.surelyRuns(&d.daemon, p.universe)
}

// isKeptOff reports whether pods that run on the machine, and stay, keep the DaemonSet's pod off it.
func (p *problem) isKeptOff(h *host, d *daemonSet) bool {
	c := p.crowd
	if d.apart != nil {
		for _, t := range d.apart.required {
			for _, k := range h.roll.kinds {
				if k.n > k.ending && slices.Contains(k.kind.match(c.id, c.index), c.selector[t.selector]) {
					return true
				}
			}
		}
	}
	return slices.ContainsFunc(h.roll.particular, func(f *podFacts) bool {
		a := p.wishes.apartOf(f)
		return a != nil && !f.ending && slices.ContainsFunc(a.required, func(t termWish) bool { return d.isSelected(c, t) })
	})
}

// expects counts a pod that is still to come to the machine, or that may.
func (c *crowd) expects(at *standing, r *topology.Resident, certain bool) {
	place := c.list[at.place]
	for _, i := range r.Groups {
		g := &c.layout.Groups[i]
		if g.Filter >= 0 && place[g.Filter] != 1 {
			continue
		}
		switch {
		case g.Key == topology.Host:
			at.groups = tallied(at.groups, i, 1)
			if !certain {
				at.doubtful = tallied(at.doubtful, i, 1)
			}
		case place[g.Key] < 0:
		case certain:
			g.Count[place[g.Key]]++
		default:
			if g.May == nil {
				g.May = make([]int, len(g.Count))
			}
			g.May[place[g.Key]]++
		}
	}
	if certain {
		for _, s := range r.Sets {
			c.joinSet(at, s, place, 1)
		}
	}
	for _, m := range r.Bears {
		c.bearMark(at, m)
	}
	if len(r.HostBears) > 0 {
		if at.bears == nil {
			at.bears = bitset.New(c.layout.HostMarks)
		}
		at.bears.Or(r.HostBears)
	}
}

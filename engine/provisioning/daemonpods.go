package provisioning

import (
	"cmp"
	"slices"

	"tenon.sh/engine/bitset"
	"tenon.sh/engine/capacity"
	"tenon.sh/engine/constraints"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/topology"
)

// meetDaemons collects what the pods of DaemonSets want of others.
func (p *Problem) meetDaemons() {
	for i := range p.daemons {
		d := &p.daemons[i]
		d.Info = p.Pods.Cache.InfoOf(d.Pod)
		d.Apart = p.Constraints.AntiAffinityOf(d.Info)
		p.InterPod.AddRunning(p.Constraints, d.Info)
		d.Near = p.Constraints.Selectors.AffinityOf(d.Pod).Required
		for _, t := range d.Near {
			p.InterPod.SelectorOf(t.Selector)
		}
	}
}

// judgeDaemons finds out which DaemonSets' pods keep each other off machines, or have to run beside each other.
func (p *Problem) judgeDaemons() {
	if len(p.InterPod.Layout.Residents) == 0 {
		return
	}
	c := p.InterPod
	for i := range p.daemons {
		d := &p.daemons[i]
		for j := range p.daemons {
			e := &p.daemons[j]
			if i != j && (d.Excludes(c, e) || e.Excludes(c, d) || slices.ContainsFunc(d.Ports, func(held kube.HostPort) bool {
				return slices.ContainsFunc(e.Ports, held.Collides)
			})) {
				d.Rivals = append(d.Rivals, j)
			}
			if i != j && len(d.Near) > 0 && len(e.Near) == 0 && d.Follows(c, e) {
				d.Leaders = append(d.Leaders, j)
			}
		}
		d.Doubtful = len(d.Near) > 0 && len(d.Leaders) == 0 || d.Spreads() || c.KeptOut(d)
	}
}

// houseDaemons finds out on which options the pods of DaemonSets surely run. Of two that cannot share a machine the more important
// one runs; where they are equal, either may.
func (m *poolModel) houseDaemons(p *Problem) {
	if len(p.InterPod.Layout.Residents) == 0 {
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
		return cmp.Or(cmp.Compare(len(x.Near), len(y.Near)), cmp.Compare(y.Priority, x.Priority))
	})
	for _, i := range order {
		d := &p.daemons[i]
		m.absent[i], m.certain[i] = bitset.New(len(m.options)), bitset.New(len(m.options))
		if !d.Doubtful {
			m.certain[i] = m.holding(p, d)
		}
		for _, rival := range d.Rivals {
			if p.daemons[rival].Priority > d.Priority && m.certain[rival] != nil {
				m.absent[i].Or(m.certain[rival])
			}
			if p.daemons[rival].Priority >= d.Priority {
				m.certain[i].AndNot(m.burdened[rival])
			}
		}
		if len(d.Leaders) > 0 {
			led := bitset.New(len(m.options))
			for _, leader := range d.Leaders {
				led.Or(m.certain[leader])
			}
			m.certain[i].And(led)
		}
	}
}

// holding are the options that surely have the DaemonSet's pod, if nobody keeps it off: whatever becomes of their labels, and with
// room for all DaemonSets' pods.
func (m *poolModel) holding(p *Problem, d *constraints.DaemonSet) bitset.Set {
	out := bitset.New(len(m.options))
	for _, way := range m.ways(&d.NodeConstraints, p.universe) {
		if allNil(way.Free) {
			out.Or(way.Options)
		}
	}
	need := p.Names.Vector(d.Requests)
	for o := out.Next(0); o >= 0; o = out.Next(o + 1) {
		if lacks(m.Model.Options[o].Allocatable, need) {
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
func (p *Problem) expectDaemons(h *inventory.Machine, at *constraints.NodeCounts, free capacity.Vector) {
	for _, d := range p.pending {
		if !d.Resident || p.isKeptOff(h, d) {
			continue
		}
		certain, rivaled := !d.Doubtful && !lacks(free, p.Names.Vector(d.Requests)) && h.SurelyRuns(&d.Daemon, p.universe), false
		for _, other := range p.pending {
			if slices.ContainsFunc(d.Rivals, func(i int) bool { return &p.daemons[i] == other }) && other.Priority >= d.Priority {
				rivaled = true
			}
		}
		if len(d.Leaders) > 0 && !slices.ContainsFunc(d.Leaders, func(i int) bool { return p.leads(h, &p.daemons[i]) }) {
			certain = false
		}
		p.InterPod.Expects(at, &p.InterPod.Layout.Residents[d.Number], certain && !rivaled)
	}
}

// leads reports whether the machine has the DaemonSet's pod already, or surely will.
func (p *Problem) leads(h *inventory.Machine, d *constraints.DaemonSet) bool {
	return slices.Contains(h.Pods.DaemonKeys(), d.Key) || slices.Contains(p.pending, d) && !d.Doubtful && len(d.Rivals) == 0 && h.SurelyRuns(&d.Daemon, p.universe)
}

// isKeptOff reports whether pods that run on the machine, and stay, keep the DaemonSet's pod off it.
func (p *Problem) isKeptOff(h *inventory.Machine, d *constraints.DaemonSet) bool {
	c := p.InterPod
	if d.Apart != nil {
		for _, t := range d.Apart.Required {
			for _, k := range h.Pods.Kinds {
				if k.N > k.Ending && slices.Contains(k.Kind.Match(c.ID, c.Index), c.Selector[t.Selector]) {
					return true
				}
			}
		}
	}
	return slices.ContainsFunc(h.Pods.Particular, func(f *inventory.PodInfo) bool {
		a := p.Constraints.AntiAffinityOf(f)
		return a != nil && !f.Ending && slices.ContainsFunc(a.Required, func(t kube.AffinityTerm) bool { return d.IsSelected(c, t) })
	})
}

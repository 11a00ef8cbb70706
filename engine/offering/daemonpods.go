package offering

import (
	"cmp"
	"slices"

	"tenon.sh/engine/bitset"
	"tenon.sh/engine/constraints"
	"tenon.sh/engine/topology"
)

// houseDaemons finds out on which options the pods of DaemonSets surely run. Of two that cannot share a machine the more important
// one runs; where they are equal, either may.
func (m *Pool) houseDaemons() {
	if len(m.in.InterPod.Layout.Residents) == 0 {
		return
	}
	m.absent, m.certain = make([]bitset.Set, len(m.in.DaemonSets)), make([]bitset.Set, len(m.in.DaemonSets))
	order := make([]int, len(m.in.DaemonSets))
	for i := range order {
		order[i] = i
	}
	// The more important first, and leaders before those that follow them.
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := &m.in.DaemonSets[a], &m.in.DaemonSets[b]
		return cmp.Or(cmp.Compare(len(x.Near), len(y.Near)), cmp.Compare(y.Priority, x.Priority))
	})
	for _, i := range order {
		d := &m.in.DaemonSets[i]
		m.absent[i], m.certain[i] = bitset.New(len(m.Options)), bitset.New(len(m.Options))
		if !d.Doubtful {
			m.certain[i] = m.holding(d)
		}
		for _, rival := range d.Rivals {
			if m.in.DaemonSets[rival].Priority > d.Priority && m.certain[rival] != nil {
				m.absent[i].Or(m.certain[rival])
			}
			if m.in.DaemonSets[rival].Priority >= d.Priority {
				m.certain[i].AndNot(m.Burdened[rival])
			}
		}
		if len(d.Leaders) > 0 {
			led := bitset.New(len(m.Options))
			for _, leader := range d.Leaders {
				led.Or(m.certain[leader])
			}
			m.certain[i].And(led)
		}
	}
}

// holding are the options that surely have the DaemonSet's pod, if nobody keeps it off: whatever becomes of their labels, and with
// room for all DaemonSets' pods.
func (m *Pool) holding(d *constraints.DaemonSet) bitset.Set {
	out := bitset.New(len(m.Options))
	for _, way := range m.Ways(&d.NodeConstraints) {
		if allNil(way.Free) {
			out.Or(way.Options)
		}
	}
	need := m.in.Names.Vector(d.Requests)
	for o := out.Next(0); o >= 0; o = out.Next(o + 1) {
		if m.Model.Options[o].Allocatable.Overdrawn(need) {
			out.Remove(o)
		}
	}
	return out
}

// houses says whether machines of the option have the pod of DaemonSet i.
func (m *Pool) houses(i, option int) int32 {
	switch {
	case !m.Burdened[i].Has(option) || m.absent[i].Has(option):
		return topology.Absent
	case m.certain[i].Has(option):
		return topology.Certain
	}
	return topology.Possible
}

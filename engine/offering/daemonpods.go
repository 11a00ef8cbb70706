package offering

import (
	"cmp"
	"slices"

	"tenon.sh/engine/bitset"
	"tenon.sh/engine/constraints"
	"tenon.sh/engine/topology"
)

// houseDaemons finds the options on which the pods of DaemonSets certainly run. Of two that cannot share a machine, the one with the higher
// priority runs; at equal priority, either may.
func (p *Pool) houseDaemons() {
	if len(p.in.InterPod.Layout.Residents) == 0 {
		return
	}
	p.absent, p.certain = make([]bitset.Set, len(p.in.DaemonSets)), make([]bitset.Set, len(p.in.DaemonSets))
	order := make([]int, len(p.in.DaemonSets))
	for i := range order {
		order[i] = i
	}
	// Leaders come before their followers, then higher priorities first.
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := &p.in.DaemonSets[a], &p.in.DaemonSets[b]
		return cmp.Or(cmp.Compare(len(x.Near), len(y.Near)), cmp.Compare(y.Priority, x.Priority))
	})
	for _, i := range order {
		d := &p.in.DaemonSets[i]
		p.absent[i], p.certain[i] = bitset.New(len(p.Options)), bitset.New(len(p.Options))
		if !d.Doubtful {
			p.certain[i] = p.holding(d)
		}
		for _, rival := range d.Rivals {
			if p.in.DaemonSets[rival].Priority > d.Priority && p.certain[rival] != nil {
				p.absent[i].Or(p.certain[rival])
			}
			if p.in.DaemonSets[rival].Priority >= d.Priority {
				p.certain[i].AndNot(p.Burdened[rival])
			}
		}
		if len(d.Leaders) > 0 {
			led := bitset.New(len(p.Options))
			for _, leader := range d.Leaders {
				led.Or(p.certain[leader])
			}
			p.certain[i].And(led)
		}
	}
}

// holding returns the options that certainly have the DaemonSet's pod if no other pod keeps it off: with any value of their free labels, and
// with room for all DaemonSets' pods.
func (p *Pool) holding(d *constraints.DaemonSet) bitset.Set {
	out := bitset.New(len(p.Options))
	for _, way := range p.Ways(&d.NodeConstraints) {
		if allNil(way.Free) {
			out.Or(way.Options)
		}
	}
	need := p.in.Names.Vector(d.Requests)
	for o := out.Next(0); o >= 0; o = out.Next(o + 1) {
		if p.Model.Options[o].Allocatable.Overdrawn(need) {
			out.Remove(o)
		}
	}
	return out
}

// houses returns Certain, Possible or Absent for the pod of DaemonSet i on machines of the option.
func (p *Pool) houses(i, option int) int32 {
	switch {
	case !p.Burdened[i].Has(option) || p.absent[i].Has(option):
		return topology.Absent
	case p.certain[i].Has(option):
		return topology.Certain
	}
	return topology.Possible
}

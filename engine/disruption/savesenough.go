package disruption

import (
	"cmp"
	"fmt"
	"slices"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/provisioning"
)

// judgePart returns why the machines of a group are not removed.
func (c *consolidator) judgePart(p provisioning.Group, stranded map[*inventory.Machine]engine.Reason) engine.Reason {
	for _, m := range p.Machines {
		if r := stranded[m]; !r.OK() {
			return r
		}
	}
	price, spot, cost := 0.0, 0.0, 0.0
	for _, m := range p.Machines {
		price += c.planner.price(m)
		if len(p.Launches) > 0 && m.Labels[v1.CapacityTypeLabelKey] == v1.CapacityTypeSpot {
			spot += c.planner.price(m)
		}
		cost += c.cost[c.index[m.Number]]
	}
	worst := 0.0
	for i := range p.Launches {
		worst += p.Launches[i].Worst()
	}
	m := p.Machines[0]
	moving := cost / usualPayback.Hours()
	if len(p.Launches) > 0 {
		moving *= strictness
	}
	saving := price - worst - c.kept(p)
	// A spot machine may have been dearer on purpose: with it an owner does not lose all its pods at once.
	least := max(c.least(price), min(c.opt.EffectiveSpotSpreadShare(), mostForSpread)*spot)
	missed := c.missed(p.Machines)
	if saving-moving-missed < least {
		r := engine.Reason{
			Code: engine.SavesTooLittle, NodePool: m.Pool(), Need: dollars(moving + missed + least), Have: dollars(max(saving, 0)),
			Key: replacementWord(p),
		}
		if missed > 0 {
			r.Need += ", " + dollars(missed) + " of it for preferences of pods"
		}
		return r
	}
	if r := c.spotRefusal(p); !r.OK() {
		return r
	}
	return c.unbalanced(p.Machines, p.Launches)
}

// kept returns the price, in USD per hour, of the empty machines that only wait for the time of their removal, and that would be kept because pods of
// the group move to them. Without the move they would be removed and the group's machines kept, so the move saves less by this price.
func (c *consolidator) kept(p provisioning.Group) float64 {
	if c.tried.onto == nil {
		c.tried.onto = c.ontoIdle()
	}
	sum, counted := 0.0, map[*inventory.Machine]bool{}
	for _, from := range p.Machines {
		for _, m := range c.tried.onto[from] {
			if !counted[m] {
				counted[m] = true
				sum += c.planner.price(m)
			}
		}
	}
	return sum
}

// ontoIdle lists, for each machine of the last trial, the empty machines that wait for the time of their removal and to which its pods move.
func (c *consolidator) ontoIdle() map[*inventory.Machine][]*inventory.Machine {
	idle := map[string]*inventory.Machine{}
	for _, m := range c.free() {
		if len(c.moving(m)) == 0 && c.emptyRefusal(m).Code == engine.ConsolidateAfter {
			idle[m.Name()] = m
		}
	}
	out := map[*inventory.Machine][]*inventory.Machine{}
	if len(idle) == 0 {
		return out
	}
	for _, to := range c.tried.plan.Placements {
		if m := idle[to.Node]; m != nil {
			from := c.tried.on[to.Pod].from
			out[from] = append(out[from], m)
		}
	}
	return out
}

func (c *consolidator) least(price float64) float64 { return max(leastShare*price, leastCore*c.core) }

func dollars(x float64) string { return fmt.Sprintf("$%.3f/h", x) }

func replacementWord(p provisioning.Group) string {
	switch len(p.Launches) {
	case 0:
		return "no other machine"
	case 1:
		return p.Launches[0].InstanceTypes[0]
	}
	return engine.Plural(len(p.Launches), "machine")
}

// better returns the group's machines without stranded pods. If no pod is stranded, better leaves out the quarter of the machines (at least one) that
// gains least.
func (c *consolidator) better(p provisioning.Group, stranded map[*inventory.Machine]engine.Reason) []*inventory.Machine {
	var fine []*inventory.Machine
	for _, m := range p.Machines {
		if r := stranded[m]; r.OK() {
			fine = append(fine, m)
		}
	}
	if len(fine) < len(p.Machines) {
		return fine
	}
	gain := func(m *inventory.Machine) float64 {
		return c.planner.price(m) - c.value(m) - strictness*c.cost[c.index[m.Number]]/usualPayback.Hours()
	}
	slices.SortStableFunc(fine, func(a, b *inventory.Machine) int { return cmp.Compare(gain(b), gain(a)) })
	return fine[:len(fine)-max(1, len(fine)/4)]
}

// value returns the worth of the machine's pods, in USD per hour.
func (c *consolidator) value(m *inventory.Machine) float64 {
	sum := 0.0
	for _, info := range c.movers(m) {
		sum += c.worthOf(c.cache.RequestsFor(info), c.worth)
	}
	return sum
}

// leastSpot is the least number of instance types for a spot machine that replaces a single spot machine. With fewer, it would soon be of the type
// that is interrupted most.
const leastSpot = 15

// mostForSpread bounds the share of a spot machine's price that its replacement has to save because new spot machines may be that much
// dearer to be lost apart. A greater allowed share is for new machines, and does not keep cheaper ones out.
const mostForSpread = 0.02

// spotRefusal keeps spot machines from being replaced by spot machines, unless the options allow it and enough instance types are left.
func (c *consolidator) spotRefusal(p provisioning.Group) engine.Reason {
	for _, m := range p.Machines {
		if m.Labels[v1.CapacityTypeLabelKey] != v1.CapacityTypeSpot {
			return engine.Reason{}
		}
	}
	for i := range p.Launches {
		l := &p.Launches[i]
		if !slices.ContainsFunc(l.Offerings, func(o engine.LaunchOffering) bool { return o.CapacityType == v1.CapacityTypeSpot }) {
			continue
		}
		pool := p.Machines[0].Pool()
		if !c.opt.SpotToSpot {
			return engine.Reason{Code: engine.SpotToSpot, NodePool: pool, Have: "replacing spot machines by spot machines is switched off"}
		}
		n := len(l.InstanceTypes)
		if l.Why.Division != nil { // the other types are for other machines of its division
			n += len(l.Why.Division.OtherTypes)
		}
		if len(p.Machines) == 1 && n < leastSpot {
			return engine.Reason{Code: engine.SpotToSpot, NodePool: pool, Have: fmt.Sprintf("a cheaper machine could be of %s only, and %d are needed", engine.Plural(n, "spot type"), leastSpot)}
		}
	}
	return engine.Reason{}
}

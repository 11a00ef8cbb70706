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

// judgePart says why the machines of a part do not go.
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
	// A spot machine may have been bought at a higher price, so that not all of an owner is lost at once.
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

// kept is what the machines cost, in USD per hour, that are empty, wait only for their time to go, and would stay because pods of the
// part come to them. Once they have gone, the part's machines are needed as they are: moving pods from one to the other saves nothing.
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

// ontoIdle lists, for each machine of the last trial, those that its pods move to and that are empty and wait for their time to go.
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

// better is the part without the machine that gains least.
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

// value is what the pods of the machine are worth, in USD per hour.
func (c *consolidator) value(m *inventory.Machine) float64 {
	sum := 0.0
	for _, info := range c.movers(m) {
		sum += c.worthOf(c.cache.RequestsFor(info), c.worth)
	}
	return sum
}

// leastSpot is how many instance types a spot machine that replaces a single spot machine may choose from at least: with fewer
// it would soon end up with the type that is interrupted most.
const leastSpot = 15

// mostForSpread is the share of a spot machine's price that its replacement has to save at least, where new ones may be that much dearer
// to be lost apart. What is allowed beyond is for new machines: cheaper ones are not refused for it.
const mostForSpread = 0.02

// spotRefusal keeps spot machines from being replaced by spot machines, unless that is asked for and there is a choice.
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
		if l.Why.Division != nil { // the others are for machines beside it
			n += len(l.Why.Division.OtherTypes)
		}
		if len(p.Machines) == 1 && n < leastSpot {
			return engine.Reason{Code: engine.SpotToSpot, NodePool: pool, Have: fmt.Sprintf("a cheaper machine could be of %s only, and %d are needed", engine.Plural(n, "spot type"), leastSpot)}
		}
	}
	return engine.Reason{}
}

package disruption

import (
	"slices"
	"strings"

	"tenon.sh/engine"
	"tenon.sh/engine/bound"
	"tenon.sh/engine/consolidation"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/packing"
)

// arePriced reports whether the policy is Weighted, which gives preferences a price (decision 13), and some pods have preferences.
func (c *consolidator) arePriced() bool {
	return c.opt.Preferences == engine.Weighted && slices.ContainsFunc(c.problem.Packing.Classes, prefers)
}

// prefers reports whether the pods of the class have preferences: at the last level they give all of them up.
func prefers(class packing.Class) bool { return class.Levels[len(class.Levels)-1].Miss > 0 }

// missed adds up the prices of all preferences of the machines' pods, in USD per hour: the same prices as in a plan for pending pods. The sum is 0
// unless the search lets pods give up their preferences. It includes preferences that are not met today.
func (c *consolidator) missed(machines []*inventory.Machine) float64 {
	sum := 0.0
	for _, m := range machines {
		sum += c.misses[m.Number]
	}
	return sum
}

// missOf returns the worth of all preferences of a pod of the class, in USD per hour.
func (c *consolidator) missOf(class int) float64 {
	k := &c.problem.Packing.Classes[class]
	return k.Levels[len(k.Levels)-1].Miss * bound.WorthOf(k.Request, c.worth)
}

// heldByPreferences lists the machines that the search would remove if no pod had preferences.
func (c *consolidator) heldByPreferences() map[*inventory.Machine]bool {
	out := map[*inventory.Machine]bool{}
	if c.incremental || len(c.sources) > fewSources || c.yielding || !slices.ContainsFunc(c.problem.Packing.Classes, prefers) {
		return out
	}
	free := *c
	free.startAnew()
	free.yielding = true
	p, machineOf, listed := free.numbers(false)
	free.readClasses(p, machineOf, listed)
	for _, i := range consolidation.Search(p).Gone {
		for _, m := range c.sources {
			if machineOf[m.Number] == i {
				out[m] = true
			}
		}
	}
	return out
}

// preferencesOf names the preferences of the machine's pods, as the end of a sentence about a place. It returns "" if there are none.
func (c *consolidator) preferencesOf(m *inventory.Machine) string {
	var names []string
	for _, pod := range c.moving(m) {
		for _, s := range c.p.Constraints.Of(pod).Soft {
			if name := s.Name(); !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	if len(names) == 0 {
		return ""
	}
	return " that keeps their " + strings.Join(names, " and ")
}

package disruption

import (
	"slices"
	"strconv"

	"tenon.sh/engine"
	"tenon.sh/engine/gang"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/packing"
)

// runsGang says that the machine runs pods of a gang: what moves one of them stops the work of all, which no saving is worth.
func (d *planner) runsGang(m *inventory.Machine) engine.Reason {
	return d.gangOn(m, func(*gang.Gang, int) bool { return true })
}

// breaksGang says that a gang would be too few without its pods on the machine and on those that go, or is only moved as a whole.
func (d *planner) breaksGang(m *inventory.Machine) engine.Reason {
	return d.gangOn(m, func(g *gang.Gang, pods int) bool { return g.Breaks(d.gangs[g] + pods) })
}

// gangOn names the first gang with pods on the machine, so many, of which that is true.
func (d *planner) gangOn(m *inventory.Machine, is func(g *gang.Gang, pods int) bool) engine.Reason {
	count := d.gangsOn(m)
	if len(count) == 0 {
		return engine.Reason{}
	}
	for _, g := range d.p.Gangs.List {
		if n := count[g]; n > 0 && is(g, n) {
			return engine.Reason{Code: engine.GangRuns, NodePool: m.Pool(), Key: g.Name(), Need: strconv.Itoa(g.Group.MinCount())}
		}
	}
	return engine.Reason{}
}

// gangsOn counts the pods of gangs on the machine.
func (d *planner) gangsOn(m *inventory.Machine) map[*gang.Gang]int {
	if d.p.Gangs == nil {
		return nil
	}
	count := map[*gang.Gang]int{}
	for _, pod := range d.moving(m) {
		if g := d.p.Gangs.Of(pod); g != nil {
			count[g]++
		}
	}
	return count
}

// gangsThatStart are those of which enough pods have a place in the solution.
func (d *planner) gangsThatStart(solution *packing.Solution) map[*gang.Gang]bool {
	if d.p.Gangs == nil {
		return nil
	}
	placed, out := map[*gang.Gang]int{}, map[*gang.Gang]bool{}
	for _, shares := range solution.OnNodes {
		for _, share := range shares {
			for _, n := range share.Pods {
				if g := d.p.Gangs.Of(d.p.Classes[share.Class].Pods[n]); g != nil {
					placed[g]++
				}
			}
		}
	}
	for g, n := range placed {
		out[g] = g.Suffices(n)
	}
	return out
}

// loseGangs counts the machine's pods among those that gangs lose; with a negative sign, no longer.
func (d *planner) loseGangs(m *inventory.Machine, sign int) {
	for g, n := range d.gangsOn(m) {
		d.gangs[g] += sign * n
	}
}

// CheckLaunches checks all launches of a plan, in their order. Where one that a gang needs cannot be made any more, none is made for the
// gang: part of it is of no use.
func (c *Checker) CheckLaunches(launches []engine.Launch) []engine.Reason {
	out, broken := make([]engine.Reason, len(launches)), map[string]engine.Reason{}
	for i, l := range launches {
		out[i] = c.Check(l)
		if code := out[i].Code; code != "" && code != engine.PodGone && code != engine.MachineOpening { // its pods have no need of it
			for _, name := range l.Gangs {
				broken[name] = out[i]
			}
		}
	}
	for i, l := range launches {
		if at := slices.IndexFunc(l.Gangs, func(name string) bool { return !broken[name].OK() }); at >= 0 && out[i].OK() {
			out[i] = broken[l.Gangs[at]]
		}
	}
	return out
}

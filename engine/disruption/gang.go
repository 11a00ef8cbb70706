package disruption

import (
	"slices"
	"strconv"

	"tenon.sh/engine"
	"tenon.sh/engine/gang"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/packing"
)

// runsGang returns a reason if the machine runs pods of a gang: moving one pod interrupts the work of all, and no saving is worth that.
func (cs *candidates) runsGang(m *inventory.Machine) engine.Reason {
	return cs.gangOn(m, func(*gang.Gang, int) bool { return true })
}

// breaksGang returns a reason if the removal of this machine, together with the machines chosen already, would leave a gang with too few pods,
// or would move a part of a gang that moves only as a whole.
func (cs *candidates) breaksGang(m *inventory.Machine) engine.Reason {
	return cs.gangOn(m, func(g *gang.Gang, pods int) bool { return g.Breaks(cs.gangs[g] + pods) })
}

// gangOn returns a reason that names the first gang for which `is` returns true, given the number of the gang's pods on the machine.
func (cs *candidates) gangOn(m *inventory.Machine, is func(g *gang.Gang, pods int) bool) engine.Reason {
	count := cs.gangsOn(m)
	if len(count) == 0 {
		return engine.Reason{}
	}
	for _, g := range cs.p.Gangs.List {
		if n := count[g]; n > 0 && is(g, n) {
			return engine.Reason{Code: engine.GangRuns, NodePool: m.Pool(), Key: g.Name(), Need: strconv.Itoa(g.Group.MinCount())}
		}
	}
	return engine.Reason{}
}

// gangsOn returns, for each gang, the number of its pods on the machine.
func (cs *candidates) gangsOn(m *inventory.Machine) map[*gang.Gang]int {
	if cs.p.Gangs == nil {
		return nil
	}
	count := map[*gang.Gang]int{}
	for _, pod := range cs.moving(m) {
		if g := cs.p.Gangs.Of(pod); g != nil {
			count[g]++
		}
	}
	return count
}

// gangsThatStart returns the gangs of which enough pods have a place in the solution.
func (cs *candidates) gangsThatStart(solution *packing.Solution) map[*gang.Gang]bool {
	if cs.p.Gangs == nil {
		return nil
	}
	placed, out := map[*gang.Gang]int{}, map[*gang.Gang]bool{}
	for _, shares := range solution.OnNodes {
		for _, share := range shares {
			for _, n := range share.Pods {
				if g := cs.p.Gangs.Of(cs.p.Classes[share.Class].Pods[n]); g != nil {
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

// loseGangs adds the machine's pods to the pods that gangs lose, or subtracts them if sign is −1.
func (cs *candidates) loseGangs(m *inventory.Machine, sign int) {
	for g, n := range cs.gangsOn(m) {
		cs.gangs[g] += sign * n
	}
}

// CheckLaunches checks all launches of a plan, in their order. If a launch that a gang needs cannot be made any more, no launch is made for
// the gang, because a part of a gang is of no use.
func (c *Checker) CheckLaunches(launches []engine.Launch) []engine.Reason {
	out, broken := make([]engine.Reason, len(launches)), map[string]engine.Reason{}
	for i, l := range launches {
		out[i] = c.Check(l)
		if code := out[i].Code; code != "" && code != engine.PodGone && code != engine.MachineOpening { // with these two codes its pods do not need it
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

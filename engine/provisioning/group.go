package provisioning

import (
	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
)

// Group is a set of machines that are removed together, with the launches that replace them. Pods and Moves are filled in only after the removal is
// decided.
type Group struct {
	Machines []*inventory.Machine
	Launches []engine.Launch
	Pods     []engine.PodID
	Moves    []engine.Placement
	// Later are machines that are removed later; the launches have room for their pods too.
	Later []*inventory.Machine
}

// mostTogether is how many machines a group may have before Cut divides it. Large groups are costly, because the claim of each machine lists the
// claims of all.
const mostTogether = 16

// Cut divides a group of many machines into groups of about mostTogether machines with at least one launch each. Each machine is in the group of the
// first launch that a pod of it uses. Other pods of the machine may use launches of other groups, so the caller has to begin all groups, and no
// machine may be drained before the launches of all groups are ready.
func (g Group) Cut() []Group {
	if len(g.Machines) <= mostTogether || len(g.Launches) < 2 {
		return []Group{g}
	}
	from := map[engine.PodID]*inventory.Machine{}
	for _, m := range g.Machines {
		for _, pod := range m.Bound {
			from[kube.PodID(pod)] = m
		}
	}
	part := map[*inventory.Machine]int{}
	out := []Group{{}}
	for _, l := range g.Launches {
		if len(out[len(out)-1].Machines) >= mostTogether && len(part) < len(g.Machines) {
			out = append(out, Group{})
		}
		last := len(out) - 1
		out[last].Launches = append(out[last].Launches, l)
		for _, id := range l.Pods {
			if m := from[id]; m != nil {
				if _, known := part[m]; !known {
					part[m] = last
					out[last].Machines = append(out[last].Machines, m)
				}
			}
		}
	}
	for _, id := range g.Pods {
		i := part[from[id]]
		out[i].Pods = append(out[i].Pods, id)
	}
	for _, move := range g.Moves {
		i := part[from[move.Pod]]
		out[i].Moves = append(out[i].Moves, move)
	}
	return out
}

// MachinesOf lists the machines of the groups, group by group.
func MachinesOf(groups []Group) []*inventory.Machine {
	var out []*inventory.Machine
	for _, g := range groups {
		out = append(out, g.Machines...)
	}
	return out
}

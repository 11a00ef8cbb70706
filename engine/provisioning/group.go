package provisioning

import (
	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
)

// Group is machines that go together, and what replaces them. Whom that moves is filled in for those that go.
type Group struct {
	Machines []*inventory.Machine
	Launches []engine.Launch
	Pods     []engine.PodID
	Moves    []engine.Placement
	// Later are machines that go later; the launches have room for their pods too.
	Later []*inventory.Machine
}

// mostTogether is how many machines a group may have before Cut cuts it: the claim of each machine lists the claims of all.
const mostTogether = 16

// Cut divides a group of many machines into groups that have launches each. A machine goes with the first launch that any of its pods uses, and its
// other pods may use launches of other groups, so whoever begins one of the groups has to begin all, and to wait for the launches of all.
func (g Group) Cut() []Group {
	if len(g.Machines) <= mostTogether || len(g.Launches) < 2 {
		return []Group{g}
	}
	from := map[engine.PodID]*inventory.Machine{}
	for _, h := range g.Machines {
		for _, pod := range h.Bound {
			from[kube.PodID(pod)] = h
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
			if h := from[id]; h != nil {
				if _, known := part[h]; !known {
					part[h] = last
					out[last].Machines = append(out[last].Machines, h)
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

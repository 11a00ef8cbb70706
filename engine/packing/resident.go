package packing

import (
	"math"
	"slices"

	"tenon.sh/engine/topology"
)

// This file is about residents: DaemonSets' pods that a new machine gets before any other pod.

// doubt adds to the pods of a host group that may not be placed here after all. `number` is the host index of the group.
func (n *nodeState) doubt(number, count int, h *hostIndex) {
	if n.doubtful == nil {
		n.doubtful = make([]int, h.nGroups)
	}
	n.doubtful[number] += count
}

// besideResidents returns the level's rules for single machines, reduced by the residents of a new machine in the place. It returns nil if the
// residents keep the level's pods out.
func (pl *placement) besideResidents(ls *levelState, place topology.Place) *hostRules {
	if !pl.p.Layout.Settles(place) {
		return ls.host
	}
	count := make([]int, pl.host.nGroups)
	for i := range pl.p.Layout.Residents {
		r := &pl.p.Layout.Residents[i]
		if place[r.Key] <= topology.Absent {
			continue
		}
		if meets(ls.host.rejects, r.HostOwns) {
			return nil
		}
		for _, g := range r.Groups {
			if h := pl.host.groups[g]; h >= 0 && pl.world.Counts(g, place) {
				count[h]++
			}
		}
	}
	spread, at, changed := slices.Clone(ls.host.spread), -1, false
	for _, sp := range ls.rules.Spread {
		h := pl.host.groups[sp.Group]
		if h < 0 {
			continue
		}
		if at++; count[h] == 0 {
			continue
		}
		spread[at].most += pl.freshFloor(sp.Group, sp.MinDomains) - count[h]
		if most := spread[at].most; most < 0 || most == 0 && sp.Self {
			return nil
		}
		changed = true
	}
	if !changed {
		return ls.host
	}
	host := *ls.host
	host.spread = spread
	host.bound()
	return pl.reader.intern(&host)
}

// fresh returns, for each group, the number of its pods that are residents of every new machine which the group counts.
func (p *Problem) fresh() []int {
	out := make([]int, len(p.Layout.Groups))
	for i := range p.Layout.Residents {
		for _, g := range p.Layout.Residents[i].Groups {
			out[g] = math.MaxInt
		}
	}
	for g := range out {
		filter := p.Layout.Groups[g].Filter
		for i := range p.Pools {
			for o := range p.Pools[i].Options {
				option := &p.Pools[i].Options[o]
				place := p.Places[option.Place]
				if out[g] > 0 && option.Listed && (filter < 0 || place[filter] == 1) {
					out[g] = min(out[g], p.residentsOf(g, place))
				}
			}
		}
	}
	return out
}

// residentsOf counts the residents of a group that are sure to be on a machine of the place.
func (p *Problem) residentsOf(group int, place topology.Place) int {
	n := 0
	for i := range p.Layout.Residents {
		if r := &p.Layout.Residents[i]; place[r.Key] == topology.Certain && slices.Contains(r.Groups, group) {
			n++
		}
	}
	return n
}

// freshFloor returns a lower bound for the smallest count of a host group once new machines are there.
func (pl *placement) freshFloor(group, minDomains int) int {
	if pl.p.Layout.Groups[group].Zero {
		return 0
	}
	least, domains := pl.nodes.least(group)
	if domains < minDomains {
		return 0
	}
	if least = min(least, pl.lessons.frame.fresh[group]); least == math.MaxInt {
		return 0
	}
	return least
}

func (p *Problem) hasResidents(group int) bool {
	return slices.ContainsFunc(p.Layout.Residents, func(r topology.Resident) bool { return slices.Contains(r.Groups, group) })
}

// affinityIn returns the sets of which the next pod needs a pod on its own machine, without the sets that have a resident on every machine
// of the place.
func (pl *placement) affinityIn(ls *levelState, place topology.Place) []int {
	return pl.lacking(pl.affinityOf(ls), place)
}

// lacking returns the sets of which a machine of the place has no resident.
func (pl *placement) lacking(sets []int, place topology.Place) []int {
	var out []int
	for _, set := range sets {
		if !pl.p.hasResident(set, place) {
			out = append(out, set)
		}
	}
	return out
}

func (p *Problem) hasResident(set int, place topology.Place) bool {
	return slices.ContainsFunc(p.Layout.Residents, func(r topology.Resident) bool {
		return place[r.Key] == topology.Certain && slices.Contains(r.Sets, set)
	})
}

// isLonely reports whether some set of the company has no pod on any new machine, and no resident in the place. The pods of this set then run only on
// nodes without room.
func (pl *placement) isLonely(company []int, place topology.Place) bool {
	return slices.ContainsFunc(company, func(set int) bool { return pl.setLeft[set] == 0 && !pl.p.hasResident(set, place) })
}

// placeIn puts the residents of a new machine on it.
func (pl *placement) placeIn(node *nodeState, m *Machine) {
	l := &pl.p.Layout
	if len(l.Residents) == 0 {
		return
	}
	places := pl.market.placesOf(m)
	pl.world.Arrive(places, false)
	for i := range l.Residents {
		r := &l.Residents[i]
		if !slices.ContainsFunc(places, func(p topology.Place) bool { return p[r.Key] > topology.Absent }) {
			continue
		}
		node.bears = union(node.bears, nonEmpty(r.HostOwns))
		certain := !slices.ContainsFunc(places, func(p topology.Place) bool { return p[r.Key] != topology.Certain })
		for _, set := range r.Sets {
			if h := pl.host.sets[set]; h >= 0 && certain {
				node.sets[h]++
			}
		}
		for _, g := range r.Groups {
			h := pl.host.groups[g]
			if h < 0 || !pl.world.Counts(g, pl.p.Places[node.place]) {
				continue
			}
			if node.groups[h]++; !certain || slices.ContainsFunc(places, func(p topology.Place) bool { return !pl.world.Counts(g, p) }) {
				node.doubt(h, 1, &pl.host)
			}
		}
	}
}

// disturbs reports whether a machine of the place has residents that may break the rules of pods with a place. For example, a pod may have its place
// because its set had no pod anywhere; then the set must not have a resident elsewhere.
func (pl *placement) disturbs(place topology.Place) bool {
	return slices.ContainsFunc(pl.p.Layout.Residents, func(r topology.Resident) bool {
		return place[r.Key] > topology.Absent && (len(r.Owns) > 0 || slices.ContainsFunc(r.Sets, pl.wasStarted) || slices.ContainsFunc(r.Groups, func(g int) bool { return pl.host.groups[g] < 0 }))
	})
}

// wasStarted reports whether the first pod of the set may have its place because the set had no pod.
func (pl *placement) wasStarted(set int) bool {
	return slices.ContainsFunc(pl.order, func(pod Pod) bool {
		return slices.ContainsFunc(pl.p.Classes[pod.Class].Levels, func(l Level) bool {
			return l.Rules != nil && slices.ContainsFunc(l.Rules.Affinity, func(a topology.Affinity) bool { return a.Set == set && a.Self })
		})
	})
}

// learnArrivals notes the places of the new machines if pods have no place and the machines' residents affect rules. The next round then counts
// these residents from the start. learnArrivals reports false if this changes nothing.
func (s *solver) learnArrivals() bool {
	if !slices.ContainsFunc(s.p.Layout.Residents, func(r topology.Resident) bool { return len(r.Owns)+len(r.Groups)+len(r.Sets) > 0 }) ||
		counted(s.without()) == 0 {
		return false
	}
	var arrived [][]topology.Place
	for i := range s.listing.machines {
		arrived = append(arrived, s.market.placesOf(&s.listing.machines[i]))
	}
	same := slices.EqualFunc(arrived, s.placement.lessons.arrived, func(a, b []topology.Place) bool {
		return slices.EqualFunc(a, b, func(x, y topology.Place) bool { return slices.Equal(x, y) })
	})
	s.placement.lessons.arrived = arrived
	return !same
}

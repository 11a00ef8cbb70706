package topology

import "slices"

// arrival is one change of a count or mark by a resident in a domain.
type arrival struct {
	resident int
	what     brought
	// of is the group, set or mark; key is the index of the set's key.
	of, key int
	domain  int32
}

type brought int8

const (
	toGroup      brought = iota // the group counts the resident
	maybeToGroup                // the group may count the resident
	toSet
	toTotal // the total of a set counts the resident
	toMark
)

// Settles reports whether a machine of the place has, or may have, residents.
func (l *Layout) Settles(place Place) bool {
	return slices.ContainsFunc(l.Residents, func(r Resident) bool { return place[r.Key] > Absent })
}

// Barred reports whether pods with these rules cannot use a new machine of the place because of residents: a resident keeps them out, or they need a
// resident on their machine and no such resident is certain there.
func (r *Rules) Barred(l *Layout, place Place) bool {
	for i := range l.Residents {
		if resident := &l.Residents[i]; place[resident.Key] > Absent && len(resident.HostOwns) > 0 && len(r.HostRejects) > 0 && r.HostRejects.Meets(resident.HostOwns) {
			return true
		}
	}
	return slices.ContainsFunc(r.Affinity, func(a Affinity) bool {
		some, here := false, false
		for i := range l.Residents {
			if resident := &l.Residents[i]; slices.Contains(resident.Sets, a.Set) {
				some, here = true, here || place[resident.Key] == Certain
			}
		}
		return some && !here && l.Sets[a.Set].WithHost()
	})
}

// Arrive adds a machine with its residents; places lists all places in which the machine may turn out to be. If first is true, the machine may be
// known already, so each change of a count or mark is made only if it was not made before.
func (world *World) Arrive(places []Place, first bool) {
	ch := change{resident: true}
	add := func(a arrival) {
		if first && world.came[a] > 0 {
			return
		}
		if a.what == toMark && world.came[a] == 0 && !world.marks[a.of].Has(int(a.domain)) {
			ch.marked = append(ch.marked, [2]int{a.of, int(a.domain)})
		}
		world.bring(a, 1)
		ch.arrived = append(ch.arrived, a)
	}
	for i := range world.l.Residents {
		r := &world.l.Residents[i]
		for _, g := range r.Groups {
			group := &world.l.Groups[g]
			domains, certain := r.domains(places, group.Key, group.passes)
			what := maybeToGroup
			if certain {
				what = toGroup
			}
			for _, d := range domains {
				add(arrival{i, what, g, 0, d})
			}
		}
		for _, s := range r.Sets {
			world.joinSet(i, s, places, add)
		}
		for _, m := range r.Owns {
			domains, _ := r.domains(places, world.l.Marks[m].Key, anywhere)
			for _, d := range domains {
				add(arrival{i, toMark, m, 0, d})
			}
		}
	}
	if len(ch.arrived) > 0 {
		world.trail = append(world.trail, ch)
	}
}

// joinSet adds the resident to the counts of the set, in the domains in which it surely is.
func (world *World) joinSet(i, set int, places []Place, add func(arrival)) {
	r, counted := &world.l.Residents[i], false
	for k, key := range world.l.Sets[set].Keys {
		if key == Host {
			counted = counted || r.isOn(places)
			continue
		}
		if domains, certain := r.domains(places, key, anywhere); certain {
			counted = true
			add(arrival{i, toSet, set, k, domains[0]})
		}
	}
	if counted {
		add(arrival{i, toTotal, set, 0, 0})
	}
}

func anywhere(Place) bool { return true }

// isOn reports whether the resident is surely on the machine, in every place where the machine may be.
func (r *Resident) isOn(places []Place) bool {
	return !slices.ContainsFunc(places, func(p Place) bool { return p[r.Key] != Certain })
}

// domains returns the domains of the key in which the resident may be, in places for which counts returns true. certain is true if the resident
// surely is in the only one.
func (r *Resident) domains(places []Place, key int, counts func(Place) bool) (domains []int32, certain bool) {
	if key == Host {
		return nil, false
	}
	certain = true
	for _, p := range places {
		if p[r.Key] <= Absent || p[key] < 0 || !counts(p) {
			certain = false
			continue
		}
		certain = certain && p[r.Key] == Certain
		if !slices.Contains(domains, p[key]) {
			domains = append(domains, p[key])
		}
	}
	return domains, certain && len(domains) == 1
}

// bring adds n to the count that a resident's arrival changes, or sets its mark.
func (world *World) bring(a arrival, n int) {
	if world.came == nil {
		world.came = map[arrival]int{}
	}
	world.came[a] += n
	switch a.what {
	case toGroup:
		c := &world.groups[a.of]
		c.count[a.domain] += n
		c.fresh = false
	case maybeToGroup:
		c := &world.groups[a.of]
		if c.may == nil {
			c.may = make([]int, len(c.count))
		}
		c.may[a.domain] += n
	case toSet:
		world.sets[a.of].count[a.key][a.domain] += n
	case toTotal:
		world.sets[a.of].total += n
	case toMark:
		if n > 0 {
			world.marks[a.of].Add(int(a.domain))
		}
	}
}

// leave undoes the arrivals of residents in the change.
func (world *World) leave(ch *change) {
	for _, a := range ch.arrived {
		world.bring(a, -1)
	}
	for _, m := range ch.marked {
		world.marks[m[0]].Remove(m[1])
	}
}

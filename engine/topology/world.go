package topology

import (
	"slices"

	"tenon.sh/engine/bitset"
)

// World is a layout in which pods are placed. Every change can be undone.
type World struct {
	l       *Layout
	groups  []counter
	sets    []setCounter
	marks   []bitset.Set
	takings []taking
	// came holds, for each arrival of a resident, the number of times that it was made.
	came  map[arrival]int
	trail []change
}

// counter counts a group by domain.
type counter struct {
	count []int
	// `may` counts residents that may be in a domain. It is nil if there are none.
	may   []int
	there bitset.Set
	// least is the smallest count of the domains that have a machine; min computes it again if it is not fresh.
	least int
	fresh bool
}

type setCounter struct {
	count [][]int
	total int
}

// change is one change of a World: pods with these rules that were placed, residents that arrived or, without either, a domain that was opened.
type change struct {
	rules *Rules
	place Place
	n     int
	// marked holds new marks and their domains.
	marked [][2]int
	// supplied is the state of the available volumes before the pods took some.
	supplied []supplied
	// arrived lists the arrivals, if resident is true.
	arrived  []arrival
	resident bool
	// group and domain are the opened domain.
	group, domain int
}

// NewWorld returns a world with the counts of the layout. The layout must not change while the world is in use.
func NewWorld(l *Layout) *World {
	world := &World{l: l}
	for i := range l.Groups {
		g := &l.Groups[i]
		c := counter{there: g.There.Clone()}
		if g.Key != Host {
			c.count = make([]int, l.Domains[g.Key])
			copy(c.count, g.Count)
			c.may = slices.Clone(g.May)
		}
		world.groups = append(world.groups, c)
	}
	for i := range l.Sets {
		s := &l.Sets[i]
		c := setCounter{total: s.Total}
		for k, key := range s.Keys {
			var count []int
			if key != Host {
				count = make([]int, l.Domains[key])
				copy(count, s.Count[k])
			}
			c.count = append(c.count, count)
		}
		world.sets = append(world.sets, c)
	}
	for i := range l.Marks {
		m := bitset.New(l.Domains[l.Marks[i].Key])
		copy(m, l.Marks[i].At)
		world.marks = append(world.marks, m)
	}
	for i := range l.Available {
		world.takings = append(world.takings, newTaking(&l.Available[i]))
	}
	return world
}

// Open notes that a machine may be started in the domain that the group counts at this place.
func (world *World) Open(group int, place Place) {
	g := &world.l.Groups[group]
	if g.Key == Host || !g.passes(place) || place[g.Key] < 0 {
		return
	}
	world.OpenDomain(group, int(place[g.Key]))
}

// OpenDomain notes that a machine may be started in the domain with this index.
func (world *World) OpenDomain(group, domain int) {
	c := &world.groups[group]
	if c.there.Has(domain) {
		return
	}
	c.there.Add(domain)
	c.fresh = false
	world.trail = append(world.trail, change{group: group, domain: domain})
}

// passes reports whether the group counts machines of this place.
func (g *Group) passes(place Place) bool { return g.Filter < 0 || place[g.Filter] == 1 }

// Counts reports whether the group counts machines of this place.
func (world *World) Counts(group int, place Place) bool { return world.l.Groups[group].passes(place) }

// min returns the smallest count of the domains that have a machine. It returns 0 if there are fewer of these than minDomains.
func (c *counter) min(minDomains int) int {
	if minDomains > 0 && c.there.Len() < minDomains {
		return 0
	}
	if !c.fresh {
		c.least, c.fresh = 0, true
		first := true
		for d := c.there.Next(0); d >= 0; d = c.there.Next(d + 1) {
			if first || c.count[d] < c.least {
				c.least, first = c.count[d], false
			}
		}
	}
	return c.least
}

// Allows reports whether one more pod with these rules may be put in the place, apart from rules for single machines. If so, uneven is the sum of the
// differences between the counts of the pod's domains and of the emptiest domains: 0 is the most even.
//
// A new machine of the place comes with its residents.
func (world *World) Allows(r *Rules, place Place) (uneven int, ok bool) {
	if world.l.Settles(place) {
		mark := world.Mark()
		world.Arrive([]Place{place}, true)
		defer world.Undo(mark)
	}
	for _, m := range r.Rejects {
		if d := place[world.l.Marks[m].Key]; d >= 0 && world.marks[m].Has(int(d)) {
			return 0, false
		}
	}
	for i := range r.Spread {
		if !world.spreads(&r.Spread[i], place) {
			return 0, false
		}
	}
	for i := range r.Affinity {
		if !world.near(&r.Affinity[i], place) {
			return 0, false
		}
	}
	if !world.supplies(r, place) {
		return 0, false
	}
	return world.Uneven(r, place), true
}

// Uneven returns the sum, over the groups that count the pod, of the difference between the count of the place's domain and of the emptiest
// domain.
func (world *World) Uneven(r *Rules, place Place) int {
	uneven := 0
	for _, g := range r.Groups {
		uneven += world.ahead(g, place)
	}
	return uneven
}

func (world *World) ahead(group int, place Place) int {
	g := &world.l.Groups[group]
	if g.Key == Host || place[g.Key] < 0 || !g.passes(place) {
		return 0
	}
	c := &world.groups[group]
	return c.count[place[g.Key]] - c.min(0)
}

func (world *World) spreads(s *Spread, place Place) bool {
	g := &world.l.Groups[s.Group]
	if g.Key == Host {
		return true
	}
	d := place[g.Key]
	if d < 0 {
		return false
	}
	c := &world.groups[s.Group]
	here := 0
	if c.there.Has(int(d)) {
		here = c.count[d]
	}
	if c.may != nil {
		here += c.may[d]
	}
	if s.Self {
		here++
	}
	return here-c.min(s.MinDomains) <= s.MaxSkew
}

// near reports whether the pods that the affinity looks for are in the place's domains. The caller checks the key Host.
func (world *World) near(a *Affinity, place Place) bool {
	if world.l.Sets[a.Set].Loose {
		return world.follows(a.Set, place)
	}
	if world.Starts(a) {
		for _, key := range world.l.Sets[a.Set].Keys {
			if key != Host && place[key] < 0 {
				return false
			}
		}
		return true
	}
	for i, key := range world.l.Sets[a.Set].Keys {
		if key == Host {
			continue
		}
		if d := place[key]; d < 0 || world.sets[a.Set].count[i][d] == 0 {
			return false
		}
	}
	return true
}

// follows reports whether the place is in the domains of the pods of a loose set, for the keys that these pods have.
func (world *World) follows(set int, place Place) bool {
	for i, key := range world.l.Sets[set].Keys {
		if key == Host {
			continue
		}
		d := place[key]
		if d == Open {
			return false
		}
		decided := slices.ContainsFunc(world.sets[set].count[i], func(n int) bool { return n > 0 })
		if decided && (d < 0 || world.sets[set].count[i][d] == 0) {
			return false
		}
	}
	return true
}

// Starts reports whether the pod would be the first pod of the set that it needs, and is allowed to be.
func (world *World) Starts(a *Affinity) bool { return a.Self && world.sets[a.Set].total == 0 }

// Total returns the number of pods of a set, in all domains together.
func (world *World) Total(set int) int { return world.sets[set].total }

// Count returns the number of pods of a group in each domain that has a machine. It returns -1 for the other domains.
func (world *World) Count(group int) []int {
	c := &world.groups[group]
	out := make([]int, len(c.count))
	for d := range out {
		out[d] = -1
		if c.there.Has(d) {
			out[d] = c.count[d]
		}
	}
	return out
}

// Domains returns the domains of the i-th key of a set that hold its pods.
func (world *World) Domains(set, i int) []int {
	var out []int
	for d, n := range world.sets[set].count[i] {
		if n > 0 {
			out = append(out, d)
		}
	}
	return out
}

// Put places n pods with these rules.
func (world *World) Put(r *Rules, place Place, n int) {
	ch := change{rules: r, place: place, n: n}
	world.count(r, place, n)
	for _, m := range r.Owns {
		key := world.l.Marks[m].Key
		for d := range world.l.Domains[key] {
			// If the domain is Open, it may be any domain.
			if (place[key] == int32(d) || place[key] == Open) && !world.marks[m].Has(d) {
				world.marks[m].Add(d)
				ch.marked = append(ch.marked, [2]int{m, d})
			}
		}
	}
	if len(r.Takes) > 0 {
		for range n {
			before, _ := world.takeAll(r, place)
			ch.supplied = append(ch.supplied, before...)
		}
	}
	world.trail = append(world.trail, ch)
}

func (world *World) count(r *Rules, place Place, n int) {
	for _, group := range r.Groups {
		g := &world.l.Groups[group]
		if g.Key == Host || place[g.Key] < 0 || !g.passes(place) {
			continue
		}
		c := &world.groups[group]
		d := place[g.Key]
		if n < 0 || c.count[d] == c.least {
			c.fresh = false
		}
		c.count[d] += n
	}
	for _, set := range r.Sets {
		s, counted := &world.sets[set], false
		for i, key := range world.l.Sets[set].Keys {
			if key == Host {
				counted = true
			} else if d := place[key]; d >= 0 {
				s.count[i][d] += n
				counted = true
			}
		}
		if counted || world.l.Sets[set].Loose {
			s.total += n
		}
	}
}

// Mark returns a mark for Undo.
func (world *World) Mark() int { return len(world.trail) }

// Undo reverses all changes since the mark.
func (world *World) Undo(mark int) {
	for i := len(world.trail) - 1; i >= mark; i-- {
		ch := &world.trail[i]
		if ch.resident {
			world.leave(ch)
			continue
		}
		if ch.rules == nil {
			world.groups[ch.group].there.Remove(ch.domain)
			world.groups[ch.group].fresh = false
			continue
		}
		world.count(ch.rules, ch.place, -ch.n)
		for _, m := range ch.marked {
			world.marks[m[0]].Remove(m[1])
		}
		world.giveBack(ch.supplied)
	}
	world.trail = world.trail[:mark]
}

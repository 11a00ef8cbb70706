package packing_test

import (
	"math/rand/v2"
	"slices"

	"tenon.sh/engine/bitset"
	"tenon.sh/engine/capacity"
	"tenon.sh/engine/packing"
	"tenon.sh/engine/topology"
)

// drawer draws problems of every kind: several pools, existing nodes, rules of all kinds between pods, limits, reservations, large options
// and devices, minimum variety, priorities, and pods with several levels.
type drawer struct {
	*rand.Rand
	p *packing.Problem
	// Keys of places: the zone, a rack that only some machines have, and a filter.
	zones, racks int
	slots        int // offerings of each type
	ways         []*packing.Ways
}

const (
	zoneKey = iota
	rackKey
	filterKey
)

// The resources: cores, memory, pods, a device, volumes.
const width = 5

// kinds lists the features that a problem may have beside pods and options; each is drawn with odds of a third or a half.
type kinds struct {
	limits, reservations, variety, levels, weights bool
}

func drawProblem(seed uint64) (*packing.Problem, kinds) {
	d := &drawer{Rand: rand.New(rand.NewPCG(seed, 31)), zones: 2, racks: 2, slots: 2}
	d.zones += d.IntN(2)
	k := kinds{d.IntN(3) == 0, d.IntN(3) == 0, d.IntN(3) == 0, d.IntN(2) == 0, d.IntN(2) == 0}
	d.p = &packing.Problem{
		Effort: 2000, PriceBand: 1.15, MaxTypes: 600, Unit: capacity.Vector{1000, 0, 0, 0, 0}, Devices: []bool{false, false, false, true, false},
		Weighted: k.levels && d.IntN(2) == 0,
	}
	d.p.Layout.Domains = []int{d.zones, d.racks, 2}
	d.places()
	if k.reservations {
		for range 1 + d.IntN(2) {
			d.p.Quotas = append(d.p.Quotas, d.IntN(4))
		}
	}
	for i := range 1 + d.IntN(3) {
		d.pool(i, k)
	}
	d.layout()
	d.nodes()
	for range 1 + d.IntN(4) {
		d.ways = append(d.ways, d.drawWays())
	}
	left := 1 + d.IntN(40)
	for left > 0 {
		n := 1 + d.IntN(min(left, 9))
		left -= n
		d.class(n, k)
	}
	d.things(rand.New(rand.NewPCG(seed, 37)))
	d.supply(rand.New(rand.NewPCG(seed, 41)))
	d.wishes(rand.New(rand.NewPCG(seed, 43)))
	d.residents(rand.New(rand.NewPCG(seed, 47)))
	d.owners(rand.New(rand.NewPCG(seed, 53)))
	return d.p, k
}

// owners makes pods replicas of workloads in some problems.
func (d *drawer) owners(r *rand.Rand) {
	if r.IntN(2) == 0 {
		return
	}
	for c := range d.p.Classes {
		class := &d.p.Classes[c]
		if r.IntN(4) == 0 {
			continue
		}
		for range class.Count {
			class.Owners = append(class.Owners, r.IntN(4)-1)
		}
	}
}

// residents gives some problems residents, which new machines of some types have or may have.
func (d *drawer) residents(r *rand.Rand) {
	if r.IntN(3) > 0 {
		return
	}
	l := &d.p.Layout
	some := func(n, of int) (out []int) {
		for i := range n {
			if r.IntN(of) == 0 {
				out = append(out, i)
			}
		}
		return out
	}
	n := 1 + r.IntN(2)
	for range n {
		res := topology.Resident{Key: len(l.Domains), Groups: some(len(l.Groups), 4), Sets: some(len(l.Sets), 3), Owns: some(len(l.Marks), 6)}
		if marks := some(l.HostMarks, 4); len(marks) > 0 {
			res.HostOwns = bitset.Of(l.HostMarks, marks...)
		}
		l.Domains, l.Residents = append(l.Domains, 3), append(l.Residents, res)
	}
	for i := range d.p.Places {
		for range n {
			d.p.Places[i] = append(d.p.Places[i], topology.Nowhere)
		}
	}
	for p := range d.p.Pools {
		kinds := map[int][]int32{}
		for o := range d.p.Pools[p].Options {
			option := &d.p.Pools[p].Options[o]
			if kinds[option.Type] == nil {
				for range n {
					kinds[option.Type] = append(kinds[option.Type], []int32{topology.Absent, topology.Absent, topology.Possible, topology.Certain, topology.Certain}[r.IntN(5)])
				}
			}
			place := append(slices.Clone(d.p.Places[option.Place][:3]), kinds[option.Type]...)
			at := slices.IndexFunc(d.p.Places, func(p topology.Place) bool { return slices.Equal(p, place) })
			if at < 0 {
				at = len(d.p.Places)
				d.p.Places = append(d.p.Places, place)
			}
			option.Place = at
		}
	}
}

// wishes lets some classes prefer to keep a host mark off their machine, in Weighted problems.
func (d *drawer) wishes(r *rand.Rand) {
	if !d.p.Weighted {
		return
	}
	for c := range d.p.Classes {
		levels := d.p.Classes[c].Levels
		if len(levels) < 2 || r.IntN(2) == 0 {
			continue
		}
		rules := *levels[0].Rules
		rules.HostRejects = rules.HostRejects.Clone()
		mark(&rules.HostRejects, d.p.Layout.HostMarks, r.IntN(d.p.Layout.HostMarks))
		levels[0].Rules, levels[0].Lone = &rules, true
		for l := range levels[1:] {
			levels[1+l].Miss += 0.05
		}
	}
}

// supply gives some problems free volumes: each can be reached from some zones, and serves one pod.
func (d *drawer) supply(r *rand.Rand) {
	if r.IntN(4) > 0 {
		return
	}
	some := func(n int) bitset.Set {
		out := bitset.New(n)
		for i := range n {
			if r.IntN(2) == 0 {
				out.Add(i)
			}
		}
		return out
	}
	s := topology.Available{Key: zoneKey, Things: 1 + r.IntN(8), Endless: bitset.New(d.zones)}
	for zone := range d.zones {
		s.Reach = append(s.Reach, some(s.Things))
		if r.IntN(8) == 0 {
			s.Endless.Add(zone)
		}
	}
	d.p.Layout.Available = []topology.Available{s}
	for c := range d.p.Classes {
		if r.IntN(2) == 0 {
			continue
		}
		takes := []topology.Take{{Suits: some(s.Things), Joint: max(0, r.IntN(5)-3)}}
		for l := range d.p.Classes[c].Levels {
			level := &d.p.Classes[c].Levels[l]
			rules := topology.Rules{}
			if level.Rules != nil {
				rules = *level.Rules
			}
			rules.Takes = takes
			level.Rules = &rules
		}
	}
}

// things gives some problems volumes that pods share, and volumes of single pods; each machine takes only a few volumes.
func (d *drawer) things(r *rand.Rand) {
	if r.IntN(3) > 0 {
		return
	}
	const volumes = 4
	d.p.Things = 1 + r.IntN(3)
	for p := range d.p.Pools {
		limits := map[int]int64{}
		for o := range d.p.Pools[p].Options {
			option := &d.p.Pools[p].Options[o]
			if _, known := limits[option.Type]; !known {
				limits[option.Type] = int64(1 + r.IntN(5))
			}
			option.Allocatable = option.Allocatable.Clone()
			option.Allocatable[volumes] = limits[option.Type]
		}
	}
	for n := range d.p.Nodes {
		node := &d.p.Nodes[n]
		node.Free[volumes] = int64(r.IntN(4))
		if r.IntN(2) == 0 {
			node.Has = bitset.Of(d.p.Things, r.IntN(d.p.Things))
		}
	}
	for c := range d.p.Classes {
		class := &d.p.Classes[c]
		for thing := range d.p.Things {
			if r.IntN(3) == 0 {
				class.Shared = append(class.Shared, packing.Shared{Thing: thing, Resource: volumes, Amount: 1})
			}
		}
		class.Request[volumes] = int64(len(class.Shared) + r.IntN(4)/3)
	}
}

func (d *drawer) places() {
	for z := range d.zones {
		for rack := -1; rack < d.racks; rack++ {
			for f := range 2 {
				d.p.Places = append(d.p.Places, topology.Place{int32(z), int32(rack), int32(f)})
			}
		}
	}
}

// place returns the index of a place in the zone.
func (d *drawer) place(zone int) int {
	each := 2 * (d.racks + 1)
	if d.IntN(3) > 0 {
		return zone*each + 1 // without a rack, passing the filter
	}
	return zone*each + d.IntN(each)
}

func (d *drawer) pool(i int, k kinds) {
	pool := packing.Pool{Left: slices.Repeat(capacity.Vector{capacity.Most}, width), Free: []bitset.Set{bitset.Of(4, 0, 1+i)}}
	if k.weights {
		pool.Weight = d.IntN(3)
	}
	if k.limits && d.IntN(2) == 0 {
		pool.Left[d.IntN(2)] = int64(d.IntN(60)) * 1000
	}
	types := 1 + d.IntN(8)
	for kind := range types {
		cpu, memory := int64(1+d.IntN(32))*1000, int64(1+d.IntN(64))*1000
		size := capacity.Vector{cpu - 100, memory - 50, int64(3 + d.IntN(30)), 0, capacity.Most}
		charge := capacity.Vector{cpu, memory, 0, 0, 0}
		price := 0.03*float64(cpu)/1000 + 0.004*float64(memory)/1000
		if d.IntN(5) == 0 {
			size[3] = int64(1 + d.IntN(4))
			price *= 3
		}
		price *= 0.8 + 0.4*d.Float64()
		for z := range d.zones {
			if z > 0 && d.IntN(4) == 0 {
				continue
			}
			place := d.place(z)
			reserved := false
			for s := range d.slots {
				o := packing.Option{
					Type: kind, Slot: s*d.zones + z, Group: s, Price: price * (1 - 0.5*float64(s)), Allocatable: size, Charge: charge, Place: place,
					Large: cpu > 24000, Wide: s == 1, Listed: d.IntN(10) > 0,
				}
				if r := d.IntN(6); r < len(d.p.Quotas) && !reserved {
					reserved = true
					o.Draws, o.Group, o.Slot, o.Price = []packing.Draw{{Quota: r, Units: 1}}, d.slots+r, (d.slots+r)*d.zones+z, price*0.01
				}
				pool.Options = append(pool.Options, o)
			}
		}
	}
	if k.variety && d.IntN(2) == 0 {
		// The values are families, which some types lack, or zones.
		v, families := packing.Variety{Min: 2 + d.IntN(2), Soft: d.IntN(2) == 0}, d.IntN(3) > 0
		for o := range pool.Options {
			value := pool.Options[o].Slot % d.zones
			if families {
				value = pool.Options[o].Type%5 - 1
			}
			v.Value = append(v.Value, value)
		}
		pool.Variety = append(pool.Variety, v)
	}
	d.p.Pools = append(d.p.Pools, pool)
}

// layout adds groups by zone, by rack and by machine, some of them with a filter, sets by each of these keys and by two keys, and marks.
func (d *drawer) layout() {
	l := &d.p.Layout
	for _, key := range []int{zoneKey, zoneKey, zoneKey, rackKey, topology.Host, topology.Host, topology.Host} {
		g := topology.Group{Key: key, Filter: -1}
		if len(l.Groups)%3 == 2 {
			g.Filter = filterKey
		}
		if key >= 0 {
			g.Count, g.There = make([]int, l.Domains[key]), bitset.New(l.Domains[key])
		} else {
			g.Zero = d.IntN(4) == 0
		}
		l.Groups = append(l.Groups, g)
	}
	for _, keys := range [][]int{{zoneKey}, {zoneKey}, {topology.Host}, {zoneKey, topology.Host}, {rackKey}} {
		s := topology.Set{Keys: keys}
		for _, k := range keys {
			var count []int
			if k >= 0 {
				count = make([]int, l.Domains[k])
			}
			s.Count = append(s.Count, count)
		}
		l.Sets = append(l.Sets, s)
	}
	for range 4 {
		l.Marks = append(l.Marks, topology.Mark{Key: zoneKey, At: bitset.New(d.zones)})
	}
	l.HostMarks = 6
}

// nodes adds nodes with pods. A pod of a set that is counted for each machine also counts in its domains.
func (d *drawer) nodes() {
	l := &d.p.Layout
	for range d.IntN(6) {
		n := packing.Node{Free: capacity.Vector{int64(d.IntN(16000)) - 500, int64(d.IntN(32000)), int64(d.IntN(12)), int64(d.IntN(8) / 7), capacity.Most}, Place: d.place(d.IntN(d.zones))}
		at := d.p.Places[n.Place]
		for g := range l.Groups {
			group := &l.Groups[g]
			counts := group.Filter < 0 || at[group.Filter] == 1
			n2 := d.IntN(3)
			switch {
			case !counts:
			case group.Key >= 0 && at[group.Key] >= 0:
				group.There.Add(int(at[group.Key]))
				group.Count[at[group.Key]] += n2
			case group.Key == topology.Host && n2 > 0:
				n.Groups = append(n.Groups, packing.Tally{Of: g, Count: n2})
			}
		}
		for s := range l.Sets {
			if d.IntN(3) > 0 {
				continue
			}
			set, counted := &l.Sets[s], false
			for i, k := range set.Keys {
				if k >= 0 && at[k] >= 0 {
					set.Count[i][at[k]]++
					counted = true
				} else if k == topology.Host {
					n.Sets = append(n.Sets, packing.Tally{Of: s, Count: 1})
					counted = true
				}
			}
			if counted {
				set.Total++
			}
		}
		if d.IntN(3) == 0 {
			n.Owns = bitset.Of(l.HostMarks, d.IntN(l.HostMarks))
		}
		if d.IntN(3) == 0 {
			n.Rejects = bitset.Of(l.HostMarks, d.IntN(l.HostMarks))
		}
		if m := d.IntN(12); m < len(l.Marks) {
			l.Marks[m].At.Add(int(at[zoneKey]))
		}
		d.p.Nodes = append(d.p.Nodes, n)
	}
}

// drawWays returns one or two ways to use each of most pools.
func (d *drawer) drawWays() *packing.Ways {
	out := &packing.Ways{}
	for p := range d.p.Pools {
		n := len(d.p.Pools[p].Options)
		var ways []packing.Way
		if d.IntN(5) > 0 {
			way := packing.Way{Options: bitset.Full(n)}
			if d.IntN(2) == 0 {
				zone := d.IntN(d.zones)
				for o := range n {
					if d.p.Places[d.p.Pools[p].Options[o].Place][zoneKey] == int32(zone) {
						way.Options.Remove(o)
					}
				}
			}
			ways = append(ways, way)
			if d.IntN(4) == 0 {
				ways = append(ways, packing.Way{Options: bitset.Full(n), Free: []bitset.Set{bitset.Of(4, 1+d.IntN(3))}})
			}
		}
		out.Pools = append(out.Pools, ways)
	}
	return out
}

func (d *drawer) class(n int, k kinds) {
	c := packing.Class{
		Request: capacity.Vector{int64(1+d.IntN(60)) * 100, int64(1+d.IntN(100)) * 100, 1, 0, 0}, Count: n,
	}
	if d.IntN(8) == 0 {
		c.Request[3] = int64(1 + d.IntN(2))
	}
	if d.IntN(4) == 0 {
		c.Priority = d.IntN(3) * 10
	}
	nodes := bitset.New(len(d.p.Nodes))
	for i := range d.p.Nodes {
		if d.IntN(4) > 0 {
			nodes.Add(i)
		}
	}
	ways := d.ways[d.IntN(len(d.ways))]
	if d.IntN(3) == 0 {
		c.Levels = []packing.Level{{Nodes: nodes, Ways: ways}}
		d.p.Classes = append(d.p.Classes, c)
		return
	}
	last := d.rules()
	levels := 1
	if k.levels {
		levels += d.IntN(3)
	}
	for i := range levels {
		// Earlier levels have more rules; all levels are counted by the same groups.
		r := *last
		for range levels - 1 - i {
			extra := d.rules()
			r.Spread = append(slices.Clip(r.Spread), own(extra.Spread, &r)...)
			r.Rejects = slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(r.Rejects), extra.Rejects...))))
		}
		c.Levels = append(c.Levels, packing.Level{Nodes: nodes, Ways: ways, Rules: &r, Miss: 0.02 * float64(i)})
	}
	d.p.Classes = append(d.p.Classes, c)
}

// own returns the spreads of groups over which r does not spread yet; Self is set if the group counts the pod.
func own(spread []topology.Spread, r *topology.Rules) []topology.Spread {
	var out []topology.Spread
	for _, s := range spread {
		s.Self = slices.Contains(r.Groups, s.Group)
		if !slices.ContainsFunc(r.Spread, func(have topology.Spread) bool { return have.Group == s.Group }) {
			out = append(out, s)
		}
	}
	return out
}

func (d *drawer) rules() *topology.Rules {
	r := &topology.Rules{}
	l := &d.p.Layout
	for g := range l.Groups {
		if d.IntN(4) == 0 {
			r.Groups = append(r.Groups, g)
		}
	}
	for g := range l.Groups {
		if d.IntN(8) == 0 {
			r.Spread = append(r.Spread, topology.Spread{Group: g, MaxSkew: 1 + d.IntN(2), MinDomains: max(0, d.IntN(6)-3), Self: slices.Contains(r.Groups, g)})
		}
	}
	for s := range l.Sets {
		if d.IntN(5) == 0 {
			r.Sets = append(r.Sets, s)
		}
		if d.IntN(12) == 0 {
			r.Affinity = append(r.Affinity, topology.Affinity{Set: s, Self: slices.Contains(r.Sets, s)})
		}
	}
	for m := range l.Marks {
		if d.IntN(12) == 0 {
			r.Owns = append(r.Owns, m)
		}
		if d.IntN(12) == 0 {
			r.Rejects = append(r.Rejects, m)
		}
	}
	for m := range l.HostMarks {
		if d.IntN(12) == 0 {
			mark(&r.HostOwns, l.HostMarks, m)
		}
		if d.IntN(12) == 0 {
			mark(&r.HostRejects, l.HostMarks, m)
		}
	}
	return r
}

func mark(set *bitset.Set, room, m int) {
	if *set == nil {
		*set = bitset.New(room)
	}
	set.Add(m)
}

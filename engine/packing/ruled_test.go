package packing_test

import (
	"math/rand/v2"
	"slices"

	"tenon.sh/engine/bitset"
	"tenon.sh/engine/capacity"
	"tenon.sh/engine/packing"
	"tenon.sh/engine/topology"
)

// ruled is a small problem whose pods have rules for each other: at most 7 pods, 4 types, 3 zones. The wishes say the same as the problem's
// layout, in a form that brute uses without it.
type ruled struct {
	p      *packing.Problem
	zones  int
	wishes []wish
}

// wish lists the rules of the pods of one class for each other, and for the pods of an earlier class.
type wish struct {
	alone     bool // at most one pod of the class on a machine
	apart     int  // the class that they share no machine with; -1 for none
	most      int  // the most pods of the class on a machine; 0 for any number
	skew      int  // the skew between zones; 0 for any
	domains   int  // the least number of zones
	zoneAlone bool // at most one pod of the class in a zone
	zoneApart int  // the class that they share no zone with; -1
	zoneWith  int  // the class that must be in the same zone; -1
	zoneSelf  bool // all of them in one zone
	hostWith  int  // the class that must be on the same machine; -1
	hostSelf  bool // all of them on one machine
	without   int  // the zone that they may not use; -1
}

// features returns the rules that classes may have. Each is tested alone, beside classes without any, and all of them together.
func features() []string {
	return []string{
		"nothing", "alone", "apart", "host spread", "zone spread", "zone spread, skew 2", "min domains", "zone alone", "zone apart", "zone affinity",
		"one zone", "host affinity", "one machine", "limits", "reservations", "all together",
	}
}

func drawWish(r *rand.Rand, feature string, class int) wish {
	w := wish{apart: -1, zoneApart: -1, zoneWith: -1, hostWith: -1, without: -1}
	if feature == "all together" {
		all := features()
		feature = all[r.IntN(len(all)-1)]
	}
	other := class - 1
	switch feature {
	case "alone":
		w.alone = true
	case "apart":
		w.apart = other
	case "host spread":
		w.most = 1 + r.IntN(2)
	case "zone spread":
		w.skew = 1
	case "zone spread, skew 2":
		w.skew = 2
	case "min domains":
		w.skew, w.domains = 1, 1+r.IntN(4)
	case "zone alone":
		w.zoneAlone = true
	case "zone apart":
		w.zoneApart = other
	case "zone affinity":
		w.zoneWith = other
	case "one zone":
		w.zoneSelf = true
	case "host affinity":
		w.hostWith = other
	case "one machine":
		w.hostSelf = true
	}
	return w
}

func drawRuled(seed uint64, feature string) *ruled {
	r := rand.New(rand.NewPCG(seed, 21))
	d := &ruled{zones: 2 + r.IntN(2)}
	d.p = &packing.Problem{
		Effort: 20000, PriceBand: 1.15, MaxTypes: 600, Unit: capacity.Vector{1000, 0, 0}, Devices: []bool{false, false, false},
	}
	// Key 0 is the zone; key 1+z is the filter of pods that may not use zone z.
	d.p.Layout.Domains = []int{d.zones}
	for z := range d.zones {
		place := slices.Repeat([]int32{1}, 1+d.zones)
		place[0], place[1+z] = int32(z), 0
		d.p.Places = append(d.p.Places, place)
		d.p.Layout.Domains = append(d.p.Layout.Domains, 2)
	}
	d.p.Pools = []packing.Pool{d.pool(r, feature)}
	d.classes(r, feature)
	return d
}

// pool returns a pool of up to 4 types in some of the zones, with one or more capacity types.
func (d *ruled) pool(r *rand.Rand, feature string) packing.Pool {
	pool := packing.Pool{Left: capacity.Vector{capacity.Most, capacity.Most, capacity.Most}}
	if feature == "limits" {
		pool.Left[0] = int64(4+r.IntN(20)) * 1000
	}
	if feature == "reservations" {
		d.p.Quotas = []int{r.IntN(3)}
	}
	spot := r.IntN(2) == 0
	for kind := range 1 + r.IntN(4) {
		cpu, memory := int64(1+r.IntN(16))*1000, int64(2+r.IntN(32))
		size := capacity.Vector{cpu, memory, 1}
		charge := capacity.Vector{cpu, memory, 1}
		size[2] = int64(2 + r.IntN(8)) // pods
		price := (0.03*float64(cpu)/1000 + 0.004*float64(memory)) * (0.8 + 0.4*r.Float64())
		for z := range d.zones {
			if r.IntN(4) == 0 && z > 0 {
				continue
			}
			here := price
			if r.IntN(3) == 0 {
				here *= 0.9 + 0.2*r.Float64()
			}
			add := func(slot, group int, draws []packing.Draw, price float64) {
				pool.Options = append(pool.Options, packing.Option{
					Type: kind, Slot: slot, Group: group, Price: price, Allocatable: size, Charge: charge, Place: z, Draws: draws,
					Listed: true, Wide: group == 1,
				})
			}
			add(z, 0, nil, here)
			if spot {
				add(d.zones+z, 1, nil, here*(0.3+0.3*r.Float64()))
			}
			if len(d.p.Quotas) > 0 && r.IntN(2) == 0 {
				add(2*d.zones+z, 2, []packing.Draw{{Quota: 0, Units: 1}}, here*0.001)
			}
		}
	}
	return pool
}

func (d *ruled) classes(r *rand.Rand, feature string) {
	everything := &packing.Ways{Pools: [][]packing.Way{{{Options: bitset.Full(len(d.p.Pools[0].Options))}}}}
	left := 7
	for class := range 1 + r.IntN(4) {
		n := 1 + r.IntN(4)
		if n > left {
			break
		}
		left -= n
		w := drawWish(r, feature, class)
		if feature != "all together" && class > 0 && r.IntN(3) == 0 {
			w = drawWish(r, "nothing", class)
		}
		ways := everything
		if r.IntN(4) == 0 {
			w.without = r.IntN(d.zones)
			ways = d.narrowed(w.without)
		}
		request := capacity.Vector{int64(1+r.IntN(40)) * 100, int64(1 + r.IntN(8)), 1}
		d.p.Classes = append(d.p.Classes, packing.Class{Request: request, Count: n, Levels: []packing.Level{{Ways: ways, Nodes: bitset.New(0)}}})
		d.wishes = append(d.wishes, w)
	}
	for c := range d.wishes {
		d.p.Classes[c].Levels[0].Rules = &topology.Rules{}
	}
	for c := range d.wishes {
		d.tell(c)
	}
	for c := range d.wishes {
		if l := &d.p.Classes[c].Levels[0]; isNothing(l.Rules) {
			l.Rules = nil
		}
	}
}

// narrowed returns ways that leave one zone out.
func (d *ruled) narrowed(without int) *packing.Ways {
	out := bitset.New(len(d.p.Pools[0].Options))
	for o := range d.p.Pools[0].Options {
		if d.p.Pools[0].Options[o].Place != without {
			out.Add(o)
		}
	}
	return &packing.Ways{Pools: [][]packing.Way{{{Options: out}}}}
}

func isNothing(r *topology.Rules) bool {
	return len(r.Spread)+len(r.Affinity)+len(r.Groups)+len(r.Sets)+len(r.Owns)+len(r.Rejects) == 0 && r.HostOwns == nil && r.HostRejects == nil
}

// tell adds the wishes of the class to the problem's rules.
func (d *ruled) tell(c int) {
	l, w := &d.p.Layout, d.wishes[c]
	of := func(class int) *topology.Rules { return d.p.Classes[class].Levels[0].Rules }
	const hostMarks = 16 // two for each class: its pods, and the pods that it rejects
	l.HostMarks = hostMarks
	hostMark := func(set *bitset.Set, mark int) {
		if *set == nil {
			*set = bitset.New(hostMarks)
		}
		set.Add(mark)
	}
	// apart makes owner and selected reject each other, with marks like the marks of anti-affinity terms.
	apart := func(owner, selected int) {
		hostMark(&of(owner).HostOwns, 2*owner)
		hostMark(&of(owner).HostRejects, 2*owner+1)
		hostMark(&of(selected).HostOwns, 2*owner+1)
		hostMark(&of(selected).HostRejects, 2*owner)
	}
	zoneApart := func(owner, selected int) {
		n := len(l.Marks)
		l.Marks = append(l.Marks, topology.Mark{At: bitset.New(d.zones)}, topology.Mark{At: bitset.New(d.zones)})
		of(owner).Owns, of(owner).Rejects = append(of(owner).Owns, n), append(of(owner).Rejects, n+1)
		of(selected).Owns, of(selected).Rejects = append(of(selected).Owns, n+1), append(of(selected).Rejects, n)
	}
	spread := func(key, skew, domains int) {
		g := topology.Group{Key: key, Filter: -1}
		if w.without >= 0 {
			g.Filter = 1 + w.without // by default, a spread honours node affinity
		}
		if key >= 0 {
			g.Count, g.There = make([]int, d.zones), bitset.New(d.zones)
		}
		of(c).Spread = append(of(c).Spread, topology.Spread{Group: len(l.Groups), MaxSkew: skew, MinDomains: domains, Self: true})
		of(c).Groups = append(of(c).Groups, len(l.Groups))
		l.Groups = append(l.Groups, g)
	}
	with := func(key, class int) {
		s := topology.Set{Keys: []int{key}, Count: [][]int{nil}}
		if key >= 0 {
			s.Count[0] = make([]int, d.zones)
		}
		of(c).Affinity = append(of(c).Affinity, topology.Affinity{Set: len(l.Sets), Self: class == c})
		of(class).Sets = append(of(class).Sets, len(l.Sets))
		l.Sets = append(l.Sets, s)
	}
	if w.alone {
		apart(c, c)
	}
	if w.apart >= 0 {
		apart(c, w.apart)
	}
	if w.most > 0 {
		spread(topology.Host, w.most, 0)
	}
	if w.skew > 0 {
		spread(0, w.skew, w.domains)
	}
	if w.zoneAlone {
		zoneApart(c, c)
	}
	if w.zoneApart >= 0 {
		zoneApart(c, w.zoneApart)
	}
	if w.zoneWith >= 0 {
		with(0, w.zoneWith)
	}
	if w.zoneSelf {
		with(0, c)
	}
	if w.hostWith >= 0 {
		with(topology.Host, w.hostWith)
	}
	if w.hostSelf {
		with(topology.Host, c)
	}
}

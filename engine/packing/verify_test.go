package packing_test

import (
	"fmt"
	"slices"

	"tenon.sh/engine/bitset"
	"tenon.sh/engine/capacity"
	"tenon.sh/engine/packing"
	"tenon.sh/engine/topology"
)

// verifier checks a solution without the solver's own code: it builds all machines, puts the pods on them in the solution's order, and
// counts everything again for each pod.
type verifier struct {
	p     *packing.Problem
	s     *packing.Solution
	found []string
	hosts []*standing // existing nodes, then new machines
	on    map[packing.Pod]*standing
	put   []located
	taken []taken // the things that pods took of the only supply
}

// taken is the set of things that suit a pod.
type taken struct {
	things bitset.Set
	joint  int
}

// standing is one machine.
type standing struct {
	name         string
	node         int // -1 for new machines
	machine      *packing.Machine
	place        topology.Place
	vague        []int // keys of which the machine's domain is not fixed yet: Nowhere in the place
	bears, shuns bitset.Set
	groups, sets map[int]int
	// doubtful counts pods of the groups that may not come.
	doubtful map[int]int
	// places lists all places in which the machine may turn out to be.
	places []topology.Place
}

type located struct {
	rules *topology.Rules
	host  *standing
}

// verify returns the faults of the solution.
func verify(p *packing.Problem, s *packing.Solution) []string {
	v := &verifier{p: p, s: s, on: map[packing.Pod]*standing{}}
	v.standing()
	v.once()
	v.room()
	v.lists()
	v.accounts()
	v.order()
	return v.found
}

func (v *verifier) fault(format string, args ...any) {
	v.found = append(v.found, fmt.Sprintf(format, args...))
}

func (v *verifier) standing() {
	for i := range v.p.Nodes {
		n := &v.p.Nodes[i]
		h := &standing{
			name: fmt.Sprintf("node %d", i), node: i, place: v.p.Places[n.Place], bears: bitset.New(v.p.Layout.HostMarks), shuns: bitset.New(v.p.Layout.HostMarks),
			groups: map[int]int{}, sets: map[int]int{},
		}
		copy(h.bears, n.Owns)
		copy(h.shuns, n.Rejects)
		for _, t := range n.Groups {
			h.groups[t.Of] = t.Count
		}
		for _, t := range n.Sets {
			h.sets[t.Of] = t.Count
		}
		v.hosts = append(v.hosts, h)
		v.note(h, v.s.OnNodes[i])
	}
	for i := range v.s.New {
		m := &v.s.New[i]
		if len(m.Listed) == 0 {
			v.fault("machine %d lists nothing", i)
			continue
		}
		h := &standing{
			name: fmt.Sprintf("machine %d", i), node: -1, machine: m, place: v.p.Places[v.p.Pools[m.Pool].Options[m.Listed[0]].Place],
			bears: bitset.New(v.p.Layout.HostMarks), shuns: bitset.New(v.p.Layout.HostMarks), groups: map[int]int{}, sets: map[int]int{},
		}
		v.hosts = append(v.hosts, h)
		v.note(h, m.Pods)
		v.onePlace(h)
		v.settleIn(h)
	}
}

// settleIn puts the residents on a new machine.
func (v *verifier) settleIn(h *standing) {
	h.doubtful = map[int]int{}
	for _, o := range h.machine.Listed {
		h.places = append(h.places, v.p.Places[v.p.Pools[h.machine.Pool].Options[o].Place])
	}
	for i := range v.p.Layout.Residents {
		r := &v.p.Layout.Residents[i]
		may, certain := comes(r, h)
		if !may {
			continue
		}
		for m := range v.p.Layout.HostMarks {
			if r.HostOwns.Has(m) {
				h.bears.Add(m)
			}
		}
		for _, g := range r.Groups {
			passing := 0
			for _, p := range h.places {
				if f := v.p.Layout.Groups[g].Filter; f < 0 || p[f] == 1 {
					passing++
				}
			}
			if passing > 0 {
				h.groups[g]++
			}
			if passing > 0 && (!certain || passing < len(h.places)) {
				h.doubtful[g]++
			}
		}
		for _, s := range r.Sets {
			if certain {
				h.sets[s]++
			}
		}
	}
}

// comes reports whether the resident may come to the machine, and whether it surely does.
func comes(r *topology.Resident, h *standing) (may, certain bool) {
	certain = true
	for _, p := range h.places {
		may = may || p[r.Key] > topology.Absent
		certain = certain && p[r.Key] == topology.Certain
	}
	return may, certain
}

// resident counts, of the chosen residents, how many surely come to the domain of the key, and how many may come. It counts only places
// that pass the filter, -1 for none.
func (v *verifier) resident(key, filter int, domain int32, chosen func(*topology.Resident) bool) (sure, may int) {
	for i := range v.p.Layout.Residents {
		r := &v.p.Layout.Residents[i]
		if !chosen(r) {
			continue
		}
		for _, h := range v.hosts {
			here := 0
			for _, p := range h.places {
				if p[key] == domain && p[r.Key] > topology.Absent && (filter < 0 || p[filter] == 1) {
					here++
				}
			}
			if _, certain := comes(r, h); here == len(h.places) && certain && here > 0 {
				sure++
			} else if here > 0 {
				may++
			}
		}
	}
	return sure, may
}

func (v *verifier) note(h *standing, shares []packing.Share) {
	for _, share := range shares {
		for _, n := range share.Pods {
			pod := packing.Pod{Class: share.Class, Number: n}
			if other := v.on[pod]; other != nil {
				v.fault("%v is on %s and on %s", pod, other.name, h.name)
			}
			v.on[pod] = h
		}
	}
}

// onePlace finds the keys of which the machine's domain is fixed, because all its options are in the same domain.
func (v *verifier) onePlace(h *standing) {
	h.place = slices.Clone(h.place)
	for _, o := range h.machine.Listed {
		other := v.p.Places[v.p.Pools[h.machine.Pool].Options[o].Place]
		for k := range h.place {
			if h.place[k] != other[k] && !slices.Contains(h.vague, k) {
				h.vague = append(h.vague, k)
			}
		}
	}
	for _, k := range h.vague {
		h.place[k] = topology.Nowhere
	}
}

// once checks that each pod either has one place, and is in the order once, or has none.
func (v *verifier) once() {
	in := map[packing.Pod]int{}
	for _, pod := range v.s.Order {
		in[pod]++
	}
	for c := range v.p.Classes {
		for n := range v.p.Classes[c].Count {
			pod := packing.Pod{Class: c, Number: n}
			left, placed := slices.Contains(v.s.Left[c], n), v.on[pod] != nil
			if left == placed {
				v.fault("%v: left is %v, placed is %v", pod, left, placed)
			}
			if want := map[bool]int{true: 1}[placed]; in[pod] != want {
				v.fault("%v is in the order %d times, not %d", pod, in[pod], want)
			}
			delete(in, pod)
			if n > 0 && placed && v.on[packing.Pod{Class: c, Number: n - 1}] == nil {
				v.fault("%v is placed, the one before it is not", pod)
			}
		}
	}
	if len(in) > 0 {
		v.fault("the order has pods that do not exist: %v", in)
	}
}

// sum returns the resources that the pods take of a machine that has some things: each thing that they share counts once, if it is not
// there already.
func (v *verifier) sum(shares []packing.Share, has bitset.Set) capacity.Vector {
	sum := make(capacity.Vector, width)
	there := map[int]bool{}
	for _, share := range shares {
		for d, n := range v.p.Classes[share.Class].Request {
			sum[d] += n * int64(len(share.Pods))
		}
		for _, thing := range v.p.Classes[share.Class].Shared {
			sum[thing.Resource] -= int64(len(share.Pods))
			if !there[thing.Thing] && !has.Has(thing.Thing) {
				there[thing.Thing] = true
				sum[thing.Resource]++
			}
		}
	}
	return sum
}

func holds2(sum, have capacity.Vector) bool {
	for d, n := range sum {
		if n > 0 && n > have[d] {
			return false
		}
	}
	return true
}

func (v *verifier) room() {
	for i, shares := range v.s.OnNodes {
		if sum := v.sum(shares, v.p.Nodes[i].Has); !holds2(sum, v.p.Nodes[i].Free) {
			v.fault("node %d holds %v of %v", i, sum, v.p.Nodes[i].Free)
		}
	}
	for i := range v.s.New {
		m := &v.s.New[i]
		for _, o := range m.Listed {
			option := &v.p.Pools[m.Pool].Options[o]
			if sum := v.sum(m.Pods, nil); !holds2(sum, option.Allocatable) {
				v.fault("machine %d lists option %d, which does not hold %v", i, o, sum)
			}
			if !option.Listed {
				v.fault("machine %d lists option %d, which cannot be bought", i, o)
			}
		}
	}
}

// lists checks the lists of options: each is a product of types and slots of one group, cheapest first, within the price band, with the
// pool's variety, and without large options or devices that no pod needs.
func (v *verifier) lists() {
	for i := range v.s.New {
		m := &v.s.New[i]
		pool := &v.p.Pools[m.Pool]
		types, slots, pairs := map[int]bool{}, map[int]bool{}, map[[2]int]bool{}
		first := &pool.Options[m.Listed[0]]
		if pool.Options[m.Chosen].Price != first.Price || !slices.Contains(m.Listed, m.Chosen) {
			v.fault("machine %d: option %d is chosen, %d is the cheapest", i, m.Chosen, m.Listed[0])
		}
		band := v.p.PriceBand
		if first.Wide {
			band = 1.5
		}
		last := 0.0
		for _, o := range m.Listed {
			option := &pool.Options[o]
			types[option.Type], slots[option.Slot], pairs[[2]int{option.Type, option.Slot}] = true, true, true
			if option.Price < last {
				v.fault("machine %d lists %v out of order", i, m.Listed)
			}
			last = option.Price
			if len(pool.Variety) == 0 && option.Price > first.Price*band*(1+1e-9) {
				v.fault("machine %d lists option %d at %.4f, the cheapest costs %.4f", i, o, option.Price, first.Price)
			}
			if option.Group != first.Group {
				v.fault("machine %d lists options of several groups: %v", i, m.Listed)
			}
		}
		if len(pairs) != len(m.Listed) || len(pairs) != len(types)*len(slots) {
			v.fault("machine %d lists %d options of %d types in %d slots", i, len(m.Listed), len(types), len(slots))
		}
		v.varied(i, m)
		v.needed(i, m)
	}
}

func (v *verifier) varied(i int, m *packing.Machine) {
	for _, want := range v.p.Pools[m.Pool].Variety {
		values := map[int]bool{}
		for _, o := range m.Listed {
			if want.Value[o] >= 0 {
				values[want.Value[o]] = true
			}
		}
		if len(values) < want.Min && !(want.Soft && m.Relaxed) {
			v.fault("machine %d has a variety of %d of %d, soft is %v, relaxed is %v", i, len(values), want.Min, want.Soft, m.Relaxed)
		}
	}
}

// needed checks that large options, and options with devices, are bought only for pods that need them.
func (v *verifier) needed(i int, m *packing.Machine) {
	if len(v.p.Layout.Residents) > 0 && slices.ContainsFunc(v.s.Left, func(left []int) bool { return len(left) > 0 }) {
		return // it may have been bought for a pod that residents of other machines keep off
	}
	const device = 3
	pool := &v.p.Pools[m.Pool]
	needsLarge, needsDevice := false, false
	for _, share := range m.Pods {
		c := &v.p.Classes[share.Class]
		small, plain := v.others(share.Class, m, c.Request)
		if v.sociable(c) { // pods that have to share one machine may not fit another
			small, plain = v.others(share.Class, m, v.requested(m))
		}
		needsLarge = needsLarge || !small
		needsDevice = needsDevice || c.Request[device] > 0 || !plain
	}
	for _, o := range m.Listed {
		if pool.Options[o].Large && !needsLarge {
			v.fault("machine %d lists the large option %d, none of its pods %v needs it", i, o, m.Pods)
		}
		if pool.Options[o].Allocatable[device] > 0 && !needsDevice {
			v.fault("machine %d lists option %d, none of its pods %v asks for the device", i, o, m.Pods)
		}
	}
}

func (v *verifier) sociable(c *packing.Class) bool {
	return slices.ContainsFunc(c.Levels, func(l packing.Level) bool {
		return l.Rules != nil && slices.ContainsFunc(l.Rules.Affinity, func(a topology.Affinity) bool { return v.p.Layout.Sets[a.Set].WithHost() })
	})
}

// requested returns the requests of all pods of the machine.
func (v *verifier) requested(m *packing.Machine) capacity.Vector {
	sum := make(capacity.Vector, len(v.p.Classes[0].Request))
	for _, share := range m.Pods {
		sum.Add(v.p.Classes[share.Class].Request, int64(len(share.Pods)))
	}
	return sum
}

// others reports whether a pod of the class could have used another option with this room, of a pool of the same weight and in the same
// domains: small, if the option is not large; plain, if it has no devices. It leaves out pools with limits or a variety and options with
// quotas, because these may have been used up. An option with devices that the pod does not request does not count as small.
func (v *verifier) others(class int, m *packing.Machine, room capacity.Vector) (small, plain bool) {
	c := &v.p.Classes[class]
	here := v.p.Places[v.p.Pools[m.Pool].Options[m.Chosen].Place]
	for p := range v.p.Pools {
		pool := &v.p.Pools[p]
		if pool.Weight != v.p.Pools[m.Pool].Weight || slices.Min(pool.Left) < capacity.Most || len(pool.Variety) > 0 {
			continue
		}
		for o := range pool.Options {
			option := &pool.Options[o]
			there := v.p.Places[option.Place]
			if !option.Listed || len(option.Draws) > 0 || !holds2(room, option.Allocatable) || !v.admits(class, p, o) ||
				slices.ContainsFunc(v.keys(class), func(k int) bool { return here[k] != there[k] }) {
				continue
			}
			devices := option.Allocatable[3] > 0
			small = small || !option.Large && (!devices || c.Request[3] > 0)
			plain = plain || !devices
		}
	}
	return small, plain
}

// keys returns the keys on which any level of the class depends.
func (v *verifier) keys(class int) []int {
	var keys []int
	for _, l := range v.p.Classes[class].Levels {
		if l.Rules != nil {
			keys = append(keys, l.Rules.Interest(&v.p.Layout)...)
		}
	}
	return keys
}

// admits reports whether every level of the class can use the option.
func (v *verifier) admits(class, pool, o int) bool {
	for _, l := range v.p.Classes[class].Levels {
		if !slices.ContainsFunc(l.Ways.Pools[pool], func(w packing.Way) bool { return w.Options.Has(o) }) {
			return false
		}
	}
	return true
}

// accounts checks limits with the largest listed option of every machine, and quotas with the listed option that takes most.
func (v *verifier) accounts() {
	drawn := make([]int, len(v.p.Quotas))
	spent := make([]capacity.Vector, len(v.p.Pools))
	for p := range spent {
		spent[p] = make(capacity.Vector, width)
	}
	for i := range v.s.New {
		m := &v.s.New[i]
		most := make(capacity.Vector, width)
		for _, o := range m.Listed {
			for d, n := range v.p.Pools[m.Pool].Options[o].Charge {
				most[d] = max(most[d], n)
			}
		}
		for d := range most {
			spent[m.Pool][d] += most[d]
		}
		for q := range drawn {
			units := 0
			for _, o := range m.Listed {
				for _, d := range v.p.Pools[m.Pool].Options[o].Draws {
					if d.Quota == q {
						units = max(units, d.Units)
					}
				}
			}
			drawn[q] += units
		}
	}
	for p := range spent {
		for d, n := range spent[p] {
			if n > 0 && n > v.p.Pools[p].Left[d] {
				v.fault("pool %d: %d of resource %d, the limit leaves %d", p, n, d, v.p.Pools[p].Left[d])
			}
		}
	}
	for q, n := range drawn {
		if n > 0 && n > v.p.Quotas[q] {
			v.fault("quota %d: %d units, it has %d", q, n, v.p.Quotas[q])
		}
	}
}

// order places one pod after the other. Some level of each pod must allow the pod's place, beside the pods before it and all machines.
func (v *verifier) order() {
	for _, pod := range v.s.Order {
		h := v.on[pod]
		if h == nil {
			continue
		}
		class := &v.p.Classes[pod.Class]
		why := "it has no level"
		for l := range class.Levels {
			if why = v.allows(&class.Levels[l], h); why == "" {
				break
			}
		}
		if why != "" {
			v.fault("%v on %s: %s", pod, h.name, why)
		}
		r := class.Levels[len(class.Levels)-1].Rules // only the rules of the last level keep other pods off
		if r == nil {
			continue
		}
		v.put = append(v.put, located{r, h})
		for _, t := range r.Takes {
			if one, needed := v.taker(&t, h); needed {
				v.taken = append(v.taken, one)
			}
		}
		for g := range r.Groups {
			if v.passes(r.Groups[g], h) {
				h.groups[r.Groups[g]]++
			}
		}
		for _, s := range r.Sets {
			h.sets[s]++
		}
		for m := range v.p.Layout.HostMarks {
			if r.HostOwns.Has(m) {
				h.bears.Add(m)
			}
			if r.HostRejects.Has(m) {
				h.shuns.Add(m)
			}
		}
	}
}

func (v *verifier) passes(group int, h *standing) bool {
	f := v.p.Layout.Groups[group].Filter
	return f < 0 || h.place[f] == 1
}

// allows returns why a pod at the level may not come to the machine. It returns "" if the pod may.
func (v *verifier) allows(l *packing.Level, h *standing) string {
	if h.node >= 0 && !l.Nodes.Has(h.node) {
		return "the node does not admit it"
	}
	if h.machine != nil && !slices.ContainsFunc(l.Ways.Pools[h.machine.Pool], func(w packing.Way) bool {
		for _, o := range h.machine.Listed {
			if !w.Options.Has(o) {
				return false
			}
		}
		for k, free := range h.machine.Free {
			if len(w.Free) > k && w.Free[k] != nil && !free.Within(w.Free[k]) {
				return false
			}
		}
		return true
	}) {
		return "it may not use the machine's options"
	}
	if l.Rules == nil {
		return ""
	}
	for _, k := range l.Rules.Interest(&v.p.Layout) {
		if slices.Contains(h.vague, k) {
			return fmt.Sprintf("it has to know its domain of key %d", k)
		}
	}
	for m := range v.p.Layout.HostMarks {
		if l.Rules.HostRejects.Has(m) && h.bears.Has(m) || l.Rules.HostOwns.Has(m) && h.shuns.Has(m) {
			return fmt.Sprintf("host mark %d keeps it out", m)
		}
	}
	for _, m := range l.Rules.Rejects {
		if d := h.place[v.p.Layout.Marks[m].Key]; d >= 0 && v.marked(m, d) {
			return fmt.Sprintf("mark %d keeps it out", m)
		}
	}
	for _, t := range l.Rules.Takes {
		if one, needed := v.taker(&t, h); needed && !matched(append(slices.Clip(v.taken), one), map[int]bool{}) {
			return "nothing that it may take is left"
		}
	}
	for i := range l.Rules.Spread {
		if why := v.even(&l.Rules.Spread[i], h); why != "" {
			return why
		}
	}
	for _, a := range l.Rules.Affinity {
		if !v.near(&a, h) {
			return fmt.Sprintf("it has no company of set %d", a.Set)
		}
	}
	return ""
}

// taker returns the things that suit the pod on the machine; it reports false if the pod needs none.
func (v *verifier) taker(t *topology.Take, h *standing) (taken, bool) {
	s := &v.p.Layout.Available[t.Supply]
	d := h.place[s.Key]
	if s.Endless.Has(int(d)) || t.Joint > 0 && slices.ContainsFunc(v.taken, func(o taken) bool { return o.joint == t.Joint }) {
		return taken{}, false
	}
	things := t.Suits.Clone()
	things.And(s.Reach[d])
	return taken{things, t.Joint}, true
}

// matched tries every way to give each taker a thing of its own.
func matched(takers []taken, gone map[int]bool) bool {
	if len(takers) == 0 {
		return true
	}
	for i := takers[0].things.Next(0); i >= 0; i = takers[0].things.Next(i + 1) {
		if gone[i] {
			continue
		}
		gone[i] = true
		if matched(takers[1:], gone) {
			return true
		}
		delete(gone, i)
	}
	return false
}

func (v *verifier) marked(m int, domain int32) bool {
	mark := &v.p.Layout.Marks[m]
	sure, may := v.resident(mark.Key, -1, domain, func(r *topology.Resident) bool { return slices.Contains(r.Owns, m) })
	return sure+may > 0 || mark.At.Has(int(domain)) || slices.ContainsFunc(v.put, func(x located) bool {
		return slices.Contains(x.rules.Owns, m) && x.host.place[mark.Key] == domain
	})
}

// even checks a spread. Its domains are the domains of existing nodes and of planned machines.
func (v *verifier) even(s *topology.Spread, h *standing) string {
	g := &v.p.Layout.Groups[s.Group]
	if g.Key == topology.Host {
		least, domains := -1, 0
		for _, other := range v.hosts {
			if v.passes(s.Group, other) {
				domains++
				if n := other.groups[s.Group] - other.doubtful[s.Group]; least < 0 || n < least {
					least = n
				}
			}
		}
		if g.Zero || domains < s.MinDomains {
			least = 0
		}
		have := 0
		if v.passes(s.Group, h) {
			have = h.groups[s.Group]
		}
		return skewed(s, have, max(least, 0))
	}
	if h.place[g.Key] < 0 {
		return fmt.Sprintf("it spreads over key %d, which the machine lacks", g.Key)
	}
	counts := map[int32]int{}
	for d := range v.p.Layout.Domains[g.Key] {
		if g.There.Has(d) {
			counts[int32(d)] = g.Count[d]
		}
	}
	for _, other := range v.hosts {
		if d := other.place[g.Key]; d >= 0 && v.passes(s.Group, other) {
			counts[d] += 0
		}
	}
	for _, x := range v.put {
		if d := x.host.place[g.Key]; slices.Contains(x.rules.Groups, s.Group) && d >= 0 && v.passes(s.Group, x.host) {
			counts[d]++
		}
	}
	maybe := 0
	for d := range counts {
		sure, may := v.resident(g.Key, g.Filter, d, func(r *topology.Resident) bool { return slices.Contains(r.Groups, s.Group) })
		counts[d] += sure
		if d == h.place[g.Key] {
			maybe = may
		}
	}
	least := -1
	for _, n := range counts {
		if least < 0 || n < least {
			least = n
		}
	}
	if least < 0 || len(counts) < s.MinDomains {
		least = 0
	}
	return skewed(s, counts[h.place[g.Key]]+maybe, least)
}

func skewed(s *topology.Spread, have, least int) string {
	if s.Self {
		have++
	}
	if have-least > s.MaxSkew {
		return fmt.Sprintf("group %d: it would be number %d, the least is %d, the skew %d", s.Group, have, least, s.MaxSkew)
	}
	return ""
}

func (v *verifier) near(a *topology.Affinity, h *standing) bool {
	set := &v.p.Layout.Sets[a.Set]
	total := set.Total
	for _, x := range v.put {
		if slices.Contains(x.rules.Sets, a.Set) && slices.ContainsFunc(set.Keys, func(k int) bool { return k == topology.Host || x.host.place[k] >= 0 }) {
			total++
		}
	}
	for i := range v.p.Layout.Residents {
		r := &v.p.Layout.Residents[i]
		for _, other := range v.hosts {
			if _, certain := comes(r, other); slices.Contains(r.Sets, a.Set) && len(other.places) > 0 && certain &&
				slices.ContainsFunc(set.Keys, func(k int) bool { return k == topology.Host || other.place[k] >= 0 }) {
				total++
			}
		}
	}
	first := a.Self && total == 0
	for i, k := range set.Keys {
		if k == topology.Host {
			if !first && h.sets[a.Set] == 0 {
				return false
			}
			continue
		}
		d := h.place[k]
		if d < 0 {
			return false
		}
		n := set.Count[i][d]
		for _, x := range v.put {
			if slices.Contains(x.rules.Sets, a.Set) && x.host.place[k] == d {
				n++
			}
		}
		sure, _ := v.resident(k, -1, d, func(r *topology.Resident) bool { return slices.Contains(r.Sets, a.Set) })
		if !first && n+sure == 0 {
			return false
		}
	}
	return true
}

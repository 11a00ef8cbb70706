package topology

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"tenon.sh/engine/bitset"
	"tenon.sh/engine/enginetest"
)

// This file holds laws on random layouts. A second implementation checks the answers of a World: it stores only the list of placed pods,
// and counts it again for each question.

// plainWorld is the second implementation.
type plainWorld struct {
	l      *Layout
	placed []placed
	opened [][2]int // group and domain
}

type placed struct {
	rules *Rules
	place Place
}

func (p *plainWorld) passes(group int, place Place) bool {
	f := p.l.Groups[group].Filter
	return f < 0 || place[f] == 1
}

func (p *plainWorld) count(group, domain int) int {
	n := p.l.Groups[group].Count[domain]
	for _, x := range p.placed {
		if slices.Contains(x.rules.Groups, group) && p.passes(group, x.place) && int(x.place[p.l.Groups[group].Key]) == domain {
			n++
		}
	}
	return n
}

func (p *plainWorld) there(group, domain int) bool {
	return p.l.Groups[group].There.Has(domain) || slices.Contains(p.opened, [2]int{group, domain})
}

func (p *plainWorld) least(group, minDomains int) int {
	var counts []int
	for d := range p.l.Domains[p.l.Groups[group].Key] {
		if p.there(group, d) {
			counts = append(counts, p.count(group, d))
		}
	}
	if len(counts) == 0 || len(counts) < minDomains {
		return 0
	}
	return slices.Min(counts)
}

func (p *plainWorld) inSet(set, i, domain int) int {
	n := p.l.Sets[set].Count[i][domain]
	for _, x := range p.placed {
		if slices.Contains(x.rules.Sets, set) && int(x.place[p.l.Sets[set].Keys[i]]) == domain {
			n++
		}
	}
	return n
}

func (p *plainWorld) total(set int) int {
	n := p.l.Sets[set].Total
	for _, x := range p.placed {
		if slices.Contains(x.rules.Sets, set) && slices.ContainsFunc(p.l.Sets[set].Keys, func(k int) bool { return k == Host || x.place[k] >= 0 }) {
			n++
		}
	}
	return n
}

func (p *plainWorld) marked(mark, domain int) bool {
	return p.l.Marks[mark].At.Has(domain) || slices.ContainsFunc(p.placed, func(x placed) bool {
		d := x.place[p.l.Marks[mark].Key]
		return slices.Contains(x.rules.Owns, mark) && (int(d) == domain || d == Open) // an Open domain may turn out to be any domain
	})
}

// taken returns, for each taker of available volumes, the things that suit it. A taker that came too late for a thing is not in the list.
func (p *plainWorld) taken(supply int, also ...placed) (have []plainTaker) {
	s := &p.l.Available[supply]
	for _, x := range slices.Concat(p.placed, also) {
		for _, ask := range x.rules.Takes {
			d := x.place[s.Key]
			if ask.Supply != supply || d >= 0 && s.Endless.Has(int(d)) ||
				ask.Joint > 0 && slices.ContainsFunc(have, func(t plainTaker) bool { return t.joint == ask.Joint }) {
				continue
			}
			one := plainTaker{joint: ask.Joint}
			for i := range s.Things {
				if ask.Suits.Has(i) && (d == Open || d >= 0 && s.Reach[d].Has(i)) {
					one.things = append(one.things, i)
				}
			}
			if matched(append(slices.Clone(have), one), map[int]bool{}) {
				have = append(have, one)
			}
		}
	}
	return have
}

type plainTaker struct {
	things []int
	joint  int
}

// matched tries every way to give each taker a thing of its own.
func matched(takers []plainTaker, gone map[int]bool) bool {
	if len(takers) == 0 {
		return true
	}
	for _, i := range takers[0].things {
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

// couldTake reports whether a pod could take all things that it needs, if pods that came too late are ignored.
func (p *plainWorld) couldTake(r *Rules, place Place) bool {
	for s := range p.l.Available {
		have := p.taken(s)
		after := p.taken(s, placed{r, place})
		asked := 0
		for _, ask := range r.Takes {
			if d := place[p.l.Available[s].Key]; ask.Supply == s && !(d >= 0 && p.l.Available[s].Endless.Has(int(d))) {
				if ask.Joint > 0 && slices.ContainsFunc(have, func(t plainTaker) bool { return t.joint == ask.Joint }) {
					continue
				}
				asked++
			}
		}
		if len(after)-len(have) < asked {
			return false
		}
	}
	return true
}

func (p *plainWorld) allows(r *Rules, place Place) bool {
	if !p.couldTake(r, place) {
		return false
	}
	for _, m := range r.Rejects {
		if d := place[p.l.Marks[m].Key]; d >= 0 && p.marked(m, int(d)) {
			return false
		}
	}
	for _, s := range r.Spread {
		key := p.l.Groups[s.Group].Key
		if key == Host {
			continue
		}
		if place[key] < 0 {
			return false
		}
		count := 0
		if p.there(s.Group, int(place[key])) {
			count = p.count(s.Group, int(place[key]))
		}
		if s.Self {
			count++
		}
		if count-p.least(s.Group, s.MinDomains) > s.MaxSkew {
			return false
		}
	}
	for _, a := range r.Affinity {
		first := a.Self && p.total(a.Set) == 0
		for i, key := range p.l.Sets[a.Set].Keys {
			if key != Host && (place[key] < 0 || !first && p.inSet(a.Set, i, int(place[key])) == 0) {
				return false
			}
		}
	}
	return true
}

func (p *plainWorld) uneven(r *Rules, place Place) int {
	n := 0
	for _, g := range r.Groups {
		if key := p.l.Groups[g].Key; key != Host && place[key] >= 0 && p.passes(g, place) {
			n += p.count(g, int(place[key])) - p.least(g, 0)
		}
	}
	return n
}

// drawn is a random layout, with rules and places to try on it.
type drawn struct {
	l      Layout
	rules  []Rules
	places []Place
}

func draw(r *rand.Rand) *drawn {
	d := &drawn{}
	keys := 1 + r.IntN(3)
	for range keys {
		d.l.Domains = append(d.l.Domains, 1+r.IntN(4))
	}
	d.l.Domains = append(d.l.Domains, 2) // the filter
	anyKey := func() int {
		if r.IntN(6) == 0 {
			return Host
		}
		return r.IntN(keys)
	}
	for range 1 + r.IntN(4) {
		g := Group{Key: anyKey(), Filter: -1}
		if r.IntN(3) == 0 {
			g.Filter = keys
		}
		if g.Key != Host {
			g.There = bitset.New(d.l.Domains[g.Key])
			for domain := range d.l.Domains[g.Key] {
				n := 0
				if r.IntN(3) > 0 {
					g.There.Add(domain)
					n = r.IntN(4)
				}
				g.Count = append(g.Count, n)
			}
		}
		d.l.Groups = append(d.l.Groups, g)
	}
	for range r.IntN(3) {
		s := Set{Keys: []int{anyKey()}}
		if other := anyKey(); other != s.Keys[0] && r.IntN(2) == 0 {
			s.Keys = append(s.Keys, other)
		}
		run := r.IntN(2)
		for _, k := range s.Keys {
			var count []int
			if k != Host {
				count = make([]int, d.l.Domains[k])
				count[r.IntN(len(count))] = run
			}
			s.Count = append(s.Count, count)
		}
		s.Total = run
		d.l.Sets = append(d.l.Sets, s)
	}
	for range r.IntN(4) {
		k := r.IntN(keys)
		m := Mark{Key: k}
		if r.IntN(2) == 0 {
			m.At = bitset.Of(d.l.Domains[k], r.IntN(d.l.Domains[k]))
		}
		d.l.Marks = append(d.l.Marks, m)
	}
	for range r.IntN(3) {
		s := Available{Key: r.IntN(keys), Things: 1 + r.IntN(5)}
		s.Endless = bitset.New(d.l.Domains[s.Key])
		for domain := range d.l.Domains[s.Key] {
			s.Reach = append(s.Reach, drawSome(r, s.Things))
			if r.IntN(8) == 0 {
				s.Endless.Add(domain)
			}
		}
		d.l.Available = append(d.l.Available, s)
	}
	for range 1 + r.IntN(5) {
		d.rules = append(d.rules, drawRules(r, &d.l))
	}
	for range 2 + r.IntN(8) {
		var p Place
		for k := range keys {
			p = append(p, int32(r.IntN(d.l.Domains[k]+1)-1))
			if r.IntN(15) == 0 {
				p[k] = Open
			}
		}
		d.places = append(d.places, append(p, int32(r.IntN(2))))
	}
	return d
}

func drawSome(r *rand.Rand, n int) bitset.Set {
	out := bitset.New(n)
	for i := range n {
		if r.IntN(3) > 0 {
			out.Add(i)
		}
	}
	return out
}

func drawRules(r *rand.Rand, l *Layout) Rules {
	var out Rules
	for s := range l.Available {
		if r.IntN(2) == 0 {
			continue
		}
		out.Takes = append(out.Takes, Take{Supply: s, Suits: drawSome(r, l.Available[s].Things)})
		if r.IntN(3) == 0 {
			out.Takes = append(out.Takes, Take{Supply: s, Suits: drawSome(r, l.Available[s].Things), Joint: 1 + r.IntN(2)})
		}
	}
	for g := range l.Groups {
		if r.IntN(2) == 0 {
			out.Groups = append(out.Groups, g)
		}
		if r.IntN(3) == 0 {
			out.Spread = append(out.Spread, Spread{Group: g, MaxSkew: 1 + r.IntN(3), MinDomains: max(0, r.IntN(6)-2), Self: slices.Contains(out.Groups, g)})
		}
	}
	for s := range l.Sets {
		if r.IntN(2) == 0 {
			out.Sets = append(out.Sets, s)
		}
		if r.IntN(3) == 0 {
			out.Affinity = append(out.Affinity, Affinity{Set: s, Self: slices.Contains(out.Sets, s)})
		}
	}
	for m := range l.Marks {
		if r.IntN(3) == 0 {
			out.Owns = append(out.Owns, m)
		}
		if r.IntN(3) == 0 {
			out.Rejects = append(out.Rejects, m)
		}
	}
	return out
}

// compare compares all answers of both implementations.
func (d *drawn) compare(world *World, p *plainWorld) error {
	for i := range d.rules {
		r := &d.rules[i]
		for _, place := range d.places {
			uneven, ok := world.Allows(r, place)
			if want := p.allows(r, place); ok != want {
				return fmt.Errorf("rules %+v at %v: allowed is %v", *r, place, ok)
			}
			if want := p.uneven(r, place); ok && uneven != want || world.Uneven(r, place) != want {
				return fmt.Errorf("rules %+v at %v: uneven by %d and %d, not %d", *r, place, uneven, world.Uneven(r, place), want)
			}
		}
		for j := range r.Affinity {
			if a := &r.Affinity[j]; world.Starts(a) != (a.Self && p.total(a.Set) == 0) {
				return fmt.Errorf("affinity %+v starts: %v", *a, world.Starts(a))
			}
		}
	}
	for g := range d.l.Groups {
		if d.l.Groups[g].Key == Host {
			continue
		}
		for domain, n := range world.Count(g) {
			want := -1
			if p.there(g, domain) {
				want = p.count(g, domain)
			}
			if n != want {
				return fmt.Errorf("group %d has %d in domain %d, not %d", g, n, domain, want)
			}
		}
	}
	for s := range d.l.Sets {
		if world.Total(s) != p.total(s) {
			return fmt.Errorf("set %d has %d, not %d", s, world.Total(s), p.total(s))
		}
		for i, key := range d.l.Sets[s].Keys {
			if key == Host {
				continue
			}
			for domain := range d.l.Domains[key] {
				if slices.Contains(world.Domains(s, i), domain) != (p.inSet(s, i, domain) > 0) {
					return fmt.Errorf("set %d, domains of key %d: %v", s, key, world.Domains(s, i))
				}
			}
		}
	}
	return nil
}

// step changes both implementations in the same way, mostly by placing pods that are allowed.
func (d *drawn) step(r *rand.Rand, world *World, p *plainWorld) {
	rules, place := &d.rules[r.IntN(len(d.rules))], d.places[r.IntN(len(d.places))]
	if r.IntN(8) == 0 {
		g := r.IntN(len(d.l.Groups))
		world.Open(g, place)
		if key := d.l.Groups[g].Key; key != Host && p.passes(g, place) && place[key] >= 0 {
			p.opened = append(p.opened, [2]int{g, int(place[key])})
		}
		return
	}
	if !p.allows(rules, place) && r.IntN(4) > 0 {
		return
	}
	n := 1 + r.IntN(3)
	world.Put(rules, place, n)
	for range n {
		p.placed = append(p.placed, placed{rules, place})
	}
}

func TestAWorldAnswersWhatRecountingEverythingWould(t *testing.T) {
	t.Parallel()
	for seed := range enginetest.Draws(2000) {
		r := rand.New(rand.NewPCG(seed, 11))
		d := draw(r)
		world, p := NewWorld(&d.l), &plainWorld{l: &d.l}
		var marks, placed, opened []int
		for step := range 25 {
			switch {
			case r.IntN(5) == 0:
				marks, placed, opened = append(marks, world.Mark()), append(placed, len(p.placed)), append(opened, len(p.opened))
			case r.IntN(6) == 0 && len(marks) > 0: // to any of the marks, not always the last one
				to := r.IntN(len(marks))
				world.Undo(marks[to])
				p.placed, p.opened = p.placed[:placed[to]], p.opened[:opened[to]]
				marks, placed, opened = marks[:to], placed[:to], opened[:to]
			default:
				d.step(r, world, p)
			}
			if err := d.compare(world, p); err != nil {
				t.Fatalf("seed %d, step %d: %v", seed, step, err)
			}
		}
	}
}

// everything returns the whole state of a World as text, with all cached minima computed.
func everything(world *World) string {
	for i := range world.groups {
		if world.l.Groups[i].Key != Host {
			world.groups[i].min(0)
		}
	}
	return fmt.Sprintf("%+v %+v %+v %+v %d", world.groups, world.sets, world.marks, world.takings, len(world.trail))
}

func TestUndoIsExact(t *testing.T) {
	t.Parallel()
	for seed := range enginetest.Draws(2000) {
		r := rand.New(rand.NewPCG(seed, 12))
		d := draw(r)
		world := NewWorld(&d.l)
		before := fmt.Sprintf("%+v", d.l)
		var marks []int
		var texts []string
		for range 40 {
			switch {
			case r.IntN(4) == 0:
				marks, texts = append(marks, world.Mark()), append(texts, everything(world))
			case r.IntN(4) == 0 && len(marks) > 0:
				to := r.IntN(len(marks))
				world.Undo(marks[to])
				if got := everything(world); got != texts[to] {
					t.Fatalf("seed %d: after undo\n%s\nnot\n%s", seed, got, texts[to])
				}
				marks, texts = marks[:to], texts[:to]
			case r.IntN(6) == 0:
				world.Open(r.IntN(len(d.l.Groups)), d.places[r.IntN(len(d.places))])
			default:
				world.Put(&d.rules[r.IntN(len(d.rules))], d.places[r.IntN(len(d.places))], 1+r.IntN(4))
			}
		}
		if after := fmt.Sprintf("%+v", d.l); after != before {
			t.Fatalf("seed %d: the layout has changed", seed)
		}
	}
}

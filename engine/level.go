package engine

import (
	"fmt"
	"slices"
	"strings"

	"tenon.sh/engine/bitset"
	"tenon.sh/engine/packing"
	"tenon.sh/engine/requirement"
	"tenon.sh/engine/topology"
)

// levelsOf turns a wish of pods that the matched selectors are about into what is tried for them, the most first: every
// preference is treated as a demand, and given up where that cannot be met. Where preferences have a price, those about
// single machines are asked for all together, or not at all.
func (p *problem) levelsOf(w *wish, matched []int) []packing.Level {
	b := &levelMaker{p: p, w: w, matched: matched, concern: p.crowd.concerns(matched)}
	all := b.softWishes()
	if len(all) >= mostLevels { // what no machine has is given up at once
		all = slices.DeleteFunc(all, func(s softWish) bool { return slices.ContainsFunc(s.node, isVain) })
	}
	soft := all
	if p.opt.Preferences == Weighted {
		soft = slices.DeleteFunc(slices.Clone(all), func(s softWish) bool { return s.byHost() })
	}
	levels := make([]packing.Level, 0, min(len(soft), mostLevels)+2)
	if len(soft) < len(all) {
		whole := b.level(all)
		whole.Lone = true
		levels = append(levels, whole)
	}
	missed := 0
	for _, s := range all {
		if s.byHost() && len(soft) < len(all) {
			missed += s.weight
		}
	}
	given := 0
	for _, stop := range stops(len(soft)) {
		for ; given < stop; given++ {
			missed += soft[given].weight
		}
		level := b.level(soft[given:])
		level.Miss = float64(missed) / 100 * p.opt.preferenceShare()
		levels = append(levels, level)
	}
	levels = append(levels, b.anywhere(levels[len(levels)-1])...)
	if w.backoff != nil && w.backoff.retry { // better the same machine once more than none
		last := levels[len(levels)-1]
		last.Ways = p.where(&w.demand, w.ports, w.backoff, true).ways
		levels = append(levels, last)
	}
	return levels
}

// mostLevels bounds the levels of a pod: of more preferences several are given up at a time.
const mostLevels = 32

// stops lists how many of n preferences are given up at each level, from none to all.
func stops(n int) []int {
	steps := min(n, mostLevels-1)
	out := make([]int, 0, steps+1)
	for i := range steps {
		out = append(out, i*n/steps)
	}
	return append(out, n)
}

// anywhere is a level after the last one, for pools that ask for several values (minValues): a machine that may turn out to be in
// one zone or another has no place where preferences could count its pods, so these give way. There is none where that changes
// nothing.
func (b *levelMaker) anywhere(last packing.Level) []packing.Level {
	if last.Rules == nil || !slices.ContainsFunc(b.p.pools, func(m *poolModel) bool { return len(m.model.Variety) > 0 }) {
		return nil
	}
	c := b.p.crowd
	r := *last.Rules
	r.Groups = slices.DeleteFunc(slices.Clone(r.Groups), func(g int) bool { return !c.groups[g].required })
	r.Sets = slices.DeleteFunc(slices.Clone(r.Sets), func(s int) bool { return !c.sets[s].required })
	liked := map[int]bool{}
	for i := range c.terms {
		if t := &c.terms[i]; !t.required {
			liked[t.selected] = true
		}
	}
	r.Bears = slices.DeleteFunc(slices.Clone(r.Bears), func(mark int) bool { return liked[mark] })
	if len(r.Groups)+len(r.Sets)+len(r.Bears) == len(last.Rules.Groups)+len(last.Rules.Sets)+len(last.Rules.Bears) {
		return nil
	}
	last.Rules = &r
	if isNothing(&r) {
		last.Rules = nil
	}
	return []packing.Level{last}
}

type levelMaker struct {
	p       *problem
	w       *wish
	matched []int // ascending
	concern concern
}

// softWishes lists what is given up first first. What pods that run would rather not have beside them comes before what
// the pod itself would like.
func (b *levelMaker) softWishes() []softWish {
	var out []softWish
	if slices.ContainsFunc(b.concern.terms, func(t int) bool { return b.p.crowd.terms[t].soft >= 0 }) {
		out = append(out, softWish{weight: 1, ofOthers: true})
	}
	return append(out, b.w.soft...)
}

func (s *softWish) byHost() bool {
	return s.near != nil && isHost(s.near.key) || s.apart != nil && isHost(s.apart.key) || s.spread != nil && isHost(s.spread.key)
}

func (b *levelMaker) level(soft []softWish) packing.Level {
	var node []requirement.Expression
	avoid, inverse := false, false
	for i := range soft {
		s := &soft[i]
		if s.node != nil && node == nil {
			node = s.node // the heaviest that is left
		}
		avoid = avoid || s.tolerate
		inverse = inverse || s.ofOthers
	}
	d := b.w.demand
	d.avoid = avoid
	if node != nil {
		d.terms = preferring(d.terms, node)
	}
	where := b.p.where(&d, b.w.ports, b.w.backoff, false)
	return packing.Level{Nodes: where.nodes, Ways: where.ways, Rules: b.rules(soft, inverse)}
}

// preferring adds a preferred node term to each of the required ones.
func preferring(terms [][]requirement.Expression, term []requirement.Expression) [][]requirement.Expression {
	out := make([][]requirement.Expression, 0, len(terms))
	for _, t := range terms {
		out = append(out, slices.Concat(t, term))
	}
	return out
}

// rules is what the wish, with these preferences, asks for and changes between pods; nil if that is nothing.
func (b *levelMaker) rules(soft []softWish, inverse bool) *topology.Rules {
	c := b.p.crowd
	r := &topology.Rules{}
	m := marker{layout: &c.layout, r: r, bears: bitset.New(len(c.layout.Marks)), shuns: bitset.New(len(c.layout.Marks))}
	for i := range b.w.spreads {
		r.Spread = append(r.Spread, b.spread(&b.w.spreads[i]))
	}
	if b.w.set >= 0 {
		r.Affinity = append(r.Affinity, b.near(b.w.set))
	}
	for _, t := range b.w.anti {
		term := &c.terms[c.term[t]]
		m.shun(term.selected, term.key)
		m.bear(term.owned, term.key) // the owner of a required term keeps those away that it selects
	}
	for i := range soft {
		s := &soft[i]
		switch {
		case s.spread != nil:
			r.Spread = append(r.Spread, b.spread(s.spread))
		case s.near != nil:
			if near := b.near(s.set); !slices.Contains(r.Affinity, near) {
				r.Affinity = append(r.Affinity, near)
			}
		case s.apart != nil:
			term := &c.terms[c.term[*s.apart]]
			m.shun(term.selected, term.key)
		}
	}
	b.selected(&m, inverse)
	b.holds(r)
	b.p.looked += r.Len() + len(b.concern.terms)
	if isNothing(r) {
		return nil
	}
	return r
}

func isNothing(r *topology.Rules) bool {
	return len(r.Spread)+len(r.Affinity)+len(r.Groups)+len(r.Sets)+len(r.Bears)+len(r.Shuns)+len(r.Takes) == 0 && r.HostBears == nil && r.HostShuns == nil
}

func (b *levelMaker) spread(s *spreadWish) topology.Spread {
	return topology.Spread{
		Group: s.group, MaxSkew: s.maxSkew, MinDomains: s.minDomains, Self: b.isMatched(b.p.crowd.groups[s.group].selector),
	}
}

func (b *levelMaker) near(set int) topology.Affinity {
	return topology.Affinity{Set: set, Self: b.p.crowd.inSet(set, b.matched)}
}

func (b *levelMaker) isMatched(selector int) bool {
	_, matched := slices.BinarySearch(b.matched, selector)
	return matched
}

// marker notes the marks of rules, each once.
type marker struct {
	layout       *topology.Layout
	r            *topology.Rules
	bears, shuns bitset.Set // of domains
}

func (m *marker) bear(mark int, key string) { m.note(&m.r.Bears, m.bears, &m.r.HostBears, mark, key) }

func (m *marker) shun(mark int, key string) { m.note(&m.r.Shuns, m.shuns, &m.r.HostShuns, mark, key) }

func (m *marker) note(marks *[]int, noted bitset.Set, host *bitset.Set, mark int, key string) {
	switch {
	case mark < 0:
	case !isHost(key):
		if !noted.Has(mark) {
			noted.Add(mark)
			*marks = append(*marks, mark)
		}
	default:
		if *host == nil {
			*host = bitset.New(m.layout.HostMarks)
		}
		host.Add(mark)
	}
}

// selected adds what others' constraints make of the pod.
func (b *levelMaker) selected(m *marker, inverse bool) {
	c := b.p.crowd
	for _, g := range b.concern.groups {
		if !c.selectors[c.groups[g].selector].everything() {
			m.r.Groups = append(m.r.Groups, g)
		}
	}
	for _, s := range b.concern.sets {
		if c.inSet(s, b.matched) {
			m.r.Sets = append(m.r.Sets, s)
		}
	}
	for _, i := range b.concern.terms {
		t := &c.terms[i]
		m.bear(t.selected, t.key)
		m.shun(t.owned, t.key)
		if inverse {
			m.shun(t.soft, t.key)
		}
	}
}

// holds adds ports and disks, which one pod at a time may have on a node, claims that one may have at all, and those whose
// pods have to keep together.
func (b *levelMaker) holds(r *topology.Rules) {
	c := b.p.crowd
	hold := func(mine int, shunned func(yield func(int))) {
		if r.HostBears == nil {
			r.HostBears = bitset.New(c.layout.HostMarks)
		}
		if r.HostShuns == nil {
			r.HostShuns = bitset.New(c.layout.HostMarks)
		}
		r.HostBears.Add(mine)
		shunned(func(mark int) { r.HostShuns.Add(mark) })
	}
	for _, port := range b.w.ports {
		hold(c.portMark(c.portAt[port]), func(yield func(int)) { c.colliding(port, func(i int) { yield(c.portMark(i)) }) })
	}
	for _, d := range b.w.volumes.Disks {
		i, _ := slices.BinarySearchFunc(c.disks, d, compareDisks)
		hold(c.diskMark(i), func(yield func(int)) {
			for j := max(0, i-1); j < min(i+2, len(c.disks)); j++ { // the others with the same ID stand beside it
				if d.conflicts(c.disks[j]) {
					yield(c.diskMark(j))
				}
			}
		})
	}
	for i := range b.w.volumes.Undecided {
		set := c.setOfClaim(&b.w.volumes.Undecided[i])
		r.Sets, r.Affinity = append(r.Sets, set), append(r.Affinity, topology.Affinity{Set: set, Self: true})
	}
	for _, s := range b.w.volumes.Soles {
		mine, others := c.soleMarks(s)
		r.Bears, r.Shuns = append(r.Bears, mine), append(r.Shuns, others...)
	}
	r.Takes = c.takes(b.w.volumes.Takes)
	for _, name := range b.w.volumes.Once {
		i, _ := slices.BinarySearch(c.onces, name)
		r.Bears, r.Shuns = append(r.Bears, c.onceMark(i)), append(r.Shuns, c.onceMark(i))
	}
}

// where is where a demand can be met: existing nodes, and ways to use the pools' machines.
type where struct {
	nodes bitset.Set
	ways  *packing.Ways
}

// where looks the demand up; equal demands share the answer. The backoff, which may be nil, keeps
// machines from being started, in a retry only as long as a pool still waits.
func (p *problem) where(d *demand, ports []hostPort, backoff *shapeBackoff, retry bool) *where {
	var b strings.Builder
	b.WriteString(d.text())
	if backoff != nil {
		fmt.Fprintf(&b, "\nshape %s %t", backoff.shape, retry)
	}
	for _, port := range ports {
		b.WriteString("\nport " + portText(port))
	}
	key := b.String()
	if have, ok := p.places[key]; ok {
		return have
	}
	out := &where{nodes: bitset.New(len(p.targets)), ways: &packing.Ways{}}
	for _, term := range d.terms {
		for _, e := range term {
			p.looked += (1 + len(e.Values)) * len(p.pools)
			p.looked += (1 + p.universe.Size(p.universe.Key(e.Key))/64) * (len(p.pools) + len(p.targets))
		}
	}
	for i, h := range p.targets {
		if h.admits(d, p.universe) {
			out.nodes.Add(i)
		}
	}
	for _, pool := range p.pools {
		ways := pool.ways(d, p.universe)
		ways = pool.without(ways, p.collisions(pool, ports))
		out.ways.Pools = append(out.ways.Pools, pool.without(ways, backoff.options(pool, p.snapshot.Now, retry)))
	}
	p.places[key] = out
	return out
}

// collisions are the options on which a DaemonSet holds one of the ports.
func (p *problem) collisions(pool *poolModel, ports []hostPort) bitset.Set {
	var out bitset.Set
	for i := range p.daemons {
		clash := slices.ContainsFunc(p.daemons[i].ports, func(held hostPort) bool {
			return slices.ContainsFunc(ports, held.collides)
		})
		if clash {
			if out == nil {
				out = bitset.New(len(pool.options))
			}
			out.Or(pool.burdened[i])
		}
	}
	return out
}

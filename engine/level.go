package engine

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine/bitset"
	"tenon.sh/engine/packing"
	"tenon.sh/engine/requirement"
	"tenon.sh/engine/topology"
)

// levelsOf turns a wish of pods that the matched selectors are about into what is tried for them, the most first: every
// preference is treated as a demand, and given up where that cannot be met. Where preferences have a price, those about
// single machines are asked for all together, or not at all.
func (p *problem) levelsOf(w *wish, matched []int) []packing.Level {
	b := &levelMaker{p: p, w: w, matched: matched}
	all := b.softWishes()
	soft := all
	if p.opt.Preferences == Weighted {
		soft = slices.DeleteFunc(slices.Clone(all), func(s softWish) bool { return s.byHost() })
	}
	levels := make([]packing.Level, 0, len(soft)+2)
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
	for i := range len(soft) + 1 {
		if i > 0 {
			missed += soft[i-1].weight
		}
		level := b.level(soft[i:])
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
	r.Bears = slices.DeleteFunc(slices.Clone(r.Bears), func(mark int) bool {
		return slices.ContainsFunc(c.terms, func(t crowdTerm) bool { return t.selected == mark && !t.required })
	})
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
	matched []int
}

// softWishes lists what is given up first first. What pods that run would rather not have beside them comes before what
// the pod itself would like.
func (b *levelMaker) softWishes() []softWish {
	var out []softWish
	if slices.ContainsFunc(b.p.crowd.terms, func(t crowdTerm) bool { return t.soft >= 0 && slices.Contains(b.matched, t.selector) }) {
		out = append(out, softWish{weight: 1, ofOthers: true})
	}
	return append(out, b.w.soft...)
}

func (s *softWish) byHost() bool {
	return s.near != nil && isHost(s.near.key) || s.apart != nil && isHost(s.apart.key) || s.spread != nil && isHost(s.spread.key)
}

func (b *levelMaker) level(soft []softWish) packing.Level {
	var node *corev1.NodeSelectorTerm
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
func preferring(terms [][]requirement.Expression, term *corev1.NodeSelectorTerm) [][]requirement.Expression {
	var out [][]requirement.Expression
	for _, t := range terms {
		all := slices.Clone(t)
		for _, e := range term.MatchExpressions {
			all = append(all, expression(e.Key, e.Operator, e.Values))
		}
		for _, e := range term.MatchFields {
			all = append(all, expression(nodeNameKey, e.Operator, e.Values))
		}
		out = append(out, all)
	}
	return out
}

// rules is what the wish, with these preferences, asks for and changes between pods; nil if that is nothing.
func (b *levelMaker) rules(soft []softWish, inverse bool) *topology.Rules {
	c := b.p.crowd
	r := &topology.Rules{}
	for i := range b.w.spreads {
		r.Spread = append(r.Spread, b.spread(&b.w.spreads[i], b.w.spreads))
	}
	if set := c.setOf(b.w.affinity); set >= 0 {
		r.Affinity = append(r.Affinity, topology.Affinity{Set: set, Self: c.inSet(set, b.matched)})
	}
	for _, t := range b.w.anti {
		b.shun(r, &c.terms[c.term[t]], true)
	}
	for i := range soft {
		s := &soft[i]
		switch {
		case s.spread != nil:
			r.Spread = append(r.Spread, b.spread(s.spread, []spreadWish{*s.spread}))
		case s.near != nil:
			set := c.setOf([]termWish{*s.near})
			r.Affinity = append(r.Affinity, topology.Affinity{Set: set, Self: c.inSet(set, b.matched)})
		case s.apart != nil:
			b.shun(r, &c.terms[c.term[*s.apart]], false)
		}
	}
	b.selected(r, inverse)
	b.holds(r)
	if isNothing(r) {
		return nil
	}
	return r
}

func isNothing(r *topology.Rules) bool {
	return len(r.Spread)+len(r.Affinity)+len(r.Groups)+len(r.Sets)+len(r.Bears)+len(r.Shuns)+len(r.Takes) == 0 && r.HostBears == nil && r.HostShuns == nil
}

func (b *levelMaker) spread(s *spreadWish, together []spreadWish) topology.Spread {
	c := b.p.crowd
	g := c.groupOf(b.w, s, together)
	return topology.Spread{
		Group: g, MaxSkew: s.maxSkew, MinDomains: s.minDomains, Self: slices.Contains(b.matched, c.groups[g].selector),
	}
}

// shun keeps the pod away from those that the term selects; the owner of a required term also keeps them away.
func (b *levelMaker) shun(r *topology.Rules, t *crowdTerm, required bool) {
	b.mark(&r.Shuns, &r.HostShuns, t.selected, t.key)
	if required {
		b.mark(&r.Bears, &r.HostBears, t.owned, t.key)
	}
}

func (b *levelMaker) mark(marks *[]int, host *bitset.Set, mark int, key string) {
	switch {
	case mark < 0:
	case !isHost(key):
		if !slices.Contains(*marks, mark) {
			*marks = append(*marks, mark)
		}
	default:
		if *host == nil {
			*host = bitset.New(b.p.crowd.layout.HostMarks)
		}
		host.Add(mark)
	}
}

// selected adds what others' constraints make of the pod.
func (b *levelMaker) selected(r *topology.Rules, inverse bool) {
	c := b.p.crowd
	for g := range c.groups {
		if slices.Contains(b.matched, c.groups[g].selector) && !c.selectors[c.groups[g].selector].everything() {
			r.Groups = append(r.Groups, g)
		}
	}
	for s := range c.sets {
		if c.inSet(s, b.matched) {
			r.Sets = append(r.Sets, s)
		}
	}
	for i := range c.terms {
		t := &c.terms[i]
		if !slices.Contains(b.matched, t.selector) {
			continue
		}
		b.mark(&r.Bears, &r.HostBears, t.selected, t.key)
		b.mark(&r.Shuns, &r.HostShuns, t.owned, t.key)
		if inverse {
			b.mark(&r.Shuns, &r.HostShuns, t.soft, t.key)
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
		i := slices.Index(c.ports, port)
		hold(c.portMark(i), func(yield func(int)) {
			for j, other := range c.ports {
				if port.collides(other) {
					yield(c.portMark(j))
				}
			}
		})
	}
	for _, d := range b.w.volumes.Disks {
		i := slices.Index(c.disks, d)
		hold(c.diskMark(i), func(yield func(int)) {
			for j, other := range c.disks {
				if d.conflicts(other) {
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
		i := slices.Index(c.onces, name)
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
	key := d.text()
	if backoff != nil {
		key += fmt.Sprintf("\nshape %s %t", backoff.shape, retry)
	}
	for _, port := range ports {
		key += "\nport " + portText(port)
	}
	if have, ok := p.places[key]; ok {
		return have
	}
	out := &where{nodes: bitset.New(len(p.targets)), ways: &packing.Ways{}}
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

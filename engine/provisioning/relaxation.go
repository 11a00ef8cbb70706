package provisioning

import (
	"fmt"
	"slices"
	"strings"

	"tenon.sh/engine"
	"tenon.sh/engine/bitset"
	"tenon.sh/engine/constraints"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/offering"
	"tenon.sh/engine/packing"
	"tenon.sh/engine/requirement"
	"tenon.sh/engine/topology"
	"tenon.sh/engine/volume"
)

// relaxationsOf returns the levels for pods with these constraints and selected by the matched selectors, the strictest first. Every preference is
// treated as required, and given up if it cannot be met. If preferences have a price, those about single machines are kept all together, or given up
// all together.
func (p *Problem) relaxationsOf(c *constraints.PodConstraints, matched []int) []packing.Level {
	b := &relaxation{p: p, w: c, matched: matched, concern: p.InterPod.Concerns(matched)}
	all := b.softWishes()
	if len(all) >= mostLevels { // preferences that no machine meets are given up at once
		all = slices.DeleteFunc(all, func(s constraints.Preference) bool {
			return slices.ContainsFunc(s.Node, requirement.Expression.IsUnmeetable)
		})
	}
	soft := all
	if p.opt.Preferences == engine.Weighted {
		soft = slices.DeleteFunc(slices.Clone(all), func(s constraints.Preference) bool { return byHost(&s) })
	}
	levels := make([]packing.Level, 0, min(len(soft), mostLevels)+2)
	if len(soft) < len(all) {
		whole := b.level(all)
		whole.Lone = true
		levels = append(levels, whole)
	}
	missed := 0
	for _, s := range all {
		if byHost(&s) && len(soft) < len(all) {
			missed += s.Weight
		}
	}
	given := 0
	for _, stop := range stops(len(soft)) {
		for ; given < stop; given++ {
			missed += soft[given].Weight
		}
		level := b.level(soft[given:])
		level.Miss = float64(missed) / 100 * p.opt.EffectivePreferenceShare()
		levels = append(levels, level)
	}
	levels = append(levels, b.anywhere(levels[len(levels)-1])...)
	if c.Backoff != nil && c.Backoff.Retry { // the same machine once more is better than none
		last := levels[len(levels)-1]
		last.Ways = p.where(&c.NodeConstraints, c.Ports, c.Backoff, true).ways
		levels = append(levels, last)
	}
	return levels
}

// mostLevels bounds the levels of a pod. With more preferences, each level gives up several.
const mostLevels = 32

// stops returns, for each level, how many of n preferences have been given up: none at the first level, all at the last.
func stops(n int) []int {
	steps := min(n, mostLevels-1)
	out := make([]int, 0, steps+1)
	for i := range steps {
		out = append(out, i*n/steps)
	}
	return append(out, n)
}

// anywhere returns a further level for pools with minValues. It returns none if the level changes nothing. A machine that may turn out to be in one
// of several zones has no single domain in which a preference could count its pods, so this level drops the preferences about other pods.
func (b *relaxation) anywhere(last packing.Level) []packing.Level {
	if last.Rules == nil || !slices.ContainsFunc(b.p.Pools, func(pool *offering.Pool) bool { return len(pool.Model.Variety) > 0 }) {
		return nil
	}
	c := b.p.InterPod
	r := *last.Rules
	r.Groups = slices.DeleteFunc(slices.Clone(r.Groups), func(g int) bool { return !c.Groups[g].Required })
	r.Sets = slices.DeleteFunc(slices.Clone(r.Sets), func(s int) bool { return !c.Sets[s].Required })
	liked := map[int]bool{}
	for i := range c.Terms {
		if t := &c.Terms[i]; !t.Required {
			liked[t.Selected] = true
		}
	}
	r.Owns = slices.DeleteFunc(slices.Clone(r.Owns), func(mark int) bool { return liked[mark] })
	if len(r.Groups)+len(r.Sets)+len(r.Owns) == len(last.Rules.Groups)+len(last.Rules.Sets)+len(last.Rules.Owns) {
		return nil
	}
	last.Rules = &r
	if isNothing(&r) {
		last.Rules = nil
	}
	return []packing.Level{last}
}

type relaxation struct {
	p       *Problem
	w       *constraints.PodConstraints
	matched []int // ascending
	concern constraints.Concern
}

// softWishes returns the preferences in the order in which they are given up. The preferences of running pods against the pod come before
// the pod's own.
func (b *relaxation) softWishes() []constraints.Preference {
	var out []constraints.Preference
	if slices.ContainsFunc(b.concern.Terms, func(t int) bool { return b.p.InterPod.Terms[t].Soft >= 0 }) {
		out = append(out, constraints.Preference{Weight: 1, OfOthers: true})
	}
	return append(out, b.w.Soft...)
}

func byHost(s *constraints.Preference) bool {
	return s.Near != nil && kube.IsHost(s.Near.Key) || s.Apart != nil && kube.IsHost(s.Apart.Key) || s.Spread != nil && kube.IsHost(s.Spread.Key)
}

func (b *relaxation) level(soft []constraints.Preference) packing.Level {
	var node []requirement.Expression
	avoid, inverse := false, false
	for i := range soft {
		s := &soft[i]
		if s.Node != nil && node == nil {
			node = s.Node // the heaviest of the remaining preferences
		}
		avoid = avoid || s.Tolerate
		inverse = inverse || s.OfOthers
	}
	d := b.w.NodeConstraints
	d.Avoid = avoid
	if node != nil {
		d.Terms = kube.Preferring(d.Terms, node)
	}
	where := b.p.where(&d, b.w.Ports, b.w.Backoff, false)
	return packing.Level{Nodes: where.nodes, Ways: where.ways, Rules: b.rules(soft, inverse)}
}

// rules returns the rules between pods of the constraints with these preferences. It returns nil if there are none.
func (b *relaxation) rules(soft []constraints.Preference, inverse bool) *topology.Rules {
	c := b.p.InterPod
	r := &topology.Rules{}
	m := marker{layout: &c.Layout, r: r, owns: bitset.New(len(c.Layout.Marks)), rejects: bitset.New(len(c.Layout.Marks))}
	for i := range b.w.Spreads {
		r.Spread = append(r.Spread, b.spread(&b.w.Spreads[i]))
	}
	if b.w.Set >= 0 {
		r.Affinity = append(r.Affinity, b.near(b.w.Set))
	}
	for _, t := range b.w.Anti {
		term := &c.Terms[c.Term[t]]
		m.reject(term.Selected, term.Key)
		m.own(term.Owned, term.Key) // the owner of a required term keeps away the pods that it selects
	}
	for i := range soft {
		s := &soft[i]
		switch {
		case s.Spread != nil:
			r.Spread = append(r.Spread, b.spread(s.Spread))
		case s.Near != nil:
			if near := b.near(s.Set); !slices.Contains(r.Affinity, near) {
				r.Affinity = append(r.Affinity, near)
			}
		case s.Apart != nil:
			term := &c.Terms[c.Term[*s.Apart]]
			m.reject(term.Selected, term.Key)
		}
	}
	b.selected(&m, inverse)
	b.holds(r)
	b.p.looked += r.Len() + len(b.concern.Terms)
	if isNothing(r) {
		return nil
	}
	return r
}

func isNothing(r *topology.Rules) bool {
	return len(r.Spread)+len(r.Affinity)+len(r.Groups)+len(r.Sets)+len(r.Owns)+len(r.Rejects)+len(r.Takes) == 0 && r.HostOwns == nil && r.HostRejects == nil
}

func (b *relaxation) spread(s *constraints.SpreadConstraint) topology.Spread {
	return topology.Spread{
		Group: s.Group, MaxSkew: s.MaxSkew, MinDomains: s.MinDomains, Self: b.isMatched(b.p.InterPod.Groups[s.Group].Selector),
	}
}

func (b *relaxation) near(set int) topology.Affinity {
	return topology.Affinity{Set: set, Self: b.p.InterPod.InSet(set, b.matched)}
}

func (b *relaxation) isMatched(selector int) bool {
	_, matched := slices.BinarySearch(b.matched, selector)
	return matched
}

// marker holds rules to which its methods add marks, each mark once.
type marker struct {
	layout        *topology.Layout
	r             *topology.Rules
	owns, rejects bitset.Set // marks of domains
}

func (m *marker) own(mark int, key string) { m.note(&m.r.Owns, m.owns, &m.r.HostOwns, mark, key) }

func (m *marker) reject(mark int, key string) {
	m.note(&m.r.Rejects, m.rejects, &m.r.HostRejects, mark, key)
}

func (m *marker) note(marks *[]int, noted bitset.Set, host *bitset.Set, mark int, key string) {
	switch {
	case mark < 0:
	case !kube.IsHost(key):
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

// selected adds the rules that the constraints of other pods impose on the pods of the level.
func (b *relaxation) selected(m *marker, inverse bool) {
	c := b.p.InterPod
	for _, g := range b.concern.Groups {
		if !c.Selectors[c.Groups[g].Selector].Everything() {
			m.r.Groups = append(m.r.Groups, g)
		}
	}
	for _, s := range b.concern.Sets {
		if c.InSet(s, b.matched) {
			m.r.Sets = append(m.r.Sets, s)
		}
	}
	for _, i := range b.concern.Terms {
		t := &c.Terms[i]
		m.own(t.Selected, t.Key)
		m.reject(t.Owned, t.Key)
		if inverse {
			m.reject(t.Soft, t.Key)
		}
	}
}

// holds adds marks for ports and disks that one pod at a time may have on a node, for claims that only one pod may have at all, and for claims whose
// pods have to share a node.
func (b *relaxation) holds(r *topology.Rules) {
	c := b.p.InterPod
	hold := func(mine int, shunned func(yield func(int))) {
		if r.HostOwns == nil {
			r.HostOwns = bitset.New(c.Layout.HostMarks)
		}
		if r.HostRejects == nil {
			r.HostRejects = bitset.New(c.Layout.HostMarks)
		}
		r.HostOwns.Add(mine)
		shunned(func(mark int) { r.HostRejects.Add(mark) })
	}
	for _, port := range b.w.Ports {
		hold(c.PortMark(c.PortAt[port]), func(yield func(int)) { c.Colliding(port, func(i int) { yield(c.PortMark(i)) }) })
	}
	for _, d := range b.w.Volumes.Disks {
		i, _ := slices.BinarySearchFunc(c.Disks, d, volume.CompareDisks)
		hold(c.DiskMark(i), func(yield func(int)) {
			for j := max(0, i-1); j < min(i+2, len(c.Disks)); j++ { // disks with the same ID are side by side
				if d.Conflicts(c.Disks[j]) {
					yield(c.DiskMark(j))
				}
			}
		})
	}
	if k := b.w.Devices.Kind(); k >= 0 {
		if rivals := b.p.Constraints.Claims.Rivals(k); len(rivals) > 0 {
			hold(c.DeviceMark(k), func(yield func(int)) {
				for _, other := range rivals {
					yield(c.DeviceMark(other))
				}
			})
		}
	}
	if set := c.SetOfDevices(b.w); set >= 0 {
		r.Sets, r.Affinity = append(r.Sets, set), append(r.Affinity, topology.Affinity{Set: set, Self: true})
	}
	for i := range b.w.Volumes.Undecided {
		set := c.SetOfClaim(&b.w.Volumes.Undecided[i])
		r.Sets, r.Affinity = append(r.Sets, set), append(r.Affinity, topology.Affinity{Set: set, Self: true})
	}
	for _, s := range b.w.Volumes.Singles {
		mine, others := c.SingleMarks(s)
		r.Owns, r.Rejects = append(r.Owns, mine), append(r.Rejects, others...)
	}
	r.Takes = c.Takes(b.w.Volumes.Takes)
	for _, name := range b.w.Volumes.Once {
		i, _ := slices.BinarySearch(c.Onces, name)
		r.Owns, r.Rejects = append(r.Owns, c.OnceMark(i)), append(r.Rejects, c.OnceMark(i))
	}
}

// where holds the places for a pod's node constraints: existing nodes, and ways to use the pools' machines.
type where struct {
	nodes bitset.Set
	ways  *packing.Ways
}

// where returns the places for the node constraints; equal constraints share them. The backoff, which may be nil, keeps machines from being
// started, in a retry only as long as a pool still waits.
func (p *Problem) where(d *kube.NodeConstraints, ports []kube.HostPort, backoff *constraints.ShapeBackoff, retry bool) *where {
	var b strings.Builder
	b.WriteString(d.Text())
	if backoff != nil {
		fmt.Fprintf(&b, "\nshape %s %t", backoff.Shape, retry)
	}
	for _, port := range ports {
		b.WriteString("\nport " + kube.PortText(port))
	}
	key := b.String()
	if have, ok := p.places[key]; ok {
		return have
	}
	out := &where{nodes: bitset.New(len(p.Targets)), ways: &packing.Ways{}}
	for _, term := range d.Terms {
		for _, e := range term {
			p.looked += (1 + len(e.Values)) * len(p.Pools)
			p.looked += (1 + p.universe.Size(p.universe.Key(e.Key))/64) * (len(p.Pools) + len(p.Targets))
		}
	}
	for i, m := range p.Targets {
		if m.Admits(d, p.universe) {
			out.nodes.Add(i)
		}
	}
	for _, pool := range p.Pools {
		ways := offering.Without(pool.Ways(d), p.collisions(pool, ports))
		out.ways.Pools = append(out.ways.Pools, offering.Without(ways, optionsOf(backoff, pool, p.Snapshot.Now, retry)))
	}
	out.ways = p.oneOf(out.ways)
	p.places[key] = out
	return out
}

// oneOf returns one pointer for all ways that admit the same options, because the packing then evaluates them once.
func (p *Problem) oneOf(ways *packing.Ways) *packing.Ways {
	var text []byte
	for i := range ways.Pools {
		for _, way := range ways.Pools[i] {
			text = way.Options.AppendText(append(text, 'w'))
			for _, free := range way.Free {
				text = free.AppendText(append(text, 'f'))
			}
		}
		text = append(text, 'p')
	}
	have := p.ways[string(text)]
	if have == nil {
		have = ways
		p.ways[string(text)] = have
	}
	return have
}

// collisions returns the options on which a DaemonSet holds one of the ports.
func (p *Problem) collisions(pool *offering.Pool, ports []kube.HostPort) bitset.Set {
	var out bitset.Set
	for i := range p.daemons {
		clash := slices.ContainsFunc(p.daemons[i].Ports, func(held kube.HostPort) bool {
			return slices.ContainsFunc(ports, held.Collides)
		})
		if clash {
			if out == nil {
				out = bitset.New(len(pool.Options))
			}
			out.Or(pool.Burdened[i])
		}
	}
	return out
}

package engine

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine/bitset"
	"tenon.sh/engine/topology"
)

// between says which rule between pods keeps one more pod of the class off every new machine of a pool; the zero Reason
// means that none does.
func (p *problem) between(pool, class int, w *topology.World) Reason {
	c := p.classes[class]
	level := &c.levels[len(c.levels)-1]
	if level.Rules == nil {
		return Reason{}
	}
	var places []topology.Place
	var kept Reason
	seen := bitset.New(len(p.crowd.list))
	for _, way := range level.Ways.Pools[pool] {
		for o := way.Options.Next(0); o >= 0; o = way.Options.Next(o + 1) {
			option := &p.packing.Pools[pool].Options[o]
			if place := p.crowd.list[option.Place]; !seen.Has(option.Place) && option.Listed && c.request.Fits(option.Allocatable) {
				seen.Add(option.Place)
				if r := p.keptOffBy(level.Rules, place); !r.OK() {
					kept = r
					continue
				}
				if _, ok := w.Allows(level.Rules, place); ok {
					return p.companyMissing(c, level.Rules, w)
				}
				places = append(places, place)
			}
		}
	}
	if len(places) == 0 {
		return kept
	}
	return p.broke(c, level.Rules, places, w)
}

// keptOffBy says which DaemonSet's pod, that new machines of the place have or may have, keeps pods with these rules off them.
func (p *problem) keptOffBy(rules *topology.Rules, place topology.Place) Reason {
	for i := range p.daemons {
		d := &p.daemons[i]
		if !d.resident {
			continue
		}
		r := &p.crowd.layout.Residents[d.number]
		if place[r.Key] <= topology.Absent {
			continue
		}
		for m := rules.HostShuns.Next(0); m >= 0; m = rules.HostShuns.Next(m + 1) {
			if r.HostBears.Has(m) {
				return p.hostShunReason(m, d)
			}
		}
	}
	return Reason{}
}

func (p *problem) hostShunReason(mark int, d *daemonSet) Reason {
	r := Reason{Code: AntiAffinityNotMet, Key: corev1.LabelHostname, Need: "pods of DaemonSet " + d.key + ", which want to be apart from it,"}
	for i := range p.crowd.terms {
		if t := &p.crowd.terms[i]; isHost(t.key) && mark == t.selected {
			r.Need = "pods with " + p.crowd.selectors[t.selector].String() + " (those of DaemonSet " + d.key + ")"
		}
	}
	return r
}

// broke names the rule that no place meets by itself; if each is met somewhere, the first that is broken anywhere.
func (p *problem) broke(c *podClass, r *topology.Rules, places []topology.Place, w *topology.World) Reason {
	first := Reason{}
	try := func(only topology.Rules, explain func() Reason) bool {
		broken := 0
		for _, place := range places {
			if _, ok := w.Allows(&only, place); !ok {
				broken++
			}
		}
		if broken > 0 && first.OK() {
			first = explain()
		}
		if broken == len(places) && broken > 0 {
			first = explain()
			return true
		}
		return false
	}
	for i := range r.Spread {
		s := r.Spread[i]
		if try(topology.Rules{Spread: []topology.Spread{s}}, func() Reason { return p.spreadReason(c, s, w) }) {
			return first
		}
	}
	for _, a := range r.Affinity {
		if try(topology.Rules{Affinity: []topology.Affinity{a}}, func() Reason { return p.affinityReason(c, a, w) }) {
			return first
		}
	}
	for _, m := range r.Shuns {
		if try(topology.Rules{Shuns: []int{m}}, func() Reason { return p.shunReason(m) }) {
			return first
		}
	}
	return first
}

// spreadReason shows the counts, domain by domain.
func (p *problem) spreadReason(c *podClass, s topology.Spread, w *topology.World) Reason {
	g := &p.crowd.groups[s.Group]
	r := Reason{Code: SpreadNotMet, Key: g.key, Need: fmt.Sprintf("at most %d apart", s.MaxSkew)}
	if s.MinDomains > 0 {
		r.Need += fmt.Sprintf(", in %d domains or more", s.MinDomains)
	}
	key := p.crowd.layout.Groups[s.Group].Key
	var counts []string
	for d, n := range w.Count(s.Group) {
		if n >= 0 {
			counts = append(counts, fmt.Sprintf("%s has %d", p.crowd.domains[key].Name(d), n))
		}
	}
	slices.Sort(counts)
	if r.Have = shortened(counts, 6); len(counts) == 0 {
		r.Have = "no node can have this label"
	}
	return r
}

// affinityReason says where the company is that the pod needs, or that it waits for pods that wait for it.
func (p *problem) affinityReason(c *podClass, a topology.Affinity, w *topology.World) Reason {
	set := &p.crowd.sets[a.Set]
	if set.claim != nil {
		return p.claimReason(a, w)
	}
	var keys, who []string
	for _, t := range set.terms {
		keys = append(keys, t.key)
		who = append(who, p.crowd.selectors[t.selector].String())
	}
	slices.Sort(keys)
	r := Reason{Code: AffinityNotMet, Key: strings.Join(slices.Compact(keys), " and "), Need: "pods with " + strings.Join(slices.Compact(who), " and ")}
	if w.Total(a.Set) == 0 {
		if cycle := p.cycle(c, a.Set); cycle != "" {
			return Reason{Code: AffinityCycle, Need: cycle}
		}
		r.Have = "and there are none"
		return r
	}
	var where []string
	for i, k := range p.crowd.layout.Sets[a.Set].Keys {
		if k == topology.Host {
			continue
		}
		for _, d := range w.Domains(a.Set, i) {
			where = append(where, p.crowd.domains[k].Name(d))
		}
	}
	slices.Sort(where)
	if r.Have = "which are in " + shortened(where, 6); len(where) == 0 {
		r.Have = "and no node that has them takes it"
	}
	return r
}

// claimReason says where the volume will be that the pod shares with others.
func (p *problem) claimReason(a topology.Affinity, w *topology.World) Reason {
	var where []string
	for i, k := range p.crowd.layout.Sets[a.Set].Keys {
		if k == topology.Host {
			continue
		}
		for _, d := range w.Domains(a.Set, i) {
			where = append(where, p.crowd.domains[k].Name(d))
		}
	}
	slices.Sort(where)
	return Reason{
		Code: VolumeNotReady, Key: p.crowd.sets[a.Set].claim.id.String(),
		Have: "its volume will be made for another pod, " + cmp.Or(shortened(where, 6), "on its node"),
	}
}

// companyMissing is for pods whose domains are right but whose companions run on machines that have no room.
func (p *problem) companyMissing(c *podClass, r *topology.Rules, w *topology.World) Reason {
	for _, a := range r.Affinity {
		if p.crowd.layout.Sets[a.Set].WithHost() {
			if w.Total(a.Set) == 0 {
				return p.affinityReason(c, a, w)
			}
			set := &p.crowd.sets[a.Set]
			if set.claim != nil {
				return Reason{Code: VolumeNotReady, Key: set.claim.id.String(), Have: "its volume will be made on the node of another pod, which has no room"}
			}
			return Reason{
				Code: AffinityNotMet, Key: corev1.LabelHostname, Need: "pods with " + p.crowd.selectors[set.terms[0].selector].String(),
				Have: "and no machine that has them has room",
			}
		}
	}
	return Reason{}
}

// mostInCycle is how many pods of a cycle are named.
const mostInCycle = 8

// cycle names classes that wait for each other, starting with the given one; empty if its chain of affinities ends.
func (p *problem) cycle(c *podClass, set int) string {
	names := []string{podID(c.pods[0]).String()}
	at, more := set, 0
	for range p.classes {
		other := p.firstOf(at)
		if other == nil {
			return ""
		}
		name := podID(other.pods[0]).String()
		switch {
		case other == c && more > 0:
			return strings.Join(names, " waits for ") + fmt.Sprintf(", and so on over %d more pods, the last of which waits for ", more) + name
		case other == c:
			return strings.Join(append(names, name), " waits for ")
		case len(names) == mostInCycle:
			more++
		default:
			names = append(names, name)
		}
		if at = other.set; at < 0 {
			return ""
		}
	}
	return ""
}

// firstOf is the first class of the set; nil if there is none.
func (p *problem) firstOf(set int) *podClass {
	if p.first == nil {
		p.first = map[int]*podClass{}
		for _, c := range slices.Backward(p.classes) {
			for _, s := range p.crowd.concerns(c.matched).sets {
				if p.crowd.inSet(s, c.matched) {
					p.first[s] = c
				}
			}
		}
	}
	return p.first[set]
}

func (p *problem) shunReason(mark int) Reason {
	for i := range p.crowd.terms {
		t := &p.crowd.terms[i]
		if isHost(t.key) || mark != t.selected && mark != t.owned {
			continue
		}
		who := "pods with " + p.crowd.selectors[t.selector].String()
		if mark == t.owned {
			who = "pods that want to be apart from it"
		}
		return Reason{Code: AntiAffinityNotMet, Key: t.key, Need: who}
	}
	return Reason{Code: VolumeNotReady, Key: p.crowd.onces[max(0, mark-p.crowd.onceMark(0))], Have: "only one pod may use it at a time (ReadWriteOncePod)"}
}

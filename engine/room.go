package engine

import (
	"slices"
	"strings"

	"tenon.sh/engine/bitset"
	"tenon.sh/engine/capacity"
	"tenon.sh/engine/packing"
	"tenon.sh/engine/requirement"
	"tenon.sh/engine/topology"
)

// settleHosts works out what is free on every machine that may take pods, and counts the pods that are there.
func (p *problem) settleHosts() {
	c := p.crowd
	for _, pool := range p.pools {
		pool.settlePlaces(p)
	}
	at := make([]int, len(p.hosts))
	maybe := make([]crowdGuess, len(p.hosts))
	for i, h := range p.hosts {
		if h.open != nil {
			maybe[i] = p.guess(h)
		}
		at[i] = c.place(func(key string) (string, bool) { return h.knownLabel(key, p.universe) }, func(f int) int32 {
			switch {
			case p.passes(h, &c.filters[f]):
				return 1
			case maybe[i] != nil && maybe[i][f] != nil:
				return topology.Open
			}
			return 0
		}, nobody)
	}
	c.settle()
	p.targets, p.packing.Nodes = make([]*host, 0, len(p.hosts)), make([]packing.Node, 0, len(p.hosts))
	var scratch []int
	for i, h := range p.hosts {
		if h.gone {
			continue
		}
		standing := c.machine(at[i])
		c.mayBe(at[i], maybe[i])
		if h.leaving || len(h.expected) > 0 {
			for _, f := range h.roll.facts {
				if !p.moving[f.pod] {
					scratch = c.runs(p.wishes, standing, f, scratch, h.awaits(f.pod))
				}
			}
		} else {
			c.runAll(p.wishes, standing, h.roll)
		}
		if h.leaving {
			c.emptied(at[i])
			continue
		}
		if h.late && h.node != nil {
			c.emptied(at[i]) // kube-scheduler counts its pods, though none can come
		}
		if h.late || p.trial.closes(h) {
			continue
		}
		h.free, h.target = p.roomOf(h, standing), len(p.targets)
		p.targets = append(p.targets, h)
		node := standing.node(h.free)
		node.Has = p.has(h)
		p.packing.Nodes = append(p.packing.Nodes, node)
	}
}

// guess says where a machine may turn out to be that has not been launched, as each spread sees it.
func (p *problem) guess(h *host) crowdGuess {
	guess := make(crowdGuess, len(p.crowd.filters))
	for f := range p.crowd.filters {
		if terms := p.mayPass(h, &p.crowd.filters[f]); len(terms) > 0 {
			guess[f] = p.possible(h, terms)
		}
	}
	return guess
}

// possible lists, for each key of places, the domains in which the machine may be if it meets one of the terms.
func (p *problem) possible(h *host, terms [][]requirement.Expression) [][]int {
	c := p.crowd
	out := make([][]int, c.keys.Len())
	for i := range out {
		key, ok := strings.CutPrefix(c.keys.Name(i), "label ")
		if !ok {
			continue
		}
		value, known := h.knownLabel(key, p.universe)
		switch {
		case known:
			out[i] = []int{c.domains[i].Index(value)}
		case value == openValue:
			for _, value := range p.openValues(h, key, terms) {
				out[i] = append(out[i], c.domains[i].Index(value))
			}
		}
	}
	return out
}

// openValues lists the values that a label of the machine may get if it meets one of the terms.
func (p *problem) openValues(h *host, key string, terms [][]requirement.Expression) []string {
	u, k := p.universe, p.universe.Key(key)
	all := bitset.New(u.Size(k))
	for _, term := range terms {
		set := h.open.set(u, k)
		for _, e := range term {
			if e.Key == key {
				set.And(u.Set(e))
			}
		}
		all.Or(set)
	}
	var out []string
	for b := all.Next(0); b >= 0; b = all.Next(b + 1) {
		if value, named := u.Value(k, b); named {
			out = append(out, value)
		}
	}
	return out
}

// roomOf is what the pods that run on the machine leave of it.
func (p *problem) roomOf(h *host, at *standing) capacity.Vector {
	free := p.sizeOf(h)
	free.Add(p.usedBy(h.roll), -1)
	for _, pod := range h.promised {
		free.Add(p.requestOf(pod), -1)
	}
	pending := p.pending[:0]
	for i := range p.daemons {
		d := &p.daemons[i]
		if slices.Contains(h.roll.daemonKeys(), d.key) || !h.runs(&d.daemon, p.universe) {
			continue
		}
		free.Add(p.names.vector(d.need), -1)
		p.crowd.holdPorts(at, d.ports)
		pending = append(pending, d)
	}
	p.pending = pending
	p.expectDaemons(h, at, free)
	if drivers := p.names.drivers(); len(drivers) > 0 {
		h.volumes = p.wishes.volumes.attachedTo(h.name(), h.expectedType(), h.bound)
		for driver, d := range drivers {
			free[d] = h.volumes.free(driver)
		}
	}
	return free
}

// sizeOf is what pods can use of the machine, to be changed by the caller.
func (p *problem) sizeOf(h *host) capacity.Vector {
	if !h.isInitialized() {
		return p.names.vector(h.usable())
	}
	return h.facts.vector(p.names, p.namesText, h.node).Clone()
}

// has holds the shared volumes that are on the machine, and stay there.
func (p *problem) has(h *host) bitset.Set {
	if len(p.shared) == 0 {
		return nil
	}
	out := bitset.New(len(p.shared))
	on := h.volumes
	if slices.ContainsFunc(h.bound, h.awaits) {
		staying := slices.DeleteFunc(slices.Clone(h.bound), h.awaits)
		on = p.wishes.volumes.attachedTo(h.name(), h.expectedType(), staying)
	}
	for _, list := range []map[attachment]bool{on.inUse, on.others} {
		for a := range list {
			if i, ok := p.shared[a]; ok {
				out.Add(i)
			}
		}
	}
	return out
}

// passes reports whether a spread with this filter counts the machine.
func (p *problem) passes(h *host, f *crowdFilter) bool {
	for _, key := range f.keys {
		if isHost(key) {
			continue // every machine has one
		}
		if _, ok := h.knownLabel(key, p.universe); !ok {
			return false
		}
	}
	if f.honour && untolerated(f.taints, h.taints) != nil {
		return false
	}
	return f.demand == nil || slices.ContainsFunc(f.demand.terms, func(term []requirement.Expression) bool {
		return !slices.ContainsFunc(term, func(e requirement.Expression) bool { return !h.meets(e, p.universe) })
	})
}

// mayPass lists the terms by which the spread may turn out to count the machine, none if it cannot.
func (p *problem) mayPass(h *host, f *crowdFilter) [][]requirement.Expression {
	for _, key := range f.keys {
		if value, ok := h.knownLabel(key, p.universe); !ok && value != openValue {
			return nil
		}
	}
	if f.honour && untolerated(f.taints, h.taints) != nil {
		return nil
	}
	if f.demand == nil {
		return [][]requirement.Expression{nil}
	}
	var out [][]requirement.Expression
	for _, term := range f.demand.terms {
		if !slices.ContainsFunc(term, func(e requirement.Expression) bool { return !h.mayMeet(e, p.universe) }) {
			out = append(out, term)
		}
	}
	return out
}

// runs reports whether the DaemonSet will have a pod on the machine, or may have one as long as labels are open.
func (h *host) runs(d *daemon, u *requirement.Universe) bool { return h.accepts(d, u, h.mayMeet) }

// surelyRuns is runs whatever becomes of labels.
func (h *host) surelyRuns(d *daemon, u *requirement.Universe) bool { return h.accepts(d, u, h.meets) }

func (h *host) accepts(d *daemon, u *requirement.Universe, meets func(requirement.Expression, *requirement.Universe) bool) bool {
	if untolerated(d.tolerations, h.taints) != nil {
		return false
	}
	return slices.ContainsFunc(d.terms, func(term []requirement.Expression) bool {
		return !slices.ContainsFunc(term, func(e requirement.Expression) bool {
			if value, ok := startupLabels[e.Key]; ok {
				return !e.Admits(value, true)
			}
			return !meets(e, u)
		})
	})
}

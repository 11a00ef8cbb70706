package provisioning

import (
	"slices"
	"strings"

	"tenon.sh/engine/bitset"
	"tenon.sh/engine/capacity"
	"tenon.sh/engine/constraints"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/packing"
	"tenon.sh/engine/requirement"
	"tenon.sh/engine/topology"
	"tenon.sh/engine/volume"
)

// readMachines computes the free room on every machine that may take pods, and counts the pods there.
func (p *Problem) readMachines() {
	c := p.InterPod
	at := make([]int, len(p.Machines))
	maybe := make([]constraints.Possible, len(p.Machines))
	for i, m := range p.Machines {
		if m.Open != nil {
			maybe[i] = p.guess(m)
		}
		at[i] = c.Place(func(key string) (string, bool) { return m.KnownLabel(key, p.universe) }, func(f int) int32 {
			switch {
			case passes(p.universe, m, &c.Filters[f]):
				return 1
			case maybe[i] != nil && maybe[i][f] != nil:
				return topology.Open
			}
			return 0
		}, nobody)
	}
	c.Finish()
	p.Targets, p.Packing.Nodes = make([]*inventory.Machine, 0, len(p.Machines)), make([]packing.Node, 0, len(p.Machines))
	var scratch []int
	for i, m := range p.Machines {
		if m.Gone {
			continue
		}
		standing := c.Machine(at[i])
		c.MayBe(at[i], maybe[i])
		if m.Leaving || len(m.Expected) > 0 {
			for _, info := range m.Pods.Infos {
				if !p.moving[info.Pod] {
					scratch = c.Runs(p.Constraints, standing, info, scratch, m.Awaits(info.Pod))
				}
			}
		} else {
			c.RunAll(p.Constraints, standing, m.Pods)
		}
		if m.Leaving {
			c.Emptied(at[i])
			continue
		}
		if m.IsUncounted() && m.Node != nil {
			c.Emptied(at[i]) // kube-scheduler still counts its pods, but the machine takes no more
		}
		if m.IsUncounted() || p.trial.closes(m) {
			continue
		}
		m.Free, m.Target = p.roomOf(m, standing), len(p.Targets)
		p.Targets = append(p.Targets, m)
		node := standing.Node(m.Free)
		node.Has = p.has(m)
		p.Packing.Nodes = append(p.Packing.Nodes, node)
	}
}

// guess returns, for each spread's filter, the domains in which a machine that has not been launched may turn out to be.
func (p *Problem) guess(m *inventory.Machine) constraints.Possible {
	guess := make(constraints.Possible, len(p.InterPod.Filters))
	for f := range p.InterPod.Filters {
		if terms := mayPass(p.universe, m, &p.InterPod.Filters[f]); len(terms) > 0 {
			guess[f] = p.possible(m, terms)
		}
	}
	return guess
}

// possible returns, for each key of places, the domains in which the machine may be if it meets one of the terms.
func (p *Problem) possible(m *inventory.Machine, terms [][]requirement.Expression) [][]int {
	c := p.InterPod
	out := make([][]int, c.Keys.Len())
	for i := range out {
		key, ok := strings.CutPrefix(c.Keys.Name(i), "label ")
		if !ok {
			continue
		}
		value, known := m.KnownLabel(key, p.universe)
		switch {
		case known:
			out[i] = []int{c.Domains[i].Index(value)}
		case value == kube.OpenValue:
			for _, value := range openValues(p.universe, m, key, terms) {
				out[i] = append(out[i], c.Domains[i].Index(value))
			}
		}
	}
	return out
}

// openValues returns the values that a label of the machine may get if it meets one of the terms.
func openValues(u *requirement.Universe, m *inventory.Machine, key string, terms [][]requirement.Expression) []string {
	k := u.Key(key)
	all := bitset.New(u.Size(k))
	for _, term := range terms {
		set := m.Open.Set(u, k)
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

// roomOf returns the machine's room that its pods, promised pods and missing DaemonSets' pods leave.
func (p *Problem) roomOf(m *inventory.Machine, at *constraints.NodeCounts) capacity.Vector {
	free := p.sizeOf(m)
	free.Add(p.usedBy(m.Pods), -1)
	for _, pod := range m.Promised {
		free.Add(p.requestOf(pod), -1)
	}
	pending := p.pending[:0]
	for i := range p.daemons {
		d := &p.daemons[i]
		if slices.Contains(m.Pods.DaemonKeys(), d.Key) || !m.Runs(&d.Daemon, p.universe) {
			continue
		}
		free.Add(p.Names.Vector(d.Requests), -1)
		p.InterPod.HoldPorts(at, d.Ports)
		pending = append(pending, d)
	}
	p.pending = pending
	p.expectDaemons(m, at, free)
	if drivers := p.Names.Drivers(); len(drivers) > 0 {
		m.Volumes = p.Constraints.Volumes.AttachedTo(m.Name(), m.ExpectedType(), m.Bound)
		for driver, d := range drivers {
			free[d] = m.Volumes.Free(driver)
		}
	}
	p.countDevices(m, free)
	return free
}

// sizeOf returns the machine's room for pods as a new vector.
func (p *Problem) sizeOf(m *inventory.Machine) capacity.Vector {
	if !m.IsInitialized() {
		return p.Names.Vector(m.Usable())
	}
	return m.Info.Vector(p.Names, p.namesText, m.Node).Clone()
}

// has returns the shared volumes that are on the machine and stay there.
func (p *Problem) has(m *inventory.Machine) bitset.Set {
	if len(p.shared) == 0 {
		return nil
	}
	out := bitset.New(len(p.shared))
	on := m.Volumes
	if slices.ContainsFunc(m.Bound, m.Awaits) {
		staying := slices.DeleteFunc(slices.Clone(m.Bound), m.Awaits)
		on = p.Constraints.Volumes.AttachedTo(m.Name(), m.ExpectedType(), staying)
	}
	for _, list := range []map[volume.Attachment]bool{on.InUse, on.Others} {
		for a := range list {
			if i, ok := p.shared[a]; ok {
				out.Add(i)
			}
		}
	}
	return out
}

// passes reports whether a spread with this filter includes the machine.
func passes(u *requirement.Universe, m *inventory.Machine, f *constraints.NodeFilter) bool {
	for _, key := range f.Keys {
		if kube.IsHost(key) {
			continue // every machine has one
		}
		if _, ok := m.KnownLabel(key, u); !ok {
			return false
		}
	}
	if f.Honour && kube.Untolerated(f.Taints, m.Taints) != nil {
		return false
	}
	return f.Demand == nil || slices.ContainsFunc(f.Demand.Terms, func(term []requirement.Expression) bool {
		return !slices.ContainsFunc(term, func(e requirement.Expression) bool { return !m.Meets(e, u) })
	})
}

// mayPass returns the terms under which a spread with this filter may include the machine. It returns none if the spread cannot include it.
func mayPass(u *requirement.Universe, m *inventory.Machine, f *constraints.NodeFilter) [][]requirement.Expression {
	for _, key := range f.Keys {
		if value, ok := m.KnownLabel(key, u); !ok && value != kube.OpenValue {
			return nil
		}
	}
	if f.Honour && kube.Untolerated(f.Taints, m.Taints) != nil {
		return nil
	}
	if f.Demand == nil {
		return [][]requirement.Expression{nil}
	}
	var out [][]requirement.Expression
	for _, term := range f.Demand.Terms {
		if !slices.ContainsFunc(term, func(e requirement.Expression) bool { return !m.MayMeet(e, u) }) {
			out = append(out, term)
		}
	}
	return out
}

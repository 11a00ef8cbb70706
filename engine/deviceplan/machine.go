package deviceplan

import (
	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/device"
)

// Machine allocates devices of one machine as kube-scheduler does, pod by pod.
type Machine struct {
	plan  *Plan
	pools []device.Pool
	usage *device.Usage
	own   bool         // usage is nobody else's
	fits  map[int]bool // by kind, as long as nothing is taken
}

// Machine is one as it is now, or as it will be once it has started.
func (p *Plan) Machine(node *corev1.Node, initialized bool, expected *engine.InstanceType) *Machine {
	m := &Machine{plan: p, fits: map[int]bool{}}
	if node == nil || !initialized && !p.published(node, expected) {
		m.pools, m.usage, m.own = p.types[p.typeOf(expected)], device.NewUsage(), true
		return m
	}
	m.pools, m.usage = p.nodes[node.Name], p.usage
	return m
}

// Fits reports whether there are devices for the need.
func (m *Machine) Fits(n *Need) bool {
	if n.kind == nil {
		return n.Problem.OK()
	}
	fits, known := m.fits[n.kind.number]
	if !known {
		_, reason := device.Allocate(m.plan.facts, m.pools, m.usage, n.kind.claims, 0)
		fits = reason == nil
		m.fits[n.kind.number] = fits
	}
	return fits
}

// Take allocates the devices of the need, as far as there are any.
func (m *Machine) Take(n *Need) {
	if n.kind == nil {
		return
	}
	picks, reason := device.Allocate(m.plan.facts, m.pools, m.usage, n.kind.claims, 0)
	if reason != nil {
		return
	}
	if !m.own {
		m.usage, m.own = m.usage.Clone(), true
	}
	for i := range picks {
		m.usage.Add(picks[i])
	}
	clear(m.fits)
}

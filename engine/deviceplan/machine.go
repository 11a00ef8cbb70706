package deviceplan

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/device"
)

// Machine allocates devices of one machine as kube-scheduler does, pod by pod.
type Machine struct {
	plan  *Plan
	pools []device.Pool
	usage *device.Usage
	own   bool         // usage is shared with no other machine
	fits  map[int]bool // by kind, valid until devices are taken
}

// Machine returns the machine as it is now. If it is still starting, it has the devices that it will have after the start.
func (p *Plan) Machine(node *corev1.Node, initialized bool, expected *engine.InstanceType) *Machine {
	m := &Machine{plan: p, fits: map[int]bool{}}
	m.pools, m.usage = p.nodes[node.Name], p.usage
	if missing := p.missing(node, initialized, expected); len(missing) > 0 {
		m.pools = slices.Concat(m.pools, missing)
	}
	return m
}

// Has reports whether the node would have devices for the need if all devices were free.
func (p *Plan) Has(n *Need, node *corev1.Node) bool {
	if n.kind == nil {
		return true
	}
	_, reason := device.Allocate(p.facts, p.nodes[node.Name], device.NewUsage(), n.kind.claims, 0)
	return reason == nil
}

// Drivers lists the drivers whose devices the need gets on a machine of the type that the NodePool starts.
func (p *Plan) Drivers(n *Need, pool string, t *engine.InstanceType) []string {
	var out []string
	picks, _ := device.Allocate(p.facts, p.expected(pool, t), device.NewUsage(), n.kind.claims, 0)
	for _, of := range picks {
		for i := range of {
			if !slices.Contains(out, of[i].Driver) {
				out = append(out, of[i].Driver)
			}
		}
	}
	return out
}

// Fits reports whether the machine has free devices for the need.
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

// Take allocates devices for the need, if the machine has enough.
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

package engine

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	v1 "tenon.sh/api/v1"
)

// fleet is the machines of a snapshot as far as its nodes, claims and catalogs tell: the same as long as these are. Nobody
// changes it.
type fleet struct {
	nodes    []*corev1.Node
	claims   []*v1.NodeClaim
	offer    *offer
	machines []*machine // as hostsOf orders them
	// byName are the numbers of the machines that have a node, by the node's name; nodeless are those of the others, by the
	// claim's. facts are those of the nodes, by number.
	byName, nodeless []int
	facts            []*nodeFacts
	orders           *orders
	// named are all numbers by name, dearest those of machines with a claim by price; nil until they are asked for.
	named, dearest []int
	// learned is the memory of running machines by type.
	learned map[*InstanceType]*resource.Quantity
}

// fleetOf is the machines of the snapshot.
func (m *Memo) fleetOf(s *Snapshot) *fleet {
	offer := m.offerOf(s)
	if f := m.fleet; f != nil && f.offer == offer && slices.Equal(f.nodes, s.Nodes) && slices.Equal(f.claims, s.NodeClaims) {
		return f
	}
	m.fleet = m.newFleet(s, offer)
	return m.fleet
}

// newFleet joins nodes and claims by provider ID.
func (m *Memo) newFleet(s *Snapshot, offer *offer) *fleet {
	byID := make(map[string]*v1.NodeClaim, len(s.NodeClaims))
	for _, c := range s.NodeClaims {
		id := c.Status.ProviderID
		if other := byID[id]; id != "" && (other == nil || c.Name < other.Name) {
			byID[id] = c
		}
	}
	machines := make([]*machine, 0, len(s.Nodes))
	joined := make(map[*v1.NodeClaim]bool, len(s.NodeClaims))
	for _, node := range s.Nodes {
		var claim *v1.NodeClaim
		if node.Spec.ProviderID != "" {
			claim = byID[node.Spec.ProviderID]
		}
		if claim != nil {
			joined[claim] = true
		}
		machines = append(machines, m.machineOf(node, claim, offer))
	}
	for _, claim := range s.NodeClaims {
		if !joined[claim] {
			machines = append(machines, newMachine(nil, claim, offer))
		}
	}
	slices.SortFunc(machines, compareMachines)
	f := &fleet{
		nodes: slices.Clone(s.Nodes), claims: slices.Clone(s.NodeClaims), offer: offer, machines: machines, facts: make([]*nodeFacts, len(machines)),
		orders: ordersOf(s), learned: learn(machines),
	}
	for i, x := range machines {
		if x.node == nil {
			f.nodeless = append(f.nodeless, i)
		} else {
			f.byName, f.facts[i] = append(f.byName, i), m.nodeOf(x.node)
		}
	}
	slices.SortStableFunc(f.byName, func(a, b int) int { return cmp.Compare(f.machines[a].node.Name, f.machines[b].node.Name) })
	return f
}

// inNames are the numbers of the machines, by name.
func (f *fleet) inNames() []int {
	if f.named == nil {
		for i := range f.machines {
			f.named = append(f.named, i)
		}
		slices.SortStableFunc(f.named, func(a, b int) int {
			return compareMachineNames(f.machines[a], f.machines[b])
		})
	}
	return f.named
}

// dearestFirst are the numbers of the machines that have a claim, those that cost most first, then by name.
func (f *fleet) dearestFirst() []int {
	if f.dearest == nil {
		for _, i := range f.inNames() {
			if f.machines[i].claim != nil {
				f.dearest = append(f.dearest, i)
			}
		}
		slices.SortStableFunc(f.dearest, func(a, b int) int { return cmp.Compare(f.machines[b].price, f.machines[a].price) })
	}
	return f.dearest
}

// machineOf is newMachine of a node, remembered.
func (m *Memo) machineOf(node *corev1.Node, claim *v1.NodeClaim, offer *offer) *machine {
	f := m.nodeOf(node)
	if f.offer != offer || f.machine.claim != claim {
		f.machine, f.offer = newMachine(node, claim, offer), offer
	}
	return f.machine
}

// look looks up what the machine costs.
func (m *machine) look(prices *PriceBook) {
	if m.claim != nil {
		m.price, _ = prices.Price(m.labels, m.claim.Spec.NodeClassRef)
		m.priced = true
	}
}

// hostsOf lists the machines of the snapshot, initialized ones first, then by name.
func hostsOf(s *Snapshot, c *census) []*host {
	f := c.memo.fleetOf(s)
	all, out := make([]host, len(f.machines)), make([]*host, len(f.machines))
	for i := range all {
		h := &all[i]
		h.machine, h.number = f.machines[i], i
		h.leaving = h.goes
		f.orders.applyTo(h)
		if h.node == nil {
			h.roll = &roll{}
		} else {
			h.roll = c.of(h.node.Name)
		}
		h.bound, out[i] = h.roll.bound, h
	}
	return out
}

package engine

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	v1 "tenon.sh/api/v1"
)

// fleet is the machines of a snapshot as far as its nodes, claims and catalogs tell: the same as long as these are, in whatever
// order they are listed.
type fleet struct {
	number   uint64 // of all fleets that the memo has known
	nodes    []*corev1.Node
	claims   []*v1.NodeClaim
	isClaim  map[*v1.NodeClaim]bool // of the claims; nil until it is asked for
	offer    *offer
	machines []*machine // as hostsOf orders them
	// byName are the numbers of the machines that have a node, by the node's name; nodeless are those of the others, by the
	// claim's. facts are those of the nodes, by number.
	byName, nodeless []int
	// several are those of machines of which there are several nodes, less the registered ones: they are not going to be.
	several []int
	facts   []*nodeFacts
	// ordered and replaces tell, by number, what part machines have in orders, once ordersRead; nil if there are no orders.
	ordered, replaces []bool
	ordersRead        bool
	// named are all numbers by name, dearest those of machines with a claim by price; nil until they are asked for.
	named, dearest []int
	// learned is the memory of running machines by type; nil until it is asked for.
	learned map[*InstanceType]*resource.Quantity
	// starting are the numbers of the machines that have been started and are not ready; patience is how long those of a kind
	// are counted on, as far as asked.
	starting []int
	patience map[startKind]time.Duration
}

// fleetOf is the machines of the snapshot.
func (m *Memo) fleetOf(s *Snapshot) *fleet {
	if offer := m.offerOf(s); m.fleet == nil || m.fleet.offer != offer || !m.fleet.isOf(s, m) {
		m.fleet = m.newFleet(s, offer)
	}
	return m.fleet
}

// isOf reports whether the nodes and claims are those of the snapshot.
func (f *fleet) isOf(s *Snapshot, m *Memo) bool {
	if len(f.nodes) != len(s.Nodes) || len(f.claims) != len(s.NodeClaims) {
		return false
	}
	if slices.Equal(f.nodes, s.Nodes) && slices.Equal(f.claims, s.NodeClaims) {
		return true
	}
	for _, n := range s.Nodes {
		if facts := m.nodes[n]; facts == nil || facts.fleet != f.number {
			return false
		}
	}
	if f.isClaim == nil {
		f.isClaim = make(map[*v1.NodeClaim]bool, len(f.claims))
		for _, c := range f.claims {
			f.isClaim[c] = true
		}
	}
	return !slices.ContainsFunc(s.NodeClaims, func(c *v1.NodeClaim) bool { return !f.isClaim[c] })
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
	joined, twice := make(map[*v1.NodeClaim]bool, len(s.NodeClaims)), map[*v1.NodeClaim]bool{}
	for _, node := range s.Nodes {
		var claim *v1.NodeClaim
		if node.Spec.ProviderID != "" {
			claim = byID[node.Spec.ProviderID]
		}
		if claim != nil {
			if joined[claim] {
				twice[claim] = true
			}
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
	m.fleets++
	f := &fleet{
		number: m.fleets, nodes: slices.Clone(s.Nodes), claims: slices.Clone(s.NodeClaims), offer: offer, machines: machines,
		facts: make([]*nodeFacts, len(machines)),
	}
	for i, x := range machines {
		if !x.initialized && !x.goes && x.launched.known && !x.arrived.known && (x.node != nil || !HasJoined(x.claim)) {
			f.starting = append(f.starting, i)
		}
		if x.node == nil {
			f.nodeless = append(f.nodeless, i)
			continue
		}
		if x.claim != nil && twice[x.claim] && !x.registered {
			f.several = append(f.several, i)
		}
		f.byName, f.facts[i] = append(f.byName, i), m.nodeOf(x.node)
		f.facts[i].fleet = f.number
	}
	slices.SortStableFunc(f.byName, func(a, b int) int { return cmp.Compare(f.machines[a].node.Name, f.machines[b].node.Name) })
	return f
}

// memory is what running machines tell of the memory of others, by type.
func (f *fleet) memory() map[*InstanceType]*resource.Quantity {
	if f.learned == nil {
		f.learned = learn(f.machines)
	}
	return f.learned
}

// readOrders finds out what part machines have in orders; replays do not ask.
func (f *fleet) readOrders(s *Snapshot) {
	if f.ordersRead {
		return
	}
	f.ordersRead = true
	if !slices.ContainsFunc(f.machines, func(x *machine) bool { return x.marked }) {
		return
	}
	list := inProgress(s)
	if len(list) == 0 {
		return
	}
	replaces := map[string]bool{}
	for _, x := range list {
		for _, name := range x.Replacements {
			replaces[name] = true
		}
	}
	f.ordered, f.replaces = make([]bool, len(f.machines)), make([]bool, len(f.machines))
	for i, x := range f.machines {
		f.ordered[i], f.replaces[i] = x.marked, x.claim != nil && replaces[x.claim.Name]
	}
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
	switch {
	case f.machine == nil || f.machine.claim != claim:
		f.machine = newMachine(node, claim, offer)
	case f.offer != offer:
		f.machine = f.machine.resold(offer)
	}
	f.offer = offer
	return f.machine
}

// hostsOf lists the machines of the snapshot, initialized ones first, then by name.
func hostsOf(s *Snapshot, c *census) []*host {
	f := c.memo.fleetOf(s)
	f.readOrders(s)
	all, out := make([]host, len(f.machines)), make([]*host, len(f.machines))
	for i := range all {
		h := &all[i]
		h.machine, h.number = f.machines[i], i
		h.leaving = h.goes
		if f.ordered != nil {
			h.ordered, h.replaces = f.ordered[i], f.replaces[i]
		}
		if h.facts = f.facts[i]; h.node == nil {
			h.roll = &roll{}
		} else {
			h.roll = c.of(h.node.Name)
		}
		h.bound, out[i] = h.roll.bound, h
	}
	for _, i := range f.nodeless {
		all[i].gone = f.machines[i].isGone(s.Now)
	}
	for _, i := range f.several {
		all[i].gone = true
	}
	for _, i := range f.starting {
		all[i].misses = f.machines[i].missing(s.Now)
	}
	for _, i := range f.late(s.Now) {
		all[i].late = !all[i].misses
	}
	return out
}

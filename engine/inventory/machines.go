package inventory

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/dra"
	"tenon.sh/engine/kube"
)

// machineList is the machines of a snapshot as far as its nodes, claims and catalogs tell: the same as long as these are, in whatever
// order they are listed.
type machineList struct {
	number   uint64 // of all lists that the cache has known
	nodes    []*corev1.Node
	claims   []*v1.NodeClaim
	isClaim  map[*v1.NodeClaim]bool // of the claims; nil until it is asked for
	catalogs *catalogs
	Machines []*MachineInfo // as MachinesOf orders them
	// ByName are the numbers of the machines that have a node, by the node's name; nodeless are those of the others, by the
	// claim's. facts are those of the nodes, by number.
	ByName, Nodeless []int
	// several are those of machines of which there are several nodes, less the registered ones: they are not going to be.
	several []int
	Infos   []*NodeInfo
	// ordered and replaces tell, by number, what part machines have in orders, once ordersRead; nil if there are no orders.
	ordered, replaces []bool
	ordersRead        bool
	// named are all numbers by name, dearest those of machines with a claim by price; nil until they are asked for.
	named, dearest []int
	// learned is the memory of running machines by type; nil until it is asked for.
	learned map[*engine.InstanceType]*resource.Quantity
	// starting are the numbers of the machines that have been started and are not ready; patience is how long those of a kind
	// are counted on, as far as asked.
	starting []int
	patience map[startKind]time.Duration
}

// MachineListOf is the machines of the snapshot.
func (m *Cache) MachineListOf(s *engine.Snapshot) *machineList {
	if offer := m.CatalogsOf(s); m.machines == nil || m.machines.catalogs != offer || !m.machines.isOf(s, m) {
		m.machines = m.newMachineList(s, offer)
	}
	return m.machines
}

// isOf reports whether the nodes and claims are those of the snapshot.
func (f *machineList) isOf(s *engine.Snapshot, m *Cache) bool {
	if len(f.nodes) != len(s.Nodes) || len(f.claims) != len(s.NodeClaims) {
		return false
	}
	if slices.Equal(f.nodes, s.Nodes) && slices.Equal(f.claims, s.NodeClaims) {
		return true
	}
	for _, n := range s.Nodes {
		if infos := m.nodes[n]; infos == nil || infos.machineList != f.number {
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

// newMachineList joins nodes and claims by provider ID.
func (m *Cache) newMachineList(s *engine.Snapshot, offer *catalogs) *machineList {
	byID := make(map[string]*v1.NodeClaim, len(s.NodeClaims))
	for _, c := range s.NodeClaims {
		id := c.Status.ProviderID
		if other := byID[id]; id != "" && (other == nil || c.Name < other.Name) {
			byID[id] = c
		}
	}
	machines := make([]*MachineInfo, 0, len(s.Nodes))
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
	m.machineLists++
	f := &machineList{
		number: m.machineLists, nodes: slices.Clone(s.Nodes), claims: slices.Clone(s.NodeClaims), catalogs: offer, Machines: machines,
		Infos: make([]*NodeInfo, len(machines)),
	}
	for i, x := range machines {
		if !x.Initialized && !x.Goes && x.launched.Known && !x.Arrived.Known && (x.Node != nil || !kube.HasJoined(x.Claim)) {
			f.starting = append(f.starting, i)
		}
		if x.Node == nil {
			f.Nodeless = append(f.Nodeless, i)
			continue
		}
		if x.Claim != nil && twice[x.Claim] && !x.registered {
			f.several = append(f.several, i)
		}
		f.ByName, f.Infos[i] = append(f.ByName, i), m.nodeOf(x.Node)
		f.Infos[i].machineList = f.number
	}
	slices.SortStableFunc(f.ByName, func(a, b int) int { return cmp.Compare(f.Machines[a].Node.Name, f.Machines[b].Node.Name) })
	return f
}

// published is what drivers have published, nil if no machine that starts waits for that.
func (f *machineList) published(s *engine.Snapshot, cache *Cache) *dra.Published {
	if s.Selectors == nil || !slices.ContainsFunc(f.starting, func(i int) bool { return len(kube.DriversAskedFor(f.Machines[i].Claim)) > 0 }) {
		return nil
	}
	return cache.PublishedIn(s)
}

// Memory is what running machines tell of the memory of others, by type.
func (f *machineList) Memory() map[*engine.InstanceType]*resource.Quantity {
	if f.learned == nil {
		f.learned = observedMemory(f.Machines)
	}
	return f.learned
}

// readOrders finds out what part machines have in orders; replays do not ask.
func (f *machineList) readOrders(s *engine.Snapshot) {
	if f.ordersRead {
		return
	}
	f.ordersRead = true
	if !slices.ContainsFunc(f.Machines, func(x *MachineInfo) bool { return x.marked }) {
		return
	}
	list := DisruptionsInProgress(s)
	if len(list) == 0 {
		return
	}
	replaces := map[string]bool{}
	for _, x := range list {
		for _, name := range x.Replacements {
			replaces[name] = true
		}
	}
	f.ordered, f.replaces = make([]bool, len(f.Machines)), make([]bool, len(f.Machines))
	for i, x := range f.Machines {
		f.ordered[i], f.replaces[i] = x.marked, x.Claim != nil && replaces[x.Claim.Name]
	}
}

// InNames are the numbers of the machines, by name.
func (f *machineList) InNames() []int {
	if f.named == nil {
		for i := range f.Machines {
			f.named = append(f.named, i)
		}
		slices.SortStableFunc(f.named, func(a, b int) int {
			return CompareMachineNames(f.Machines[a], f.Machines[b])
		})
	}
	return f.named
}

// DearestFirst are the numbers of the machines that have a claim, those that cost most without commitments first, then by name.
func (f *machineList) DearestFirst() []int {
	if f.dearest == nil {
		for _, i := range f.InNames() {
			if f.Machines[i].Claim != nil {
				f.dearest = append(f.dearest, i)
			}
		}
		slices.SortStableFunc(f.dearest, func(a, b int) int { return cmp.Compare(f.Machines[b].FullPrice, f.Machines[a].FullPrice) })
	}
	return f.dearest
}

// machineOf is newMachine of a node, remembered.
func (m *Cache) machineOf(node *corev1.Node, claim *v1.NodeClaim, offer *catalogs) *MachineInfo {
	f := m.nodeOf(node)
	switch {
	case f.machine == nil || f.machine.Claim != claim:
		f.machine = newMachine(node, claim, offer)
	case f.catalogs != offer:
		f.machine = f.machine.withCatalogs(offer)
	}
	f.catalogs = offer
	return f.machine
}

// MachinesOf lists the machines of the snapshot, initialized ones first, then by name.
func MachinesOf(s *engine.Snapshot, c *PodIndex) []*Machine {
	f := c.Cache.MachineListOf(s)
	f.readOrders(s)
	all, out := make([]Machine, len(f.Machines)), make([]*Machine, len(f.Machines))
	for i := range all {
		m := &all[i]
		m.MachineInfo, m.Number = f.Machines[i], i
		m.Leaving, m.Price = m.Goes, m.FullPrice
		if f.ordered != nil {
			m.Ordered, m.Replaces = f.ordered[i], f.replaces[i]
		}
		if m.Info = f.Infos[i]; m.Node == nil {
			m.Pods = &NodePods{}
		} else {
			m.Pods = c.PodsOn(m.Node.Name)
		}
		m.Bound, out[i] = m.Pods.Bound, m
	}
	for _, i := range f.Nodeless {
		all[i].Gone = f.Machines[i].IsGone(s.Now)
	}
	for _, i := range f.several {
		all[i].Gone = true
	}
	published := f.published(s, c.Cache)
	for _, i := range f.starting {
		all[i].Misses = f.Machines[i].missing(s.Now, published)
	}
	for _, i := range f.overdue(s.Now) {
		all[i].Overdue = !all[i].Misses
	}
	if len(s.Commitments) > 0 {
		bill := BillOf(s, c.Cache, out)
		for _, m := range out {
			m.Price = bill.Price(m.Name(), m.FullPrice, s.NodeOverheadPrice)
		}
	}
	return out
}

func CompareMachineNames(a, b *MachineInfo) int {
	return cmp.Or(kube.CompareNaturally(a.Name(), b.Name()), cmp.Compare(a.ClaimName(), b.ClaimName()))
}

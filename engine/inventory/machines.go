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

// machineList is the machines of a snapshot, joined from its nodes, claims and catalogs. It is reused as long as these do not change, in any order.
type machineList struct {
	number   uint64 // its index among all lists of the cache
	nodes    []*corev1.Node
	claims   []*v1.NodeClaim
	isClaim  map[*v1.NodeClaim]bool // whether a claim is one of claims; nil until it is needed
	catalogs *catalogs
	Machines []*MachineInfo // the machines in the order of MachinesOf
	// ByName holds the indexes of the machines with a node, by the node's name; Nodeless holds the indexes of the others, by the claim's name. Infos
	// are the infos of the nodes, by index.
	ByName, Nodeless []int
	// several holds the indexes of unregistered nodes whose machines have several nodes: they will not be registered.
	several []int
	Infos   []*NodeInfo
	// ordered[i] is true if a disruption in progress removes machine i, replaces[i] if machine i is a replacement in one. Both are read once
	// ordersRead is true, and nil if no disruption is in progress.
	ordered, replaces []bool
	ordersRead        bool
	// named holds all indexes, sorted by the machines' names. dearest holds the indexes of machines with a claim, sorted by price. Each is nil until
	// it is needed.
	named, dearest []int
	// learned is the memory of running machines by type; nil until it is needed.
	learned map[*engine.InstanceType]*resource.Quantity
	// starting holds the indexes of the machines that have been started and are not ready. patience holds how long plans use machines of a kind
	// before they are ready, for the kinds of which PatienceFor was called.
	starting []int
	patience map[startKind]time.Duration
}

// MachineListOf returns the machines of the snapshot.
func (cache *Cache) MachineListOf(s *engine.Snapshot) *machineList {
	if offer := cache.CatalogsOf(s); cache.machines == nil || cache.machines.catalogs != offer || !cache.machines.isOf(s, cache) {
		cache.machines = cache.newMachineList(s, offer)
	}
	return cache.machines
}

// isOf reports whether the nodes and claims are those of the snapshot.
func (l *machineList) isOf(s *engine.Snapshot, cache *Cache) bool {
	if len(l.nodes) != len(s.Nodes) || len(l.claims) != len(s.NodeClaims) {
		return false
	}
	if slices.Equal(l.nodes, s.Nodes) && slices.Equal(l.claims, s.NodeClaims) {
		return true
	}
	for _, n := range s.Nodes {
		if infos := cache.nodes[n]; infos == nil || infos.machineList != l.number {
			return false
		}
	}
	if l.isClaim == nil {
		l.isClaim = make(map[*v1.NodeClaim]bool, len(l.claims))
		for _, c := range l.claims {
			l.isClaim[c] = true
		}
	}
	return !slices.ContainsFunc(s.NodeClaims, func(c *v1.NodeClaim) bool { return !l.isClaim[c] })
}

// newMachineList joins nodes and claims by provider ID.
func (cache *Cache) newMachineList(s *engine.Snapshot, offer *catalogs) *machineList {
	machines, twice := cache.joinNodes(s, offer)
	slices.SortFunc(machines, compareMachines)
	cache.machineLists++
	l := &machineList{
		number: cache.machineLists, nodes: slices.Clone(s.Nodes), claims: slices.Clone(s.NodeClaims), catalogs: offer, Machines: machines,
		Infos: make([]*NodeInfo, len(machines)),
	}
	for i, x := range machines {
		if !x.Initialized && !x.Goes && x.launched.Known && !x.Arrived.Known && (x.Node != nil || !kube.HasJoined(x.Claim)) {
			l.starting = append(l.starting, i)
		}
		if x.Node == nil {
			l.Nodeless = append(l.Nodeless, i)
			continue
		}
		if x.Claim != nil && twice[x.Claim] && !x.registered {
			l.several = append(l.several, i)
		}
		l.ByName, l.Infos[i] = append(l.ByName, i), cache.nodeOf(x.Node)
		l.Infos[i].machineList = l.number
	}
	slices.SortStableFunc(l.ByName, func(a, b int) int { return cmp.Compare(l.Machines[a].Node.Name, l.Machines[b].Node.Name) })
	return l
}

// joinNodes returns a machine for each node, and for each claim without a node. It also returns the claims with several nodes.
func (cache *Cache) joinNodes(s *engine.Snapshot, offer *catalogs) (machines []*MachineInfo, twice map[*v1.NodeClaim]bool) {
	byID := make(map[string]*v1.NodeClaim, len(s.NodeClaims))
	for _, c := range s.NodeClaims {
		id := c.Status.ProviderID
		if other := byID[id]; id != "" && (other == nil || c.Name < other.Name) {
			byID[id] = c
		}
	}
	machines = make([]*MachineInfo, 0, len(s.Nodes))
	joined := make(map[*v1.NodeClaim]bool, len(s.NodeClaims))
	twice = map[*v1.NodeClaim]bool{}
	for _, node := range s.Nodes {
		claim := byID[node.Spec.ProviderID] // nil for a node without an ID
		if claim != nil {
			twice[claim] = joined[claim]
			joined[claim] = true
		}
		machines = append(machines, cache.machineOf(node, claim, offer))
	}
	for _, claim := range s.NodeClaims {
		if !joined[claim] {
			machines = append(machines, newMachine(nil, claim, offer))
		}
	}
	return machines, twice
}

// published returns the devices that drivers have published. It returns nil if no starting machine waits for any.
func (l *machineList) published(s *engine.Snapshot, cache *Cache) *dra.Published {
	if s.Selectors == nil || !slices.ContainsFunc(l.starting, func(i int) bool { return len(kube.DriversAskedFor(l.Machines[i].Claim)) > 0 }) {
		return nil
	}
	return cache.PublishedIn(s)
}

// Memory returns the memory of machines of each type, learned from running machines.
func (l *machineList) Memory() map[*engine.InstanceType]*resource.Quantity {
	if l.learned == nil {
		l.learned = observedMemory(l.Machines)
	}
	return l.learned
}

// readOrders reads the parts of machines in disruptions in progress, which replays do not need.
func (l *machineList) readOrders(s *engine.Snapshot) {
	if l.ordersRead {
		return
	}
	l.ordersRead = true
	if !slices.ContainsFunc(l.Machines, func(x *MachineInfo) bool { return x.marked }) {
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
	l.ordered, l.replaces = make([]bool, len(l.Machines)), make([]bool, len(l.Machines))
	for i, x := range l.Machines {
		l.ordered[i], l.replaces[i] = x.marked, x.Claim != nil && replaces[x.Claim.Name]
	}
}

// InNames returns the indexes of the machines, in order of name.
func (l *machineList) InNames() []int {
	if l.named == nil {
		for i := range l.Machines {
			l.named = append(l.named, i)
		}
		slices.SortStableFunc(l.named, func(a, b int) int {
			return CompareMachineNames(l.Machines[a], l.Machines[b])
		})
	}
	return l.named
}

// DearestFirst returns the indexes of the machines with a claim, by price without commitments, highest first, then by name.
func (l *machineList) DearestFirst() []int {
	if l.dearest == nil {
		for _, i := range l.InNames() {
			if l.Machines[i].Claim != nil {
				l.dearest = append(l.dearest, i)
			}
		}
		slices.SortStableFunc(l.dearest, func(a, b int) int { return cmp.Compare(l.Machines[b].FullPrice, l.Machines[a].FullPrice) })
	}
	return l.dearest
}

// machineOf is newMachine for a node, with a cache.
func (cache *Cache) machineOf(node *corev1.Node, claim *v1.NodeClaim, offer *catalogs) *MachineInfo {
	f := cache.nodeOf(node)
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
	l := c.Cache.MachineListOf(s)
	l.readOrders(s)
	all, out := make([]Machine, len(l.Machines)), make([]*Machine, len(l.Machines))
	for i := range all {
		m := &all[i]
		m.MachineInfo, m.Number = l.Machines[i], i
		m.Leaving, m.Price = m.Goes, m.FullPrice
		if l.ordered != nil {
			m.Ordered, m.Replaces = l.ordered[i], l.replaces[i]
		}
		if m.Info = l.Infos[i]; m.Node == nil {
			m.Pods = &NodePods{}
		} else {
			m.Pods = c.PodsOn(m.Node.Name)
		}
		m.Bound, out[i] = m.Pods.Bound, m
	}
	for _, i := range l.Nodeless {
		all[i].Gone = l.Machines[i].IsGone(s.Now)
	}
	for _, i := range l.several {
		all[i].Gone = true
	}
	published := l.published(s, c.Cache)
	for _, i := range l.starting {
		all[i].Misses = l.Machines[i].missing(s.Now, published)
	}
	for _, i := range l.overdue(s.Now) {
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

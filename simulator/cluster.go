package simulator

import (
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/device"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
)

// cluster holds the objects of the API server, each with the world's own data about it. The cluster notes in pending and timetable
// which work a change leaves.
type cluster struct {
	agenda    *agenda
	pending   *pending
	timetable *timetable
	markets   *markets
	// base holds objects that change seldom or never.
	base      *engine.Snapshot
	units     roster
	unbound   shelf[*unit] // the pods that wait for a node
	seats     map[string]*seat
	seatList  []*seat
	claims    shelf[*v1.NodeClaim]
	claimByID map[string]string // the names of claims, by the IDs of their machines
	resources resources
	shapes    *shapes
	guards    *guards
	devices   *devices
	uids      int // how many UIDs and resource versions were given
	numbers   int // how many pods were added
}

// newCluster returns a cluster without objects except those of base.
func newCluster(base *engine.Snapshot, a *agenda, p *pending, t *timetable, l *laws) *cluster {
	c := &cluster{
		agenda: a, pending: p, timetable: t, base: base,
		units: roster{shelf: newShelf[*unit]()}, unbound: newShelf[*unit](), seats: map[string]*seat{}, claims: newShelf[*v1.NodeClaim](),
		claimByID: map[string]string{}, resources: resources{}, guards: &guards{changed: true}, devices: newDevices(base, l),
	}
	for _, b := range base.PodDisruptionBudgets {
		c.guards.list = append(c.guards.list, newGuard(b))
	}
	c.shapes = &shapes{byKey: map[string]*shape{}, resources: c.resources, guards: c.guards, devices: c.devices}
	return c
}

// nextID returns a number for a UID or a resource version.
func (c *cluster) nextID() int {
	c.uids++
	return c.uids
}

// putClaim adds a claim, or replaces it.
func (c *cluster) putClaim(claim *v1.NodeClaim) {
	c.claims.put(claim.Name, claim)
	if claim.Status.ProviderID != "" {
		c.claimByID[claim.Status.ProviderID] = claim.Name
	}
}

func (c *cluster) removeClaim(claim *v1.NodeClaim) {
	c.claims.remove(claim.Name)
	delete(c.claimByID, claim.Status.ProviderID)
}

func (c *cluster) addSeat(s *seat) {
	c.seats[s.node.Name] = s
	c.seatList = append(c.seatList, s)
}

// removeSeat removes a node, with the objects that exist only beside it.
func (c *cluster) removeSeat(s *seat) {
	delete(c.seats, s.node.Name)
	c.seatList = slices.DeleteFunc(c.seatList, func(o *seat) bool { return o == s })
	c.base.CSINodes = slices.DeleteFunc(slices.Clone(c.base.CSINodes), func(n *storagev1.CSINode) bool { return n.Name == s.node.Name })
	c.devices.unpublish(s.node.Name)
}

// addUnit adds a pod, and finds its shape and its node.
func (c *cluster) addUnit(u *unit) {
	u.shape = c.shapes.of(u)
	u.need = u.shape.need
	c.numbers++
	u.number = c.numbers
	if u.pod.Spec.NodeName != "" {
		u.seat = c.seats[u.pod.Spec.NodeName]
	}
	c.units.put(u)
	u.shape.units.put(u.key(), u)
}

// removeUnit removes a pod, with its claims of devices, and its shape if no other pod may have it.
func (c *cluster) removeUnit(u *unit) {
	c.devices.drop(u)
	c.units.remove(u)
	c.unbound.remove(u.key())
	u.shape.units.remove(u.key())
	if len(u.shape.units.list) == 0 && (u.load == nil || u.version != u.load.newest || u.stay != nil) {
		c.shapes.forget(u)
	}
}

// snapshot returns the cluster as it is now. Its list of pods belongs to the world: a caller that keeps the list copies it.
func (c *cluster) snapshot(ctx context.Context) *engine.Snapshot {
	s := *c.base
	s.Now = c.agenda.now
	s.Pods = c.units.pods
	s.Nodes = make([]*corev1.Node, 0, len(c.seatList))
	for _, seat := range c.seatList {
		s.Nodes = append(s.Nodes, seat.node)
	}
	c.guards.count()
	s.NodeClaims = append(s.NodeClaims[:0:0], c.claims.list...)
	s.PodDisruptionBudgets = c.guards.budgets()
	s.ResourceClaims = append(s.ResourceClaims[:0:0], c.devices.claims.list...)
	s.Classes = make([]engine.Class, 0, len(c.markets.list))
	for _, m := range c.markets.list {
		class := m.class
		class.InstanceTypes = m.catalog(ctx, c.agenda.now)
		s.Classes = append(s.Classes, class)
	}
	return &s
}

// annotatePool sets an annotation of a NodePool.
func (c *cluster) annotatePool(name, key, text string) {
	pools := slices.Clone(c.base.NodePools)
	for i, p := range pools {
		if p.Name == name {
			pools[i] = p.DeepCopy()
			metav1.SetMetaDataAnnotation(&pools[i].ObjectMeta, key, text)
		}
	}
	c.base.NodePools = pools
}

// anyToMove reports whether leaving nodes run pods that will need another node.
func (c *cluster) anyToMove() bool {
	return slices.ContainsFunc(c.seatList, func(s *seat) bool {
		if claim := c.claimOf(s); claim == nil || claim.DeletionTimestamp == nil && s.node.DeletionTimestamp == nil {
			return false
		}
		return slices.ContainsFunc(s.units, func(u *unit) bool { return kube.IsReschedulable(u.pod) })
	})
}

// noteChange tells the timetable that the cluster has changed.
func (c *cluster) noteChange() { c.timetable.noteChange(c.size()) }

// size returns the numbers of pods and nodes.
func (c *cluster) size() (pods, nodes int) { return len(c.units.list), len(c.seatList) }

// foreignNodes returns the nodes without a claim: the bill does not include them.
func (c *cluster) foreignNodes() map[string]bool {
	out := map[string]bool{}
	for _, s := range c.seatList {
		if c.claimOf(s) == nil {
			out[s.node.Name] = true
		}
	}
	return out
}

// beyondSpot returns how much more an on-demand machine costs than a spot machine of its type and zone, if its NodePool allows spot.
func (c *cluster) beyondSpot(s *seat, claim *v1.NodeClaim) float64 {
	pool, m := c.pool(claim.Labels[v1.NodePoolLabelKey]), c.markets.of(claim)
	if s.node.Labels[v1.CapacityTypeLabelKey] != v1.CapacityTypeOnDemand || pool == nil || m == nil ||
		!kube.AllowsValue(pool.Spec.Template.Spec.Requirements, v1.CapacityTypeLabelKey, v1.CapacityTypeSpot) {
		return 0
	}
	labels := maps.Clone(s.node.Labels)
	labels[v1.CapacityTypeLabelKey] = v1.CapacityTypeSpot
	spot := c.markets.price(m, labels)
	if spot <= c.base.NodeOverheadPrice { // not sold
		return 0
	}
	return max(0, c.priceOf(s)-spot)
}

// priceOf returns the price of a node now, in the list that plans use, with the fixed cost of a node.
func (c *cluster) priceOf(s *seat) float64 {
	m := c.markets.of(c.claimOf(s))
	if m == nil || m.cloud == nil {
		return 0
	}
	return c.markets.price(m, s.node.Labels)
}

// touch notes that the claim of a node needs a step, or a deleted node without a claim.
func (c *cluster) touch(s *seat) {
	if claim := c.claimOf(s); claim != nil {
		c.pending.toStep(claim.Name)
	} else if s.node.DeletionTimestamp != nil {
		c.pending.toStep(s.node.Name)
	}
}

// podsChanged notes that the claim of a node needs a step because of its pods. For a node in use, the next disruption pass is early enough.
func (c *cluster) podsChanged(s *seat) {
	claim := c.claimOf(s)
	switch {
	case claim == nil:
		c.touch(s)
	case claim.DeletionTimestamp == nil && v1.IsTrue(claim, v1.ConditionInitialized):
		c.pending.observed.add(claim.Name)
		c.noteChange()
	default:
		c.pending.toStep(claim.Name)
	}
}

// claimOf returns the claim of a node, or nil.
func (c *cluster) claimOf(s *seat) *v1.NodeClaim {
	name, ok := c.claimByID[s.node.Spec.ProviderID]
	if !ok {
		return nil
	}
	claim, _ := c.claims.get(name)
	return claim
}

func (c *cluster) newSeat(node *corev1.Node) *seat {
	return &seat{node: node, alive: true, leaving: node.DeletionTimestamp != nil, room: c.resources.amountsIn(node.Status.Allocatable)}
}

// freed notes that a node has new room, so kube-scheduler soon tries the pending pods again.
func (c *cluster) freed() {
	if c.unbound.list != nil {
		c.timetable.retry(func() bool { return len(c.unbound.list) > 0 })
	}
}

// seatOf returns the node of a claim. Nodes have the names of their claims, except the nodes of the first snapshot.
func (c *cluster) seatOf(claim *v1.NodeClaim) *seat {
	if claim.Status.ProviderID == "" {
		return nil
	}
	if s := c.seats[claim.Name]; s != nil && s.node.Spec.ProviderID == claim.Status.ProviderID {
		return s
	}
	for _, s := range c.seatList {
		if s.node.Spec.ProviderID == claim.Status.ProviderID {
			return s
		}
	}
	return nil
}

// pool returns the NodePool with the name, or nil.
func (c *cluster) pool(name string) *v1.NodePool {
	i := slices.IndexFunc(c.base.NodePools, func(p *v1.NodePool) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return c.base.NodePools[i]
}

// anyUnplanned reports whether a pending pod is planned on no machine that is still starting.
func (c *cluster) anyUnplanned() bool {
	planned := map[string]bool{}
	for _, claim := range c.claims.list {
		if claim.DeletionTimestamp == nil && !v1.IsTrue(claim, v1.ConditionInitialized) {
			for _, uid := range kube.PlannedPods(claim) {
				planned[uid] = true
			}
		}
	}
	return slices.ContainsFunc(c.unbound.list, func(u *unit) bool { return !planned[u.key()] })
}

// expectedDevices returns the pools of devices that drivers publish on a claim's machine without a fault.
func (c *cluster) expectedDevices(name string, t *engine.InstanceType) []device.Template {
	claim, _ := c.claims.get(name)
	if claim == nil {
		return t.Claimable
	}
	return inventory.ExpectedDevices(kube.FindPool(c.base, claim.Labels[v1.NodePoolLabelKey]), t.Name, t)
}

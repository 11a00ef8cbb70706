package explain

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/dra"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/offering"
	"tenon.sh/engine/provisioning"
	"tenon.sh/engine/volume"
)

// savingsPlan is the state of one NewSavings.
type savingsPlan struct {
	s        *engine.Snapshot
	opt      engine.Options
	nodes    []*corev1.Node          // of the pools, with a known price, by name
	price    map[string]float64      // of those nodes, without the amounts that commitments pay
	full     map[string]float64      // the same, with the amounts that commitments pay
	places   map[string]string       // capacity reservations of the nodes that use one
	expected map[engine.PodID]string // waiting pods that fit compared nodes: these nodes are not idle
	staying  map[string]bool         // nodes that the plan needs
	pools    map[string]*PoolSavings
	learned  []engine.LearnedDevices // from the plan for the current nodes
	planned  *engine.Plan            // for the pods of the compared nodes
	classes  []engine.Class          // with observed volume limits, without unpriced offerings
	out      *Savings
}

// priceNodes selects the compared nodes, and sets their current costs.
func (saving *savingsPlan) priceNodes() {
	saving.pools, saving.places = map[string]*PoolSavings{}, map[string]string{}
	for _, pool := range saving.s.NodePools {
		saving.pools[pool.Name] = &PoolSavings{NodePool: pool.Name}
	}
	known, prices, bill := kube.PoolsByName(saving.s), inventory.NewPriceBook(saving.s), inventory.BillOfSnapshot(saving.joined())
	saving.out.Commitments = inventory.CommitmentUses(saving.s)
	for _, n := range kube.ByName(saving.s.Nodes) {
		pool := known[n.Labels[v1.NodePoolLabelKey]]
		if pool == nil {
			saving.out.Outside++
			continue
		}
		price, ok := prices.DecisionPrice(n.Labels, pool.Spec.Template.Spec.NodeClassRef)
		if !ok {
			saving.out.Unpriced = append(saving.out.Unpriced, n.Name)
			continue
		}
		saving.full[n.Name] = price
		price = bill.Price(n.Name, price, saving.s.NodeOverheadPrice)
		saving.nodes = append(saving.nodes, n)
		saving.price[n.Name] = price
		saving.places[n.Name] = prices.Reservation(n.Labels, pool.Spec.Template.Spec.NodeClassRef)
		saving.pools[pool.Name].Nodes++
		saving.pools[pool.Name].NowPerHour += price
		saving.out.NowPerHour += price
	}
}

// expectPods finds the waiting pods for which the compared nodes have room.
func (saving *savingsPlan) expectPods() {
	saving.expected = map[engine.PodID]string{}
	now := provisioning.Plan(saving.s, saving.opt, nil)
	saving.learned = now.LearnedDevices
	for _, p := range now.Placements {
		if _, compared := saving.price[p.Node]; compared {
			saving.expected[p.Pod] = p.Node
		}
	}
	saving.out.Pods = len(saving.expected)
	for _, pod := range saving.s.Pods {
		if _, compared := saving.price[pod.Spec.NodeName]; compared && kube.IsReschedulable(pod) {
			saving.out.Pods++
		}
	}
}

// mostRefits bounds how often the plan is made again; each round adds nodes that the plan needs. If nodes are missing after the last round,
// their price counts twice: the error is to the plan's disadvantage.
const mostRefits = 8

// plan makes the plan for the pods of the compared nodes. If the plan refuses a pod, the pod's node stays, because the comparison would be false
// without it.
func (saving *savingsPlan) plan() *engine.Plan {
	plan := &engine.Plan{}
	limits := volume.LearnLimits(saving.s, kube.NewTypeIndex(saving.s))
	saving.classes = limits.In(priced(saving.s.Classes))
	for range mostRefits {
		plan = provisioning.Plan(saving.without(), saving.opt, nil)
		if !saving.putBack(plan) {
			break
		}
	}
	return plan
}

// priced returns the classes without offerings of unknown price: a pod that needs one keeps its node.
func priced(classes []engine.Class) []engine.Class {
	classes = slices.Clone(classes)
	for i := range classes {
		types := slices.Clone(classes[i].InstanceTypes)
		for j := range types {
			if slices.ContainsFunc(types[j].Offerings, func(o engine.Offering) bool { return o.PriceUnknown }) {
				types[j].Offerings = slices.DeleteFunc(slices.Clone(types[j].Offerings), func(o engine.Offering) bool { return o.PriceUnknown })
				classes[i].InstanceTypes = types
			}
		}
	}
	return classes
}

// joined returns the snapshot without claims that have no node: they are on neither side.
func (saving *savingsPlan) joined() *engine.Snapshot {
	s := *saving.s
	nodes := map[string]bool{}
	for _, n := range saving.s.Nodes {
		nodes[n.Spec.ProviderID] = true
	}
	s.NodeClaims = slices.DeleteFunc(slices.Clone(saving.s.NodeClaims), func(c *v1.NodeClaim) bool { return c.Status.ProviderID == "" || !nodes[c.Status.ProviderID] })
	return &s
}

// without returns the snapshot without the compared nodes, except the staying ones; the pods of the removed nodes are pending.
func (saving *savingsPlan) without() *engine.Snapshot {
	gone := map[string]bool{}
	for _, n := range saving.nodes {
		gone[n.Name] = !saving.staying[n.Name]
	}
	s := *saving.s
	saving.out.Pending, saving.out.Starting = 0, 0
	ids := map[string]bool{}
	s.Nodes = nil
	for _, n := range saving.s.Nodes {
		ids[n.Spec.ProviderID] = gone[n.Name]
		switch {
		case gone[n.Name]:
		case saving.staying[n.Name]:
			s.Nodes = append(s.Nodes, n)
		default: // free room on a node that is not compared would make the plan look cheap
			s.Nodes = append(s.Nodes, closed(n))
		}
	}
	s.NodeClaims = nil
	for _, c := range saving.s.NodeClaims {
		leaves, joined := ids[c.Status.ProviderID]
		switch {
		case c.Status.ProviderID == "" || !joined:
			saving.out.Starting++
		case !leaves:
			s.NodeClaims = append(s.NodeClaims, c)
		}
	}
	var moved []*corev1.Pod
	s.Pods, moved = saving.podsWithout(gone)
	s.ResourceClaims = dra.Unallocated(s.ResourceClaims, s.ResourceClaimTemplates, moved)
	s.NodePools = saving.knowing()
	s.VolumeAttachments = slices.DeleteFunc(slices.Clone(s.VolumeAttachments), func(x *storagev1.VolumeAttachment) bool { return gone[x.Spec.NodeName] })
	s.CSINodes = slices.DeleteFunc(slices.Clone(s.CSINodes), func(x *storagev1.CSINode) bool { return gone[x.Name] })
	s.Classes = saving.released(gone)
	return &s
}

// released returns the classes with the slots in capacity reservations that the removed nodes give back.
func (saving *savingsPlan) released(gone map[string]bool) []engine.Class {
	free := map[string]int{}
	for _, n := range saving.nodes {
		if place := saving.places[n.Name]; place != "" && gone[n.Name] {
			free[place]++
		}
	}
	if len(free) == 0 {
		return saving.classes
	}
	classes := slices.Clone(saving.classes)
	for i := range classes {
		classes[i].InstanceTypes = slices.Clone(classes[i].InstanceTypes)
		for j := range classes[i].InstanceTypes {
			t := &classes[i].InstanceTypes[j]
			t.Offerings = slices.Clone(t.Offerings)
			for k := range t.Offerings {
				t.Offerings[k].Slots += free[t.Offerings[k].Reservation]
			}
		}
	}
	return classes
}

// knowing returns the pools with the devices that the plan for the current nodes learned.
func (saving *savingsPlan) knowing() []*v1.NodePool {
	pools := slices.Clone(saving.s.NodePools)
	for _, l := range saving.learned {
		i := slices.IndexFunc(pools, func(p *v1.NodePool) bool { return p.Name == l.NodePool })
		pools[i] = pools[i].DeepCopy()
		metav1.SetMetaDataAnnotation(&pools[i].ObjectMeta, v1.LearnedDevicesAnnotationKey, l.Text)
	}
	return pools
}

// podsWithout returns the pods of the snapshot without the removed nodes, and those that run on removed nodes and are now pending.
func (saving *savingsPlan) podsWithout(gone map[string]bool) (pods, moved []*corev1.Pod) {
	for _, pod := range saving.s.Pods {
		switch {
		case pod.Spec.NodeName == "" && saving.expected[kube.PodID(pod)] != "":
			pods = append(pods, unbound(pod))
		case pod.Spec.NodeName == "":
			if kube.IsPending(pod) {
				saving.out.Pending++
			}
		case !gone[pod.Spec.NodeName]:
			pods = append(pods, pod)
		case kube.IsReschedulable(pod):
			pods, moved = append(pods, unbound(pod)), append(moved, pod)
		}
	}
	return pods, moved
}

// closed returns the node as unschedulable.
func closed(n *corev1.Node) *corev1.Node {
	out := *n
	out.Spec.Unschedulable = true
	return &out
}

// unbound returns the pod as pending and unschedulable.
func unbound(pod *corev1.Pod) *corev1.Pod {
	out := *pod
	out.Spec.NodeName, out.DeletionTimestamp = "", nil
	out.Status.Phase, out.Status.NominatedNodeName = corev1.PodPending, ""
	out.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
	}}
	return &out
}

// putBack lets the nodes of refused pods stay, and reports whether it added any.
func (saving *savingsPlan) putBack(plan *engine.Plan) bool {
	nodeOf := map[engine.PodID]string{}
	for _, pod := range saving.s.Pods {
		nodeOf[kube.PodID(pod)] = cmp.Or(pod.Spec.NodeName, saving.expected[kube.PodID(pod)])
	}
	more := false
	for _, u := range plan.Unplaced {
		node := nodeOf[u.Pod]
		if _, compared := saving.price[node]; !compared || saving.staying[node] {
			continue
		}
		saving.staying[node], more = true, true
		saving.out.Staying = append(saving.out.Staying, StayingRecord{node, u.Pod.String(), reasonRecords(u.Reasons)})
	}
	slices.SortFunc(saving.out.Staying, func(x, y StayingRecord) int { return kube.CompareNaturally(x.Node, y.Node) })
	return more
}

// setPlanned adds up the cost of the plan, including the nodes that stay.
func (saving *savingsPlan) setPlanned(plan *engine.Plan) {
	counts := map[MachineCount]int{}
	add := func(pool, kind, capacity string, price float64) {
		saving.pools[pool].PlannedNodes++
		saving.pools[pool].PlannedPerHour += price
		saving.out.PlannedPerHour += price
		counts[MachineCount{NodePool: pool, InstanceType: kind, CapacityType: capacity, PricePerHour: price}]++
	}
	stays := 0.0
	bill := inventory.BillOfSnapshot(saving.without())
	for _, n := range saving.nodes {
		if saving.staying[n.Name] {
			id := inventory.MachineOffering(n.Labels)
			price := bill.Price(n.Name, saving.full[n.Name], saving.s.NodeOverheadPrice)
			add(n.Labels[v1.NodePoolLabelKey], id.InstanceType, id.CapacityType, price)
			stays += price
		}
	}
	for _, l := range plan.Launches {
		add(l.NodePool, l.Offerings[0].InstanceType, l.Offerings[0].CapacityType, l.Price)
	}
	// With commitments the bound is false if nodes stay, because the commitment of a staying machine might pay for a dearer new one.
	shared := stays > 0 && len(saving.s.Commitments) > 0
	if bound := stays + plan.Cost.Bound; !shared && (plan.Cost.Bound > 0 || len(plan.Launches) == 0) {
		saving.out.BoundPerHour = &bound
	}
	saving.out.OnStaying, saving.out.PlannedCommitments = len(plan.Placements), plan.Commitments
	for m, n := range counts {
		m.Count = n
		saving.out.Planned = append(saving.out.Planned, m)
	}
	slices.SortFunc(saving.out.Planned, func(x, y MachineCount) int {
		return cmp.Or(cmp.Compare(x.NodePool, y.NodePool), cmp.Compare(y.PricePerHour*float64(y.Count), x.PricePerHour*float64(x.Count)),
			cmp.Compare(x.InstanceType, y.InstanceType), cmp.Compare(x.CapacityType, y.CapacityType), cmp.Compare(x.PricePerHour, y.PricePerHour))
	})
	for _, name := range sortedPools(saving.pools) {
		saving.out.Pools = append(saving.out.Pools, *saving.pools[name])
	}
}

func sortedPools(pools map[string]*PoolSavings) []string {
	names := make([]string, 0, len(pools))
	for name := range pools {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// setIdle ranks the compared nodes by the unused part of their price.
func (saving *savingsPlan) setIdle() {
	used := saving.requested()
	for _, n := range saving.nodes {
		share, _ := largestShare(used[n.Name], n.Status.Allocatable)
		saving.out.Idle = append(saving.out.Idle, IdleRecord{
			Node: n.Name, NodePool: n.Labels[v1.NodePoolLabelKey], InstanceType: inventory.MachineOffering(n.Labels).InstanceType,
			PricePerHour: saving.price[n.Name], Used: share, IdlePerHour: saving.price[n.Name] * max(0, 1-share),
		})
	}
	slices.SortFunc(saving.out.Idle, func(x, y IdleRecord) int {
		return cmp.Or(cmp.Compare(y.IdlePerHour, x.IdlePerHour), kube.CompareNaturally(x.Node, y.Node))
	})
}

// setNotSold finds the compared nodes whose offerings their pools would not buy again.
func (saving *savingsPlan) setNotSold() {
	pools, records := kube.PoolsByName(saving.s), map[NotSoldRecord]*NotSoldRecord{}
	offers := map[string][]offering.Admitted{}
	for name, pool := range pools {
		offers[name] = offering.Of(pool, kube.ClassOf(saving.s, pool), saving.s.NodeOverheadPrice)
	}
	for _, n := range saving.nodes {
		pool, id := n.Labels[v1.NodePoolLabelKey], inventory.MachineOffering(n.Labels)
		cause := notSold(offers[pool], id)
		if cause == "" {
			continue
		}
		key := NotSoldRecord{NodePool: pool, Cause: cause, CapacityType: id.CapacityType}
		if records[key] == nil {
			records[key] = &NotSoldRecord{NodePool: pool, Cause: cause, CapacityType: id.CapacityType, Example: id.String()}
		}
		records[key].Nodes++
		records[key].PricePerHour += saving.price[n.Name]
	}
	for _, r := range records {
		saving.out.NotSold = append(saving.out.NotSold, *r)
	}
	slices.SortFunc(saving.out.NotSold, func(x, y NotSoldRecord) int {
		return cmp.Or(cmp.Compare(y.PricePerHour, x.PricePerHour), cmp.Compare(x.NodePool, y.NodePool), cmp.Compare(x.Cause, y.Cause), cmp.Compare(x.CapacityType, y.CapacityType))
	})
}

// notSold returns the cause why the offering cannot be bought. It returns "" if the offering can be bought. It does not distinguish slots of
// different capacity reservations.
func notSold(offers []offering.Admitted, id engine.OfferingID) NotSoldCause {
	cause := CapacityTypeNotAllowed
	for _, o := range offers {
		other := o.ID()
		switch {
		case other.CapacityType != id.CapacityType:
		case other.InstanceType != id.InstanceType || other.Zone != id.Zone:
			if cause == CapacityTypeNotAllowed {
				cause = OfferingNotAllowed
			}
		case o.Offering.SoldOut:
			cause = OfferingSoldOut
		default:
			return ""
		}
	}
	return cause
}

// setChanges records the disruptions, largest saving first, and groups the kept nodes by their reasons.
func (saving *savingsPlan) setChanges(plan *engine.Plan) {
	for i := range plan.Disruptions {
		saving.out.Changes = append(saving.out.Changes, disruptionRecord(&plan.Disruptions[i]))
	}
	slices.SortStableFunc(saving.out.Changes, func(x, y DisruptionRecord) int { return cmp.Compare(y.SavingPerHour, x.SavingPerHour) })
	type kind struct {
		code engine.Code
		pool string
	}
	index := map[kind]int{}
	for _, k := range plan.Kept {
		of := kind{k.Reason.Code, k.Reason.NodePool}
		i, ok := index[of]
		if !ok {
			i = len(saving.out.Kept)
			index[of] = i
			saving.out.Kept = append(saving.out.Kept, KeptRecord{Code: of.code, NodePool: of.pool, Example: cmp.Or(k.Node, k.Claim), Message: k.Reason.Message()})
		}
		saving.out.Kept[i].Nodes++
	}
	slices.SortStableFunc(saving.out.Kept, func(x, y KeptRecord) int { return cmp.Compare(y.Nodes, x.Nodes) })
}

package explain

import (
	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
)

// A SavingCause is a part of the saving, NowPerHour less PlannedPerHour, in USD per hour. It is negative if the plan costs more for this cause. The
// sum of all parts is the saving.
type SavingCause struct {
	Cause   string  `json:"cause"`
	Name    string  `json:"name"`    // the cause in words
	Setting string  `json:"setting"` // the field of a NodePool that decides on it
	PerHour float64 `json:"perHour"`
}

// The causes of a saving. A bill is the on-demand price of its machines times the share of that price which is paid. TighterPacking is the
// difference in on-demand price of room that no pod requests, CheaperMachines that of requested room, both times the share that is paid now. Spot
// is the difference of the two shares times the planned machines' on-demand price.
const (
	CauseSpot     = "Spot"
	CausePacking  = "TighterPacking"
	CauseMachines = "CheaperMachines"
)

// bill sums up the machines of one side of the comparison, in USD per hour.
type bill struct {
	price    float64 // as paid
	onDemand float64 // the same machines on demand
	idle     float64 // the part of onDemand that no pod requests
}

func (b *bill) add(price, onDemand, used float64) {
	b.price, b.onDemand, b.idle = b.price+price, b.onDemand+onDemand, b.idle+onDemand*max(0, 1-used)
}

// causes splits the difference between the two bills.
func causes(now, planned *bill) []SavingCause {
	paid := now.paid()
	return []SavingCause{
		{
			CauseSpot, "Spot instead of on-demand", "requirements: karpenter.sh/capacity-type In [spot, on-demand]",
			planned.onDemand*paid - planned.price,
		},
		{
			CausePacking, "Tighter packing: less room that no pod requests", "disruption: consolidationPolicy: WhenEmptyOrUnderutilized",
			(now.idle - planned.idle) * paid,
		},
		{
			CauseMachines, "Cheaper machines for the same requests", "requirements: more instance types and sizes",
			((now.onDemand - now.idle) - (planned.onDemand - planned.idle)) * paid,
		},
	}
}

// paid returns the paid share of the machines' on-demand price.
func (b *bill) paid() float64 {
	if b.onDemand == 0 {
		return 1
	}
	return b.price / b.onDemand
}

// setCauses splits the saving.
func (saving *savingsPlan) setCauses(plan *engine.Plan) {
	types := map[string]*engine.InstanceType{}
	for i := range saving.s.Classes {
		for j := range saving.s.Classes[i].InstanceTypes {
			if t := &saving.s.Classes[i].InstanceTypes[j]; types[t.Name] == nil {
				types[t.Name] = t
			}
		}
	}
	usedNow, usedPlanned := saving.requested(), saving.requested()
	requests := map[engine.PodID]corev1.ResourceList{}
	for _, pod := range saving.s.Pods {
		requests[kube.PodID(pod)] = kube.PodRequests(pod)
	}
	for _, p := range plan.Placements {
		if usedPlanned[p.Node] == nil {
			usedPlanned[p.Node] = corev1.ResourceList{}
		}
		kube.AddList(usedPlanned[p.Node], requests[p.Pod])
	}
	var now, planned bill
	staying := inventory.BillOfSnapshot(saving.without())
	for _, n := range saving.nodes {
		id := inventory.MachineOffering(n.Labels)
		share, _ := largestShare(usedNow[n.Name], n.Status.Allocatable)
		now.add(saving.price[n.Name], saving.onDemandPrice(types[id.InstanceType], id, saving.price[n.Name]), share)
		if saving.staying[n.Name] {
			price := staying.Price(n.Name, saving.full[n.Name], saving.s.NodeOverheadPrice)
			share, _ := largestShare(usedPlanned[n.Name], n.Status.Allocatable)
			planned.add(price, saving.onDemandPrice(types[id.InstanceType], id, price), share)
		}
	}
	for i := range plan.Launches {
		l := &plan.Launches[i]
		id, share := l.Offerings[0].OfferingID, 1.0
		if t := types[id.InstanceType]; t != nil {
			share, _ = largestShare(l.Requests, t.Allocatable())
		}
		planned.add(l.Price, saving.onDemandPrice(types[id.InstanceType], id, l.Price), share)
	}
	saving.out.Causes = causes(&now, &planned)
}

// requested returns the requests of the pods on each compared node.
func (saving *savingsPlan) requested() map[string]corev1.ResourceList {
	used := map[string]corev1.ResourceList{}
	for _, pod := range saving.s.Pods {
		if _, compared := saving.price[pod.Spec.NodeName]; !compared || kube.IsTerminal(pod) {
			continue
		}
		if used[pod.Spec.NodeName] == nil {
			used[pod.Spec.NodeName] = corev1.ResourceList{}
		}
		kube.AddList(used[pod.Spec.NodeName], kube.PodRequests(pod))
	}
	return used
}

// onDemandPrice returns the on-demand price of a spot machine in its zone, or the machine's own price if no higher on-demand price is known.
func (saving *savingsPlan) onDemandPrice(t *engine.InstanceType, id engine.OfferingID, price float64) float64 {
	if t == nil || id.CapacityType != v1.CapacityTypeSpot {
		return price
	}
	for i := range t.Offerings {
		if o := &t.Offerings[i]; o.Zone == id.Zone && o.CapacityType == v1.CapacityTypeOnDemand && !o.PriceUnknown {
			return max(price, o.Price+saving.s.NodeOverheadPrice)
		}
	}
	return price
}

// setLeftOut adds up the cost of nodes and machines that are on neither side.
func (saving *savingsPlan) setLeftOut() {
	prices, pools, joined := inventory.NewPriceBook(saving.s), kube.PoolsByName(saving.s), map[string]bool{}
	for _, n := range saving.s.Nodes {
		joined[n.Spec.ProviderID] = true
		if pools[n.Labels[v1.NodePoolLabelKey]] == nil {
			usd, _ := prices.Price(n.Labels, nil)
			saving.out.OutsidePerHour += usd
		}
	}
	for _, c := range saving.s.NodeClaims {
		if c.Status.ProviderID == "" || !joined[c.Status.ProviderID] {
			usd, _ := prices.Price(c.Labels, c.Spec.NodeClassRef)
			saving.out.StartingPerHour += usd
		}
	}
}

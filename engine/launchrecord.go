package engine

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
)

// LaunchRecord is a launch, and why it is that one.
type LaunchRecord struct {
	Name string `json:"name"`
	// Considered counts the offerings that were available and could hold the pods; Listed those that the cloud may
	// choose from.
	Considered int `json:"considered"`
	Listed     int `json:"listed"`
	// RunnerUp is the cheapest offering of another instance type, which costs RunnerUpCostsMore USD per hour more.
	RunnerUp          *OfferingID `json:"runnerUp,omitempty"`
	RunnerUpCostsMore float64     `json:"runnerUpCostsMore"`
	// Filled is the largest share of any resource that is asked for, FilledBy that resource.
	Filled   float64             `json:"filled"`
	FilledBy corev1.ResourceName `json:"filledBy,omitempty"`
	// Pods are all that the machine is for; Requests what they and the DaemonSets ask for.
	Pods     []string          `json:"pods"`
	Requests map[string]string `json:"requests"`
	// SoldOut lists offerings that could have held the pods for less, cheapest first.
	SoldOut []LaunchOffering `json:"soldOut,omitempty"`
	// PassedOver says why pools that come first by their weight do not run the pod.
	PassedOver []ReasonRecord `json:"passedOver,omitempty"`
	// Limits is what the pool has and may have.
	Limits []ResourceUse `json:"limits,omitempty"`
	// Worth is what a unit of each resource is worth here.
	Worth []WorthRecord `json:"worth,omitempty"`

	// PodIDs are the pods, for people.
	PodIDs   []PodID `json:"-"`
	sentence string
}

// WorthRecord is a dual price: what PerHour USD buy.
type WorthRecord struct {
	Resource corev1.ResourceName `json:"resource"`
	Unit     string              `json:"unit"`
	PerHour  float64             `json:"perHour"`
}

// Sentence says the price to people.
func (w WorthRecord) Sentence() string { return ResourcePrice(w).Sentence() }

// launched records the launch that the pod is part of.
func (x *podExplainer) launched(l *Launch) {
	r := &LaunchRecord{
		Name: l.Name, Considered: l.Why.Considered, Listed: len(l.Offerings), Filled: l.Why.Filled, FilledBy: l.Why.FilledBy,
		RunnerUpCostsMore: l.Why.PriceDifference, Pods: podTexts(l.Pods), PodIDs: l.Pods, Requests: quantityTexts(l.Requests),
		sentence: l.Sentence(),
	}
	if l.Why.RunnerUp != (OfferingID{}) {
		r.RunnerUp = &l.Why.RunnerUp
	}
	for _, p := range x.plan.Cost.Prices {
		r.Worth = append(r.Worth, WorthRecord(p))
	}
	price := l.Price
	m := &MachineRecord{NodePool: l.NodePool, PricePerHour: &price}
	if len(l.Offerings) > 0 {
		m.InstanceType, m.Zone, m.CapacityType = l.Offerings[0].InstanceType, l.Offerings[0].Zone, l.Offerings[0].CapacityType
	}
	if pool := poolsByName(x.s)[l.NodePool]; pool != nil {
		class := findClass(x.s, pool.Spec.Template.Spec.NodeClassRef)
		m.Share, m.ShareOf = largestShare(PodRequests(x.pod), allocatableOf(class, m.InstanceType))
		r.SoldOut = x.soldOut(pool, class, l)
		r.PassedOver = x.passedOver(pool)
		r.Limits = limitUse(x.s, pool)
	}
	x.story.Machine, x.story.Launch = m, r
}

func allocatableOf(class *Class, name string) corev1.ResourceList {
	if class != nil {
		for i := range class.InstanceTypes {
			if class.InstanceTypes[i].Name == name {
				return class.InstanceTypes[i].Allocatable()
			}
		}
	}
	return nil
}

// soldOut lists the offerings that are sold out and would have been cheaper for all that the machine is for.
func (x *podExplainer) soldOut(pool *v1.NodePool, class *Class, l *Launch) []LaunchOffering {
	var out []LaunchOffering
	for _, o := range offeringsOf(pool, class) {
		if o.offering.SoldOut && o.offering.Price < l.Price && o.admits(x.pod) && o.holds(l.Requests) {
			out = append(out, LaunchOffering{o.id(), o.offering.Price})
		}
	}
	return out
}

// passedOver asks, for every pool that comes before the chosen one by weight, why it alone does not run this pod alone.
func (x *podExplainer) passedOver(chosen *v1.NodePool) []ReasonRecord {
	var heavier []*v1.NodePool
	for _, pool := range x.s.NodePools {
		if weightOf(pool) > weightOf(chosen) {
			heavier = append(heavier, pool)
		}
	}
	slices.SortFunc(heavier, func(a, b *v1.NodePool) int {
		return cmp.Or(cmp.Compare(weightOf(b), weightOf(a)), cmp.Compare(a.Name, b.Name))
	})
	var out []ReasonRecord
	for _, pool := range heavier {
		out = append(out, x.whatIf(pool)...)
	}
	return out
}

func (x *podExplainer) whatIf(pool *v1.NodePool) []ReasonRecord {
	s := *x.s
	s.NodePools = []*v1.NodePool{pool}
	s.Pods = slices.DeleteFunc(slices.Clone(x.s.Pods), func(p *corev1.Pod) bool { return p != x.pod && p.Spec.NodeName == "" })
	plan := Provision(&s, x.opt, nil)
	for _, u := range plan.Unplaced {
		if u.Pod == podID(x.pod) {
			return reasonRecords(u.Reasons)
		}
	}
	if len(pool.Spec.Limits) == 0 || len(plan.Launches) == 0 {
		return nil
	}
	return []ReasonRecord{{
		Code: LimitReached, NodePool: pool.Name,
		Message: fmt.Sprintf("it could run the pod, but other pods use what its limits leave (%s)", limitWords(limitUse(x.s, pool))),
	}}
}

func weightOf(pool *v1.NodePool) int32 {
	if pool.Spec.Weight == nil {
		return 0
	}
	return *pool.Spec.Weight
}

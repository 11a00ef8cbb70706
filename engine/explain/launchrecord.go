package explain

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/offering"
	"tenon.sh/engine/provisioning"
)

// LaunchRecord is a launch, with the reasons for its choice.
type LaunchRecord struct {
	Name string `json:"name"`
	// Commitment names the commitment that pays for the machine. It is "" if there is none.
	Commitment string `json:"commitment,omitempty"`
	// Considered counts the available offerings that could hold the pods; Listed counts the offerings from which the cloud may choose.
	Considered int `json:"considered"`
	Listed     int `json:"listed"`
	// RunnerUp is the cheapest offering of another instance type, which costs RunnerUpCostsMore USD per hour more.
	RunnerUp          *engine.OfferingID `json:"runnerUp,omitempty"`
	RunnerUpCostsMore float64            `json:"runnerUpCostsMore"`
	// Division holds the offerings that the launch leaves out, so that an owner can lose fewer pods at once; nil if it leaves out none.
	Division *engine.Division `json:"division,omitempty"`
	// Filled is the largest requested share of any resource, FilledBy that resource.
	Filled   float64             `json:"filled"`
	FilledBy corev1.ResourceName `json:"filledBy,omitempty"`
	// Pods are all pods of the machine; Requests are the requests of these pods and of the DaemonSets.
	Pods     []string          `json:"pods"`
	Requests map[string]string `json:"requests"`
	// SoldOut lists cheaper offerings that could have held the pods, cheapest first.
	SoldOut []engine.LaunchOffering `json:"soldOut,omitempty"`
	// PassedOver holds the reasons why pools with a higher weight do not run the pod.
	PassedOver []engine.ReasonRecord `json:"passedOver,omitempty"`
	// Limits is the pool's usage of each limited resource, with the limit.
	Limits []ResourceUse `json:"limits,omitempty"`
	// Worth is the value of a unit of each resource in this plan.
	Worth []WorthRecord `json:"worth,omitempty"`

	// PodIDs are the Pods, for texts.
	PodIDs   []engine.PodID `json:"-"`
	sentence string
}

// WorthRecord is a dual price, in USD per hour for a unit of the resource.
type WorthRecord struct {
	Resource corev1.ResourceName `json:"resource"`
	Unit     string              `json:"unit"`
	PerHour  float64             `json:"perHour"`
}

// Sentence describes the price in words.
func (w WorthRecord) Sentence() string { return engine.ResourcePrice(w).Sentence() }

// launched records the launch that the pod belongs to.
func (e *podExplainer) launched(l *engine.Launch) {
	r := &LaunchRecord{
		Name: l.Name, Commitment: l.Commitment, Considered: l.Why.Considered, Listed: len(l.Offerings), Filled: l.Why.Filled, FilledBy: l.Why.FilledBy,
		RunnerUpCostsMore: l.Why.PriceDifference, Pods: podTexts(l.Pods), PodIDs: l.Pods, Requests: quantityTexts(l.Requests),
		Division: l.Why.Division, sentence: l.Sentence(),
	}
	if l.Why.RunnerUp != (engine.OfferingID{}) {
		r.RunnerUp = &l.Why.RunnerUp
	}
	for _, p := range e.plan.Cost.Prices {
		r.Worth = append(r.Worth, WorthRecord(p))
	}
	m := &MachineRecord{NodePool: l.NodePool}
	if price := l.Price; price > 0 {
		m.PricePerHour = &price
	}
	if len(l.Offerings) > 0 {
		m.InstanceType, m.Zone, m.CapacityType = l.Offerings[0].InstanceType, l.Offerings[0].Zone, l.Offerings[0].CapacityType
	}
	if pool := kube.PoolsByName(e.s)[l.NodePool]; pool != nil {
		class := kube.ClassOf(e.s, pool)
		m.Share, m.ShareOf = largestShare(kube.PodRequests(e.pod), allocatableOf(class, m.InstanceType))
		r.SoldOut = e.soldOut(pool, class, l)
		r.PassedOver = e.passedOver(pool)
		r.Limits = limitUse(e.s, pool)
	}
	e.story.Machine, e.story.Launch = m, r
}

func allocatableOf(class *engine.Class, name string) corev1.ResourceList {
	if class != nil {
		for i := range class.InstanceTypes {
			if class.InstanceTypes[i].Name == name {
				return class.InstanceTypes[i].Allocatable()
			}
		}
	}
	return nil
}

// soldOut lists the sold-out offerings that would have been cheaper for all pods of the machine.
func (e *podExplainer) soldOut(pool *v1.NodePool, class *engine.Class, l *engine.Launch) []engine.LaunchOffering {
	var out []engine.LaunchOffering
	for _, o := range offering.Of(pool, class, e.s.NodeOverheadPrice) {
		if o.Offering.SoldOut && !o.Offering.PriceUnknown && (l.Price == 0 || o.Price < l.Price) && o.Admits(e.pod) && o.Holds(l.Requests) {
			out = append(out, engine.LaunchOffering{OfferingID: o.ID(), Price: o.Price})
		}
	}
	return out
}

// passedOver plans the pod alone with each pool of a higher weight, and returns the reasons of the pools that do not run it.
func (e *podExplainer) passedOver(chosen *v1.NodePool) []engine.ReasonRecord {
	var heavier []*v1.NodePool
	for _, pool := range e.s.NodePools {
		if kube.WeightOf(pool) > kube.WeightOf(chosen) {
			heavier = append(heavier, pool)
		}
	}
	slices.SortFunc(heavier, func(a, b *v1.NodePool) int {
		return cmp.Or(cmp.Compare(kube.WeightOf(b), kube.WeightOf(a)), cmp.Compare(a.Name, b.Name))
	})
	var out []engine.ReasonRecord
	for _, pool := range heavier {
		out = append(out, e.whatIf(pool)...)
	}
	return out
}

func (e *podExplainer) whatIf(pool *v1.NodePool) []engine.ReasonRecord {
	s := *e.s
	s.NodePools = []*v1.NodePool{pool}
	s.Pods = slices.DeleteFunc(slices.Clone(e.s.Pods), func(p *corev1.Pod) bool { return p != e.pod && p.Spec.NodeName == "" })
	plan := provisioning.Plan(&s, e.opt, nil)
	for _, u := range plan.Unplaced {
		if u.Pod == kube.PodID(e.pod) {
			return reasonRecords(u.Reasons)
		}
	}
	if len(pool.Spec.Limits) == 0 || len(plan.Launches) == 0 {
		return nil
	}
	return []engine.ReasonRecord{{
		Code: engine.LimitReached, NodePool: pool.Name,
		Message: fmt.Sprintf("it could run the pod, but other pods use what its limits leave (%s)", limitWords(limitUse(e.s, pool))),
	}}
}

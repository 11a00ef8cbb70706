package provisioning

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"tenon.sh/engine"
	"tenon.sh/engine/capacity"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/lossgroup"
	"tenon.sh/engine/offering"
	"tenon.sh/engine/packing"
)

// NewPlan returns the plan of the solution, with names, prices and reasons.
func NewPlan(p *Problem, s *packing.Solution) *engine.Plan {
	an := &answer{Problem: p}
	plan := &engine.Plan{Unplaced: p.refused, Notes: p.notes(), Backoffs: p.Backoffs.Changes}
	for i, machine := range p.Targets {
		for _, id := range an.podsOf(s.OnNodes[i]) {
			plan.Placements = append(plan.Placements, engine.Placement{Pod: id, Node: machine.Name(), Claim: machine.ClaimName()})
		}
	}
	slices.SortFunc(plan.Placements, func(a, b engine.Placement) int { return ComparePods(a.Pod, b.Pod) })
	for _, pod := range s.Order {
		plan.Sequence = append(plan.Sequence, kube.PodID(p.Classes[pod.Class].Pods[pod.Number]))
	}
	count := map[string]int{}
	divided := an.lossGroups().Divide(s, p.opt.EffectiveSpotSpreadShare())
	for i := range s.New {
		m := &s.New[i]
		pool := p.Pools[m.Pool]
		count[pool.NodePool.Name]++
		launch := an.launch(m, an.podsOf(m.Pods))
		launch.Why.Division = divided[m]
		launch.Name = fmt.Sprintf("%s-%d", pool.NodePool.Name, count[pool.NodePool.Name])
		plan.Launches = append(plan.Launches, launch)
		plan.Notes = append(plan.Notes, an.littleMemory(m)...)
		plan.Cost.LaunchesPerHour += launch.Price
		if pool.Options[m.Chosen].Offering.PriceUnknown {
			plan.Cost.Unpriced++
		} else {
			plan.Cost.Worst += launch.Worst()
		}
	}
	for i, left := range s.Left {
		if len(left) == 0 {
			continue
		}
		reasons := an.explain(i, s)
		for _, n := range left {
			pod := p.Classes[i].Pods[n]
			plan.Unplaced = append(plan.Unplaced, engine.Unplaced{Pod: kube.PodID(pod), Reasons: p.Constraints.Volumes.Named(pod, reasons)})
		}
	}
	slices.SortFunc(plan.Unplaced, func(a, b engine.Unplaced) int { return ComparePods(a.Pod, b.Pod) })
	if s.Bound > 0 && plan.Cost.Unpriced == 0 {
		plan.Cost.Bound = s.Bound
		plan.Cost.Gap = gapOf(plan.Cost.LaunchesPerHour, s.Bound)
	}
	plan.Cost.Prices = an.prices(s.Worth)
	return plan
}

// lossGroups returns the problem of dividing the new machines' offerings by loss group.
func (an *answer) lossGroups() *lossgroup.Problem {
	return &lossgroup.Problem{
		Pools: an.Pools, Classes: an.Packing.Classes, InGang: func(class int) bool { return an.Classes[class].gang != nil }, Owners: &an.owners,
		Cache: an.Pods.Cache, Machines: an.Machines, Targets: an.Targets,
	}
}

// noise is the share of a price below which a difference comes from arithmetic alone.
const noise = 1e-9

// gapOf returns the share by which the cost exceeds its bound. It returns 0 if the two differ in the last digits only.
func gapOf(cost, bound float64) float64 {
	if gap := cost/bound - 1; math.Abs(gap) > noise {
		return gap
	}
	return 0
}

// podsOf names the pods of the shares, in order of their names.
func (an *answer) podsOf(shares []packing.Share) []engine.PodID {
	var ids []engine.PodID
	for _, share := range shares {
		for _, n := range share.Pods {
			ids = append(ids, kube.PodID(an.Classes[share.Class].Pods[n]))
		}
	}
	slices.SortFunc(ids, ComparePods)
	return ids
}

// prices returns the worth of a unit of each resource, in units for people: a core, a GiB, a device.
func (an *answer) prices(worth []float64) []engine.ResourcePrice {
	var out []engine.ResourcePrice
	for d, u := range worth {
		if u <= 0 {
			continue
		}
		name := corev1.ResourceName(an.Names.Name(d))
		price := engine.ResourcePrice{Resource: name, Unit: "1", PerHour: u}
		switch q := kube.Quantity(name, 1); {
		case name == corev1.ResourceCPU:
			price.Unit, price.PerHour = "core", u*1000
		case q.Format == resource.BinarySI:
			price.Unit, price.PerHour = "GiB", u*(1<<30)
		}
		out = append(out, price)
	}
	return out
}

// notes returns the notes on pools that cannot be used, even if no pod asks for them.
func (p *Problem) notes() []engine.Note {
	notes := slices.Clone(p.broken)
	for _, pool := range p.Pools {
		notes = append(notes, pool.UnknownLimits()...)
		if len(pool.Options) == 0 {
			name := pool.NodePool.Name
			notes = append(notes, engine.Note{Object: "NodePool " + name, Reason: pool.Emptiness()})
		}
	}
	slices.SortStableFunc(notes, func(a, b engine.Note) int { return cmp.Compare(a.Object, b.Object) })
	return notes
}

func ComparePods(a, b engine.PodID) int {
	if n := strings.Compare(a.Namespace, b.Namespace); n != 0 {
		return n
	}
	if n := kube.CompareNaturally(a.Name, b.Name); n != 0 {
		return n
	}
	return strings.Compare(string(a.UID), string(b.UID))
}

// launch returns the launch of a new machine.
func (an *answer) launch(m *packing.Machine, pods []engine.PodID) engine.Launch {
	pool := an.Pools[m.Pool]
	l := engine.Launch{NodePool: pool.NodePool.Name, Price: pool.Model.Options[m.Chosen].Price, Pods: pods, MinValuesRelaxed: m.Relaxed, Commitment: pool.Options[m.Chosen].Commitment}
	if pool.Options[m.Chosen].Offering.PriceUnknown {
		l.Price = 0
	}
	for _, o := range m.Listed {
		option := &pool.Options[o]
		l.Offerings = append(l.Offerings, engine.LaunchOffering{OfferingID: option.ID(), Price: pool.Model.Options[o].Price})
		l.PriceOverlaid = l.PriceOverlaid || option.Offering.Overlay != "" || option.Offering.InterruptionLoss != pool.Options[m.Listed[0]].Offering.InterruptionLoss
		for name, overlay := range option.Kind.Added {
			if l.Added == nil {
				l.Added = map[corev1.ResourceName]string{}
			}
			if l.Added[name] == "" { // the cheapest type comes first
				l.Added[name] = overlay
			}
		}
		if !slices.Contains(l.InstanceTypes, option.Kind.Name) {
			l.InstanceTypes = append(l.InstanceTypes, option.Kind.Name)
		}
	}
	sum := an.sum(m)
	for i := range an.daemons {
		if pool.Burdened[i].Has(m.Chosen) {
			sum.Add(an.Names.Vector(an.daemons[i].Requests), 1)
		}
	}
	l.Requests = an.Names.List(an.offered(pool, m, sum))
	l.Requirements, l.Labels = pool.Pin(m)
	l.Gangs = an.gangsOf(m)
	l.DeviceDrivers = an.driversOf(m)
	l.Instead = an.assignedNodes(m)
	l.Why = an.why(pool, m, sum)
	return l
}

// assignedNodes returns the machines on which the pods of a new machine were expected.
func (an *answer) assignedNodes(m *packing.Machine) []string {
	var names []string
	for _, share := range m.Pods {
		if c := an.Classes[share.Class]; c.Assigned != nil && !c.proposed {
			names = append(names, c.Assigned.ID())
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// offered returns sum without resources that some listed type lacks. DaemonSets may request devices that a machine lacks. If the claim requested
// these devices too, its machine would never be initialized.
func (an *answer) offered(pool *offering.Pool, m *packing.Machine, sum capacity.Vector) capacity.Vector {
	out := sum.Clone()
	for _, o := range m.Listed {
		have := an.Names.Vector(pool.Options[o].Kind.Allocatable())
		for i := range out {
			if have[i] <= 0 {
				out[i] = 0
			}
		}
	}
	return out
}

func (p *Problem) sum(m *packing.Machine) capacity.Vector {
	sum := make(capacity.Vector, p.Names.Len())
	for _, share := range m.Pods {
		sum.Add(p.Classes[share.Class].Request, int64(len(share.Pods)))
	}
	return sum
}

// why explains the choice of the cheapest offering.
func (an *answer) why(pool *offering.Pool, m *packing.Machine, sum capacity.Vector) engine.Choice {
	c := engine.Choice{Considered: m.Fitting}
	if m.RunnerUp >= 0 && !pool.Options[m.RunnerUp].Offering.PriceUnknown && !pool.Options[m.Chosen].Offering.PriceUnknown {
		c.RunnerUp = pool.Options[m.RunnerUp].ID()
		c.PriceDifference = pool.Model.Options[m.RunnerUp].Price - pool.Model.Options[m.Chosen].Price
	}
	have := an.Names.Vector(pool.Options[m.Chosen].Kind.Allocatable())
	for i, n := range sum {
		if name := corev1.ResourceName(an.Names.Name(i)); have[i] > 0 && have[i] < capacity.Most && name != corev1.ResourcePods {
			if share := float64(n) / float64(have[i]); share > c.Filled {
				c.Filled, c.FilledBy = share, name
			}
		}
	}
	return c
}

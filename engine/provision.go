package engine

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/capacity"
	"tenon.sh/engine/packing"
)

// Provision decides how to run the pods that no node runs yet: on nodes that exist, on machines that have been asked
// for, or on new ones. It reads only s and opt (memo, which may be nil, only saves work); the same input always gives
// the same Plan.
func Provision(s *Snapshot, opt Options, memo *Memo) *Plan {
	pods := memo.take(s, opt.Threads)
	p := readProblem(s, opt, pods, nil)
	if len(p.classes) == 0 { // at rest
		p.sell()
		return &Plan{Unplaced: p.refused, Notes: p.notes(), Backoffs: p.backoffs.changes}
	}
	p.model()
	solution := packing.Solve(p.packing)
	for range mostPriceRounds {
		if !p.tooDear(solution) {
			break
		}
		p = compileTrial(s, opt, pods, nil)
		solution = packing.Solve(p.packing)
	}
	plan := newPlan(p, solution)
	if len(plan.Unplaced) == 0 || !slices.ContainsFunc(p.hosts, func(h *host) bool { return h.late }) {
		return plan
	}
	pods.patient = true // a machine that is late is better than none
	p = compileTrial(s, opt, pods, nil)
	if patient := newPlan(p, packing.Solve(p.packing)); len(patient.Unplaced) < len(plan.Unplaced) {
		return patient
	}
	return plan
}

// newPlan gives the solution its names, prices and reasons.
func newPlan(p *problem, s *packing.Solution) *Plan {
	plan := &Plan{Unplaced: p.refused, Notes: p.notes(), Backoffs: p.backoffs.changes}
	for i, h := range p.targets {
		for _, id := range p.podsOf(s.OnNodes[i]) {
			plan.Placements = append(plan.Placements, Placement{Pod: id, Node: h.name(), Claim: h.claimName()})
		}
	}
	slices.SortFunc(plan.Placements, func(a, b Placement) int { return comparePods(a.Pod, b.Pod) })
	for _, pod := range s.Order {
		plan.Sequence = append(plan.Sequence, podID(p.classes[pod.Class].pods[pod.Number]))
	}
	count := map[string]int{}
	for i := range s.New {
		m := &s.New[i]
		pool := p.pools[m.Pool]
		count[pool.pool.Name]++
		launch := p.launch(m, p.podsOf(m.Pods))
		launch.Name = fmt.Sprintf("%s-%d", pool.pool.Name, count[pool.pool.Name])
		plan.Launches = append(plan.Launches, launch)
		plan.Cost.LaunchesPerHour += launch.Price
		plan.Cost.Worst += launch.Offerings[len(launch.Offerings)-1].Price
	}
	for i, left := range s.Left {
		if len(left) == 0 {
			continue
		}
		reasons := p.explain(i, s)
		for _, n := range left {
			pod := p.classes[i].pods[n]
			plan.Unplaced = append(plan.Unplaced, Unplaced{Pod: podID(pod), Reasons: p.wishes.volumes.named(pod, reasons)})
		}
	}
	slices.SortFunc(plan.Unplaced, func(a, b Unplaced) int { return comparePods(a.Pod, b.Pod) })
	if plan.Cost.Bound = s.Bound; s.Bound > 0 {
		plan.Cost.Gap = gapOf(plan.Cost.LaunchesPerHour, s.Bound)
	}
	plan.Cost.Prices = p.prices(s.Worth)
	return plan
}

// noise is the share of a price below which a difference comes of the arithmetic alone.
const noise = 1e-9

// gapOf is by what share the cost is above its bound; nothing where the two differ by no more than the last digits.
func gapOf(cost, bound float64) float64 {
	if gap := cost/bound - 1; math.Abs(gap) > noise {
		return gap
	}
	return 0
}

// podsOf names the pods of the shares, in order of their names.
func (p *problem) podsOf(shares []packing.Share) []PodID {
	var ids []PodID
	for _, share := range shares {
		for _, n := range share.Pods {
			ids = append(ids, podID(p.classes[share.Class].pods[n]))
		}
	}
	slices.SortFunc(ids, comparePods)
	return ids
}

// prices says what a unit of each resource is worth, for people: a core, a GiB, a device.
func (p *problem) prices(worth []float64) []ResourcePrice {
	var out []ResourcePrice
	for d, u := range worth {
		if u <= 0 {
			continue
		}
		name := corev1.ResourceName(p.names.Name(d))
		price := ResourcePrice{Resource: name, Unit: "1", PerHour: u}
		switch q := quantity(name, 1); {
		case name == corev1.ResourceCPU:
			price.Unit, price.PerHour = "core", u*1000
		case q.Format == resource.BinarySI:
			price.Unit, price.PerHour = "GiB", u*(1<<30)
		}
		out = append(out, price)
	}
	return out
}

// notes tell of the pools that cannot be used, whether any pod asks for them or not.
func (p *problem) notes() []Note {
	notes := slices.Clone(p.broken)
	for _, pool := range p.pools {
		if len(pool.options) == 0 {
			name := pool.pool.Name
			notes = append(notes, Note{Object: "NodePool " + name, Reason: pool.emptiness(p.universe)})
		}
	}
	slices.SortFunc(notes, func(a, b Note) int { return cmp.Compare(a.Object, b.Object) })
	return notes
}

func comparePods(a, b PodID) int {
	if n := strings.Compare(a.Namespace, b.Namespace); n != 0 {
		return n
	}
	if n := naturally(a.Name, b.Name); n != 0 {
		return n
	}
	return strings.Compare(string(a.UID), string(b.UID))
}

// launch describes a new machine.
func (p *problem) launch(m *packing.Machine, pods []PodID) Launch {
	pool := p.pools[m.Pool]
	l := Launch{NodePool: pool.pool.Name, Price: pool.model.Options[m.Chosen].Price, Pods: pods, MinValuesRelaxed: m.Relaxed}
	for _, o := range m.Listed {
		option := &pool.options[o]
		l.Offerings = append(l.Offerings, LaunchOffering{option.id(), option.offering.Price})
		if !slices.Contains(l.InstanceTypes, option.kind.Name) {
			l.InstanceTypes = append(l.InstanceTypes, option.kind.Name)
		}
	}
	sum := p.sum(m)
	for i := range p.daemons {
		if pool.burdened[i].Has(m.Chosen) {
			sum.Add(p.names.vector(p.daemons[i].need), 1)
		}
	}
	l.Requests = p.names.list(p.offered(pool, m, sum))
	l.Requirements, l.Labels = p.pin(pool, m)
	l.Instead = p.homesOf(m)
	l.Why = p.why(pool, m, sum)
	return l
}

// homesOf names the machines that the pods of a new machine were expected on.
func (p *problem) homesOf(m *packing.Machine) []string {
	var names []string
	for _, share := range m.Pods {
		if c := p.classes[share.Class]; c.home != nil && !c.proposed {
			names = append(names, c.home.id())
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// offered leaves out what not every listed type has: DaemonSets may ask for devices that a machine lacks, and a machine
// that was asked for them would never count as initialized.
func (p *problem) offered(pool *poolModel, m *packing.Machine, sum capacity.Vector) capacity.Vector {
	out := sum.Clone()
	for _, o := range m.Listed {
		have := p.names.vector(pool.options[o].kind.Allocatable())
		for i := range out {
			if have[i] <= 0 {
				out[i] = 0
			}
		}
	}
	return out
}

func (p *problem) sum(m *packing.Machine) capacity.Vector {
	sum := make(capacity.Vector, p.names.Len())
	for _, share := range m.Pods {
		sum.Add(p.classes[share.Class].request, int64(len(share.Pods)))
	}
	return sum
}

// pin writes down what the machine may be: the listed types, zones and capacity types, what else the pool requires, and
// a value for each label that the pods need and that no type settles.
func (p *problem) pin(pool *poolModel, m *packing.Machine) ([]v1.Requirement, map[string]string) {
	pinned := map[string][]string{}
	chosen := &pool.options[m.Chosen]
	keys := []string{corev1.LabelInstanceTypeStable, corev1.LabelTopologyZone, v1.CapacityTypeLabelKey, corev1.LabelArchStable, corev1.LabelOSStable}
	keys = append(keys, severalValued(chosen.kind)...)
	keys = append(keys, sortedKeys(pool.chosen)...)
	for key := range chosen.offering.Labels {
		keys = append(keys, key)
	}
	for _, key := range keys {
		for _, o := range m.Listed { // cheapest first
			if value, ok := pool.options[o].label(key); ok && !slices.Contains(pinned[key], value) {
				pinned[key] = append(pinned[key], value)
			}
		}
	}
	labels := map[string]string{}
	for key := range pool.chosen {
		labels[key], _ = chosen.label(key)
	}
	for i, k := range pool.free {
		key := p.universe.Name(k)
		if _, given := pool.labels[key]; given || key == corev1.LabelHostname || key == nodeNameKey {
			continue
		}
		set := m.Free[i]
		if set.Has(0) { // the label may be absent
			continue
		}
		value, _ := p.universe.Value(k, set.Next(0))
		labels[key] = value
		pinned[key] = []string{value}
	}
	return pool.requirements(pinned), labels
}

// requirements joins what the pool requires with what the launch pins, by key.
func (m *poolModel) requirements(pinned map[string][]string) []v1.Requirement {
	var out []v1.Requirement
	for _, r := range m.pool.Spec.Template.Spec.Requirements {
		if _, ok := pinned[v1.NormalizeLabel(r.Key)]; !ok {
			out = append(out, r)
		}
	}
	for _, key := range sortedKeys(pinned) {
		r := v1.Requirement{Key: key, Operator: v1.In, Values: pinned[key]}
		for _, own := range m.pool.Spec.Template.Spec.Requirements {
			if v1.NormalizeLabel(own.Key) == key && own.MinValues != nil && *own.MinValues <= len(r.Values) {
				r.MinValues = own.MinValues
			}
		}
		out = append(out, r)
	}
	slices.SortStableFunc(out, func(a, b v1.Requirement) int { return cmp.Compare(a.Key, b.Key) })
	return out
}

// why explains the choice of the cheapest offering.
func (p *problem) why(pool *poolModel, m *packing.Machine, sum capacity.Vector) Choice {
	c := Choice{Considered: m.Fitting}
	if m.RunnerUp >= 0 {
		c.RunnerUp = pool.options[m.RunnerUp].id()
		c.PriceDifference = pool.options[m.RunnerUp].offering.Price - pool.options[m.Chosen].offering.Price
	}
	have := p.names.vector(pool.options[m.Chosen].kind.Allocatable())
	for i, n := range sum {
		if name := corev1.ResourceName(p.names.Name(i)); have[i] > 0 && have[i] < capacity.Most && name != corev1.ResourcePods {
			if share := float64(n) / float64(have[i]); share > c.Filled {
				c.Filled, c.FilledBy = share, name
			}
		}
	}
	return c
}

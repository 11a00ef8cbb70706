package engine_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
)

// This file checks plans with a second, simpler implementation of Kubernetes' rules, which uses no code of the engine.

// faults lists the faults of a plan.
func faults(s *engine.Snapshot, plan *engine.Plan) []string {
	c := &checker{s: s}
	usage := map[string]corev1.ResourceList{}
	for _, l := range plan.Launches {
		c.launch(l, usage)
		c.variety(l)
	}
	c.reservations(plan)
	byNode := map[string][]*corev1.Pod{}
	for _, p := range plan.Placements {
		byNode[p.Node] = append(byNode[p.Node], c.pod(p.Pod))
	}
	for _, node := range slices.Sorted(maps.Keys(byNode)) {
		c.node(node, byNode[node])
	}
	c.limits(usage)
	return c.found
}

type checker struct {
	s     *engine.Snapshot
	found []string
}

func (c *checker) fault(format string, args ...any) {
	c.found = append(c.found, fmt.Sprintf(format, args...))
}

func (c *checker) pod(id engine.PodID) *corev1.Pod {
	for _, p := range c.s.Pods {
		if p.Namespace == id.Namespace && p.Name == id.Name {
			return p
		}
	}
	c.fault("pod %s is not in the snapshot", id)
	return &corev1.Pod{}
}

func (c *checker) poolOf(name string) *v1.NodePool {
	for _, p := range c.s.NodePools {
		if p.Name == name {
			return p
		}
	}
	return nil
}

// launch checks each offering of a launch with each pod.
func (c *checker) launch(l engine.Launch, usage map[string]corev1.ResourceList) {
	pool := c.poolOf(l.NodePool)
	if pool == nil || len(l.Offerings) == 0 || len(l.Pods) == 0 {
		c.fault("launch %s: pool %s, %d offerings, %d pods", l.Name, l.NodePool, len(l.Offerings), len(l.Pods))
		return
	}
	largest := corev1.ResourceList{}
	last := 0.0
	for _, id := range l.Offerings {
		t, o := c.offering(pool, id.OfferingID)
		if t == nil || o.SoldOut || o.Price != id.Price || o.Price < last {
			c.fault("launch %s: offering %s is not for sale at %g, or not in order of price", l.Name, id.OfferingID, id.Price)
			return
		}
		last = o.Price
		for name, q := range t.Capacity {
			if have := largest[name]; q.Cmp(have) > 0 {
				largest[name] = q
			}
		}
		c.machine(l, pool, t, o)
	}
	if l.Price != l.Offerings[0].Price {
		c.fault("launch %s costs %g, its cheapest offering %g", l.Name, l.Price, l.Offerings[0].Price)
	}
	largest[v1.ResourceNodes] = resource.MustParse("1")
	if usage[pool.Name] == nil {
		usage[pool.Name] = corev1.ResourceList{}
	}
	addTo(usage[pool.Name], largest)
}

func (c *checker) offering(pool *v1.NodePool, id engine.OfferingID) (*engine.InstanceType, engine.Offering) {
	for _, class := range c.s.Classes {
		if class.Ref != *pool.Spec.Template.Spec.NodeClassRef {
			continue
		}
		for i, t := range class.InstanceTypes {
			for _, o := range t.Offerings {
				if t.Name == id.InstanceType && o.Zone == id.Zone && o.CapacityType == id.CapacityType && o.Reservation == id.Reservation {
					return &class.InstanceTypes[i], o
				}
			}
		}
	}
	return nil, engine.Offering{}
}

// variety checks that the launch's offerings have as many values as the pool requires.
func (c *checker) variety(l engine.Launch) {
	pool := c.poolOf(l.NodePool)
	if pool == nil || l.MinValuesRelaxed {
		return
	}
	for _, r := range pool.Spec.Template.Spec.Requirements {
		if r.MinValues == nil || r.Key == v1.CapacityTypeLabelKey {
			continue // each launch has a single capacity type
		}
		values := map[string]bool{}
		for _, id := range l.Offerings {
			if t, o := c.offering(pool, id.OfferingID); t != nil {
				values[machineLabels(l, pool, t, o)[r.Key]] = true
			}
		}
		delete(values, "")
		if len(values) < *r.MinValues {
			c.fault("launch %s: %d values of %s, the pool asks for %d", l.Name, len(values), r.Key, *r.MinValues)
		}
	}
}

// reservations checks that no reservation has more launches than slots. Machines that are requested and not launched yet hold slots.
func (c *checker) reservations(plan *engine.Plan) {
	slots, used := map[string]int{}, map[string]int{}
	for _, class := range c.s.Classes {
		for _, t := range class.InstanceTypes {
			for _, o := range t.Offerings {
				if n, seen := slots[o.Reservation]; !seen || o.Slots < n {
					slots[o.Reservation] = o.Slots
				}
			}
		}
	}
	for _, l := range plan.Launches {
		for _, o := range l.Offerings {
			if o.Reservation != l.Offerings[0].Reservation {
				c.fault("launch %s lists offerings of several reservations", l.Name)
			}
		}
		used[l.Offerings[0].Reservation]++
	}
	for _, name := range slices.Sorted(maps.Keys(used)) {
		if name != "" && used[name] > slots[name] {
			c.fault("reservation %s is used by %d launches and has %d slots", name, used[name], slots[name])
		}
	}
}

// machineLabels returns the labels of the launch's machine if the cloud chooses this offering.
func machineLabels(l engine.Launch, pool *v1.NodePool, t *engine.InstanceType, o engine.Offering) map[string]string {
	labels := map[string]string{
		corev1.LabelInstanceTypeStable: t.Name, corev1.LabelTopologyZone: o.Zone, v1.CapacityTypeLabelKey: o.CapacityType,
		v1.NodePoolLabelKey: pool.Name,
	}
	for key, values := range t.Labels {
		if len(values) > 0 {
			labels[key] = values[0]
		}
	}
	maps.Copy(labels, o.Labels)
	maps.Copy(labels, pool.Spec.Template.Labels)
	maps.Copy(labels, l.Labels)
	return labels
}

// machine checks the launch's pods on one of its possible machines.
func (c *checker) machine(l engine.Launch, pool *v1.NodePool, t *engine.InstanceType, o engine.Offering) {
	labels := machineLabels(l, pool, t, o)
	where := fmt.Sprintf("launch %s as %s/%s/%s", l.Name, t.Name, o.Zone, o.CapacityType)
	for _, r := range pool.Spec.Template.Spec.Requirements {
		if _, there := labels[r.Key]; !there && r.Operator == v1.Exists {
			continue // a label of the user that no pod requires
		}
		if !meets(labels, r.Key, string(r.Operator), r.Values) {
			c.fault("%s: the pool requires %s %s %v", where, r.Key, r.Operator, r.Values)
		}
	}
	free := t.Capacity.DeepCopy()
	takeFrom(free, t.Overhead)
	taints := v1.CoreTaints(pool.Spec.Template.Spec.Taints)
	for _, d := range c.s.DaemonSets {
		if admits(&d.Spec.Template.Spec, labels, taints) {
			takeFrom(free, requests(daemonPod(d)))
		}
	}
	for _, id := range l.Pods {
		p := c.pod(id)
		if !admits(&p.Spec, labels, taints) {
			c.fault("%s: pod %s may not run there", where, p.Name)
		}
		takeFrom(free, requests(p))
	}
	for _, name := range negative(free) {
		c.fault("%s: %s is overbooked", where, name)
	}
}

func daemonPod(d *appsv1.DaemonSet) *corev1.Pod { return &corev1.Pod{Spec: d.Spec.Template.Spec} }

// node checks pods that are placed on an existing or a requested machine.
func (c *checker) node(name string, pods []*corev1.Pod) {
	var node *corev1.Node
	var claim *v1.NodeClaim
	for _, n := range c.s.Nodes {
		if n.Name == name {
			node = n
		}
	}
	for _, x := range c.s.NodeClaims {
		if x.Status.NodeName == name || x.Name == name {
			claim = x
		}
	}
	if node == nil && claim == nil {
		c.fault("there is no machine %s to place pods on", name)
		return
	}
	labels, taints, free := c.facts(node, claim)
	for _, p := range c.s.Pods {
		if p.Spec.NodeName == name && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
			takeFrom(free, requests(p))
		}
	}
	for _, p := range pods {
		if !admits(&p.Spec, labels, taints) {
			c.fault("node %s: pod %s may not run there", name, p.Name)
		}
		takeFrom(free, requests(p))
	}
	for _, r := range negative(free) {
		c.fault("node %s: %s is overbooked", name, r)
	}
	if node != nil && node.DeletionTimestamp != nil || claim != nil && claim.DeletionTimestamp != nil {
		c.fault("node %s is leaving", name)
	}
}

// facts returns the labels, the lasting taints and the room of a machine.
func (c *checker) facts(node *corev1.Node, claim *v1.NodeClaim) (map[string]string, []corev1.Taint, corev1.ResourceList) {
	if node == nil {
		return claim.Labels, v1.CoreTaints(claim.Spec.Taints), claim.Status.Allocatable.DeepCopy()
	}
	labels, taints, free := maps.Clone(node.Labels), node.Spec.Taints, node.Status.Allocatable.DeepCopy()
	if claim == nil || node.Labels[v1.InitializedLabelKey] == "true" {
		return labels, taints, free
	}
	maps.Copy(labels, claim.Labels)
	starting := append(v1.CoreTaints(claim.Spec.StartupTaints), v1.UnregisteredTaint(), corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule})
	staying := v1.CoreTaints(claim.Spec.Taints)
	for _, taint := range taints {
		if !slices.ContainsFunc(starting, func(s corev1.Taint) bool { return s.Key == taint.Key && s.Effect == taint.Effect }) {
			staying = append(staying, taint)
		}
	}
	return labels, staying, free
}

// limits checks that no pool can exceed its limits, whichever listed types the cloud chooses.
func (c *checker) limits(usage map[string]corev1.ResourceList) {
	for _, name := range slices.Sorted(maps.Keys(usage)) {
		used := usage[name].DeepCopy()
		for _, x := range c.s.NodeClaims {
			if x.Labels[v1.NodePoolLabelKey] == name && x.DeletionTimestamp == nil {
				addTo(used, x.Status.Capacity)
				addTo(used, corev1.ResourceList{v1.ResourceNodes: resource.MustParse("1")})
			}
		}
		for r, limit := range c.poolOf(name).Spec.Limits {
			if have := used[r]; have.Cmp(limit) > 0 {
				c.fault("pool %s: %s of %s, the limit is %s", name, have.String(), r, limit.String())
			}
		}
	}
}

// admits reports whether kube-scheduler would bind the pod to a node with these labels and taints.
func admits(spec *corev1.PodSpec, labels map[string]string, taints []corev1.Taint) bool {
	for _, taint := range taints {
		if taint.Effect != corev1.TaintEffectPreferNoSchedule && !slices.ContainsFunc(spec.Tolerations, func(t corev1.Toleration) bool {
			return (t.Key == "" || t.Key == taint.Key) && (t.Effect == "" || t.Effect == taint.Effect) &&
				(t.Operator == corev1.TolerationOpExists || t.Value == taint.Value)
		}) {
			return false
		}
	}
	for key, value := range spec.NodeSelector {
		if labels[key] != value {
			return false
		}
	}
	if spec.Affinity == nil || spec.Affinity.NodeAffinity == nil || spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return true
	}
	return slices.ContainsFunc(spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms, func(term corev1.NodeSelectorTerm) bool {
		return len(term.MatchExpressions) > 0 && !slices.ContainsFunc(term.MatchExpressions, func(e corev1.NodeSelectorRequirement) bool {
			return !meets(labels, e.Key, string(e.Operator), e.Values)
		})
	})
}

func meets(labels map[string]string, key, operator string, values []string) bool {
	value, there := labels[key]
	switch operator {
	case "In":
		return there && slices.Contains(values, value)
	case "NotIn":
		return !slices.Contains(values, value)
	case "Exists":
		return there
	case "DoesNotExist":
		return !there
	}
	have, err := strconv.Atoi(value)
	want, _ := strconv.Atoi(values[0])
	return err == nil && (operator == "Gt" && have > want || operator == "Lt" && have < want || operator == "Gte" && have >= want || operator == "Lte" && have <= want)
}

// requests returns the pod's largest requests at any time.
func requests(p *corev1.Pod) corev1.ResourceList {
	most, sidecars := corev1.ResourceList{}, corev1.ResourceList{}
	atLeast := func(list corev1.ResourceList) {
		for name, q := range list {
			if have := most[name]; q.Cmp(have) > 0 {
				most[name] = q
			}
		}
	}
	for _, c := range p.Spec.InitContainers {
		if c.RestartPolicy != nil {
			addTo(sidecars, c.Resources.Requests)
			atLeast(sidecars.DeepCopy())
			continue
		}
		step := sidecars.DeepCopy()
		addTo(step, c.Resources.Requests)
		atLeast(step)
	}
	running := sidecars.DeepCopy()
	for _, c := range p.Spec.Containers {
		addTo(running, c.Resources.Requests)
	}
	atLeast(running)
	if p.Spec.Resources != nil {
		maps.Copy(most, p.Spec.Resources.Requests)
	}
	addTo(most, p.Spec.Overhead)
	addTo(most, corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1")})
	return most
}

func addTo(to, what corev1.ResourceList) {
	for name, q := range what {
		have := to[name]
		have.Add(q)
		to[name] = have
	}
}

func takeFrom(from, what corev1.ResourceList) {
	for name, q := range what {
		have := from[name]
		have.Sub(q)
		from[name] = have
	}
}

func negative(list corev1.ResourceList) []corev1.ResourceName {
	var out []corev1.ResourceName
	for name, q := range list {
		if q.Sign() < 0 {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

package engine_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario/scenariotest"
)

// This file binds a plan's pods in sequence. It checks each by a simple version of kube-scheduler's rules about other pods, ports and volumes.

// bench is a cluster with all planned machines, at one step of a plan.
type bench struct {
	s     *engine.Snapshot
	nodes []*benchNode
	found []string
	tried map[string]int // counts the checks, to detect a law that never applies
}

type benchNode struct {
	name   string
	labels map[string]string
	taints []corev1.Taint
	pods   []*corev1.Pod
	room   corev1.ResourceList // without the pods' requests
	// attach holds the number of volumes of each driver that the node takes. A driver that is not named has no limit.
	attach map[string]int
}

// sequenceFaults lists the faults of a plan if each launch becomes the offering that pick chooses.
func sequenceFaults(s *engine.Snapshot, plan *engine.Plan, pick func(n int) int, tried map[string]int) []string {
	return sequenceFaultsBehind(s, s.DaemonSets, plan, pick, tried)
}

// sequenceFaultsBehind is sequenceFaults with the pods of DaemonSets in this order, before all others.
func sequenceFaultsBehind(s *engine.Snapshot, sets []*appsv1.DaemonSet, plan *engine.Plan, pick func(n int) int, tried map[string]int) []string {
	b := &bench{s: s, tried: tried}
	c := &checker{s: s}
	b.existing(c)
	b.planned(c, plan, pick)
	where := map[engine.PodID]string{}
	for _, p := range plan.Placements {
		where[p.Pod] = p.Node
	}
	for _, l := range plan.Launches {
		for _, id := range l.Pods {
			where[id] = "launch " + l.Name
		}
	}
	if len(plan.Sequence) != len(where) {
		b.fault("%d pods have a place, %d are in the sequence", len(where), len(plan.Sequence))
	}
	b.evict(plan)
	for _, set := range sets {
		for _, n := range b.nodes {
			b.house(set, n)
		}
	}
	for _, id := range plan.Sequence {
		pod, node := c.pod(id), b.node(where[id])
		if node == nil {
			b.fault("pod %s goes to %q, which is no node", id, where[id])
			continue
		}
		if pod.Spec.NodeName != "" { // its node goes, so this is its successor
			pod = pod.DeepCopy()
			pod.Spec.NodeName, pod.DeletionTimestamp = "", nil
		}
		b.check(pod, node)
		node.pods = append(node.pods, pod)
	}
	return append(b.found, c.found...)
}

func (b *bench) fault(format string, args ...any) {
	b.found = append(b.found, fmt.Sprintf(format, args...))
}

// existing lists the nodes, and the requested machines without a node.
func (b *bench) existing(c *checker) {
	for _, n := range b.s.Nodes {
		var claim *v1.NodeClaim
		for _, x := range b.s.NodeClaims {
			if x.Status.ProviderID != "" && x.Status.ProviderID == n.Spec.ProviderID {
				claim = x
			}
		}
		node := &benchNode{name: n.Name, attach: map[string]int{}}
		node.labels, node.taints, node.room = c.facts(n, claim)
		if claim != nil && n.Labels[v1.InitializedLabelKey] != "true" {
			node.room = claim.Status.Allocatable.DeepCopy()
		}
		if n.Spec.Unschedulable {
			node.taints = append(slices.Clone(node.taints), corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
		}
		for _, p := range b.s.Pods {
			if p.Spec.NodeName == n.Name && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
				node.pods = append(node.pods, p)
			}
		}
		for _, csi := range b.s.CSINodes {
			for _, d := range csi.Spec.Drivers {
				if csi.Name == n.Name && d.Allocatable != nil && d.Allocatable.Count != nil {
					node.attach[d.Name] = int(*d.Allocatable.Count)
				}
			}
		}
		b.nodes = append(b.nodes, node)
	}
	for _, claim := range b.s.NodeClaims {
		if b.node(claim.Status.NodeName) == nil && b.node(claim.Name) == nil && claim.DeletionTimestamp == nil {
			set := maps.Clone(claim.Labels)
			set[corev1.LabelHostname] = claim.Name
			b.nodes = append(b.nodes, &benchNode{name: claim.Name, labels: set, taints: v1.CoreTaints(claim.Spec.Taints), attach: b.limitsOf(claim), room: claim.Status.Allocatable.DeepCopy()})
		}
	}
}

func (b *bench) limitsOf(claim *v1.NodeClaim) map[string]int {
	for _, class := range b.s.Classes {
		for _, t := range class.InstanceTypes {
			if class.Ref == *claim.Spec.NodeClassRef && t.Name == claim.Labels[corev1.LabelInstanceTypeStable] {
				return t.AttachLimits
			}
		}
	}
	return nil
}

func (b *bench) planned(c *checker, plan *engine.Plan, pick func(n int) int) {
	for _, l := range plan.Launches {
		pool := c.poolOf(l.NodePool)
		t, o := c.offering(pool, l.Offerings[pick(len(l.Offerings))].OfferingID)
		if t == nil {
			continue // another check reports it
		}
		set := machineLabels(l, pool, t, o)
		set[corev1.LabelHostname] = "launch " + l.Name
		b.nodes = append(b.nodes, &benchNode{name: "launch " + l.Name, labels: set, taints: v1.CoreTaints(pool.Spec.Template.Spec.Taints), attach: t.AttachLimits, room: t.Allocatable()})
	}
}

// house runs the DaemonSet's pod on the node, if it belongs there, does not run there yet and fits.
func (b *bench) house(set *appsv1.DaemonSet, n *benchNode) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: set.Name + " on " + n.name, Labels: set.Spec.Template.Labels}, Spec: *set.Spec.Template.Spec.DeepCopy()}
	pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists},
		corev1.Toleration{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute})
	room := n.room.DeepCopy()
	for _, p := range n.pods {
		if metav1.IsControlledBy(p, set) || slices.ContainsFunc(p.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == "DaemonSet" && o.Name == set.Name }) {
			return
		}
		takeFrom(room, requests(p))
	}
	takeFrom(room, requests(pod))
	for name := range requests(pod) {
		if have := room[name]; have.Sign() < 0 {
			return
		}
	}
	if !admits(&pod.Spec, n.labels, n.taints) || b.welcome(pod, n) != "" || clashing(pod, n) != "" {
		return
	}
	for _, term := range antiTerms(pod) {
		if b.apart(pod, n, term) != "" {
			return
		}
	}
	n.pods = append(n.pods, pod)
}

func (b *bench) node(name string) *benchNode {
	for _, n := range b.nodes {
		if n.name == name && name != "" {
			return n
		}
	}
	return nil
}

// evict removes the pods that the plan moves, and the pods without a new place.
func (b *bench) evict(plan *engine.Plan) {
	moving := map[string]bool{}
	for _, id := range plan.Sequence {
		moving[id.String()] = true
	}
	for _, u := range plan.Unplaced {
		moving[u.Pod.String()] = true
	}
	for _, n := range b.nodes {
		n.pods = slices.DeleteFunc(n.pods, func(p *corev1.Pod) bool { return moving[p.Namespace+"/"+p.Name] })
	}
}

func (b *bench) check(pod *corev1.Pod, node *benchNode) {
	refuse := func(rule, why string) {
		b.tried[rule]++
		if why != "" {
			b.fault("pod %s on %s: %s: %s", pod.Name, node.name, rule, why)
		}
	}
	hard := slices.Clone(pod.Spec.TopologySpreadConstraints)
	hard = slices.DeleteFunc(hard, func(c corev1.TopologySpreadConstraint) bool { return c.WhenUnsatisfiable != corev1.DoNotSchedule })
	for i := range hard {
		refuse("spread", b.spread(pod, node, &hard[i], hard))
	}
	if a := pod.Spec.Affinity; a != nil && a.PodAffinity != nil && len(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0 {
		refuse("affinity", b.near(pod, node, a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution))
	}
	for _, term := range antiTerms(pod) {
		refuse("anti-affinity", b.apart(pod, node, term))
	}
	refuse("anti-affinity of others", b.welcome(pod, node))
	if len(portsOf(pod)) > 0 {
		refuse("ports", clashing(pod, node))
	}
	for _, claim := range b.claimsOf(pod) {
		refuse("volumes", b.reachable(pod, node, claim))
	}
	if len(b.claimsOf(pod)) > 0 {
		refuse("attach limits", b.attachable(pod, node))
	}
}

// spread is PodTopologySpread, on nodes that have all the keys and meet the policies.
func (b *bench) spread(pod *corev1.Pod, node *benchNode, c *corev1.TopologySpreadConstraint, all []corev1.TopologySpreadConstraint) string {
	value, there := node.labels[c.TopologyKey]
	if !there {
		return "the node lacks " + c.TopologyKey
	}
	selector := selectorOf(c.LabelSelector, pod, c.MatchLabelKeys, nil)
	counts := map[string]int{}
	for _, n := range b.nodes {
		if slices.ContainsFunc(all, func(other corev1.TopologySpreadConstraint) bool { _, has := n.labels[other.TopologyKey]; return !has }) || !included(pod, n, c) {
			continue
		}
		counts[n.labels[c.TopologyKey]] += 0
		for _, p := range n.pods {
			if p.Namespace == pod.Namespace && p.DeletionTimestamp == nil && selector.Matches(labels.Set(p.Labels)) {
				counts[n.labels[c.TopologyKey]]++
			}
		}
	}
	least := -1
	for _, n := range counts {
		if least < 0 || n < least {
			least = n
		}
	}
	if least < 0 || c.MinDomains != nil && len(counts) < int(*c.MinDomains) {
		least = 0
	}
	have := counts[value]
	if selector.Matches(labels.Set(pod.Labels)) {
		have++
	}
	if have-least > int(c.MaxSkew) {
		return fmt.Sprintf("%s %s would have %d, the least is %d of %d domains, the skew %d", c.TopologyKey, value, have, least, len(counts), c.MaxSkew)
	}
	return ""
}

// included implements the node inclusion policies.
func included(pod *corev1.Pod, n *benchNode, c *corev1.TopologySpreadConstraint) bool {
	if c.NodeAffinityPolicy == nil || *c.NodeAffinityPolicy == corev1.NodeInclusionPolicyHonor {
		if !admits(&pod.Spec, n.labels, nil) {
			return false
		}
	}
	if c.NodeTaintsPolicy != nil && *c.NodeTaintsPolicy == corev1.NodeInclusionPolicyHonor {
		return admits(&corev1.PodSpec{Tolerations: pod.Spec.Tolerations}, n.labels, n.taints)
	}
	return true
}

// selectorOf returns the selector with the pod's own values of some keys added.
func selectorOf(s *metav1.LabelSelector, pod *corev1.Pod, match, mismatch []string) labels.Selector {
	if s == nil {
		return labels.Nothing()
	}
	s = s.DeepCopy()
	add := func(keys []string, op metav1.LabelSelectorOperator) {
		for _, key := range keys {
			if value, there := pod.Labels[key]; there {
				s.MatchExpressions = append(s.MatchExpressions, metav1.LabelSelectorRequirement{Key: key, Operator: op, Values: []string{value}})
			}
		}
	}
	add(match, metav1.LabelSelectorOpIn)
	add(mismatch, metav1.LabelSelectorOpNotIn)
	out, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return labels.Nothing()
	}
	return out
}

// means reports whether the owner's term selects the other pod.
func (b *bench) means(owner *corev1.Pod, term corev1.PodAffinityTerm, other *corev1.Pod) bool {
	namespace := slices.Contains(term.Namespaces, other.Namespace)
	if len(term.Namespaces) == 0 && term.NamespaceSelector == nil {
		namespace = other.Namespace == owner.Namespace
	}
	if term.NamespaceSelector != nil {
		set := labels.Set{}
		for _, n := range b.s.Namespaces {
			if n.Name == other.Namespace {
				set = n.Labels
			}
		}
		s, err := metav1.LabelSelectorAsSelector(term.NamespaceSelector)
		namespace = namespace || err == nil && s.Matches(set)
	}
	return namespace && selectorOf(term.LabelSelector, owner, term.MatchLabelKeys, term.MismatchLabelKeys).Matches(labels.Set(other.Labels))
}

// near is the first half of InterPodAffinity: a pod counts if it meets all terms.
func (b *bench) near(pod *corev1.Pod, node *benchNode, terms []corev1.PodAffinityTerm) string {
	all := func(other *corev1.Pod) bool {
		return !slices.ContainsFunc(terms, func(t corev1.PodAffinityTerm) bool { return !b.means(pod, t, other) })
	}
	anywhere, everyTerm := false, true
	for _, t := range terms {
		value, there := node.labels[t.TopologyKey]
		if !there {
			return "the node lacks " + t.TopologyKey
		}
		here := false
		for _, n := range b.nodes {
			v, has := n.labels[t.TopologyKey]
			if has && slices.ContainsFunc(n.pods, all) {
				anywhere = true
				here = here || v == value
			}
		}
		everyTerm = everyTerm && here
	}
	if everyTerm || !anywhere && all(pod) {
		return ""
	}
	return "no such pods there"
}

func antiTerms(pod *corev1.Pod) []corev1.PodAffinityTerm {
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.PodAntiAffinity == nil {
		return nil
	}
	return pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
}

func (b *bench) apart(pod *corev1.Pod, node *benchNode, term corev1.PodAffinityTerm) string {
	for _, n := range b.nodes {
		if !sameDomain(n, node, term.TopologyKey) {
			continue
		}
		for _, p := range n.pods {
			if b.means(pod, term, p) {
				return fmt.Sprintf("%s runs in the same %s", p.Name, term.TopologyKey)
			}
		}
	}
	return ""
}

// welcome checks the anti-affinity of existing pods.
func (b *bench) welcome(pod *corev1.Pod, node *benchNode) string {
	for _, n := range b.nodes {
		for _, p := range n.pods {
			for _, term := range antiTerms(p) {
				if sameDomain(n, node, term.TopologyKey) && b.means(p, term, pod) {
					return fmt.Sprintf("%s keeps it out of the same %s", p.Name, term.TopologyKey)
				}
			}
		}
	}
	return ""
}

func sameDomain(a, b *benchNode, key string) bool {
	x, there := a.labels[key]
	y, too := b.labels[key]
	return there && too && x == y
}

type plainPort struct {
	protocol corev1.Protocol
	address  string
	port     int32
}

func portsOf(pod *corev1.Pod) []plainPort {
	var out []plainPort
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			for _, p := range list[i].Ports {
				if p.HostPort > 0 {
					out = append(out, plainPort{p.Protocol, p.HostIP, p.HostPort})
				}
			}
		}
	}
	return out
}

func clashing(pod *corev1.Pod, node *benchNode) string {
	anyAddress := func(a string) bool { return a == "" || a == "0.0.0.0" }
	protocol := func(p corev1.Protocol) corev1.Protocol {
		if p == "" {
			return corev1.ProtocolTCP
		}
		return p
	}
	for _, mine := range portsOf(pod) {
		for _, other := range node.pods {
			for _, p := range portsOf(other) {
				if p.port == mine.port && protocol(p.protocol) == protocol(mine.protocol) && (anyAddress(p.address) || anyAddress(mine.address) || p.address == mine.address) {
					return fmt.Sprintf("port %d is %s's", p.port, other.Name)
				}
			}
		}
	}
	return ""
}

// plainClaim is a claim that a pod uses; nil is a claim that will be created for the pod.
type plainClaim struct {
	name  string
	claim *corev1.PersistentVolumeClaim
	class string
}

func (b *bench) claimsOf(pod *corev1.Pod) []plainClaim {
	var out []plainClaim
	for _, v := range pod.Spec.Volumes {
		c := plainClaim{}
		switch {
		case v.PersistentVolumeClaim != nil:
			c.name = v.PersistentVolumeClaim.ClaimName
		case v.Ephemeral != nil:
			c.name = pod.Name + "-" + v.Name
			if name := v.Ephemeral.VolumeClaimTemplate.Spec.StorageClassName; name != nil {
				c.class = *name
			}
		default:
			continue
		}
		for _, x := range b.s.PersistentVolumeClaims {
			if x.Namespace == pod.Namespace && x.Name == c.name {
				c.claim = x
				if x.Spec.StorageClassName != nil {
					c.class = *x.Spec.StorageClassName
				}
			}
		}
		out = append(out, c)
	}
	return out
}

func (b *bench) class(name string) *storagev1.StorageClass {
	for _, c := range b.s.StorageClasses {
		if c.Name == name {
			return c
		}
	}
	return nil
}

func (b *bench) volumeOf(c plainClaim) *corev1.PersistentVolume {
	for _, v := range b.s.PersistentVolumes {
		if c.claim != nil && v.Name == c.claim.Spec.VolumeName {
			return v
		}
	}
	return nil
}

// reachable is VolumeBinding and VolumeZone for one claim.
func (b *bench) reachable(pod *corev1.Pod, node *benchNode, c plainClaim) string {
	if c.claim != nil && slices.Contains(c.claim.Spec.AccessModes, corev1.ReadWriteOncePod) {
		for _, n := range b.nodes {
			for _, p := range n.pods {
				if p.Namespace == pod.Namespace && slices.ContainsFunc(b.claimsOf(p), func(x plainClaim) bool { return x.name == c.name }) {
					return p.Name + " uses " + c.name + " too"
				}
			}
		}
	}
	if v := b.volumeOf(c); v != nil {
		return volumeThere(v, node)
	}
	class := b.class(c.class)
	if class == nil || class.VolumeBindingMode == nil || *class.VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer {
		return c.name + " has no volume, and nobody makes one for the node"
	}
	for _, v := range b.s.PersistentVolumes { // a free volume may be bound
		free := v.Spec.ClaimRef == nil || v.Spec.ClaimRef.Namespace == pod.Namespace && v.Spec.ClaimRef.Name == c.name
		if v.Spec.StorageClassName == c.class && free && v.Status.Phase == corev1.VolumeAvailable && volumeThere(v, node) == "" {
			return ""
		}
	}
	if len(class.AllowedTopologies) > 0 && !slices.ContainsFunc(class.AllowedTopologies, func(t corev1.TopologySelectorTerm) bool {
		return !slices.ContainsFunc(t.MatchLabelExpressions, func(e corev1.TopologySelectorLabelRequirement) bool {
			return !slices.Contains(e.Values, node.labels[e.Key])
		})
	}) {
		return "class " + c.class + " makes no volumes there"
	}
	return ""
}

func volumeThere(v *corev1.PersistentVolume, node *benchNode) string {
	if a := v.Spec.NodeAffinity; a != nil && a.Required != nil {
		if !admits(&corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: a.Required}}}, node.labels, nil) {
			return "volume " + v.Name + " is elsewhere"
		}
	}
	if zone := v.Labels[corev1.LabelTopologyZone]; zone != "" && zone != node.labels[corev1.LabelTopologyZone] {
		return "volume " + v.Name + " is in zone " + zone
	}
	return ""
}

// attachable is NodeVolumeLimits: it counts the volumes of the node's pods and of this pod, each once.
func (b *bench) attachable(pod *corev1.Pod, node *benchNode) string {
	handles, mine := map[string]map[string]bool{}, map[string]bool{}
	add := func(p *corev1.Pod, own bool) {
		for _, c := range b.claimsOf(p) {
			driver, handle := b.driverOf(c), p.Namespace+"/"+c.name
			if v := b.volumeOf(c); v != nil {
				handle = v.Name
			}
			if handles[driver] == nil {
				handles[driver] = map[string]bool{}
			}
			if own && !handles[driver][handle] {
				mine[driver] = true
			}
			handles[driver][handle] = true
		}
	}
	for _, p := range node.pods {
		add(p, false)
	}
	add(pod, true)
	for _, a := range b.s.VolumeAttachments {
		if a.Spec.NodeName == node.name && a.Spec.Source.PersistentVolumeName != nil && handles[a.Spec.Attacher] != nil {
			handles[a.Spec.Attacher][*a.Spec.Source.PersistentVolumeName] = true
		}
	}
	for driver := range mine {
		if most, limited := node.attach[driver]; limited && len(handles[driver]) > most {
			return fmt.Sprintf("%d volumes of %s, the node takes %d", len(handles[driver]), driver, most)
		}
	}
	return ""
}

func (b *bench) driverOf(c plainClaim) string {
	if v := b.volumeOf(c); v != nil && v.Spec.CSI != nil {
		return v.Spec.CSI.Driver
	}
	if class := b.class(c.class); class != nil {
		return class.Provisioner
	}
	return ""
}

func TestEveryPlacementKeepsTheRulesBetweenPodsInSequence(t *testing.T) {
	t.Parallel()
	tried := map[string]int{}
	scenariotest.EachRandom(t, func(t *testing.T, seed uint64, s *engine.Snapshot) {
		plan := provisioning.Plan(s, engine.Options{}, nil)
		for name, pick := range map[string]func(int) int{
			"cheapest": func(int) int { return 0 }, "dearest": func(n int) int { return n - 1 }, "middle": func(n int) int { return n / 2 },
		} {
			for _, fault := range sequenceFaults(s, plan, pick, tried) {
				t.Errorf("seed %d, %s offerings: %s", seed, name, fault)
			}
		}
	})
	t.Logf("checked: %v", tried)
	for _, rule := range []string{"spread", "affinity", "anti-affinity", "anti-affinity of others", "ports", "volumes", "attach limits"} {
		if tried[rule] == 0 {
			t.Errorf("no random plan has anything to check for %s", rule)
		}
	}
}

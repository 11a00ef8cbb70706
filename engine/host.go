package engine

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/bitset"
	"tenon.sh/engine/capacity"
	"tenon.sh/engine/requirement"
)

// machine is what nodes, claims and catalogs tell of a machine that exists or has been asked for: a Node, a NodeClaim, or both.
// All compilations share it; once it is made nobody changes it.
type machine struct {
	node  *corev1.Node // nil until the machine has joined the cluster
	claim *v1.NodeClaim
	// labels are those of the node; until it is registered, the claim's come before them.
	labels map[string]string
	// poolName is that of the pool by the labels, empty without.
	poolName string
	// open holds, for a claim that is not launched yet, what may still become of its other labels.
	open   *openLabels
	taints []corev1.Taint
	// allocatable is what pods can use, before anything is taken.
	allocatable corev1.ResourceList
	// capacity counts against the pool's limits.
	capacity corev1.ResourceList
	// goes is true for a machine that is being removed.
	goes bool
	// planned are the pods that the machine was started for, by UID.
	planned []string
	// registered and initialized say how far the node has come; a node without a claim has arrived.
	registered, initialized bool
	// bare is true for a node that came in the place of one that was registered: it is read as it is.
	bare bool
	// begun is since when the claim is initialized, or when it was made, softEnd when it is to be replaced for its age; zero for
	// never.
	begun, softEnd time.Time
	// launched and arrived are when the claim's conditions of being launched and initialized became true.
	launched, arrived moment
	start             startKind // what tells how long it takes to start
	// marked is true for a claim that is to go once what replaces it is ready.
	marked bool
	// usual are the labels that are asked for all the time: nodes have dozens.
	usual    [len(usualLabels)]labelFact
	offering OfferingID // that the machine was bought as, by the labels
	// lacking is a label without which nothing can be said of its price, empty if there is none.
	lacking string
	// What conditions say: that the node is ready, that its machine is started anew, or stopped, that it is out of date.
	ready, rebooting, stopping, drifted bool
	kind                                *InstanceType      // by the claim; nil if the catalog does not list it
	sold                                *InstanceType      // the same by the labels
	price                               float64            // USD per hour, 0 if it is not known
	teaches                             *resource.Quantity // the memory that others of its type will have; nil if it does not tell
}

// host is a machine as one compilation sees it.
type host struct {
	*machine
	number int // its place in the list of all, the same in all compilations of a snapshot
	// ordered is true for a machine that goes once its replacements are ready, replaces for one that others wait for.
	ordered, replaces bool
	// leaving is true for a machine that is being removed: nothing new goes there and its pods need another place.
	leaving bool
	// late is true for a machine that has been started and should be ready by now: nobody counts on it until it is.
	late bool
	// misses is true for a machine that has been ready for so long that resources it does not show are not to be expected.
	misses bool
	// gone is true for a machine whose node is gone, and for a node that is not registered because its machine has others.
	gone bool
	// supposed is true if it is leaving only in a trial: it is still there while what replaces it starts.
	supposed bool
	// promised are pods that still run on machines that go, and for which room is kept here.
	promised []*corev1.Pod
	roll     *roll
	facts    *nodeFacts    // nil without a node
	bound    []*corev1.Pod // oldest first; shared, not to be changed
	// expected are unbound pods that the machine was started for or that are nominated to it.
	expected []*corev1.Pod
	free     capacity.Vector
	volumes  nodeVolumes
	target   int // its number among those that may take pods
}

// name is the Node's name, or the claim's as long as there is no Node.
func (m *machine) name() string {
	if m.node != nil {
		return m.node.Name
	}
	return m.claim.Name
}

// id is the claim's name, or the Node's if there is no claim: it stays the same while the machine starts.
func (m *machine) id() string { return cmp.Or(m.claimName(), m.name()) }

func (m *machine) claimName() string {
	if m.claim == nil {
		return ""
	}
	return m.claim.Name
}

func (m *machine) pool() string { return m.poolName }

func (m *machine) isRegistered() bool { return m.registered }

func (m *machine) isInitialized() bool { return m.initialized }

func (m *machine) isRebooting() bool { return m.rebooting }

// hostKey tells machines apart from one snapshot to the next.
type hostKey struct{ node, claim string }

func (h *host) key() hostKey {
	if h.node == nil {
		return hostKey{claim: h.claim.Name}
	}
	return hostKey{h.node.Name, h.claimName()}
}

// hostSet holds machines by their numbers; nil is empty.
type hostSet []bool

func hostsIn(all int, hosts []*host) hostSet {
	out := make(hostSet, all)
	for _, h := range hosts {
		out[h.number] = true
	}
	return out
}

func (s hostSet) has(h *host) bool { return len(s) > 0 && s[h.number] }

// triedAfter is how long after a machine is ready kube-scheduler has tried all pods there that the machine was started for.
const triedAfter = 15 * time.Second

// isTried reports whether the pods that the machine was started for and that still wait were refused there: it has been
// ready for long enough. A spread may have gone another way, another pod may have taken their port. They are planned
// anew, on this machine too if it will have them.
func (h *host) isTried(now time.Time) bool {
	return h.isInitialized() && h.arrived.known && now.Sub(h.arrived.at) > triedAfter
}

// usualLabels are the keys of a machine's usual labels.
var usualLabels = [...]string{corev1.LabelTopologyZone, corev1.LabelHostname, corev1.LabelInstanceTypeStable, v1.CapacityTypeLabelKey, v1.NodePoolLabelKey}

func newMachine(node *corev1.Node, claim *v1.NodeClaim, offer *offer) *machine {
	m := &machine{node: node, claim: claim, ready: node != nil && nodeReady(node)}
	m.read(offer.types)
	m.poolName = m.labels[v1.NodePoolLabelKey]
	if m.bare {
		m.poolName = claim.Labels[v1.NodePoolLabelKey]
	}
	m.start = startKind{m.poolName, m.labels[corev1.LabelInstanceTypeStable]}
	for _, key := range []string{corev1.LabelInstanceTypeStable, v1.CapacityTypeLabelKey, corev1.LabelTopologyZone} {
		if m.labels[key] == "" {
			m.lacking = key
			break
		}
	}
	for i, key := range usualLabels {
		value, there := m.findLabel(key)
		m.usual[i] = labelFact{key, value, there}
	}
	if claim != nil {
		_, m.marked = claim.Annotations[DisruptionAnnotation]
		m.planned, m.offering = PlannedPods(claim), MachineOffering(m.labels)
		m.sell(offer)
	}
	return m
}

// sell reads what a machine with a claim is sold as.
func (m *machine) sell(offer *offer) {
	class := m.claim.Spec.NodeClassRef
	m.kind = offer.types.find(class, m.claim.Labels[corev1.LabelInstanceTypeStable])
	m.sold = offer.types.find(class, m.labels[corev1.LabelInstanceTypeStable])
	m.price, _ = offer.prices.priceOf(m.offering, m.labels, class)
	m.teaches = m.memoryTaught()
}

// resold is the machine once something else is sold than before.
func (m *machine) resold(offer *offer) *machine {
	switch {
	case m.claim == nil:
		return m
	case m.open != nil:
		return newMachine(m.node, m.claim, offer)
	}
	out := *m
	out.sell(offer)
	return &out
}

// missing reports whether the machine misses a resource that was asked for, and has been ready for too long to wait for it.
func (m *machine) missing(now time.Time) bool {
	return m.registered && now.Sub(readySince(m.claim, []*corev1.Node{m.node})) >= resourcePatience && missesResource(m.claim, m.node)
}

// usable is what pods can use of the machine, before anything is taken.
func (h *host) usable() corev1.ResourceList {
	if h.misses {
		return h.node.Status.Allocatable
	}
	return h.allocatable
}

// machines is hostsOf for one more compilation of the same snapshot.
func (c *census) machines(s *Snapshot) []*host {
	if c.hosts == nil {
		c.hosts = hostsOf(s, c)
	}
	copies, out := make([]host, len(c.hosts)), make([]*host, len(c.hosts))
	for i, h := range c.hosts {
		copies[i] = *h
		copies[i].late = h.late && !c.patient
		out[i] = &copies[i]
	}
	return out
}

func compareBy[T any](a, b T, before func(a, b T) bool) int {
	switch {
	case before(a, b):
		return -1
	case before(b, a):
		return 1
	}
	return 0
}

func compareMachines(a, b *machine) int {
	rank := func(m *machine) int {
		switch {
		case m.isInitialized():
			return 0
		case m.node != nil:
			return 1
		}
		return 2
	}
	if n := rank(a) - rank(b); n != 0 {
		return n
	}
	if n := strings.Compare(a.name(), b.name()); n != 0 {
		return n
	}
	return strings.Compare(a.claimName(), b.claimName())
}

// read settles which of node and claim is believed. Until the node is registered the claim's labels come before its own,
// and its taints are those of the claim; until it is initialized, amounts that it does not report yet are those that the cloud
// expects (see usable).
func (m *machine) read(types typeIndex) {
	m.goes = isLeaving(m.node, m.claim)
	m.registered = m.node != nil && (m.claim == nil || m.node.Labels[v1.RegisteredLabelKey] == "true")
	m.initialized = m.node != nil && (m.claim == nil || m.node.Labels[v1.InitializedLabelKey] == "true")
	if m.claim != nil {
		m.readConditions()
		m.bare = m.node != nil && isBare(m.node, m.claim)
	}
	if m.claim == nil || m.bare {
		m.labels, m.taints = m.node.Labels, nodeTaints(m.node)
		m.allocatable, m.capacity = m.node.Status.Allocatable, m.node.Status.Capacity
		return
	}
	if m.isRegistered() {
		m.labels, m.taints = m.node.Labels, nodeTaints(m.node)
	} else {
		m.labels, m.taints = m.startingLabels(), v1.CoreTaints(m.claim.Spec.Taints)
	}
	if m.isInitialized() {
		m.allocatable, m.capacity = m.node.Status.Allocatable, m.node.Status.Capacity
		return
	}
	m.taints = slices.DeleteFunc(slices.Clone(m.taints), func(t corev1.Taint) bool {
		return IsEphemeralTaint(t) || isStartupTaint(m.claim, t)
	})
	m.allocatable, m.capacity = m.claim.Status.Allocatable, m.claim.Status.Capacity
	if !isLaunched(m.claim) {
		m.open = newOpenLabels(m.claim, types)
		m.allocatable, m.capacity = m.open.least, m.open.most
	}
	if m.node != nil {
		m.allocatable = filled(m.node.Status.Allocatable, m.allocatable)
		m.capacity = filled(m.node.Status.Capacity, m.capacity)
	}
}

func (m *machine) readConditions() {
	m.rebooting, m.stopping = v1.IsTrue(m.claim, v1.ConditionRebooting), v1.IsTrue(m.claim, v1.ConditionInstanceTerminating)
	m.drifted, m.begun = v1.IsTrue(m.claim, v1.ConditionDrifted), m.claim.CreationTimestamp.Time
	if v1.IsTrue(m.claim, v1.ConditionInitialized) {
		m.begun = since(m.claim, v1.ConditionInitialized)
	}
	m.softEnd, _ = SoftExpiry(m.claim)
	m.launched, m.arrived = momentOf(m.claim, v1.ConditionLaunched), momentOf(m.claim, v1.ConditionInitialized)
}

// moment is when a condition became true, if it is.
type moment struct {
	at    time.Time
	known bool
}

func momentOf(claim *v1.NodeClaim, condition string) moment {
	c := v1.GetCondition(claim, condition)
	if c == nil || c.Status != metav1.ConditionTrue {
		return moment{}
	}
	return moment{c.LastTransitionTime.Time, true}
}

// startingLabels are those of a machine that is not registered: the claim's, and what else a node that has joined carries
// already, which registration leaves alone.
func (m *machine) startingLabels() map[string]string {
	if m.node == nil {
		return m.claim.Labels
	}
	labels := maps.Clone(m.node.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, m.claim.Labels)
	return labels
}

func isLaunched(c *v1.NodeClaim) bool { return len(c.Status.Allocatable) > 0 }

// awaits reports whether a pod that is ending makes room for another that is nominated to the machine.
func (h *host) awaits(pod *corev1.Pod) bool {
	return IsTerminating(pod) && slices.ContainsFunc(h.expected, func(other *corev1.Pod) bool { return other.Status.NominatedNodeName == h.name() })
}

// isLeaving reports whether the machine is being removed for good. A node that is only marked for disruption may still
// stay; its taint keeps new pods off. One that was closed because the cloud takes its machine away does not.
func isLeaving(node *corev1.Node, claim *v1.NodeClaim) bool {
	if claim != nil && (claim.DeletionTimestamp != nil || v1.IsTrue(claim, v1.ConditionInstanceTerminating)) {
		return true
	}
	return node != nil && (node.DeletionTimestamp != nil || IsTakenAway(node))
}

// IsTakenAway reports whether the node was closed because the cloud takes its machine away.
func IsTakenAway(node *corev1.Node) bool {
	return node.Annotations[v1.NoticeAnnotationKey] != "" && hasTaint(node, v1.DisruptedTaint())
}

func nodeTaints(n *corev1.Node) []corev1.Taint {
	taints := n.Spec.Taints
	if slices.ContainsFunc(taints, IsLeavingSoon) { // where there is room it is used: nothing is bought to keep off
		taints = slices.DeleteFunc(slices.Clone(taints), IsLeavingSoon)
	}
	if !n.Spec.Unschedulable {
		return taints
	}
	cordon := corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
	return append(slices.Clone(taints), cordon)
}

func isStartupTaint(c *v1.NodeClaim, t corev1.Taint) bool {
	return slices.ContainsFunc(c.Spec.StartupTaints, func(s v1.Taint) bool { return s.Key == t.Key && s.Effect == t.Effect })
}

// filled is have, with every amount that is missing or zero taken from spare.
func filled(have, spare corev1.ResourceList) corev1.ResourceList {
	out := have.DeepCopy()
	if out == nil {
		out = corev1.ResourceList{}
	}
	for name, q := range spare {
		if h, ok := out[name]; !ok || h.IsZero() {
			out[name] = q
		}
	}
	return out
}

// openLabels is what is known of a machine that has been asked for and not been launched: any of the listed types, in
// any of the listed zones.
type openLabels struct {
	claim *v1.NodeClaim
	types []*InstanceType
	// offered are the labels of the offerings that the claim can be met with: those that can be bought, if there are any.
	offered []map[string]string
	// least and most are, of each resource, the smallest allocatable and the largest capacity of the listed types.
	least, most corev1.ResourceList
}

func newOpenLabels(c *v1.NodeClaim, types typeIndex) *openLabels {
	o := &openLabels{claim: c}
	for _, r := range c.Spec.Requirements {
		if r.Key != corev1.LabelInstanceTypeStable || r.Operator != v1.In {
			continue
		}
		for _, name := range r.Values {
			if t := types.find(c.Spec.NodeClassRef, name); t != nil {
				o.types = append(o.types, t)
			}
		}
	}
	for i, t := range o.types {
		allocatable := t.Allocatable()
		if i == 0 {
			o.least, o.most = allocatable, t.Capacity.DeepCopy()
			continue
		}
		for name, q := range o.least {
			if other, ok := allocatable[name]; !ok {
				delete(o.least, name)
			} else if other.Cmp(q) < 0 {
				o.least[name] = other
			}
		}
		maxList(o.most, t.Capacity)
	}
	o.listOfferings()
	if len(o.types) == 0 {
		o.least, o.most = c.Spec.Resources.Requests, c.Spec.Resources.Requests
	}
	return o
}

func (o *openLabels) listOfferings() {
	var soldOut []map[string]string
	for _, t := range o.types {
		for i := range t.Offerings {
			offering := &t.Offerings[i]
			switch {
			case !allowsValue(o.claim.Spec.Requirements, corev1.LabelTopologyZone, offering.Zone),
				!allowsValue(o.claim.Spec.Requirements, v1.CapacityTypeLabelKey, offering.CapacityType):
			case offering.SoldOut:
				soldOut = append(soldOut, offeringLabels(offering))
			default:
				o.offered = append(o.offered, offeringLabels(offering))
			}
		}
	}
	if len(o.offered) == 0 {
		o.offered = soldOut // it was bought before
	}
}

// set holds the values that the key may turn out to have.
func (o *openLabels) set(u *requirement.Universe, k int) bitset.Set {
	key := u.Name(k)
	set := u.Any(k)
	narrowed := false
	for _, r := range o.claim.Spec.Requirements {
		if e := poolExpression(r); e.Key == key {
			set.And(u.Set(e))
			narrowed = true
		}
	}
	fromTypes := bitset.New(u.Size(k))
	known := false
	for _, t := range o.types {
		values, ok := t.Labels[key]
		known = known || ok
		for _, v := range values {
			fromTypes.Add(u.Bit(k, v))
		}
		if len(values) == 0 {
			fromTypes.Add(requirement.Absent)
		}
	}
	if named, all := o.fromOfferings(u, k); !named.Empty() {
		if !known {
			fromTypes = u.Missing(k)
		}
		if all {
			fromTypes = named
		} else {
			fromTypes.Or(named)
		}
		known = true
	}
	switch {
	case known:
		set.And(fromTypes)
	case !narrowed:
		return u.Missing(k)
	}
	return set
}

// fromOfferings holds the values that offerings give the key; all is true if every one of them gives it one.
func (o *openLabels) fromOfferings(u *requirement.Universe, k int) (set bitset.Set, all bool) {
	set, all = bitset.New(u.Size(k)), true
	for _, labels := range o.offered {
		value, ok := labels[u.Name(k)]
		if ok {
			set.Add(u.Bit(k, value))
		}
		all = all && ok
	}
	return set, all
}

// admits reports whether the host meets one of the demand's terms and its taints are tolerated, room aside. A label that
// is still open must do whatever becomes of it.
func (h *host) admits(d *demand, u *requirement.Universe) bool {
	if untolerated(d.tolerations, h.taints) != nil || d.avoid && unwelcome(d.tolerations, h.taints) {
		return false
	}
	if h.isInitialized() && slices.ContainsFunc(d.features, func(f string) bool {
		return !slices.Contains(h.node.Status.DeclaredFeatures, f)
	}) {
		return false
	}
	return slices.ContainsFunc(d.terms, func(term []requirement.Expression) bool {
		return !slices.ContainsFunc(term, func(e requirement.Expression) bool { return !h.meets(e, u) })
	})
}

// knownLabel is the value of the label if it is settled; openValue says that it is not, but will be.
func (h *host) knownLabel(key string, u *requirement.Universe) (string, bool) {
	if value, ok := h.label(key); ok || h.open == nil || u.Key(key) < 0 {
		return value, ok
	}
	k := u.Key(key)
	set := h.open.set(u, k)
	if set.Len() != 1 {
		return openValue, false
	}
	return u.Value(k, set.Next(0))
}

// expectedType is the type of a machine whose node has not reported everything yet, nil if that is over.
func (h *host) expectedType() *InstanceType {
	if h.isInitialized() {
		return nil
	}
	if h.open != nil && len(h.open.types) > 0 {
		return h.open.types[0]
	}
	return h.kind
}

func (h *host) meets(e requirement.Expression, u *requirement.Universe) bool {
	if set := h.openSet(e, u); set != nil {
		return set.Within(u.Set(e))
	}
	return e.Admits(h.label(e.Key))
}

// mayMeet reports whether the host meets the expression, or can turn out to.
func (h *host) mayMeet(e requirement.Expression, u *requirement.Universe) bool {
	if set := h.openSet(e, u); set != nil {
		return set.Meets(u.Set(e))
	}
	return e.Admits(h.label(e.Key))
}

// openSet holds what may become of a label that is still open, nil if it is not.
func (h *host) openSet(e requirement.Expression, u *requirement.Universe) bitset.Set {
	if _, there := h.label(e.Key); there || h.open == nil || u == nil {
		return nil
	}
	return h.open.set(u, u.Key(e.Key))
}

func (m *machine) label(key string) (value string, there bool) {
	for i := range m.usual {
		if l := &m.usual[i]; l.key == key {
			return l.value, l.there
		}
	}
	return m.findLabel(key)
}

func (m *machine) findLabel(key string) (value string, there bool) {
	if key == nodeNameKey {
		return m.name(), true
	}
	value, there = m.labels[key]
	if key == corev1.LabelHostname && !there {
		return m.name(), true
	}
	return value, there
}

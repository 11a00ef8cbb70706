package inventory

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
	"tenon.sh/engine"
	"tenon.sh/engine/bitset"
	"tenon.sh/engine/capacity"
	"tenon.sh/engine/dra"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/requirement"
	"tenon.sh/engine/volume"
)

// MachineInfo is what nodes, claims and catalogs tell of a machine that exists or has been asked for: a Node, a NodeClaim, or both.
// All compilations share it; once it is made nobody changes it.
type MachineInfo struct {
	Node  *corev1.Node // nil until the machine has joined the cluster
	Claim *v1.NodeClaim
	// Labels are those of the node; until it is registered, the claim's come before them.
	Labels map[string]string
	// PoolName is that of the pool by the labels, empty without.
	PoolName string
	// Open holds, for a claim that is not launched yet, what may still become of its other labels.
	Open   *OpenLabels
	Taints []corev1.Taint
	// Allocatable is what pods can use, before anything is taken.
	Allocatable corev1.ResourceList
	// capacity counts against the pool's limits.
	capacity corev1.ResourceList
	// Goes is true for a machine that is being removed.
	Goes bool
	// RemovedElsewhere is true for a node that Cluster Autoscaler is removing, CandidateElsewhere for one that it is about to
	// remove. Their pods need no other place until it evicts them: it has looked for one, and may change its mind.
	RemovedElsewhere, CandidateElsewhere bool
	// Planned are the pods that the machine was started for, by UID.
	Planned []string
	// registered and initialized say how far the node has come; a node without a claim has arrived.
	registered, Initialized bool
	// Bare is true for a node that came in the place of one that was registered: it is read as it is.
	Bare bool
	// Begun is since when the claim is initialized, or when it was made, SoftEnd when it is to be replaced for its age; zero for
	// never.
	Begun, SoftEnd time.Time
	// launched and arrived are when the claim's conditions of being launched and initialized became true.
	launched, Arrived moment
	Start             startKind // what tells how long it takes to start
	// marked is true for a claim that is to go once what replaces it is ready.
	marked bool
	// usual are the labels that are asked for all the time: nodes have dozens.
	usual    [len(usualLabels)]labelFact
	offering engine.OfferingID // that the machine was bought as, by the labels
	// Lacking is a label without which nothing can be said of its price, empty if there is none.
	Lacking string
	// What conditions say: that the node is ready, that its machine is started anew, or stopped, that it is out of date.
	Ready, rebooting, Stopping, Drifted bool
	kind                                *engine.InstanceType // by the claim; nil if the catalog does not list it
	Sold                                *engine.InstanceType // the same by the labels
	FullPrice                           float64              // USD per hour without commitments, 0 if it is not known
	observed                            *resource.Quantity   // the memory that others of its type will have; nil if it does not tell
}

// labelFact is the value of a label that a node has, or has not.
type labelFact struct {
	key, value string
	there      bool
}

// Machine is a machine as one compilation sees it.
type Machine struct {
	*MachineInfo
	Number int // its place in the list of all, the same in all compilations of a snapshot
	// Price is what it costs beside commitments, which are paid anyway: USD per hour, 0 if it is not known.
	Price float64
	// Ordered is true for a machine that goes once its replacements are ready, replaces for one that others wait for.
	Ordered, Replaces bool
	// Leaving is true for a machine that is being removed: nothing new goes there and its pods need another place.
	Leaving bool
	// Overdue is true for a machine that has been started and should be ready by now: nobody counts on it until it is.
	Overdue bool
	// Misses is true for a machine that has been ready for so long that resources it does not show are not to be expected.
	Misses bool
	// Gone is true for a machine whose node is gone, and for a node that is not registered because its machine has others.
	Gone bool
	// Supposed is true if it is leaving only in a trial: it is still there while what replaces it starts.
	Supposed bool
	// Promised are pods that still run on machines that go, and for which room is kept here.
	Promised []*corev1.Pod
	Pods     *NodePods
	Info     *NodeInfo     // nil without a node
	Bound    []*corev1.Pod // oldest first; shared, not to be changed
	// Expected are unbound pods that the machine was started for or that are nominated to it.
	Expected []*corev1.Pod
	Free     capacity.Vector
	Volumes  volume.NodeVolumes
	Target   int // its number among those that may take pods
}

// Name is the Node's name, or the claim's as long as there is no Node.
func (m *MachineInfo) Name() string {
	if m.Node != nil {
		return m.Node.Name
	}
	return m.Claim.Name
}

// ID is the claim's name, or the Node's if there is no claim: it stays the same while the machine starts.
func (m *MachineInfo) ID() string { return cmp.Or(m.ClaimName(), m.Name()) }

func (m *MachineInfo) ClaimName() string {
	if m.Claim == nil {
		return ""
	}
	return m.Claim.Name
}

func (m *MachineInfo) Pool() string { return m.PoolName }

func (m *MachineInfo) IsRegistered() bool { return m.registered }

func (m *MachineInfo) IsInitialized() bool { return m.Initialized }

// IsUncounted reports whether nobody counts on the machine: it is late, or Cluster Autoscaler is removing it.
func (h *Machine) IsUncounted() bool { return h.Overdue || h.RemovedElsewhere }

func (m *MachineInfo) IsRebooting() bool { return m.rebooting }

// Key tells machines apart from one snapshot to the next.
func (h *Machine) Key() string {
	if h.Node == nil {
		return "/" + h.Claim.Name
	}
	return h.Node.Name + "/" + h.ClaimName()
}

// MachineSet holds machines by their numbers; nil is empty.
type MachineSet []bool

func MachineSetOf(all int, hosts []*Machine) MachineSet {
	out := make(MachineSet, all)
	for _, h := range hosts {
		out[h.Number] = true
	}
	return out
}

func (s MachineSet) Has(h *Machine) bool { return len(s) > 0 && s[h.Number] }

// triedAfter is how long after a machine is ready kube-scheduler has tried all pods there that the machine was started for.
const triedAfter = 15 * time.Second

// IsTried reports whether the pods that the machine was started for and that still wait were refused there: it has been
// ready for long enough. A spread may have gone another way, another pod may have taken their port. They are planned
// anew, on this machine too if it will have them.
func (h *Machine) IsTried(now time.Time) bool {
	return h.IsInitialized() && h.Arrived.Known && now.Sub(h.Arrived.At) > triedAfter && !h.AwaitsTaints(now)
}

// usualLabels are the keys of a machine's usual labels.
var usualLabels = [...]string{corev1.LabelTopologyZone, corev1.LabelHostname, corev1.LabelInstanceTypeStable, v1.CapacityTypeLabelKey, v1.NodePoolLabelKey}

func newMachine(node *corev1.Node, claim *v1.NodeClaim, offer *catalogs) *MachineInfo {
	m := &MachineInfo{Node: node, Claim: claim, Ready: node != nil && kube.NodeReady(node)}
	m.read(offer.Types)
	m.PoolName = m.Labels[v1.NodePoolLabelKey]
	if m.Bare {
		m.PoolName = claim.Labels[v1.NodePoolLabelKey]
	}
	m.Start = startKind{m.PoolName, m.Labels[corev1.LabelInstanceTypeStable]}
	for _, key := range []string{corev1.LabelInstanceTypeStable, v1.CapacityTypeLabelKey, corev1.LabelTopologyZone} {
		if m.Labels[key] == "" {
			m.Lacking = key
			break
		}
	}
	for i, key := range usualLabels {
		value, there := m.findLabel(key)
		m.usual[i] = labelFact{key, value, there}
	}
	if claim != nil {
		_, m.marked = claim.Annotations[DisruptionAnnotation]
		m.Planned, m.offering = kube.PlannedPods(claim), MachineOffering(m.Labels)
		m.readCatalogs(offer)
	}
	return m
}

// readCatalogs reads what a machine with a claim is sold as.
func (m *MachineInfo) readCatalogs(offer *catalogs) {
	class := m.Claim.Spec.NodeClassRef
	types := offer.Types.Of(class, m.PoolName)
	m.kind, m.Sold = types[m.Claim.Labels[corev1.LabelInstanceTypeStable]], types[m.Labels[corev1.LabelInstanceTypeStable]]
	m.FullPrice, _ = offer.prices.priceOf(m.offering, m.Labels, class)
	m.observed = m.observeMemory()
}

// withCatalogs is the machine once something else is sold than before.
func (m *MachineInfo) withCatalogs(offer *catalogs) *MachineInfo {
	switch {
	case m.Claim == nil:
		return m
	case m.Open != nil:
		return newMachine(m.Node, m.Claim, offer)
	}
	out := *m
	out.readCatalogs(offer)
	return &out
}

// missing reports whether the machine misses a resource that was asked for, and has been ready for too long to wait for it.
func (m *MachineInfo) missing(now time.Time, published *dra.Published) bool {
	return m.registered && now.Sub(ReadySince(m.Claim, []*corev1.Node{m.Node})) >= ResourcePatience && MissesResource(m.Claim, m.Node, published)
}

// AwaitsTaints reports whether the machine is initialized, has an undeclared taint, and has been ready for less than
// kube.UndeclaredTaintPatience: an agent may have set the taint late. Its planned pods wait for it, and no other pod is planned there.
func (m *MachineInfo) AwaitsTaints(now time.Time) bool {
	return m.Claim != nil && m.Initialized && m.Ready && !m.Bare && slices.ContainsFunc(m.Taints, m.isUndeclared) &&
		now.Sub(ReadySince(m.Claim, []*corev1.Node{m.Node})) < kube.UndeclaredTaintPatience
}

func (m *MachineInfo) isUndeclared(t corev1.Taint) bool { return kube.IsUndeclared(m.Claim, t) }

// Usable is what pods can use of the machine, before anything is taken.
func (h *Machine) Usable() corev1.ResourceList {
	if h.Misses {
		return h.Node.Status.Allocatable
	}
	return h.Allocatable
}

// Machines is MachinesOf for one more compilation of the same snapshot.
func (c *PodIndex) Machines(s *engine.Snapshot) []*Machine {
	if c.machines == nil {
		c.machines = MachinesOf(s, c)
	}
	copies, out := make([]Machine, len(c.machines)), make([]*Machine, len(c.machines))
	for i, h := range c.machines {
		copies[i] = *h
		copies[i].Overdue = h.Overdue && !c.Patient
		out[i] = &copies[i]
	}
	return out
}

func compareMachines(a, b *MachineInfo) int {
	rank := func(m *MachineInfo) int {
		switch {
		case m.IsInitialized():
			return 0
		case m.Node != nil:
			return 1
		}
		return 2
	}
	if n := rank(a) - rank(b); n != 0 {
		return n
	}
	if n := strings.Compare(a.Name(), b.Name()); n != 0 {
		return n
	}
	return strings.Compare(a.ClaimName(), b.ClaimName())
}

// read settles which of node and claim is believed. Until the node is registered the claim's labels come before its own,
// and its taints are those of the claim; until it is initialized, amounts that it does not report yet are those that the cloud
// expects (see usable).
func (m *MachineInfo) read(types kube.TypeIndex) {
	m.Goes = IsLeaving(m.Node, m.Claim)
	m.RemovedElsewhere, m.CandidateElsewhere = kube.IsRemovedElsewhere(m.Node), kube.IsCandidateElsewhere(m.Node)
	m.registered = m.Node != nil && (m.Claim == nil || m.Node.Labels[v1.RegisteredLabelKey] == "true")
	m.Initialized = m.Node != nil && (m.Claim == nil || m.Node.Labels[v1.InitializedLabelKey] == "true")
	if m.Claim != nil {
		m.readConditions()
		m.Bare = m.Node != nil && isBare(m.Node, m.Claim)
	}
	if m.Claim == nil || m.Bare {
		m.Labels, m.Taints = m.Node.Labels, nodeTaints(m.Node)
		m.Allocatable, m.capacity = m.Node.Status.Allocatable, m.Node.Status.Capacity
		return
	}
	if m.IsRegistered() {
		m.Labels, m.Taints = m.Node.Labels, nodeTaints(m.Node)
	} else {
		m.Labels, m.Taints = m.startingLabels(), v1.CoreTaints(m.Claim.Spec.Taints)
	}
	if m.IsInitialized() {
		m.Allocatable, m.capacity = m.Node.Status.Allocatable, m.Node.Status.Capacity
		return
	}
	m.Taints = slices.DeleteFunc(slices.Clone(m.Taints), func(t corev1.Taint) bool {
		return kube.IsEphemeralTaint(t) || kube.IsStartupTaint(m.Claim, t) || m.isUndeclared(t)
	})
	m.Allocatable, m.capacity = m.Claim.Status.Allocatable, m.Claim.Status.Capacity
	if !kube.IsLaunched(m.Claim) {
		m.Open = newOpenLabels(m.Claim, types)
		m.Allocatable, m.capacity = m.Open.least, m.Open.most
	}
	if m.Node != nil {
		m.Allocatable = foreseen(m.Node.Status.Allocatable, m.Allocatable)
		m.capacity = foreseen(m.Node.Status.Capacity, m.capacity)
	}
}

func (m *MachineInfo) readConditions() {
	m.rebooting, m.Stopping = v1.IsTrue(m.Claim, v1.ConditionRebooting), v1.IsTrue(m.Claim, v1.ConditionInstanceTerminating)
	m.Drifted, m.Begun = v1.IsTrue(m.Claim, v1.ConditionDrifted), m.Claim.CreationTimestamp.Time
	if v1.IsTrue(m.Claim, v1.ConditionInitialized) {
		m.Begun = kube.TrueSince(m.Claim, v1.ConditionInitialized)
	}
	m.SoftEnd, _ = kube.SoftExpiry(m.Claim)
	m.launched, m.Arrived = momentOf(m.Claim, v1.ConditionLaunched), momentOf(m.Claim, v1.ConditionInitialized)
}

// moment is when a condition became true, if it is.
type moment struct {
	At    time.Time
	Known bool
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
func (m *MachineInfo) startingLabels() map[string]string {
	if m.Node == nil {
		return m.Claim.Labels
	}
	labels := maps.Clone(m.Node.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, m.Claim.Labels)
	return labels
}

// Awaits reports whether a pod that is ending makes room for another that is nominated to the machine.
func (h *Machine) Awaits(pod *corev1.Pod) bool {
	return kube.IsTerminating(pod) && slices.ContainsFunc(h.Expected, func(other *corev1.Pod) bool { return other.Status.NominatedNodeName == h.Name() })
}

// IsLeaving reports whether the machine is being removed for good. A node that is only marked for disruption may still
// stay; its taint keeps new pods off. One that was closed because the cloud takes its machine away does not.
func IsLeaving(node *corev1.Node, claim *v1.NodeClaim) bool {
	if claim != nil && (claim.DeletionTimestamp != nil || v1.IsTrue(claim, v1.ConditionInstanceTerminating)) {
		return true
	}
	return node != nil && (node.DeletionTimestamp != nil || IsTakenAway(node))
}

// IsTakenAway reports whether the node was closed because the cloud takes its machine away.
func IsTakenAway(node *corev1.Node) bool {
	return node.Annotations[v1.NoticeAnnotationKey] != "" && kube.HasTaint(node, v1.DisruptedTaint())
}

func nodeTaints(n *corev1.Node) []corev1.Taint {
	taints := n.Spec.Taints
	if slices.ContainsFunc(taints, kube.MayLeave) { // where there is room it is used: nothing is bought to keep off
		taints = slices.DeleteFunc(slices.Clone(taints), kube.MayLeave)
	}
	if !n.Spec.Unschedulable {
		return taints
	}
	cordon := corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
	return append(slices.Clone(taints), cordon)
}

// Admits reports whether the machine meets one of the constraints' terms and its taints are tolerated, room aside. A label that
// is still open must do whatever becomes of it.
func (h *Machine) Admits(d *kube.NodeConstraints, u *requirement.Universe) bool {
	if kube.Untolerated(d.Tolerations, h.Taints) != nil || d.Avoid && kube.Unwelcome(d.Tolerations, h.Taints) {
		return false
	}
	if h.IsInitialized() && slices.ContainsFunc(d.Features, func(f string) bool {
		return !slices.Contains(h.Node.Status.DeclaredFeatures, f)
	}) {
		return false
	}
	return slices.ContainsFunc(d.Terms, func(term []requirement.Expression) bool {
		return !slices.ContainsFunc(term, func(e requirement.Expression) bool { return !h.Meets(e, u) })
	})
}

// KnownLabel is the value of the label if it is settled; OpenValue says that it is not, but will be.
func (h *Machine) KnownLabel(key string, u *requirement.Universe) (string, bool) {
	if value, ok := h.Label(key); ok || h.Open == nil || u.Key(key) < 0 {
		return value, ok
	}
	k := u.Key(key)
	set := h.Open.Set(u, k)
	if set.Len() != 1 {
		return kube.OpenValue, false
	}
	return u.Value(k, set.Next(0))
}

// ExpectedType is the type of a machine whose node has not reported everything yet, nil if that is over.
func (m *MachineInfo) ExpectedType() *engine.InstanceType {
	if m.IsInitialized() {
		return nil
	}
	if m.Open != nil && len(m.Open.Types) > 0 {
		return m.Open.Types[0]
	}
	return m.kind
}

func (h *Machine) Meets(e requirement.Expression, u *requirement.Universe) bool {
	if set := h.openSet(e, u); set != nil {
		return set.Within(u.Set(e))
	}
	return e.Admits(h.Label(e.Key))
}

// MayMeet reports whether the machine meets the expression, or can turn out to.
func (h *Machine) MayMeet(e requirement.Expression, u *requirement.Universe) bool {
	if set := h.openSet(e, u); set != nil {
		return set.Meets(u.Set(e))
	}
	return e.Admits(h.Label(e.Key))
}

// openSet holds what may become of a label that is still open, nil if it is not.
func (h *Machine) openSet(e requirement.Expression, u *requirement.Universe) bitset.Set {
	if _, there := h.Label(e.Key); there || h.Open == nil || u == nil {
		return nil
	}
	return h.Open.Set(u, u.Key(e.Key))
}

func (m *MachineInfo) Label(key string) (value string, there bool) {
	for i := range m.usual {
		if l := &m.usual[i]; l.key == key {
			return l.value, l.there
		}
	}
	return m.findLabel(key)
}

func (m *MachineInfo) findLabel(key string) (value string, there bool) {
	if key == kube.NodeNameKey {
		return m.Name(), true
	}
	value, there = m.Labels[key]
	if key == corev1.LabelHostname && !there {
		return m.Name(), true
	}
	return value, there
}

// MayHave reports whether the machine has the label, or may get it.
func (h *Machine) MayHave(key string) bool {
	if _, there := h.Label(key); there || h.Open == nil {
		return there
	}
	return slices.ContainsFunc(h.Open.Types, func(t *engine.InstanceType) bool { return len(t.Labels[key]) > 0 }) ||
		slices.ContainsFunc(h.Open.offered, func(labels map[string]string) bool { return labels[key] != "" }) ||
		slices.ContainsFunc(h.Claim.Spec.Requirements, func(r v1.Requirement) bool { return v1.NormalizeLabel(r.Key) == key })
}

// Runs reports whether the DaemonSet will have a pod on the machine, or may have one as long as labels are open.
func (h *Machine) Runs(d *Daemon, u *requirement.Universe) bool { return h.accepts(d, u, h.MayMeet) }

// SurelyRuns is runs whatever becomes of labels.
func (h *Machine) SurelyRuns(d *Daemon, u *requirement.Universe) bool {
	return h.accepts(d, u, h.Meets)
}

func (h *Machine) accepts(d *Daemon, u *requirement.Universe, meets func(requirement.Expression, *requirement.Universe) bool) bool {
	if kube.Untolerated(d.Tolerations, h.Taints) != nil {
		return false
	}
	return slices.ContainsFunc(d.Terms, func(term []requirement.Expression) bool {
		return !slices.ContainsFunc(term, func(e requirement.Expression) bool {
			if value, ok := startupLabels[e.Key]; ok {
				return !e.Admits(value, true)
			}
			return !meets(e, u)
		})
	})
}

// LifetimeLeft is the share of the machine's life that is left until it expires, 1 if it never does.
func (h *Machine) LifetimeLeft(s *engine.Snapshot) float64 {
	life := kube.ExpireAfter(h.Claim)
	if life <= 0 {
		return 1
	}
	left := h.Claim.CreationTimestamp.Add(life).Sub(s.Now)
	return min(max(left.Seconds()/life.Seconds(), 0), 1)
}

// PoolUsage adds up what the machines of a pool count against its limits, each until its claim is being deleted: that its node
// is, or that the cloud will take it, does not mean that it is gone.
func PoolUsage(hosts []*Machine, pool string) corev1.ResourceList {
	used := corev1.ResourceList{}
	for _, h := range hosts {
		if h.Claim == nil || h.Pool() != pool || h.Claim.DeletionTimestamp != nil {
			continue
		}
		kube.AddList(used, h.capacity)
		kube.AddList(used, corev1.ResourceList{v1.ResourceNodes: kube.Quantity(v1.ResourceNodes, 1)})
	}
	return used
}

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

// MachineInfo holds the facts of nodes, claims and catalogs about a machine that exists or was started: a Node, a NodeClaim, or both. All
// compilations share it, and it never changes.
type MachineInfo struct {
	Node  *corev1.Node // nil until the machine has joined the cluster
	Claim *v1.NodeClaim
	// Labels are the labels of the node. Until the node is registered, the claim's labels override them.
	Labels map[string]string
	// PoolName is the pool's name in the labels, empty if there is none.
	PoolName string
	// Open holds the possible values of the other labels of a claim that is not launched yet.
	Open   *OpenLabels
	Taints []corev1.Taint
	// Allocatable is the amount of each resource that pods can use on the empty machine.
	Allocatable corev1.ResourceList
	// capacity is the amount of each resource that the machine uses of the pool's limits.
	capacity corev1.ResourceList
	// Goes is true for a machine that is being removed.
	Goes bool
	// RemovedElsewhere is true for a node that Cluster Autoscaler is removing, CandidateElsewhere for a node that it is about to remove. The pods of
	// either node need no other place until they are evicted, because Cluster Autoscaler has found a place for them and may still keep the node.
	RemovedElsewhere, CandidateElsewhere bool
	// Planned are the UIDs of the pods for which the machine was started.
	Planned []string
	// registered and initialized are the state of the node. Both are true for a node without a claim.
	registered, Initialized bool
	// Bare is true for a node that replaced a registered node of the same machine. The node is read without the claim.
	Bare bool
	// Begun is the time at which the claim was initialized, or created if it is not initialized. SoftEnd is the time from which the machine is
	// replaced for its age, zero if it is never replaced for its age.
	Begun, SoftEnd time.Time
	// launched and arrived are the times at which the claim's conditions Launched and Initialized became true.
	launched, Arrived moment
	Start             startKind // machines of one kind take about as long to start
	// marked is true for a claim that is to be deleted once its replacements are ready.
	marked bool
	// usual are the labels that are read very often; a node has dozens of labels.
	usual    [len(usualLabels)]labelFact
	offering engine.OfferingID // the offering as which the machine was bought, by the labels
	// Lacking is a missing label without which the machine's price is unknown, empty if no label is missing.
	Lacking string
	// The conditions of the node and the claim: the node is ready, the machine reboots or is stopped, the machine has drifted.
	Ready, rebooting, Stopping, Drifted bool
	kind                                *engine.InstanceType // the type that the claim names; nil if the catalog does not list it
	Sold                                *engine.InstanceType // kind, but found by the labels
	FullPrice                           float64              // USD per hour without commitments, 0 if it is not known
	observed                            *resource.Quantity   // the memory that other machines of its type will have; nil if the machine does not show it
}

// labelFact is the value of a node's label, if the node has the label.
type labelFact struct {
	key, value string
	there      bool
}

// Machine is a machine with its state in one compilation.
type Machine struct {
	*MachineInfo
	Number int // its index in the list of all machines, the same in all compilations of a snapshot
	// Price is the machine's cost beside commitments, which are paid anyway, in USD per hour; 0 if it is not known.
	Price float64
	// Ordered is true for a machine to be removed once its replacements are ready, Replaces for a replacement.
	Ordered, Replaces bool
	// Leaving is true for a machine that is being removed. No new pod is placed there, and its pods need another place.
	Leaving bool
	// Overdue is true for a machine that should be ready by now and is not. Plans do not use it until it is ready.
	Overdue bool
	// Misses is true for a machine that has been ready for so long that missing resources are not expected any more.
	Misses bool
	// Gone is true for a machine whose node is gone, and for an unregistered node whose machine has other nodes.
	Gone bool
	// Supposed is true if the machine is leaving only in a trial. Then it still exists while its replacements start.
	Supposed bool
	// Promised are pods that still run on machines to be removed and for which room is kept here.
	Promised []*corev1.Pod
	Pods     *NodePods
	Info     *NodeInfo     // nil without a node
	Bound    []*corev1.Pod // oldest first; shared, not to be changed
	// Expected are unbound pods for which the machine was started, or that are nominated to it.
	Expected []*corev1.Pod
	Free     capacity.Vector
	Volumes  volume.NodeVolumes
	Target   int // its index among the machines that may take pods
}

// Name returns the Node's name, or the claim's name if there is no Node.
func (m *MachineInfo) Name() string {
	if m.Node != nil {
		return m.Node.Name
	}
	return m.Claim.Name
}

// ID returns the claim's name, or the Node's name if there is no claim. It stays the same while the machine starts.
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

// IsUncounted reports whether plans do not use the machine, because it is late or Cluster Autoscaler is removing it.
func (m *Machine) IsUncounted() bool { return m.Overdue || m.RemovedElsewhere }

func (m *MachineInfo) IsRebooting() bool { return m.rebooting }

// Key returns a name that identifies the machine in later snapshots.
func (m *Machine) Key() string {
	if m.Node == nil {
		return "/" + m.Claim.Name
	}
	return m.Node.Name + "/" + m.ClaimName()
}

// MachineSet is a set of machines by Machine.Number; nil is empty.
type MachineSet []bool

func MachineSetOf(all int, hosts []*Machine) MachineSet {
	out := make(MachineSet, all)
	for _, m := range hosts {
		out[m.Number] = true
	}
	return out
}

func (s MachineSet) Has(m *Machine) bool { return len(s) > 0 && s[m.Number] }

// triedAfter is the time after which kube-scheduler has tried all planned pods on a machine that has become ready.
const triedAfter = 15 * time.Second

// IsTried reports whether kube-scheduler has refused the planned pods that still wait on the machine, because the machine has been ready for long
// enough. Other pods may have changed a spread or taken a port. The pods are planned again, on this machine too if it can take them.
func (m *Machine) IsTried(now time.Time) bool {
	return m.IsInitialized() && m.Arrived.Known && now.Sub(m.Arrived.At) > triedAfter && !m.AwaitsTaints(now)
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

// readCatalogs finds the offering of a machine with a claim.
func (m *MachineInfo) readCatalogs(offer *catalogs) {
	class := m.Claim.Spec.NodeClassRef
	types := offer.Types.Of(class, m.PoolName)
	m.kind, m.Sold = types[m.Claim.Labels[corev1.LabelInstanceTypeStable]], types[m.Labels[corev1.LabelInstanceTypeStable]]
	m.FullPrice, _ = offer.prices.priceOf(m.offering, m.Labels, class)
	m.observed = m.observeMemory()
}

// withCatalogs returns the machine with other catalogs.
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

// missing reports whether the machine lacks a requested resource and has been ready for too long to wait for it.
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

// Usable returns the amount of each resource that pods can use on the empty machine.
func (m *Machine) Usable() corev1.ResourceList {
	if m.Misses {
		return m.Node.Status.Allocatable
	}
	return m.Allocatable
}

// Machines is MachinesOf for another compilation of the same snapshot.
func (c *PodIndex) Machines(s *engine.Snapshot) []*Machine {
	if c.machines == nil {
		c.machines = MachinesOf(s, c)
	}
	copies, out := make([]Machine, len(c.machines)), make([]*Machine, len(c.machines))
	for i, m := range c.machines {
		copies[i] = *m
		copies[i].Overdue = m.Overdue && !c.Patient
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

// read merges node and claim. Until the node is registered, the claim's labels override the node's, and the taints are the claim's. Until the node is
// initialized, the cloud's expected amounts replace the amounts that the node does not report yet (see usable).
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

// moment is the time at which a condition became true; Known is false if it is not true.
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

// startingLabels returns the labels of a machine that is not registered: the claim's labels, and other labels that the node has already and that
// registration does not change.
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

// Awaits reports whether a terminating pod makes room for another pod that is nominated to the machine.
func (m *Machine) Awaits(pod *corev1.Pod) bool {
	return kube.IsTerminating(pod) && slices.ContainsFunc(m.Expected, func(other *corev1.Pod) bool { return other.Status.NominatedNodeName == m.Name() })
}

// IsLeaving reports whether the machine is certain to be removed. A node that is only marked for disruption may still be kept; its taint keeps new
// pods off. A node that was closed because the cloud takes its machine away is certain to be removed.
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
	if slices.ContainsFunc(taints, kube.MayLeave) { // existing room is used in spite of these taints
		taints = slices.DeleteFunc(slices.Clone(taints), kube.MayLeave)
	}
	if !n.Spec.Unschedulable {
		return taints
	}
	cordon := corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
	return append(slices.Clone(taints), cordon)
}

// Admits reports whether the machine meets one of the constraints' terms and its taints are tolerated, without regard to room. If the value
// of a label is still open, each possible value has to meet the term.
func (m *Machine) Admits(d *kube.NodeConstraints, u *requirement.Universe) bool {
	if kube.Untolerated(d.Tolerations, m.Taints) != nil || d.Avoid && kube.Unwelcome(d.Tolerations, m.Taints) {
		return false
	}
	if m.IsInitialized() && slices.ContainsFunc(d.Features, func(f string) bool {
		return !slices.Contains(m.Node.Status.DeclaredFeatures, f)
	}) {
		return false
	}
	return slices.ContainsFunc(d.Terms, func(term []requirement.Expression) bool {
		return !slices.ContainsFunc(term, func(e requirement.Expression) bool { return !m.Meets(e, u) })
	})
}

// KnownLabel returns the value of the label. It returns OpenValue if the label will get a value that is not known yet.
func (m *Machine) KnownLabel(key string, u *requirement.Universe) (string, bool) {
	if value, ok := m.Label(key); ok || m.Open == nil || u.Key(key) < 0 {
		return value, ok
	}
	k := u.Key(key)
	set := m.Open.Set(u, k)
	if set.Len() != 1 {
		return kube.OpenValue, false
	}
	return u.Value(k, set.Next(0))
}

// ExpectedType returns the instance type of a machine whose node has not reported all resources yet, nil for other machines.
func (m *MachineInfo) ExpectedType() *engine.InstanceType {
	if m.IsInitialized() {
		return nil
	}
	if m.Open != nil && len(m.Open.Types) > 0 {
		return m.Open.Types[0]
	}
	return m.kind
}

func (m *Machine) Meets(e requirement.Expression, u *requirement.Universe) bool {
	if set := m.openSet(e, u); set != nil {
		return set.Within(u.Set(e))
	}
	return e.Admits(m.Label(e.Key))
}

// MayMeet reports whether the machine meets the expression, or meets it for a possible value of an open label.
func (m *Machine) MayMeet(e requirement.Expression, u *requirement.Universe) bool {
	if set := m.openSet(e, u); set != nil {
		return set.Meets(u.Set(e))
	}
	return e.Admits(m.Label(e.Key))
}

// openSet returns the possible values of an open label, nil for other labels.
func (m *Machine) openSet(e requirement.Expression, u *requirement.Universe) bitset.Set {
	if _, there := m.Label(e.Key); there || m.Open == nil || u == nil {
		return nil
	}
	return m.Open.Set(u, u.Key(e.Key))
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

// MayHave reports whether the machine has the label or may get it.
func (m *Machine) MayHave(key string) bool {
	if _, there := m.Label(key); there || m.Open == nil {
		return there
	}
	return slices.ContainsFunc(m.Open.Types, func(t *engine.InstanceType) bool { return len(t.Labels[key]) > 0 }) ||
		slices.ContainsFunc(m.Open.offered, func(labels map[string]string) bool { return labels[key] != "" }) ||
		slices.ContainsFunc(m.Claim.Spec.Requirements, func(r v1.Requirement) bool { return v1.NormalizeLabel(r.Key) == key })
}

// Runs reports whether the DaemonSet will have a pod on the machine, or may have one as long as labels are open.
func (m *Machine) Runs(d *Daemon, u *requirement.Universe) bool { return m.accepts(d, u, m.MayMeet) }

// SurelyRuns reports whether the DaemonSet will have a pod on the machine for all possible values of open labels.
func (m *Machine) SurelyRuns(d *Daemon, u *requirement.Universe) bool {
	return m.accepts(d, u, m.Meets)
}

func (m *Machine) accepts(d *Daemon, u *requirement.Universe, meets func(requirement.Expression, *requirement.Universe) bool) bool {
	if kube.Untolerated(d.Tolerations, m.Taints) != nil {
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

// LifetimeLeft returns the share of the machine's life that is left until it expires, 1 if it never expires.
func (m *Machine) LifetimeLeft(s *engine.Snapshot) float64 {
	life := kube.ExpireAfter(m.Claim)
	if life <= 0 {
		return 1
	}
	left := m.Claim.CreationTimestamp.Add(life).Sub(s.Now)
	return min(max(left.Seconds()/life.Seconds(), 0), 1)
}

// PoolUsage returns the resources of a pool's machines that use up its limits. It includes a machine until its claim is being deleted, even if its
// node is already being deleted, or if the cloud has announced that it will take the machine away.
func PoolUsage(hosts []*Machine, pool string) corev1.ResourceList {
	used := corev1.ResourceList{}
	for _, m := range hosts {
		if m.Claim == nil || m.Pool() != pool || m.Claim.DeletionTimestamp != nil {
			continue
		}
		kube.AddList(used, m.capacity)
		kube.AddList(used, corev1.ResourceList{v1.ResourceNodes: kube.Quantity(v1.ResourceNodes, 1)})
	}
	return used
}

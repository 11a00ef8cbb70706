package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
)

const nodeWords = "pool= type= zone= capacity= labels= annotations= taint= age= launched= registered= ready= quiet= planned= allocatable= drivers= published= attach= reserved= drifted= broken= rebooting backoff= taken-back= image= machine= finalizers= condition= deleting= draining=, any " +
	"resource, not-ready unregistered uninitialized cordoned deleting drifted gone bare"

// machineLine is a parsed node or claim statement.
type machineLine struct {
	name                                  string
	pool, instanceType, zone, capacity    string
	reserved                              string
	attach                                map[string]int // nil for the type's limits
	labels, annotations                   map[string]string
	taints                                []corev1.Taint
	resources, allocatable                corev1.ResourceList
	age                                   time.Duration
	quiet                                 *time.Duration
	launched, registered, ready           *time.Duration // time since then, nil if not given
	planned                               []string
	drivers                               string // its claim requested these drivers' devices
	published                             []published
	notReady, unregistered, uninitialized bool
	cordoned, deleting, drifted           bool
	gone, bare                            bool

	driftedFor, backoff, takenBack time.Duration
	takenBackFor                   v1.DisruptionReason
	rebooting                      bool
	broken                         []brokenCondition
	image                          string

	machine    string        // the claim of a node without a pool
	finalizers *[]string     // nil for the usual ones
	deletedFor time.Duration // time since its deletion
	draining   bool
	conditions []brokenCondition // of the claim
}

func (b *builder) readMachine(name word, r *reader) (m machineLine, err error) {
	m = machineLine{name: name.text, age: time.Hour}
	for r.more() {
		w := r.next()
		if w.isResource() {
			if err := w.addResource(&m.resources); err != nil {
				return m, err
			}
			continue
		}
		if err := m.word(w, r); err != nil {
			return m, err
		}
	}
	return m, nil
}

func (m *machineLine) word(w word, r *reader) (err error) {
	key, value := w.cut()
	switch key {
	case "pool":
		m.pool = value
	case "type":
		m.instanceType = value
	case "zone":
		m.zone = value
	case "capacity":
		m.capacity = value
	case "reserved":
		m.reserved, m.capacity = value, v1.CapacityTypeReserved
	case "attach":
		m.attach, err = w.counts(volumes)
	case "labels":
		w.addLabels(&m.labels)
	case "annotations":
		w.addLabels(&m.annotations)
	case "taint":
		t, err := w.taint()
		m.taints = append(m.taints, t)
		return err
	case "allocatable":
		m.allocatable, err = w.resources()
	case "age":
		m.age, err = w.duration()
	case "quiet":
		return w.since(&m.quiet)
	case "launched":
		return w.since(&m.launched)
	case "registered":
		return w.since(&m.registered)
	case "ready":
		return w.since(&m.ready)
	case "planned":
		m.planned = w.list()
	case "drivers":
		m.drivers = value
	case "published":
		p, err := w.published()
		m.published = append(m.published, p)
		return err
	case "not-ready":
		m.notReady = true
	case "unregistered":
		m.unregistered, m.uninitialized = true, true
	case "uninitialized":
		m.uninitialized = true
	case "cordoned":
		m.cordoned = true
	case "gone":
		m.gone = true
	case "bare":
		m.bare = true
	default:
		if handled, err := m.disruptionWord(w); handled || err != nil {
			return err
		}
		if handled, err := m.lifeWord(w); handled || err != nil {
			return err
		}
		return r.unknown(w, nodeWords)
	}
	return err
}

// lifeWord reads the words about the state of a claim's life.
func (m *machineLine) lifeWord(w word) (handled bool, err error) {
	switch key, value := w.cut(); key {
	case "deleting", "draining":
		m.deleting, m.draining = true, key == "draining"
		if w.hasValue() {
			m.deletedFor, err = w.duration()
		}
	case "machine":
		m.machine = value
	case "finalizers":
		m.finalizers = new(w.list())
	case "condition":
		c, err := w.nodeCondition("condition")
		m.conditions = append(m.conditions, c)
		return true, err
	default:
		return false, nil
	}
	return true, err
}

// node reads node NAME with its words. A node of a pool gets a NodeClaim of the same name.
func (b *builder) node(name word, r *reader) error {
	if slices.ContainsFunc(b.snapshot.Nodes, func(n *corev1.Node) bool { return n.Name == name.text }) {
		return name.errorf("there is a node of this name already")
	}
	m, err := b.readMachine(name, r)
	if err != nil {
		return err
	}
	if m.pool == "" {
		n, err := b.unmanagedNode(name, m)
		if err != nil {
			return err
		}
		b.snapshot.Nodes = append(b.snapshot.Nodes, n)
		b.addCSINode(m, nil)
		return nil
	}
	machine, err := b.machine(name, m)
	if err != nil {
		return err
	}
	claim := b.claimOf(machine, m)
	b.snapshot.NodeClaims = append(b.snapshot.NodeClaims, claim)
	if m.gone || m.bare {
		markRegistered(claim, m, b.snapshot.Now, claim.CreationTimestamp.Time)
	} else {
		markRegistered(claim, m, b.snapshot.Now, b.snapshot.Now)
	}
	if m.gone {
		m.mark(claim, nil, b.snapshot.Now)
		return nil
	}
	node := b.nodeOf(machine, m)
	if m.bare {
		b.strip(node, m)
	}
	m.mark(claim, node, b.snapshot.Now)
	b.snapshot.Nodes = append(b.snapshot.Nodes, node)
	for _, p := range m.published {
		b.publish(node.Name, p)
	}
	b.addCSINode(m, machine.types[0].AttachLimits)
	return nil
}

// claim reads claim NAME with the same words: a requested machine without a Node.
func (b *builder) claim(name word, r *reader) error {
	if slices.ContainsFunc(b.snapshot.NodeClaims, func(c *v1.NodeClaim) bool { return c.Name == name.text }) {
		return name.errorf("there is a claim of this name already")
	}
	m, err := b.readMachine(name, r)
	if err != nil {
		return err
	}
	machine, err := b.machine(name, m)
	if err != nil {
		return err
	}
	claim := b.claimOf(machine, m)
	if m.zone != "" {
		reach(claim, v1.ConditionLaunched, m.launched, b.snapshot.Now, b.snapshot.Now)
	} else {
		claim.Status = v1.NodeClaimStatus{}
		v1.InitializeConditions(claim, b.snapshot.Now)
	}
	if m.finalizers != nil {
		claim.Finalizers = *m.finalizers
	}
	m.mark(claim, nil, b.snapshot.Now)
	b.snapshot.NodeClaims = append(b.snapshot.NodeClaims, claim)
	return nil
}

// machine is the machine of a pool's claim.
type machine struct {
	pool     *v1.NodePool
	types    []*engine.InstanceType
	offering engine.Offering
	labels   map[string]string
}

func (b *builder) machine(name word, m machineLine) (machine, error) {
	out := machine{pool: poolNamed(&b.snapshot, m.pool)}
	if out.pool == nil {
		return out, name.errorf("there is no pool %q above: write pool=NAME", m.pool)
	}
	for _, typeName := range splitList(m.instanceType) {
		t := b.typeNamed(out.pool, typeName)
		if t == nil {
			return out, name.errorf("there is no type %q above in the class of pool %s", typeName, m.pool)
		}
		out.types = append(out.types, t)
	}
	if len(out.types) == 0 {
		return out, name.errorf("the machine's type is missing: write type=NAME")
	}
	first := out.types[0]
	i := slices.IndexFunc(first.Offerings, func(o engine.Offering) bool {
		return (m.zone == "" || o.Zone == m.zone) && (m.capacity == "" || o.CapacityType == m.capacity) &&
			(m.reserved == "" || o.Reservation == m.reserved)
	})
	if i < 0 {
		return out, name.errorf("type %s has no offering with zone %q, capacity type %q and reservation %q", first.Name, m.zone, m.capacity, m.reserved)
	}
	out.offering = first.Offerings[i]
	out.labels = machineLabels(first, out.offering)
	maps.Copy(out.labels, poolLabels(out.pool))
	maps.Copy(out.labels, m.labels)
	return out, nil
}

// claimOf returns the claim of a launched machine.
func (b *builder) claimOf(x machine, m machineLine) *v1.NodeClaim {
	template := &x.pool.Spec.Template
	c := &v1.NodeClaim{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1.GroupVersion.String(), Kind: "NodeClaim"},
		ObjectMeta: b.meta("", m.name),
		Spec: v1.NodeClaimSpec{
			Taints: template.Spec.Taints, StartupTaints: template.Spec.StartupTaints,
			NodeClassRef: template.Spec.NodeClassRef, ExpireAfter: template.Spec.ExpireAfter,
			TerminationGracePeriod: template.Spec.TerminationGracePeriod,
			Resources:              v1.ResourceRequirements{Requests: m.resources},
		},
	}
	c.CreationTimestamp, c.Generation = b.ago(m.age), 1
	c.Annotations = maps.Clone(m.annotations)
	c.Spec.Requirements = append(slices.Clone(template.Spec.Requirements), x.requirements(m)...)
	c.Labels = poolLabels(x.pool)
	if len(x.types) == 1 && m.zone != "" {
		c.Labels = maps.Clone(x.labels)
	}
	maps.Copy(c.Labels, m.labels)
	c.Status.ProviderID = "kwok://" + m.name
	c.Status.Capacity, c.Status.Allocatable = x.types[0].Capacity, x.types[0].Allocatable()
	if m.quiet != nil {
		c.Status.LastPodEventTime = b.ago(*m.quiet)
	}
	if len(m.planned) > 0 {
		if c.Annotations == nil {
			c.Annotations = map[string]string{}
		}
		c.Annotations[kube.PlannedPodsAnnotation] = plannedUIDs(m.planned)
	}
	if m.drivers != "" {
		addLabel(&c.Annotations, v1.RequestedDRADriversAnnotationKey, m.drivers)
	}
	c.Finalizers = []string{v1.TerminationFinalizer}
	if m.deleting {
		c.DeletionTimestamp = new(b.ago(m.deletedFor))
	}
	return c
}

// requirements returns requirements for the machine's type, zone and capacity type.
func (x machine) requirements(m machineLine) []v1.Requirement {
	var names []string
	for _, t := range x.types {
		names = append(names, t.Name)
	}
	out := []v1.Requirement{{Key: corev1.LabelInstanceTypeStable, Operator: v1.In, Values: names}}
	if m.zone != "" {
		out = append(out, v1.Requirement{Key: corev1.LabelTopologyZone, Operator: v1.In, Values: []string{m.zone}})
	}
	return append(out, v1.Requirement{Key: v1.CapacityTypeLabelKey, Operator: v1.In, Values: []string{x.offering.CapacityType}})
}

// plannedUIDs returns the annotation's value for pods, which are named web-1 or namespace/web-1.
func plannedUIDs(pods []string) string {
	var uids []string
	for _, p := range pods {
		namespace, name, ok := strings.Cut(p, "/")
		if !ok {
			namespace, name = metav1.NamespaceDefault, p
		}
		uids = append(uids, string(uidOf(namespace, name)))
	}
	return strings.Join(uids, ",")
}

// markRegistered completes the claim of a machine whose Node has joined. Its conditions became true at the time at, unless the statement
// gives other times.
func markRegistered(c *v1.NodeClaim, m machineLine, now, at time.Time) {
	c.Status.NodeName = m.name
	reach(c, v1.ConditionLaunched, m.launched, now, at)
	if !m.unregistered {
		reach(c, v1.ConditionRegistered, m.registered, now, at)
	}
	if !m.uninitialized {
		reach(c, v1.ConditionInitialized, m.ready, now, at)
		reach(c, v1.ConditionConsistentStateFound, m.ready, now, at)
	}
}

// reach sets a condition that became true before the time ago, or at the time at if ago is nil.
func reach(c *v1.NodeClaim, condition string, ago *time.Duration, now, at time.Time) {
	if ago != nil {
		at = now.Add(-*ago)
	}
	v1.SetCondition(c, condition, metav1.ConditionTrue, "", "", at)
}

// nodeOf returns the Node of a machine.
func (b *builder) nodeOf(x machine, m machineLine) *corev1.Node {
	n := b.emptyNode(m)
	n.Spec.ProviderID = "kwok://" + m.name
	if m.finalizers == nil {
		n.Finalizers = []string{v1.TerminationFinalizer}
	}
	maps.Copy(n.Labels, x.labels)
	maps.Copy(n.Labels, m.labels)
	if m.unregistered {
		n.Spec.Taints = append(n.Spec.Taints, v1.UnregisteredTaint())
	} else {
		n.Labels[v1.RegisteredLabelKey] = "true"
		n.Spec.Taints = append(n.Spec.Taints, nodeTaints(x.pool)...)
	}
	if !m.uninitialized {
		n.Labels[v1.InitializedLabelKey] = "true"
	}
	if m.draining {
		n.Spec.Taints = append(n.Spec.Taints, v1.DisruptedTaint())
		n.Labels[v1.ExcludeBalancersLabelKey] = v1.ExcludeBalancersValue
	}
	n.Status.Capacity, n.Status.Allocatable = x.types[0].Capacity.DeepCopy(), x.types[0].Allocatable()
	maps.Copy(n.Status.Capacity, m.allocatable)
	maps.Copy(n.Status.Allocatable, m.allocatable)
	return n
}

// strip removes everything from a node that is not there after a kubelet has created it again.
func (b *builder) strip(n *corev1.Node, m machineLine) {
	n.CreationTimestamp, n.Finalizers, n.Spec.Taints = metav1.NewTime(b.snapshot.Now), nil, m.taints
	maps.DeleteFunc(n.Labels, func(key, _ string) bool { return !strings.Contains(key, "kubernetes.io/") })
}

// unmanagedNode returns a Node without a pool, or another Node of a claim's machine.
func (b *builder) unmanagedNode(name word, m machineLine) (*corev1.Node, error) {
	n := b.emptyNode(m)
	if m.machine != "" {
		i := slices.IndexFunc(b.snapshot.NodeClaims, func(c *v1.NodeClaim) bool { return c.Name == m.machine && c.Status.ProviderID != "" })
		if i < 0 {
			return nil, name.errorf("there is no claim %q above whose machine has been launched", m.machine)
		}
		n.Spec.ProviderID, m.resources = b.snapshot.NodeClaims[i].Status.ProviderID, b.snapshot.NodeClaims[i].Status.Capacity
		if m.unregistered {
			n.Spec.Taints = append(n.Spec.Taints, v1.UnregisteredTaint())
		}
	}
	if m.zone != "" {
		n.Labels[corev1.LabelTopologyZone] = m.zone
	}
	if m.instanceType != "" {
		n.Labels[corev1.LabelInstanceTypeStable] = m.instanceType
	}
	maps.Copy(n.Labels, m.labels)
	n.Status.Capacity = withPods(m.resources)
	n.Status.Allocatable = withPods(m.resources)
	maps.Copy(n.Status.Allocatable, m.allocatable)
	return n, nil
}

func (b *builder) emptyNode(m machineLine) *corev1.Node {
	n := &corev1.Node{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: b.meta("", m.name),
	}
	n.CreationTimestamp = b.ago(m.age)
	n.Annotations = m.annotations
	n.Labels = map[string]string{
		corev1.LabelHostname: m.name, corev1.LabelArchStable: v1.ArchitectureAMD64, corev1.LabelOSStable: string(corev1.Linux),
	}
	n.Spec.Taints = slices.Clone(m.taints)
	n.Spec.Unschedulable = m.cordoned
	if m.cordoned {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
	}
	if m.deleting {
		n.DeletionTimestamp, n.Finalizers = new(b.ago(m.deletedFor)), []string{v1.TerminationFinalizer}
	}
	if m.finalizers != nil {
		n.Finalizers = *m.finalizers
	}
	ready := corev1.ConditionTrue
	if m.notReady {
		ready = corev1.ConditionFalse
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule})
	}
	n.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: ready, LastTransitionTime: n.CreationTimestamp, Reason: fmt.Sprintf("Ready%s", ready),
	}}
	return n
}

package scenario

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "tenon.sh/api/v1"
	"tenon.sh/deviceselector"
	"tenon.sh/engine/kube"
)

// This file completes objects that were never in a cluster, like the API server, its admission plugins and the controllers.

// addPod reads a pod. A pod without a status was never in a cluster.
func (m *manifest) addPod(u *unstructured.Unstructured) error {
	if err := decode(m, u, &m.snapshot.Pods); err != nil {
		return err
	}
	pod := m.snapshot.Pods[len(m.snapshot.Pods)-1]
	if len(pod.Spec.Containers) == 0 {
		return errNoContainers
	}
	m.fresh[pod] = pod.Status.Phase == "" && len(pod.Status.Conditions) == 0
	return nil
}

func (m *manifest) addNode(u *unstructured.Unstructured) error {
	return decode(m, u, &m.snapshot.Nodes)
}

func (m *manifest) addDaemonSet(u *unstructured.Unstructured) error {
	return decode(m, u, &m.snapshot.DaemonSets)
}

func (m *manifest) addPool(u *unstructured.Unstructured) error {
	_, m.lives[u.GetName()], _ = unstructured.NestedFieldNoCopy(u.Object, "spec", "template", "spec", "expireAfter")
	if err := m.checked(u); err != nil {
		return err
	}
	if err := decode(m, u, &m.snapshot.NodePools); err != nil {
		return err
	}
	if p := m.snapshot.NodePools[len(m.snapshot.NodePools)-1]; p.Spec.Template.Spec.NodeClassRef == nil {
		return errNoClass
	}
	return nil
}

var errNoClass = errors.New("nodeClassRef is missing")

func (m *manifest) addClaim(u *unstructured.Unstructured) error {
	_, lives, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "expireAfter")
	if err := m.checked(u); err != nil {
		return err
	}
	if err := decode(m, u, &m.snapshot.NodeClaims); err != nil {
		return err
	}
	c := m.snapshot.NodeClaims[len(m.snapshot.NodeClaims)-1]
	if c.Spec.NodeClassRef == nil {
		return errNoClass
	}
	if !lives {
		m.ageless = append(m.ageless, c)
	}
	return nil
}

func (m *manifest) addClass(u *unstructured.Unstructured) error {
	if err := m.checked(u); err != nil {
		return err
	}
	m.classes = append(m.classes, u)
	return nil
}

// completeAges sets expireAfter from the NodePool if the NodeClaim has none. Claims of a cluster always have one, so the default of the API
// would be a guess.
func (m *manifest) completeAges() {
	for _, c := range m.ageless {
		c.Spec.ExpireAfter = v1.NillableDuration{}
		if pool := poolNamed(&m.snapshot, c.Labels[v1.NodePoolLabelKey]); pool != nil && m.lives[pool.Name] {
			c.Spec.ExpireAfter = pool.Spec.Template.Spec.ExpireAfter
		}
	}
}

// completePool sets the conditions of a pool without status: it can be used unless its own rules fail.
func (m *manifest) completePool(p *v1.NodePool) {
	if len(p.Status.Conditions) > 0 {
		return
	}
	status, message := metav1.ConditionTrue, ""
	if err := p.RuntimeValidate(); err != nil {
		status, message = metav1.ConditionFalse, err.Error()
		m.note("NodePool %s: %v", p.Name, err)
	}
	v1.SetCondition(p, v1.ConditionValidationSucceeded, status, "", message, m.snapshot.Now)
	v1.SetCondition(p, v1.ConditionNodeClassReady, metav1.ConditionTrue, "", "", m.snapshot.Now)
}

// podsPerNode is the kubelet's default for maxPods.
const podsPerNode = 110

// completeNode completes a node without status: it is ready, and pods can use its whole capacity.
func (m *manifest) completeNode(n *corev1.Node) {
	if n.Status.Allocatable == nil {
		n.Status.Allocatable = n.Status.Capacity.DeepCopy()
	}
	_, counted := n.Status.Allocatable[corev1.ResourcePods]
	switch {
	case m.catalog != nil || n.ResourceVersion != "": // a node of a cluster gets its capacity a moment after it joins
	case len(n.Status.Allocatable) == 0:
		m.note("Node %s: its status has no capacity, so no pod fits it: add what kubectl get node %s -o yaml prints", n.Name, n.Name)
	case !counted:
		m.note("Node %s: its status does not say how many pods it runs: taken to run %d", n.Name, podsPerNode)
		n.Status.Allocatable[corev1.ResourcePods] = *resource.NewQuantity(podsPerNode, resource.DecimalSI)
	}
	if len(n.Status.Conditions) == 0 {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	}
	if n.Labels[corev1.LabelHostname] == "" {
		n.Labels = maps.Clone(n.Labels)
		if n.Labels == nil {
			n.Labels = map[string]string{}
		}
		n.Labels[corev1.LabelHostname] = n.Name
	}
}

// completePod sets defaults. A pod that was never in a cluster gets the status of a pod for which kube-scheduler found no node.
func (m *manifest) completePod(p *corev1.Pod) {
	defaultRequests(&p.Spec)
	defaultPorts(&p.Spec)
	if !m.fresh[p] {
		m.completePending(p)
		return
	}
	for _, l := range m.snapshot.LimitRanges {
		if l.Namespace == p.Namespace {
			applyLimitRange(l, &p.Spec)
		}
	}
	m.applyPriority(p)
	m.noteRuntimeClass(m.makerOf(p), &p.Spec)
	m.refusedBy[p] = kube.ApplyRuntimeClass(&p.Spec, m.snapshot.RuntimeClasses)
	if p.CreationTimestamp.IsZero() {
		p.CreationTimestamp = metav1.NewTime(m.snapshot.Now)
	}
	setPodStatus(p, &podLine{gated: len(p.Spec.SchedulingGates) > 0})
	m.makeClaims(p)
	if node := p.Spec.NodeName; node != "" && !slices.ContainsFunc(m.snapshot.Nodes, func(n *corev1.Node) bool { return n.Name == node }) {
		m.note("Pod %s/%s: its node %s is not in the files", p.Namespace, p.Name, node)
	}
}

// completePending completes a pod whose status is only Pending: no node was found for it. In a snapshot of a cluster, such a status means
// that kube-scheduler has not tried the pod yet.
func (m *manifest) completePending(p *corev1.Pod) {
	if p.Status.Phase == corev1.PodPending && len(p.Status.Conditions) == 0 && p.Spec.NodeName == "" && m.catalog == nil {
		m.note("Pod %s/%s: its status says Pending and no more: taken to wait for a node", p.Namespace, p.Name)
		setPodStatus(p, &podLine{gated: len(p.Spec.SchedulingGates) > 0})
	}
}

// defaultRequests adds a request for each resource that has a limit and no request.
func defaultRequests(spec *corev1.PodSpec) {
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			fill(&containers[i].Resources.Requests, containers[i].Resources.Limits)
		}
	}
	if spec.Resources != nil {
		fill(&spec.Resources.Requests, spec.Resources.Limits)
	}
}

// defaultPorts sets the protocol of ports, and the host ports of pods in the node's network.
func defaultPorts(spec *corev1.PodSpec) {
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			for j := range containers[i].Ports {
				p := &containers[i].Ports[j]
				p.Protocol = cmp.Or(p.Protocol, corev1.ProtocolTCP)
				if spec.HostNetwork {
					p.HostPort = cmp.Or(p.HostPort, p.ContainerPort)
				}
			}
		}
	}
}

// fill copies missing resources.
func fill(to *corev1.ResourceList, from corev1.ResourceList) {
	for name, q := range from {
		if _, ok := (*to)[name]; ok {
			continue
		}
		if *to == nil {
			*to = corev1.ResourceList{}
		}
		(*to)[name] = q
	}
}

func defaultLimitRange(l *corev1.LimitRange) {
	for i := range l.Spec.Limits {
		item := &l.Spec.Limits[i]
		if item.Type != corev1.LimitTypeContainer {
			continue
		}
		fill(&item.Default, item.Max)
		fill(&item.DefaultRequest, item.Default)
		fill(&item.DefaultRequest, item.Min)
	}
}

func applyLimitRange(l *corev1.LimitRange, spec *corev1.PodSpec) {
	for _, item := range l.Spec.Limits {
		if item.Type != corev1.LimitTypeContainer {
			continue
		}
		for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
			for i := range containers {
				fill(&containers[i].Resources.Limits, item.Default)
				fill(&containers[i].Resources.Requests, item.DefaultRequest)
			}
		}
	}
}

// applyPriority sets the pod's priority from its priority class, or from the default class.
func (m *manifest) applyPriority(p *corev1.Pod) {
	if p.Spec.Priority != nil {
		return
	}
	name := p.Spec.PriorityClassName
	for _, c := range m.priorities {
		if c.Name == name || name == "" && c.GlobalDefault {
			p.Spec.PriorityClassName, p.Spec.Priority = c.Name, &c.Value
			if p.Spec.PreemptionPolicy == nil {
				p.Spec.PreemptionPolicy = c.PreemptionPolicy
			}
			return
		}
	}
	if value, found := systemPriorities[name]; found {
		p.Spec.Priority = &value
		return
	}
	if name != "" {
		m.note("Pod %s/%s: its priority class %s is not in the files", p.Namespace, p.Name, name)
	}
}

// systemPriorities are the values of the PriorityClasses that every cluster has.
var systemPriorities = map[string]int32{"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}

// makeClaims makes the pod's claims from their templates.
func (m *manifest) makeClaims(p *corev1.Pod) {
	for i := range p.Spec.ResourceClaims {
		ref := &p.Spec.ResourceClaims[i]
		if ref.ResourceClaimTemplateName == nil {
			continue
		}
		at := slices.IndexFunc(m.snapshot.ResourceClaimTemplates, func(t *resourcev1.ResourceClaimTemplate) bool {
			return t.Namespace == p.Namespace && t.Name == *ref.ResourceClaimTemplateName
		})
		if at < 0 {
			m.note("%s: its ResourceClaimTemplate %s is not in the files", m.makerOf(p), *ref.ResourceClaimTemplateName)
			continue
		}
		m.snapshot.ResourceClaims = append(m.snapshot.ResourceClaims, ClaimFor(p, ref.Name, &m.snapshot.ResourceClaimTemplates[at].Spec.Spec))
	}
}

// noteSelectors notes selectors of DeviceClasses and ResourceClaimTemplates that an API server would refuse.
func (m *manifest) noteSelectors() {
	read := deviceselector.New()
	check := func(what, name string, selectors []resourcev1.DeviceSelector) {
		for i := range selectors {
			if selectors[i].CEL == nil {
				continue
			}
			if problem := read.Problem(selectors[i].CEL.Expression); problem != "" {
				m.note("%s %s: no device meets its selector %q, which cannot be read: %s", what, name, selectors[i].CEL.Expression, problem)
			}
		}
	}
	for _, c := range m.snapshot.DeviceClasses {
		check("DeviceClass", c.Name, c.Spec.Selectors)
	}
	for _, t := range m.snapshot.ResourceClaimTemplates {
		for _, r := range t.Spec.Spec.Devices.Requests {
			if r.Exactly != nil {
				check("ResourceClaimTemplate", t.Namespace+"/"+t.Name, r.Exactly.Selectors)
			}
			for i := range r.FirstAvailable {
				check("ResourceClaimTemplate", t.Namespace+"/"+t.Name, r.FirstAvailable[i].Selectors)
			}
		}
	}
}

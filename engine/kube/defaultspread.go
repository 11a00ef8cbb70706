package kube

import (
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/engine"
)

// DefaultSpreads gives the cluster's default spread constraints to pods without their own. Like kube-scheduler, it deduces their selectors from
// the Services that select the pod and from the pod's controller. It is for one goroutine only.
type DefaultSpreads struct {
	opt      engine.Options
	Anywhere bool                     // some scheduler's pods get constraints
	services map[string]*serviceIndex // the services of each namespace
	owners   map[ownerID]*metav1.LabelSelector
	known    map[string]deducedSpreads
}

// ownerID names a controller. kube-scheduler finds it by name, with any UID.
type ownerID struct{ namespace, kind, name string }

// deducedSpreads are shared by all pods of one owner that the same Services select.
type deducedSpreads struct {
	configured, system []corev1.TopologySpreadConstraint
}

// serviceIndex holds the Services of one namespace.
type serviceIndex struct {
	byLabel map[[2]string][]map[string]string // selectors, by their first label
	keys    []string                          // all keys of the selectors
}

const replicationController = "ReplicationController"

func NewDefaultSpreads(s *engine.Snapshot, opt engine.Options) *DefaultSpreads {
	d := &DefaultSpreads{
		opt:      opt,
		services: map[string]*serviceIndex{},
		owners:   map[ownerID]*metav1.LabelSelector{},
		known:    map[string]deducedSpreads{},
	}
	d.Anywhere = len(opt.DefaultConstraints) > 0 ||
		slices.ContainsFunc(opt.Profiles, func(p engine.SchedulerProfile) bool { return len(p.DefaultConstraints) > 0 })
	for _, service := range s.Services {
		d.addService(service.Namespace, service.Spec.Selector)
	}
	for _, x := range d.services {
		slices.Sort(x.keys)
		x.keys = slices.Compact(x.keys)
	}
	for _, r := range s.ReplicaSets {
		d.owners[ownerID{r.Namespace, "ReplicaSet", r.Name}] = r.Spec.Selector
	}
	for _, r := range s.StatefulSets {
		d.owners[ownerID{r.Namespace, "StatefulSet", r.Name}] = r.Spec.Selector
	}
	for _, r := range s.ReplicationControllers {
		d.owners[ownerID{r.Namespace, replicationController, r.Name}] = &metav1.LabelSelector{MatchLabels: r.Spec.Selector}
	}
	return d
}

// addService stores the selector under its first label. It skips Services without a selector, which select nothing, and those with an empty
// selector, because it would add no labels.
func (d *DefaultSpreads) addService(namespace string, selector map[string]string) {
	if len(selector) == 0 {
		return
	}
	x := d.services[namespace]
	if x == nil {
		x = &serviceIndex{byLabel: map[[2]string][]map[string]string{}}
		d.services[namespace] = x
	}
	keys := SortedKeys(selector)
	place := [2]string{keys[0], selector[keys[0]]}
	x.byLabel[place] = append(x.byLabel[place], selector)
	x.keys = append(x.keys, keys...)
}

// ConstraintsOf returns the pod's own constraints. If the pod has none, it returns the configured ones, or none if no selector can be deduced for
// them. Pods may share the result, so it must not be changed.
func (d *DefaultSpreads) ConstraintsOf(pod *corev1.Pod) []corev1.TopologySpreadConstraint {
	if !d.Deduces(pod) {
		return pod.Spec.TopologySpreadConstraints
	}
	return d.deduce(pod).configured
}

// Deduces reports whether the pod gets configured constraints.
func (d *DefaultSpreads) Deduces(pod *corev1.Pod) bool {
	if len(pod.Spec.TopologySpreadConstraints) > 0 || !d.Anywhere {
		return false
	}
	constraints, _ := d.configured(pod)
	return len(constraints) > 0
}

// configured returns the default constraints of the pod's scheduler; system means that they are kube-scheduler's own.
func (d *DefaultSpreads) configured(pod *corev1.Pod) (constraints []corev1.TopologySpreadConstraint, system bool) {
	return d.opt.ConstraintsOf(d.profileOf(pod))
}

func (d *DefaultSpreads) profileOf(pod *corev1.Pod) *engine.SchedulerProfile {
	if i := d.opt.ProfileOf(pod.Spec.SchedulerName); i >= 0 {
		return &d.opt.Profiles[i]
	}
	return nil
}

// SystemConstraintsOf returns the soft constraints by which kube-scheduler scores nodes if neither the pod nor the configuration has any. They
// are never reasons to start a machine. With them, kube-scheduler also scores nodes without a zone label.
func (d *DefaultSpreads) SystemConstraintsOf(pod *corev1.Pod) []corev1.TopologySpreadConstraint {
	if _, system := d.configured(pod); len(pod.Spec.TopologySpreadConstraints) > 0 || !system {
		return nil
	}
	return d.deduce(pod).system
}

func (d *DefaultSpreads) deduce(pod *corev1.Pod) deducedSpreads {
	owner := metav1.GetControllerOfNoCopy(pod)
	x := d.services[pod.Namespace]
	if owner == nil && x == nil {
		return deducedSpreads{}
	}
	key := make([]byte, 0, 128)
	key = strconv.AppendInt(key, int64(d.opt.ProfileOf(pod.Spec.SchedulerName)), 10)
	key = strconv.AppendQuote(key, pod.Namespace)
	if owner != nil {
		for _, part := range []string{owner.APIVersion, owner.Kind, owner.Name, string(owner.UID)} {
			key = strconv.AppendQuote(key, part)
		}
	}
	if x != nil {
		// Labels that no Service selects by, for example a StatefulSet pod's own name, make no difference.
		for i, k := range x.keys {
			if value, ok := pod.Labels[k]; ok {
				key = strconv.AppendQuote(strconv.AppendInt(key, int64(i), 10), value)
			}
		}
	}
	if known, ok := d.known[string(key)]; ok {
		return known
	}
	deduced := deducedSpreads{}
	if selector := d.selectorOf(pod, owner, x); selector != nil {
		configured, _ := d.configured(pod)
		deduced.configured = withSelector(configured, selector)
		deduced.system = withSelector(systemSpreads(), selector)
	}
	d.known[string(key)] = deduced
	return deduced
}

// systemSpreads returns kube-scheduler's own default constraints.
func systemSpreads() []corev1.TopologySpreadConstraint {
	return []corev1.TopologySpreadConstraint{
		{TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway, MaxSkew: 3},
		{TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.ScheduleAnyway, MaxSkew: 5},
	}
}

func withSelector(constraints []corev1.TopologySpreadConstraint, selector *metav1.LabelSelector) []corev1.TopologySpreadConstraint {
	out := slices.Clone(constraints)
	for i := range out {
		out[i].LabelSelector, out[i].MatchLabelKeys = selector, nil
	}
	return out
}

// selectorOf merges the selectors of all Services that select the pod, then adds the controller's selector: a ReplicationController's replaces
// equal labels, a ReplicaSet's or StatefulSet's must match too. It returns nil for an empty result, because an empty selector would count every
// pod of the namespace.
func (d *DefaultSpreads) selectorOf(pod *corev1.Pod, owner *metav1.OwnerReference, x *serviceIndex) *metav1.LabelSelector {
	out := &metav1.LabelSelector{MatchLabels: x.selecting(pod)}
	if owner != nil && ownerKindCounts(owner) {
		own := d.owners[ownerID{pod.Namespace, owner.Kind, owner.Name}]
		switch {
		case own == nil:
		case owner.Kind == replicationController:
			maps.Copy(out.MatchLabels, own.MatchLabels)
		case SelectorProblem(own) == "":
			for _, key := range SortedKeys(own.MatchLabels) {
				out.MatchExpressions = append(out.MatchExpressions, metav1.LabelSelectorRequirement{
					Key: key, Operator: metav1.LabelSelectorOpIn, Values: []string{own.MatchLabels[key]},
				})
			}
			out.MatchExpressions = append(out.MatchExpressions, own.MatchExpressions...)
		}
	}
	if isEmptySelector(out) {
		return nil
	}
	return out
}

func ownerKindCounts(owner *metav1.OwnerReference) bool {
	switch owner.Kind {
	case "ReplicaSet", "StatefulSet":
		return owner.APIVersion == "apps/v1"
	case replicationController:
		return owner.APIVersion == "v1"
	}
	return false
}

// selecting merges the selectors of the Services that select the pod. They cannot contradict each other.
func (x *serviceIndex) selecting(pod *corev1.Pod) map[string]string {
	out := map[string]string{}
	if x == nil {
		return out
	}
	for key, value := range pod.Labels {
		for _, selector := range x.byLabel[[2]string{key, value}] {
			if hasAll(pod.Labels, selector) {
				maps.Copy(out, selector)
			}
		}
	}
	return out
}

func hasAll(labels, wanted map[string]string) bool {
	for key, value := range wanted {
		if have, ok := labels[key]; !ok || have != value {
			return false
		}
	}
	return true
}

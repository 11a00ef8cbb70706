package scheduler

import (
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"tenon.sh/engine"
)

// readSpread reads a pod's spread constraints, or those that kube-scheduler gives to pods that name none.
func (r *ruleReader) readSpread(pod *corev1.Pod, owners labels.Selector, rules *podRules) {
	constraints := pod.Spec.TopologySpreadConstraints
	rules.everywhere = len(constraints) > 0
	if len(constraints) == 0 {
		if owners == nil || owners.Empty() {
			return
		}
		profile := r.world.scoringOf(pod)
		if constraints = profile.constraints; profile.system {
			constraints = systemConstraints()
		}
		rules.everywhere = !profile.system
	} else {
		owners = nil
	}
	for i := range constraints {
		c := &constraints[i]
		rule, ok := r.spreadRule(pod, c, owners)
		if !ok {
			rules.invalid = true
			continue
		}
		if c.WhenUnsatisfiable == corev1.ScheduleAnyway {
			rules.soft = append(rules.soft, rule)
		} else {
			rules.hard = append(rules.hard, rule)
		}
	}
}

func systemConstraints() []corev1.TopologySpreadConstraint {
	return []corev1.TopologySpreadConstraint{
		{TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway, MaxSkew: systemHostSkew},
		{TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.ScheduleAnyway, MaxSkew: systemZoneSkew},
	}
}

// spreadRule reads one constraint; owners, if there are any, take the place of its selector.
func (r *ruleReader) spreadRule(pod *corev1.Pod, c *corev1.TopologySpreadConstraint, owners labels.Selector) (spreadRule, bool) {
	selector := owners
	if owners == nil {
		read, err := metav1.LabelSelectorAsSelector(c.LabelSelector)
		if err != nil {
			return spreadRule{}, false
		}
		selector = withKeys(read, pod, c.MatchLabelKeys, selection.In)
	}
	rule := spreadRule{
		match:  r.matcher(podTerm{namespaces: []string{pod.Namespace}, selector: selector}),
		counts: !selector.Empty(), key: c.TopologyKey, maxSkew: c.MaxSkew, minDomains: 1, honorAffinity: true,
	}
	if c.MinDomains != nil {
		rule.minDomains = *c.MinDomains
	}
	if c.NodeAffinityPolicy != nil {
		rule.honorAffinity = *c.NodeAffinityPolicy == corev1.NodeInclusionPolicyHonor
	}
	if c.NodeTaintsPolicy != nil {
		rule.honorTaints = *c.NodeTaintsPolicy == corev1.NodeInclusionPolicyHonor
	}
	return rule, true
}

// podOwners finds what selects a pod: the services in front of it and the controller that made it.
type podOwners struct {
	services     map[string][]*corev1.Service // by namespace
	replicaSets  map[string]*appsv1.ReplicaSet
	statefulSets map[string]*appsv1.StatefulSet
	controllers  map[string]*corev1.ReplicationController
}

func newPodOwners(s *engine.Snapshot) *podOwners {
	o := &podOwners{map[string][]*corev1.Service{}, map[string]*appsv1.ReplicaSet{}, map[string]*appsv1.StatefulSet{}, map[string]*corev1.ReplicationController{}}
	for _, x := range s.Services {
		if x.Spec.Selector != nil {
			o.services[x.Namespace] = append(o.services[x.Namespace], x)
		}
	}
	for _, x := range s.ReplicaSets {
		o.replicaSets[x.Namespace+"/"+x.Name] = x
	}
	for _, x := range s.StatefulSets {
		o.statefulSets[x.Namespace+"/"+x.Name] = x
	}
	for _, x := range s.ReplicationControllers {
		o.controllers[x.Namespace+"/"+x.Name] = x
	}
	return o
}

// selector joins the selectors of all of them; it is empty where nothing selects the pod.
func (o *podOwners) selector(pod *corev1.Pod) labels.Selector {
	set := labels.Set{}
	for _, service := range o.services[pod.Namespace] {
		if contains(pod.Labels, service.Spec.Selector) {
			maps.Copy(set, service.Spec.Selector)
		}
	}
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return labels.SelectorFromSet(set)
	}
	var made *metav1.LabelSelector
	name := pod.Namespace + "/" + owner.Name
	switch owner.APIVersion + " " + owner.Kind {
	case "v1 ReplicationController":
		if x := o.controllers[name]; x != nil {
			maps.Copy(set, x.Spec.Selector)
		}
	case "apps/v1 ReplicaSet":
		if x := o.replicaSets[name]; x != nil {
			made = x.Spec.Selector
		}
	case "apps/v1 StatefulSet":
		if x := o.statefulSets[name]; x != nil {
			made = x.Spec.Selector
		}
	}
	selector := labels.SelectorFromSet(set)
	if other, err := metav1.LabelSelectorAsSelector(made); made != nil && err == nil {
		if requirements, selectable := other.Requirements(); selectable {
			selector = selector.Add(requirements...)
		}
	}
	return selector
}

// contains reports whether a pod's labels have everything that a plain selector asks for.
func contains(have, asked map[string]string) bool {
	for key, value := range asked {
		if got, ok := have[key]; !ok || got != value {
			return false
		}
	}
	return true
}

package simulator

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// shapes holds the shapes of all pods.
type shapes struct {
	byKey     map[string]*shape
	list      []*shape
	resources resources
	guards    *guards
	devices   *devices
}

// shape is a group of equal pods: of one version of one workload, or with the same text.
type shape struct {
	key    string
	sample *corev1.Pod
	need   amounts
	units  shelf[*unit]
	ready  int
	guards []*guard // the budgets that cover it
	// selectors match the pods that matter to the placement of this shape; held are the selectors of its affinity and anti-affinity,
	// which also draw other pods, or keep them off.
	selectors, held []labels.Selector
	ports, volumes  bool
	strict          bool            // it has spread constraints that must be met
	matters         map[*shape]bool // the answers of relevant
}

// of finds the pod's shape.
func (x *shapes) of(u *unit) *shape {
	key := shapeKey(u)
	if s, ok := x.byKey[key]; ok {
		return s
	}
	requests, _ := x.devices.requestsOf(u.pod)
	s := &shape{key: key, sample: u.pod, need: x.resources.amountsIn(requests), units: newShelf[*unit](), matters: map[*shape]bool{}}
	s.read()
	x.guards.cover(s)
	x.byKey[key] = s
	x.list = append(x.list, s)
	return s
}

// forget removes the shape of the unit, after its last pod.
func (x *shapes) forget(u *unit) {
	x.guards.uncover(u.shape)
	delete(x.byKey, u.shape.key)
	x.list = slices.DeleteFunc(x.list, func(s *shape) bool { return s == u.shape })
	for _, s := range x.list {
		delete(s.matters, u.shape)
	}
}

func shapeKey(u *unit) string {
	if u.load != nil {
		return fmt.Sprintf("%s %d", u.load.key, u.version)
	}
	spec := u.pod.Spec
	spec.NodeName = ""
	text, _ := spec.Marshal() // writing to memory cannot fail
	labels := ""
	for _, key := range slices.Sorted(maps.Keys(u.pod.Labels)) {
		labels += fmt.Sprintf("%q=%q,", key, u.pod.Labels[key])
	}
	owners := ""
	for _, o := range u.pod.OwnerReferences {
		owners += fmt.Sprintf("%q,", o.UID)
	}
	return fmt.Sprintf("%q %s %s %x", u.pod.Namespace, labels, owners, text)
}

// read collects the selectors, ports, volumes and spreads of the shape.
func (s *shape) read() {
	spec := &s.sample.Spec
	s.volumes = len(spec.Volumes) > 0
	for _, c := range slices.Concat(spec.Containers, spec.InitContainers) {
		s.ports = s.ports || len(c.Ports) > 0
	}
	for _, c := range spec.TopologySpreadConstraints {
		s.selectors = append(s.selectors, selectorOf(c.LabelSelector))
		s.strict = s.strict || c.WhenUnsatisfiable == corev1.DoNotSchedule
	}
	a := spec.Affinity
	if a != nil && a.PodAffinity != nil {
		s.hold(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if a != nil && a.PodAntiAffinity != nil {
		s.hold(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	s.selectors = append(s.selectors, s.held...)
}

func (s *shape) hold(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) {
	for i := range required {
		s.held = append(s.held, selectorOf(required[i].LabelSelector))
	}
	for i := range preferred {
		s.held = append(s.held, selectorOf(preferred[i].PodAffinityTerm.LabelSelector))
	}
}

// selectorOf reads a selector. A selector that cannot be read matches any pod.
func selectorOf(selector *metav1.LabelSelector) labels.Selector {
	found, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return labels.Everything()
	}
	return found
}

// relevant reports whether the places of the other shape's pods matter to this shape's pods, beside the room that they take. relevant
// ignores namespaces, and is therefore true for too many shapes.
func (s *shape) relevant(other *shape) bool {
	answer, known := s.matters[other]
	if !known {
		matches := func(list []labels.Selector, by *shape) bool {
			return slices.ContainsFunc(list, func(l labels.Selector) bool { return l.Matches(labels.Set(by.sample.Labels)) })
		}
		answer = s == other || s.ports && other.ports || s.volumes && other.volumes || matches(s.selectors, other) || matches(other.held, s)
		s.matters[other] = answer
	}
	return answer
}

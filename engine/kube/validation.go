package kube

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/requirement"
)

// ProblemOf returns the fault of a pod that no node could ever take; the zero Reason if it has none. An API server refuses most of these pods, but
// files may hold them. Only fields that kube-scheduler's filters read are checked: an unreadable soft spread constraint is no fault.
func ProblemOf(pod *corev1.Pod) engine.Reason {
	spec := &pod.Spec
	if r := RequestProblem(spec); !r.OK() {
		return r
	}
	for key, value := range spec.NodeSelector {
		if !validKey(key) || !validValue(value) {
			return nodeSelectorProblem(spec.NodeSelector)
		}
	}
	if r := nodeAffinityProblem(spec); !r.OK() {
		return r
	}
	for i := range spec.TopologySpreadConstraints {
		c := &spec.TopologySpreadConstraints[i]
		if field, text := spreadProblem(c); text != "" {
			return invalid("spec.topologySpreadConstraints", i, "."+field, text)
		}
		if at := slices.IndexFunc(spec.TopologySpreadConstraints[:i], func(other corev1.TopologySpreadConstraint) bool {
			return other.TopologyKey == c.TopologyKey && other.WhenUnsatisfiable == c.WhenUnsatisfiable
		}); at >= 0 {
			return invalid("spec.topologySpreadConstraints", i, "", "has the topologyKey and the whenUnsatisfiable of spec.topologySpreadConstraints["+strconv.Itoa(at)+"]")
		}
	}
	return podAffinityProblem(spec)
}

func invalid(list string, i int, rest, text string) engine.Reason {
	return engine.Reason{Code: engine.InvalidPod, Key: list + "[" + strconv.Itoa(i) + "]" + rest, Have: text}
}

// RequestProblem finds negative amounts and invalid ports. Amounts too large to count are no fault here: a pod with these amounts is
// refused because they exceed every machine.
func RequestProblem(spec *corev1.PodSpec) engine.Reason {
	if r := containerProblem("spec.initContainers", spec.InitContainers); !r.OK() {
		return r
	}
	if r := containerProblem("spec.containers", spec.Containers); !r.OK() {
		return r
	}
	if spec.Resources != nil {
		if name := below0(spec.Resources.Requests); name != "" {
			return amountProblem("spec.resources.requests."+name, spec.Resources.Requests, name)
		}
	}
	if name := below0(spec.Overhead); name != "" {
		return amountProblem("spec.overhead."+name, spec.Overhead, name)
	}
	return engine.Reason{}
}

func containerProblem(list string, containers []corev1.Container) engine.Reason {
	for i := range containers {
		c := &containers[i]
		if name := below0(c.Resources.Requests); name != "" {
			return amountProblem(list+"["+strconv.Itoa(i)+"].resources.requests."+name, c.Resources.Requests, name)
		}
		for j := range c.Ports {
			if p := c.Ports[j].HostPort; p < 0 || p > 65535 {
				return invalid(list, i, ".ports["+strconv.Itoa(j)+"].hostPort", strconv.Itoa(int(p))+" is not a port")
			}
		}
	}
	return engine.Reason{}
}

func amountProblem(path string, list corev1.ResourceList, name string) engine.Reason {
	q := list[corev1.ResourceName(name)]
	return engine.Reason{Code: engine.InvalidPod, Key: path, Have: q.String() + " is below zero"}
}

// below0 returns the first resource, by name, with a negative amount.
func below0(list corev1.ResourceList) string {
	first := ""
	for name, q := range list {
		if q.Sign() < 0 && (first == "" || string(name) < first) {
			first = string(name)
		}
	}
	return first
}

func nodeSelectorProblem(selector map[string]string) engine.Reason {
	for _, key := range SortedKeys(selector) {
		path := "spec.nodeSelector[" + key + "]"
		if !validKey(key) {
			return engine.Reason{Code: engine.InvalidPod, Key: path, Have: strconv.Quote(key) + " is not a label key"}
		}
		if value := selector[key]; !validValue(value) {
			return engine.Reason{Code: engine.InvalidPod, Key: path, Have: strconv.Quote(value) + " is not a label value"}
		}
	}
	return engine.Reason{}
}

// nodeAffinityProblem returns a fault if no term is readable: terms are alternatives, and kube-scheduler skips unreadable ones. Without a
// readable term, no node matches.
func nodeAffinityProblem(spec *corev1.PodSpec) engine.Reason {
	if !HasRequired(spec) {
		return engine.Reason{}
	}
	const path = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
	first := engine.Reason{Code: engine.InvalidPod, Key: path, Have: "there is no term with an expression, so no node matches"}
	for i, term := range RequiredTerms(spec) {
		field, text := NodeTermProblem(term)
		if text == "" && !IsEmptyTerm(term) {
			return engine.Reason{}
		}
		if text != "" && first.Key == path {
			first = invalid(path, i, "."+field, text)
		}
	}
	return first
}

// IsEmptyTerm reports whether the term has no expressions; then it matches no node.
func IsEmptyTerm(term corev1.NodeSelectorTerm) bool {
	return len(term.MatchExpressions)+len(term.MatchFields) == 0
}

// NodeTermProblem returns the field of a node selector term that kube-scheduler cannot read, and why; this term matches no node. Both are empty
// for a valid term.
func NodeTermProblem(term corev1.NodeSelectorTerm) (field, text string) {
	for i, e := range term.MatchExpressions {
		if text := expressionProblem(e.Key, requirement.Operator(e.Operator), e.Values, true); text != "" {
			return "matchExpressions[" + strconv.Itoa(i) + "]", text
		}
	}
	for i, e := range term.MatchFields {
		field := "matchFields[" + strconv.Itoa(i) + "]"
		switch {
		case e.Key != NodeNameKey:
			return field, strconv.Quote(e.Key) + " is not a field that nodes can be selected by"
		case e.Operator != corev1.NodeSelectorOpIn && e.Operator != corev1.NodeSelectorOpNotIn:
			return field, "the operator " + strconv.Quote(string(e.Operator)) + " is not one that fields have"
		case len(e.Values) != 1:
			return field, "needs one value, has " + strconv.Itoa(len(e.Values))
		}
	}
	return "", ""
}

// expressionProblem returns why an expression is invalid; numeric operators are for nodes only.
func expressionProblem(key string, op requirement.Operator, values []string, numeric bool) string {
	if !validKey(key) {
		return strconv.Quote(key) + " is not a label key"
	}
	switch op {
	case requirement.In, requirement.NotIn:
		if len(values) == 0 {
			return string(op) + " needs values, has none"
		}
	case requirement.Exists, requirement.DoesNotExist:
		if len(values) > 0 {
			return string(op) + " takes no values"
		}
	case requirement.Gt, requirement.Lt:
		if !numeric {
			return "the operator " + strconv.Quote(string(op)) + " is not one that label selectors have"
		}
		if len(values) != 1 {
			return string(op) + " needs one value, has " + strconv.Itoa(len(values))
		}
		if _, err := strconv.ParseInt(values[0], 10, 64); err != nil {
			return string(op) + " needs an integer, not " + strconv.Quote(values[0])
		}
	default:
		return "the operator " + strconv.Quote(string(op)) + " does not exist"
	}
	for _, v := range values {
		if !validValue(v) {
			return strconv.Quote(v) + " is not a label value"
		}
	}
	return ""
}

// SelectorProblem returns why a label selector is invalid. It returns "" if it is valid.
func SelectorProblem(s *metav1.LabelSelector) string {
	for key, value := range s.MatchLabels {
		if !validKey(key) || !validValue(value) {
			return matchLabelsProblem(s.MatchLabels)
		}
	}
	for i, r := range s.MatchExpressions {
		if text := expressionProblem(r.Key, requirement.Operator(r.Operator), r.Values, false); text != "" {
			return "matchExpressions[" + strconv.Itoa(i) + "]: " + text
		}
	}
	return ""
}

func matchLabelsProblem(labels map[string]string) string {
	for _, key := range SortedKeys(labels) {
		if text := expressionProblem(key, requirement.In, []string{labels[key]}, false); text != "" {
			return "matchLabels: " + text
		}
	}
	return ""
}

// spreadProblem returns the wrong field of a spread constraint, and why.
func spreadProblem(c *corev1.TopologySpreadConstraint) (field, text string) {
	switch {
	case c.WhenUnsatisfiable != corev1.DoNotSchedule && c.WhenUnsatisfiable != corev1.ScheduleAnyway:
		return "whenUnsatisfiable", strconv.Quote(string(c.WhenUnsatisfiable)) + " is neither DoNotSchedule nor ScheduleAnyway"
	case c.WhenUnsatisfiable == corev1.ScheduleAnyway:
		return "", ""
	case c.TopologyKey == "":
		return "topologyKey", "is empty"
	case c.MaxSkew <= 0:
		return "maxSkew", strconv.Itoa(int(c.MaxSkew)) + " is not above zero"
	case c.MinDomains != nil && *c.MinDomains <= 0:
		return "minDomains", strconv.Itoa(int(*c.MinDomains)) + " is not above zero"
	case !validPolicy(c.NodeAffinityPolicy):
		return "nodeAffinityPolicy", strconv.Quote(string(*c.NodeAffinityPolicy)) + " is neither Honor nor Ignore"
	case !validPolicy(c.NodeTaintsPolicy):
		return "nodeTaintsPolicy", strconv.Quote(string(*c.NodeTaintsPolicy)) + " is neither Honor nor Ignore"
	case c.LabelSelector != nil:
		return "labelSelector", SelectorProblem(c.LabelSelector)
	}
	return "", ""
}

func validPolicy(p *corev1.NodeInclusionPolicy) bool {
	return p == nil || *p == corev1.NodeInclusionPolicyHonor || *p == corev1.NodeInclusionPolicyIgnore
}

// podAffinityProblem checks required and preferred terms, because kube-scheduler reads both and does not place a pod with an invalid selector in
// either.
func podAffinityProblem(spec *corev1.PodSpec) engine.Reason {
	if spec.Affinity == nil {
		return engine.Reason{}
	}
	if a := spec.Affinity.PodAffinity; a != nil {
		if r := termsProblem("spec.affinity.podAffinity.", a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution); !r.OK() {
			return r
		}
	}
	if a := spec.Affinity.PodAntiAffinity; a != nil {
		return termsProblem("spec.affinity.podAntiAffinity.", a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	return engine.Reason{}
}

func termsProblem(path string, required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) engine.Reason {
	for i := range required {
		if required[i].TopologyKey == "" {
			return invalid(path+"requiredDuringSchedulingIgnoredDuringExecution", i, ".topologyKey", "is empty")
		}
		if field, text := termSelectorProblem(&required[i]); text != "" {
			return invalid(path+"requiredDuringSchedulingIgnoredDuringExecution", i, "."+field, text)
		}
	}
	for i := range preferred {
		if field, text := termSelectorProblem(&preferred[i].PodAffinityTerm); text != "" {
			return invalid(path+"preferredDuringSchedulingIgnoredDuringExecution", i, ".podAffinityTerm."+field, text)
		}
	}
	return engine.Reason{}
}

func termSelectorProblem(t *corev1.PodAffinityTerm) (field, text string) {
	if t.LabelSelector != nil {
		if text := SelectorProblem(t.LabelSelector); text != "" {
			return "labelSelector", text
		}
	}
	if t.NamespaceSelector != nil {
		return "namespaceSelector", SelectorProblem(t.NamespaceSelector)
	}
	return "", ""
}

package v1

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// RuntimeValidate checks rules that the API server does not check: the full syntax of names and values, reserved label domains with their
// sub-domains, duplicate taints, and requirements that nothing can meet. The error lists every violation with its field.
func (p *NodePool) RuntimeValidate() error {
	var violations []string
	template := p.Spec.Template
	violations = append(violations, labelViolations(template.Labels)...)
	violations = append(violations, taintViolations(template.Spec)...)
	for i, r := range template.Spec.Requirements {
		field := fmt.Sprintf("spec.template.spec.requirements[%d]", i)
		if NormalizeLabel(r.Key) == NodePoolLabelKey {
			violations = append(violations, fmt.Sprintf("%s.key: %s cannot be required by a pool", field, NodePoolLabelKey))
		}
		for _, v := range requirementViolations(r) {
			violations = append(violations, field+v)
		}
	}
	if len(violations) == 0 {
		return nil
	}
	return errors.New(strings.Join(violations, "; "))
}

func labelViolations(labels map[string]string) (out []string) {
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		field := fmt.Sprintf("spec.template.metadata.labels[%s]", key)
		if key == NodePoolLabelKey {
			out = append(out, field+": is set by the pool itself")
		}
		for _, problem := range validation.IsQualifiedName(key) {
			out = append(out, field+": key: "+problem)
		}
		for _, problem := range validation.IsValidLabelValue(labels[key]) {
			out = append(out, fmt.Sprintf("%s: value %q: %s", field, labels[key], problem))
		}
		if problem := LabelRestriction(key); problem != "" {
			out = append(out, field+": "+problem)
		}
	}
	return out
}

func taintViolations(spec NodeClaimTemplateSpec) (out []string) {
	type keyAndEffect struct {
		key    string
		effect corev1.TaintEffect
	}
	first := map[keyAndEffect]string{}
	check := func(list string, taints []Taint) {
		for i, t := range taints {
			field := fmt.Sprintf("spec.template.spec.%s[%d]", list, i)
			for _, problem := range validation.IsQualifiedName(t.Key) {
				out = append(out, fmt.Sprintf("%s.key %q: %s", field, t.Key, problem))
			}
			if t.Value != "" {
				for _, problem := range validation.IsQualifiedName(t.Value) {
					out = append(out, fmt.Sprintf("%s.value %q: %s", field, t.Value, problem))
				}
			}
			if !slices.Contains([]corev1.TaintEffect{"", corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}, t.Effect) {
				out = append(out, fmt.Sprintf("%s.effect %q: want NoSchedule, PreferNoSchedule or NoExecute", field, t.Effect))
			}
			id := keyAndEffect{t.Key, t.Effect}
			if earlier, found := first[id]; found {
				out = append(out, fmt.Sprintf("%s: same key and effect (%s:%s) as %s", field, t.Key, t.Effect, earlier))
				continue
			}
			first[id] = field
		}
	}
	check("taints", spec.Taints)
	check("startupTaints", spec.StartupTaints)
	return out
}

// requirementViolations returns the violations of one requirement. Each begins with the field's path inside it.
func requirementViolations(r Requirement) (out []string) {
	key := NormalizeLabel(r.Key)
	for _, problem := range validation.IsQualifiedName(key) {
		out = append(out, fmt.Sprintf(".key %q: %s", r.Key, problem))
	}
	if problem := LabelRestriction(key); problem != "" {
		out = append(out, ".key: "+problem)
	}
	for i, value := range r.Values {
		for _, problem := range validation.IsValidLabelValue(value) {
			out = append(out, fmt.Sprintf(".values[%d] %q for key %s: %s", i, value, r.Key, problem))
		}
	}
	switch {
	case r.Operator == In:
		out = append(out, inViolations(key, r)...)
	case r.Operator.Numeric():
		if !isOneNumber(r.Values) {
			out = append(out, fmt.Sprintf(".values %q for key %s: operator %s needs exactly one value, an integer of 0 or more", r.Values, r.Key, r.Operator))
		}
	case !slices.Contains([]Operator{NotIn, Exists, DoesNotExist}, r.Operator):
		out = append(out, fmt.Sprintf(".operator %q for key %s: want In, NotIn, Exists, DoesNotExist, Gt, Lt, Gte or Lte", r.Operator, r.Key))
	}
	return out
}

// inViolations checks that enough of the values can ever match. If all values of a label are known, other values do not count, but they are
// allowed.
func inViolations(key string, r Requirement) (out []string) {
	if len(r.Values) == 0 {
		return []string{fmt.Sprintf(".values for key %s: operator In needs at least one value", r.Key)}
	}
	usable := slices.Compact(slices.Sorted(slices.Values(r.Values)))
	if r.MinValues != nil && len(usable) < *r.MinValues {
		return []string{fmt.Sprintf(".values for key %s: minValues asks for %d different values, there are %d", r.Key, *r.MinValues, len(usable))}
	}
	closed := closedValues(key)
	if closed == nil {
		return nil
	}
	usable = slices.DeleteFunc(usable, func(v string) bool { return !slices.Contains(closed, v) })
	known := strings.Join(closed, ", ")
	if len(usable) == 0 {
		return []string{fmt.Sprintf(".values %q for key %s: none is one of %s", r.Values, r.Key, known)}
	}
	if r.MinValues != nil && len(usable) < *r.MinValues {
		return []string{fmt.Sprintf(".values for key %s: minValues asks for %d values, but only %d of %q are among %s", r.Key, *r.MinValues, len(usable), r.Values, known)}
	}
	return nil
}

func isOneNumber(values []string) bool {
	if len(values) != 1 {
		return false
	}
	n, err := strconv.ParseInt(values[0], 10, 64)
	return err == nil && n >= 0
}

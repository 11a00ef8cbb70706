package scenario

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
)

// operators are the words that follow a label in a requirement.
var operators = map[string]v1.Operator{
	"in": v1.In, "notin": v1.NotIn, "exists": v1.Exists, "absent": v1.DoesNotExist,
	">": v1.Gt, "<": v1.Lt, ">=": v1.Gte, "<=": v1.Lte,
}

// atRequirement reports whether the next words are a requirement: zone in (a,b).
func (r *reader) atRequirement() bool {
	if r.at+1 >= len(r.words) {
		return false
	}
	_, ok := operators[r.words[r.at+1].text]
	return ok
}

// requirement reads label operator [values] [min=N].
func (r *reader) requirement() (v1.Requirement, error) {
	key := r.next()
	op := r.next()
	req := v1.Requirement{Key: labelKey(key.text), Operator: operators[op.text]}
	switch req.Operator {
	case v1.Exists, v1.DoesNotExist:
	default:
		if !r.more() {
			return req, op.errorf("values are missing: write %s %s (a,b)", key.text, op.text)
		}
		values := r.next().text
		if !req.Operator.Numeric() && !(strings.HasPrefix(values, "(") && strings.HasSuffix(values, ")")) {
			return req, op.errorf("write the values in parentheses: %s %s (%s)", key.text, op.text, values)
		}
		req.Values = splitList(strings.Trim(values, "()"))
	}
	if n, ok := strings.CutPrefix(r.peek(), "min="); ok {
		w := r.next()
		least, err := strconv.Atoi(n)
		if err != nil {
			return req, w.errorf("%q is not a whole number", n)
		}
		req.MinValues = &least
	}
	return req, nil
}

// selectorRequirement returns the requirement in the form for pods.
func selectorRequirement(req v1.Requirement) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{
		Key: req.Key, Operator: corev1.NodeSelectorOperator(req.Operator), Values: req.Values,
	}
}

package trace

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"tenon.sh/engine/kube"
)

// The largest requests of one pod. A larger one probably has a wrong unit.
const (
	mostCores  = 10_000
	mostBytes  = 1 << 50
	mostPieces = 1 << 20 // of any other resource that is not counted in bytes
)

// checkName refuses names that no object can have, but accepts names of other systems.
func checkName(name string) error {
	switch {
	case name == "":
		return errors.New("it has no name")
	case len(name) > 253:
		return fmt.Errorf("the name %.20q… is %d characters long; 253 are possible", name, len(name))
	case strings.ContainsFunc(name, func(r rune) bool { return r == '/' || unicode.IsSpace(r) || !unicode.IsPrint(r) }):
		return fmt.Errorf("the name %q has characters that no name has", name)
	}
	return nil
}

// readTime reads RFC 3339, or seconds since 1970.
func readTime(text string) (Moment, error) {
	if text == "" {
		return 0, errors.New("it is empty")
	}
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		if t.Year() < 1970 || t.Year() > 2200 {
			return 0, fmt.Errorf("%s is not from 1970 to 2200", text)
		}
		return max(1, Moment(t.UnixNano())), nil
	}
	seconds, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil || math.IsNaN(seconds):
		return 0, fmt.Errorf("%q is no time such as 2026-03-02T08:00:00Z, nor seconds since 1970", text)
	case seconds > 7_258_118_400: // 2200
		return 0, fmt.Errorf("%s seconds since 1970 are beyond 2200: are these milliseconds?", text)
	case seconds < 0:
		return 0, fmt.Errorf("%s is before 1970", text)
	}
	whole, part := math.Modf(seconds)
	return max(1, Moment(whole)*1e9+Moment(math.Round(part*1e3))*1e6), nil
}

func readKind(r *row) (Kind, error) {
	k := Kind{Namespace: strings.Clone(r.namespace), Requests: corev1.ResourceList{}}
	if err := checkName(k.Namespace); err != nil {
		return k, fmt.Errorf("namespace: %w", err)
	}
	for i, name := range r.resources {
		if r.amounts[i] == "" {
			continue
		}
		q, err := readAmount(name, r.amounts[i])
		if err != nil {
			return k, err
		}
		if !q.IsZero() {
			k.Requests[corev1.ResourceName(strings.Clone(name))] = q
		}
	}
	var err error
	if k.Labels, err = readPairs("labels", r.labels); err != nil {
		return k, err
	}
	if k.Selector, err = readPairs("selector", r.selector); err != nil {
		return k, err
	}
	k.Tolerations, err = readTolerations(r.tolerations)
	return k, err
}

// isResource reports whether a column of this name is a resource.
func isResource(name string) bool {
	return name == "cpu" || name == "memory" || name == "ephemeral-storage" || strings.HasPrefix(name, "hugepages-") || strings.Contains(name, "/") && len(validation.IsQualifiedName(name)) == 0
}

func readAmount(name, text string) (resource.Quantity, error) {
	q, err := resource.ParseQuantity(text)
	if err != nil || kube.IsBeyondCounting(text) {
		return q, fmt.Errorf("%s %q is no amount such as 500m or 2Gi", name, text)
	}
	if q.Sign() < 0 {
		return q, fmt.Errorf("%s %s is negative", name, text)
	}
	most := resource.NewQuantity(mostPieces, resource.DecimalSI)
	switch {
	case name == "cpu":
		most = resource.NewQuantity(mostCores, resource.DecimalSI)
	case name == "memory" || name == "ephemeral-storage" || strings.HasPrefix(name, "hugepages-"):
		most = resource.NewQuantity(mostBytes, resource.BinarySI)
	}
	if q.Cmp(*most) > 0 {
		return q, fmt.Errorf("%s %s is more than a pod can ask for: %s", name, text, most)
	}
	if name != "cpu" && q.MilliValue()%1000 != 0 && q.Cmp(*resource.NewQuantity(1<<40, resource.BinarySI)) < 0 {
		return q, fmt.Errorf("%s %s is no whole number: m means thousandths, M and Mi millions", name, text)
	}
	return q, nil
}

// readPairs reads key=value;key=value.
func readPairs(what, text string) (map[string]string, error) {
	if text == "" {
		return nil, nil
	}
	out := map[string]string{}
	for part := range strings.SplitSeq(text, ";") {
		key, value, found := strings.Cut(strings.Clone(part), "=")
		if !found || len(validation.IsQualifiedName(key)) > 0 || len(validation.IsValidLabelValue(value)) > 0 {
			return nil, fmt.Errorf("%s: %q has not the form key=value", what, part)
		}
		if _, twice := out[key]; twice {
			return nil, fmt.Errorf("%s: %s is named twice", what, key)
		}
		out[key] = value
	}
	return out, nil
}

func pairsText(pairs map[string]string) string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(pairs)) {
		parts = append(parts, key+"="+pairs[key])
	}
	return strings.Join(parts, ";")
}

// readTolerations reads key=value:Effect;key:Effect;key;*. A part that is left out matches everything.
func readTolerations(text string) ([]corev1.Toleration, error) {
	if text == "" {
		return nil, nil
	}
	var out []corev1.Toleration
	for part := range strings.SplitSeq(text, ";") {
		rest, effect, _ := strings.Cut(strings.Clone(part), ":")
		key, value, hasValue := strings.Cut(rest, "=")
		t := corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Value: value, Effect: corev1.TaintEffect(effect)}
		if hasValue {
			t.Operator = corev1.TolerationOpEqual
		}
		if key == "*" && !hasValue {
			t.Key = ""
		} else if len(validation.IsQualifiedName(key)) > 0 {
			return nil, fmt.Errorf("tolerations: %q has not the form key=value:Effect, key:Effect, key or *", part)
		}
		switch t.Effect {
		case "", corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute, corev1.TaintEffectPreferNoSchedule:
		default:
			return nil, fmt.Errorf("tolerations: %q is no effect: NoSchedule, NoExecute or PreferNoSchedule", effect)
		}
		out = append(out, t)
	}
	return out, nil
}

func tolerationsText(list []corev1.Toleration) string {
	var parts []string
	for _, t := range list {
		text := t.Key
		if text == "" {
			text = "*"
		}
		if t.Operator == corev1.TolerationOpEqual || t.Operator == "" {
			text += "=" + t.Value
		}
		if t.Effect != "" {
			text += ":" + string(t.Effect)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ";")
}

package overlay

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	v1 "tenon.sh/api/v1"
	"tenon.sh/api/v1alpha1"
	"tenon.sh/engine/kube"
)

const (
	// mostPrice is the largest price, and the largest amount added to a price, in USD per hour. The dearest machine costs a ten-thousandth of it.
	// Larger numbers are mistakes, and sums of them may overflow.
	mostPrice = 1e6
	// mostPercent is the largest percentage by which prices are raised.
	mostPercent = 1e6
	// mostAmount is the largest amount of a resource. The bytes of huge pages on the largest machine are a hundredth of it.
	mostAmount = 1 << 50
)

// faultsOf lists the faults of an overlay, in the order of its fields. The API server refuses most of them, but its rules may be older, and it
// has no rules against absurd amounts.
func faultsOf(o *v1alpha1.NodeOverlay) []string {
	var out []string
	for i, r := range o.Spec.Requirements {
		if fault := requirementFault(r); fault != "" {
			out = append(out, fmt.Sprintf("spec.requirements[%d] (%s): %s", i, r.Key, fault))
		}
	}
	if o.Spec.Price != nil && o.Spec.PriceAdjustment != nil {
		out = append(out, "spec.price and spec.priceAdjustment cannot both be set: remove one")
	}
	if o.Spec.Price != nil {
		if _, err := readPrice(*o.Spec.Price); err != nil {
			out = append(out, fmt.Sprintf("spec.price is %q: %v", *o.Spec.Price, err))
		}
	}
	if o.Spec.PriceAdjustment != nil {
		if _, err := readAdjustment(*o.Spec.PriceAdjustment); err != nil {
			out = append(out, fmt.Sprintf("spec.priceAdjustment is %q: %v", *o.Spec.PriceAdjustment, err))
		}
	}
	if _, faults := interruptionsOf(o); len(faults) > 0 {
		out = append(out, faults...)
	}
	for _, name := range slices.Sorted(maps.Keys(o.Spec.Capacity)) {
		q := o.Spec.Capacity[name]
		if fault := resourceFault(name); fault != "" {
			out = append(out, fmt.Sprintf("spec.capacity[%s]: %s", name, fault))
		} else if q.Sign() < 0 || q.CmpInt64(mostAmount) > 0 {
			out = append(out, fmt.Sprintf("spec.capacity[%s] is %s: it must be 0 or more, and at most %d", name, q.String(), int64(mostAmount)))
		} else if q.MilliValue()%1000 != 0 {
			out = append(out, fmt.Sprintf("spec.capacity[%s] is %s: no node has a part of one, write a whole number", name, q.String()))
		}
	}
	return out
}

func resourceFault(name corev1.ResourceName) string {
	switch name {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, corev1.ResourcePods:
		return "cpu, memory, ephemeral-storage and pods follow from the instance type and cannot be corrected"
	case v1.ResourceNodes:
		return "nodes are counted by limits of pools, no node has them"
	}
	if strings.HasPrefix(string(name), kube.AttachPrefix) {
		return "how many volumes a machine takes follows from its instance type and cannot be corrected"
	}
	if problems := validation.IsQualifiedName(string(name)); len(problems) > 0 {
		return "no resource can have this name: " + strings.Join(problems, "; ")
	}
	return ""
}

func requirementFault(r v1alpha1.Requirement) string {
	if problems := validation.IsQualifiedName(r.Key); len(problems) > 0 {
		return "no label can have this key: " + strings.Join(problems, "; ")
	}
	switch key := v1.NormalizeLabel(r.Key); {
	case key == corev1.LabelHostname:
		return "every machine gets its own name: it cannot be required"
	case isClassLabel(key):
		return "node classes are not compared: name their pools with " + v1.NodePoolLabelKey
	}
	switch r.Operator {
	case v1.In, v1.NotIn:
		if len(r.Values) == 0 {
			return fmt.Sprintf("operator %s needs at least one value", r.Operator)
		}
	case v1.Exists, v1.DoesNotExist:
		if len(r.Values) > 0 {
			return fmt.Sprintf("operator %s takes no values", r.Operator)
		}
	case v1.Gt, v1.Lt, v1.Gte, v1.Lte:
		if len(r.Values) != 1 {
			return fmt.Sprintf("operator %s needs exactly one whole number of 0 or more", r.Operator)
		}
		if n, err := strconv.ParseInt(r.Values[0], 10, 64); err != nil || n < 0 {
			return fmt.Sprintf("operator %s compares with a whole number of 0 or more, not with %q", r.Operator, r.Values[0])
		}
	default:
		return fmt.Sprintf("there is no operator %q", r.Operator)
	}
	for _, value := range r.Values {
		if problems := validation.IsValidLabelValue(value); len(problems) > 0 {
			return fmt.Sprintf("no label can have the value %q: %s", value, strings.Join(problems, "; "))
		}
	}
	return ""
}

// isClassLabel reports whether the label names a machine's node class.
func isClassLabel(key string) bool {
	domain, name, _ := strings.Cut(key, "/")
	return strings.HasSuffix(name, "nodeclass") && slices.Contains(v1.RestrictedDomains(), domain)
}

// readPrice parses a price without a sign.
func readPrice(text string) (float64, error) {
	if !isDecimal(text) {
		return 0, fmt.Errorf("write a price in USD per hour without a sign, such as 0.35")
	}
	return within(text, mostPrice)
}

// adjustment is a change of a price: the price is multiplied by factor, then more is added.
type adjustment struct {
	factor, more float64
}

// readAdjustment parses an amount or a percentage with a sign.
func readAdjustment(text string) (adjustment, error) {
	form := fmt.Errorf("write an amount or a percentage with a sign, such as -0.05 or +10%%")
	sign := 1.0
	switch {
	case strings.HasPrefix(text, "+"):
	case strings.HasPrefix(text, "-"):
		sign = -1
	default:
		return adjustment{}, form
	}
	number, percent := strings.CutSuffix(text[1:], "%")
	if !isDecimal(number) && !(strings.HasPrefix(number, ".") && isDecimal("0"+number)) {
		return adjustment{}, form
	}
	if !percent {
		n, err := within(number, mostPrice)
		return adjustment{factor: 1, more: sign * n}, err
	}
	n, err := within(number, mostPercent)
	if err == nil && sign < 0 && n > 100 {
		err = fmt.Errorf("a price cannot fall by more than 100%%")
	}
	return adjustment{factor: 1 + sign*n/100}, err
}

// within parses a number that is at most most.
func within(text string, most float64) (float64, error) {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(n, 0) || n > most {
		return 0, fmt.Errorf("it must be at most %.0f", most)
	}
	return n, nil
}

// isDecimal reports whether text consists of digits, or of digits, a point and more digits.
func isDecimal(text string) bool {
	whole, part, point := strings.Cut(text, ".")
	digits := func(s string) bool {
		return s != "" && !slices.ContainsFunc([]byte(s), func(c byte) bool { return c < '0' || c > '9' })
	}
	return digits(whole) && (!point || digits(part))
}

package expression

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Reserved computes the expressions in a map of reserved resources, and keeps quantities as they are. Results are rounded up, so that types
// of nearly the same size can share a launch template. A value that fails or is negative is left out, with an error in problems.
func (c *Calculator) Reserved(values map[string]string, v Variables) (out map[string]string, problems []error) {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		text := values[name]
		if _, err := resource.ParseQuantity(text); err != nil {
			n, err := c.Number(text, v)
			if err == nil && n < 0 {
				err = fmt.Errorf("expression %q for instance type %s gives %d, which cannot be kept back", text, v.InstanceType, n)
			}
			if err != nil {
				problems = append(problems, fmt.Errorf("%s: %w", name, err))
				continue
			}
			text = quantity(name, n)
		}
		if out == nil {
			out = map[string]string{}
		}
		out[name] = text
	}
	return out, problems
}

// quantity writes a number in the unit of a resource's expressions.
func quantity(name string, n int64) string {
	switch name {
	case "cpu":
		return strconv.FormatInt(roundUp(n, 10), 10) + "m"
	case "memory":
		return strconv.FormatInt(roundUp(n, 16), 10) + "Mi"
	case "ephemeral-storage":
		return strconv.FormatInt(n, 10) + "Gi"
	}
	return strconv.FormatInt(n, 10)
}

// roundUp rounds up to a multiple of step. A number too large to be rounded stays as it is.
func roundUp(n, step int64) int64 {
	rest := n % step
	if rest == 0 || n > math.MaxInt64-step {
		return n
	}
	return n + step - rest
}

package cli

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// gatesValue reads feature gates from a flag: Name=true,Other=false.
type gatesValue struct{ gates *map[string]bool }

// Type is what the help calls the value.
func (g gatesValue) Type() string { return "gates" }

// String is the value as it would be given.
func (g gatesValue) String() string {
	if g.gates == nil {
		return ""
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(*g.gates)) {
		parts = append(parts, fmt.Sprintf("%s=%t", name, (*g.gates)[name]))
	}
	return strings.Join(parts, ",")
}

// Set reads the value. A gate without a value is left at its default: that is what an installation's template writes
// for a setting that was not made. Names that nobody knows are accepted, since older and newer versions have others.
func (g gatesValue) Set(text string) error {
	gates := map[string]bool{}
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		if name == "" || value == "" {
			continue
		}
		on, err := strconv.ParseBool(value)
		if err != nil {
			return fmt.Errorf("feature gate %s is %q, it must be true or false", name, value)
		}
		gates[name] = on
	}
	*g.gates = gates
	return nil
}

// actedOn are the gates that something acts on, and TerminateFirstRepair: broken machines go first in any case.
var actedOn = [...]string{
	"CapacityBuffer", "NodeOverlay", "NodeRepair", "ProvisioningRequest", "PodDeletionCostManagement", "StaticCapacity", "SpotToSpotConsolidation", "ReservedCapacity",
	"TerminateFirstDrift", "TerminateFirstRepair",
}

// gatesWithoutEffect lists the gates that are on and that nothing acts on.
func gatesWithoutEffect(gates map[string]bool) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(gates)) {
		if gates[name] && !slices.Contains(actedOn[:], name) {
			out = append(out, name)
		}
	}
	return out
}

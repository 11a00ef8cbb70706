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

// Type returns the name of the value's type in the help.
func (g gatesValue) Type() string { return "gates" }

// String returns the value in the form of the flag.
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

// Set parses the value. A gate without a value stays at its default, because an installation's template writes this for an absent setting.
// Unknown names are accepted, because older and newer versions have other gates.
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

// actedOn are the gates with an effect, and TerminateFirstRepair, because broken machines are always removed first.
var actedOn = [...]string{
	"CapacityBuffer", "NodeOverlay", "NodeRepair", "ProvisioningRequest", "PodDeletionCostManagement", "StaticCapacity", "SpotToSpotConsolidation", "ReservedCapacity",
	"TerminateFirstDrift", "TerminateFirstRepair",
}

// gatesWithoutEffect lists the gates that are on and have no effect.
func gatesWithoutEffect(gates map[string]bool) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(gates)) {
		if gates[name] && !slices.Contains(actedOn[:], name) {
			out = append(out, name)
		}
	}
	return out
}

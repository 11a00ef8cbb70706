package scenario

import (
	"cmp"
	"fmt"
	"strings"

	"tenon.sh/engine/disruption"
	"tenon.sh/engine/kube"
)

// printDeletionCosts lists the pods whose deletion cost changes, and the number of each pool's nodes that wait for a later pass.
func printDeletionCosts(costs disruption.DeletionCosts) string {
	var out strings.Builder
	for _, w := range costs.Writes {
		fmt.Fprintf(&out, "%s on %s: %s\n", w.Pod.Name, w.Pod.Spec.NodeName, cmp.Or(w.Value, "removed"))
	}
	for _, pool := range kube.SortedKeys(costs.Waiting) {
		if n := costs.Waiting[pool]; n > 0 {
			fmt.Fprintf(&out, "waiting %s %d\n", pool, n)
		}
	}
	return out.String()
}

package oracle

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"tenon.sh/engine"
)

// A Report shows how far one or more plans agree with kube-scheduler.
type Report struct {
	// Placements counts the placed pods, Asked the verdicts of kube-scheduler.
	Placements, Asked int
	Disagreements     []Disagreement
	// Refusals counts kube-scheduler's refusals by plugin, justified or not.
	Refusals map[string]int
	// Excused counts, by cause, the nodes that the engine refuses and kube-scheduler accepts, if the scheduler does not know the cause.
	Excused map[string]int
}

// Causes of refusals that kube-scheduler does not know.
const (
	CauseLeaving   = "Leaving"   // the node is being removed
	CauseNominated = "Nominated" // the room is kept for a pod that is nominated to the node
	CauseDaemonSet = "DaemonSet" // an existing or possible pod of a DaemonSet is in the way
	CauseWish      = "Wish"      // a machine is bought because of a preference of the pod or of another pod
	CauseCompany   = "Company"   // a machine is bought that has room for other pods, which must run with the pod
)

// A Disagreement is a pod and a node on which the engine and kube-scheduler disagree.
type Disagreement struct {
	// Seed is the judge's seed, from which the cluster can be made again.
	Seed uint64
	// World is the number of the replay. In each world, the plan's machines start as other offerings.
	World int
	Pod   engine.PodID
	Node  string
	// Placed is true if the plan places the pod on the node and kube-scheduler refuses. Otherwise the engine refuses the node and kube-scheduler
	// accepts it.
	Placed bool
	// Plugin and Message are kube-scheduler's objection to a placed pod. Reason is the engine's objection to another pod. If all are set, both
	// refuse, but their reasons contradict each other.
	Plugin, Message string
	Reason          engine.Reason
}

func (d Disagreement) String() string {
	where := fmt.Sprintf("seed %d, world %d: pod %s on node %s", d.Seed, d.World, d.Pod, d.Node)
	if d.Placed {
		return fmt.Sprintf("%s: planned, but %s refuses: %s", where, d.Plugin, d.Message)
	}
	if d.Plugin != "" {
		return fmt.Sprintf("%s: %s refuses, the engine for another reason: %s", where, d.Plugin, d.Reason)
	}
	return fmt.Sprintf("%s: kube-scheduler accepts, the engine does not: %s", where, d.Reason)
}

// Add adds another report to this one.
func (r *Report) Add(other Report) {
	r.Placements += other.Placements
	r.Asked += other.Asked
	r.Disagreements = append(r.Disagreements, other.Disagreements...)
	for plugin, n := range other.Refusals {
		r.refused(plugin, n)
	}
	for cause, n := range other.Excused {
		r.excused(cause, n)
	}
}

func (r *Report) refused(plugin string, n int) {
	if r.Refusals == nil {
		r.Refusals = map[string]int{}
	}
	r.Refusals[plugin] += n
}

func (r *Report) excused(cause string, n int) {
	if r.Excused == nil {
		r.Excused = map[string]int{}
	}
	r.Excused[cause] += n
}

// String returns the report as text, one line for each item, the disagreements last.
func (r Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d placements, %d verdicts, %d disagreements\n", r.Placements, r.Asked, len(r.Disagreements))
	fmt.Fprintf(&b, "refusals: %s\n", countsText(r.Refusals))
	fmt.Fprintf(&b, "excused:  %s\n", countsText(r.Excused))
	for _, d := range r.Disagreements {
		fmt.Fprintln(&b, d)
	}
	return b.String()
}

func countsText(counts map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, counts[name]))
	}
	return strings.Join(parts, ", ")
}

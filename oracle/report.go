package oracle

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"tenon.sh/engine"
)

// A Report says how far a plan, or many, and kube-scheduler agree.
type Report struct {
	// Placements counts the pods that the plans place, Asked the verdicts of kube-scheduler.
	Placements, Asked int
	Disagreements     []Disagreement
	// Refusals counts, by plugin, how often kube-scheduler refused a node, rightly or not.
	Refusals map[string]int
	// Excused counts, by cause, the nodes that the engine refuses and kube-scheduler would take, for a reason that the
	// scheduler cannot see.
	Excused map[string]int
}

// Causes of a refusal that kube-scheduler knows nothing of.
const (
	CauseLeaving   = "Leaving"   // the node is being removed
	CauseNominated = "Nominated" // the room is kept for a pod that is nominated to the node
	CauseDaemonSet = "DaemonSet" // a pod that a DaemonSet will run, or may run, is in the way
	CauseWish      = "Wish"      // a machine is bought because the pod, or another, would rather not have it there
	CauseCompany   = "Company"   // a machine is bought that has room for others who have to run with the pod
)

// A Disagreement is one pod on one node of which the engine and kube-scheduler think differently.
type Disagreement struct {
	// Seed is that of the judge: with it the cluster can be drawn again.
	Seed uint64
	// World tells apart the ways in which the plan's machines may turn out.
	World int
	Pod   engine.PodID
	Node  string
	// Placed says that the engine wants the pod there and kube-scheduler does not; else it is the other way round.
	Placed bool
	// Plugin and Message are kube-scheduler's objection to a placed pod, Reason is the engine's to another. If there are both,
	// the two refuse for reasons that do not go together.
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

// String is the report for people, one line each, the disagreements last.
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

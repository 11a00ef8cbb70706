package disruption

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/provisioning"
)

// mostCostedNodes is how many nodes, beside those that are leaving, one pass may write deletion costs for.
const mostCostedNodes = 50

// DeletionCosts is what to write on pods so that a ReplicaSet which shrinks ends those first that have to move soon anyway.
type DeletionCosts struct {
	Writes []DeletionCostWrite
	// Waiting counts the nodes, by pool, that have to wait for a later pass. Every pool is listed.
	Waiting map[string]int
}

// DeletionCostWrite is a new deletion cost of a pod; an empty value removes the one that is there.
type DeletionCostWrite struct {
	Pod   *corev1.Pod
	Value string
}

// RankDeletionCosts decides the deletion costs of pods by what becomes of their nodes. Pods of nodes that are leaving go first of all.
// Those of nodes that budgets would let go now come next: of drifted nodes, then of others, each in order of the price that their
// node would save for what disturbing its pods costs. All others have none. The list names pods whose cost is another one; costs that
// somebody else wrote stay.
func RankDeletionCosts(s *engine.Snapshot, opt engine.Options, cache *inventory.Cache) DeletionCosts {
	d := newPlanner(s, opt, cache)
	d.judge()
	out := DeletionCosts{Waiting: map[string]int{}}
	for _, pool := range s.NodePools {
		out.Waiting[pool.Name] = 0
	}
	var drifted, others, rest []*inventory.Machine
	for _, h := range d.p.Machines {
		switch {
		case h.Claim == nil || h.Node == nil:
		case h.Leaving || h.Ordered || slices.ContainsFunc(h.Node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == v1.DisruptedTaintKey }):
			out.Writes = append(out.Writes, deletionCostsOn(h, strconv.Itoa(math.MinInt32))...)
		case d.takesDeletionCost(h) && isDrifted(h):
			drifted = append(drifted, h)
		case d.takesDeletionCost(h):
			others = append(others, h)
		default:
			rest = append(rest, h)
		}
	}
	drifted, over := d.withinBudget(drifted, v1.Drifted)
	others, more := d.withinBudget(others, v1.Underutilized)
	ranked := slices.Concat(drifted, others)
	rest = slices.Concat(rest, over, more)
	slices.SortFunc(rest, provisioning.CompareNames)
	nodes := 0
	for i, h := range slices.Concat(ranked, rest) {
		value := ""
		if i < len(ranked) {
			value = strconv.Itoa(i - len(ranked))
		}
		writes := deletionCostsOn(h, value)
		if len(writes) == 0 {
			continue
		}
		if nodes++; nodes > mostCostedNodes {
			out.Waiting[h.Pool()]++
			continue
		}
		out.Writes = append(out.Writes, writes...)
	}
	return out
}

// takesDeletionCost says of a machine that it would help if its pods went: somebody may disrupt it, and once the pods are gone
// that ReplicaSets can end nothing is left that would have to move. Pods that hold a share on demand are no help: others would take it up.
func (d *planner) takesDeletionCost(h *inventory.Machine) bool {
	if !d.verdicts[h].OK() || !d.held(h).OK() || !d.blocked(h).OK() || h.Sold == nil {
		return false
	}
	if slices.ContainsFunc(h.Bound, kube.MustRunOnDemand) {
		return false
	}
	pool := d.budgets[h.Pool()].Rules.Pool
	if pool.Spec.Replicas != nil || pool.Spec.Disruption.ConsolidateAfter.Duration == nil && !isDrifted(h) {
		return false
	}
	return !slices.ContainsFunc(h.Bound, func(pod *corev1.Pod) bool {
		if !kube.IsActive(pod) || pod.Namespace == metav1.NamespaceSystem || kube.IsBufferPod(pod) {
			return false
		}
		return !isControlledBy(pod, "apps/v1", "ReplicaSet") && !isControlledBy(pod, "batch/v1", "Job") && !isControlledBy(pod, "apps/v1", "DaemonSet")
	})
}

func isControlledBy(pod *corev1.Pod, apiVersion, kind string) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	return owner != nil && owner.APIVersion == apiVersion && owner.Kind == kind
}

// withinBudget sorts the machines by what they save for what disturbing them costs, and cuts the list to what the budgets of each
// pool still allow for the reason.
func (d *planner) withinBudget(hosts []*inventory.Machine, reason v1.DisruptionReason) (within, over []*inventory.Machine) {
	ratio := make(map[*inventory.Machine]float64, len(hosts))
	for _, h := range hosts {
		ratio[h] = d.price(h) / d.reschedulingCost(h)
	}
	slices.SortFunc(hosts, func(a, b *inventory.Machine) int {
		return cmp.Or(cmp.Compare(ratio[b], ratio[a]), provisioning.CompareNames(a, b))
	})
	for _, h := range hosts {
		if r := d.budgets[h.Pool()].Take(reason); r.OK() {
			within = append(within, h)
		} else {
			over = append(over, h)
		}
	}
	for _, h := range within { // the next reason has its own budget
		d.budgets[h.Pool()].Release()
	}
	return within, over
}

// deletionCostsOn are the writes that give the pods of ReplicaSets on the machine that deletion cost.
func deletionCostsOn(h *inventory.Machine, value string) (out []DeletionCostWrite) {
	for _, pod := range h.Bound {
		if !kube.IsActive(pod) || !isControlledBy(pod, "apps/v1", "ReplicaSet") {
			continue
		}
		has, written := pod.Annotations[v1.PodDeletionCostAnnotationKey], kube.WroteDeletionCost(pod)
		if has != value && (has == "" || written) {
			out = append(out, DeletionCostWrite{Pod: pod, Value: value})
		}
	}
	return out
}

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
	for _, m := range d.p.Machines {
		switch {
		case m.Claim == nil || m.Node == nil:
		case m.Leaving || m.Ordered || slices.ContainsFunc(m.Node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == v1.DisruptedTaintKey }):
			out.Writes = append(out.Writes, deletionCostsOn(m, strconv.Itoa(math.MinInt32))...)
		case d.takesDeletionCost(m) && isDrifted(m):
			drifted = append(drifted, m)
		case d.takesDeletionCost(m):
			others = append(others, m)
		default:
			rest = append(rest, m)
		}
	}
	drifted, over := d.withinBudget(drifted, v1.Drifted)
	others, more := d.withinBudget(others, v1.Underutilized)
	ranked := slices.Concat(drifted, others)
	rest = slices.Concat(rest, over, more)
	slices.SortFunc(rest, provisioning.CompareNames)
	nodes := 0
	for i, m := range slices.Concat(ranked, rest) {
		value := ""
		if i < len(ranked) {
			value = strconv.Itoa(i - len(ranked))
		}
		writes := deletionCostsOn(m, value)
		if len(writes) == 0 {
			continue
		}
		if nodes++; nodes > mostCostedNodes {
			out.Waiting[m.Pool()]++
			continue
		}
		out.Writes = append(out.Writes, writes...)
	}
	return out
}

// takesDeletionCost says of a machine that it would help if its pods went: somebody may disrupt it, and once the pods are gone
// that ReplicaSets can end nothing is left that would have to move. Pods that hold a share on demand are no help: others would take it up.
func (d *planner) takesDeletionCost(m *inventory.Machine) bool {
	if !d.verdicts[m].OK() || !d.held(m).OK() || !d.blocked(m).OK() || m.Sold == nil {
		return false
	}
	if slices.ContainsFunc(m.Bound, kube.MustRunOnDemand) {
		return false
	}
	pool := d.budgets[m.Pool()].Rules.Pool
	if pool.Spec.Replicas != nil || pool.Spec.Disruption.ConsolidateAfter.Duration == nil && !isDrifted(m) {
		return false
	}
	return !slices.ContainsFunc(m.Bound, func(pod *corev1.Pod) bool {
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
	for _, m := range hosts {
		ratio[m] = d.price(m) / d.reschedulingCost(m)
	}
	slices.SortFunc(hosts, func(a, b *inventory.Machine) int {
		return cmp.Or(cmp.Compare(ratio[b], ratio[a]), provisioning.CompareNames(a, b))
	})
	for _, m := range hosts {
		if r := d.budgets[m.Pool()].Take(reason); r.OK() {
			within = append(within, m)
		} else {
			over = append(over, m)
		}
	}
	for _, m := range within { // the next reason has its own budget
		d.budgets[m.Pool()].Release()
	}
	return within, over
}

// deletionCostsOn are the writes that give the pods of ReplicaSets on the machine that deletion cost.
func deletionCostsOn(m *inventory.Machine, value string) (out []DeletionCostWrite) {
	for _, pod := range m.Bound {
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

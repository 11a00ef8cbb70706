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

// mostCostedNodes bounds the nodes, leaving ones aside, for which one pass may write deletion costs.
const mostCostedNodes = 50

// DeletionCosts lists the deletion costs to write on pods. With them, a ReplicaSet that scales down first deletes pods that have to move soon anyway.
type DeletionCosts struct {
	Writes []DeletionCostWrite
	// Waiting holds, by pool, the number of nodes whose deletion costs have to wait for a later pass. Every pool is listed.
	Waiting map[string]int
}

// DeletionCostWrite is a new deletion cost of a pod; an empty value removes the present one.
type DeletionCostWrite struct {
	Pod   *corev1.Pod
	Value string
}

// RankDeletionCosts decides the deletion costs of pods by the future of their nodes. Pods on leaving nodes get the lowest cost. Next are pods on
// nodes that budgets would allow to be removed now: first drifted nodes, then others, each by the node's price divided by the cost of disturbing its
// pods, highest first. Other pods get none. Only pods whose cost changes are listed; costs that others wrote remain.
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

// takesDeletionCost reports whether a deletion of the machine's pods would help: it may be disrupted, and its pods belong to ReplicaSets, Jobs or
// DaemonSets (kube-system and buffer pods aside). Pods that must run on demand do not help, because other pods would take up that share.
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

// withinBudget sorts the machines by their price divided by the cost of disturbing them, highest first, and cuts the list to the nodes that
// the budgets of each pool allow for the reason.
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

// deletionCostsOn returns the writes that give this deletion cost to the pods of ReplicaSets on the machine.
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

package simulator

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
)

// Stay is a node that was kept although its removal pays back: a limit on the pace of removals kept it, or other nodes had room for its pods.
type Stay struct {
	Node   string
	Reason engine.Code // the last reason for which it was kept
	Time   time.Duration
}

// paced lists the reasons that should disappear as time passes.
var paced = []engine.Code{engine.OwnerMoved, engine.BudgetExhausted, engine.EvictionBlocked, engine.PodsExpected, engine.Unsettled, engine.TakenBack}

// noteKept records how long nodes have been kept although their removal pays back.
func (x *audit) noteKept(plan *engine.Plan) {
	stays := map[string]time.Time{}
	for _, k := range plan.Kept {
		s := x.cluster.seats[k.Node]
		if s == nil || s.leaving || !slices.Contains(paced, k.Reason.Code) && (k.Reason.Code != engine.NoCheaperPlace || !x.roomBeside(s)) {
			continue
		}
		stays[k.Node] = x.agenda.now
		if since, known := x.stays[k.Node]; known {
			stays[k.Node] = since
		}
	}
	x.stays, x.kept = stays, plan.Kept
	x.noteStays()
}

// noteStays keeps the longest of the recorded stays.
func (x *audit) noteStays() {
	for _, name := range slices.Sorted(maps.Keys(x.stays)) {
		if t := x.agenda.now.Sub(x.stays[name]); t > x.longestStay.Time {
			i := slices.IndexFunc(x.kept, func(k engine.Kept) bool { return k.Node == name })
			x.longestStay = Stay{name, x.kept[i].Reason.Code, t}
		}
	}
}

// roomBeside reports whether the other nodes have room for the pods of this one, if the largest pods are placed first. It returns false if a pod has
// affinity or topology spread constraints.
func (x *audit) roomBeside(from *seat) bool {
	var moving []*unit
	for _, u := range from.units {
		if !kube.IsReschedulable(u.pod) {
			continue
		}
		if u.pod.Spec.Affinity != nil || len(u.pod.Spec.TopologySpreadConstraints) > 0 {
			return false
		}
		moving = append(moving, u)
	}
	slices.SortStableFunc(moving, func(a, b *unit) int { return slices.Compare(b.need, a.need) })
	came := map[*seat]*seat{} // copies of nodes, with the pods placed so far
	return len(moving) > 0 && !slices.ContainsFunc(moving, func(u *unit) bool {
		for _, s := range x.cluster.seatList {
			if claim := x.cluster.claimOf(s); s == from || s.leaving || !s.alive || claim == nil || !v1.IsTrue(claim, v1.ConditionInitialized) || len(s.node.Spec.Taints) > 0 || !labels.SelectorFromSet(u.pod.Spec.NodeSelector).Matches(labels.Set(s.node.Labels)) {
				continue
			}
			to := came[s]
			if to == nil {
				to = &seat{room: s.room, used: slices.Clone(s.used)}
			}
			if to.holds(u.need) > 0 {
				came[s] = to
				to.used.add(u.need, 1)
				return false
			}
		}
		return true
	})
}

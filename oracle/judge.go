package oracle

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/scheduler"
)

// A Judge compares plans with the verdicts of kube-scheduler.
type Judge struct {
	Scheduler *Scheduler
	// DefaultConstraints are the default spread constraints of the plan.
	DefaultConstraints []corev1.TopologySpreadConstraint
	// Seed identifies the cluster in the report. The questions besides the placements depend on it.
	Seed uint64
	// Preferences is the policy of the plan.
	Preferences engine.PreferencePolicy
	// Others is the number of further nodes to ask about for each placed pod; 0 means 2, below 0 none.
	Others int
	// Predict returns the node of a launch; nil means scheduler.Predict.
	Predict func(*engine.Snapshot, *engine.Launch, engine.OfferingID) (*corev1.Node, *storagev1.CSINode)
	// Opinion, if it is not nil, is compared with each verdict on a node on which the plan does not place the pod.
	Opinion Opinion
}

// An Opinion returns the engine's reason against a node, existing or planned, that it did not choose for the pod. At that time, the first pods
// of the plan's sequence run on their planned nodes. The zero Reason means that the node is possible. `node` is the launch's name for a launch. For
// an existing node, it is a name as in placements.
type Opinion func(s *engine.Snapshot, plan *engine.Plan, first int, pod engine.PodID, node string) engine.Reason

// Judge replays the plan. kube-scheduler gets the snapshot's cluster and all machines of the plan, and has to bind each pod to its planned node,
// one after another. If a machine may start in several zones, there is a replay for each zone, and one more with random offerings. At the end,
// kube-scheduler must accept no existing node, and no machine on sale, for a pod that the plan does not place. If all pods of a launch have room
// on existing nodes, the launch is a disagreement. Launches must be on sale and within the pools' limits.
//
// An error means that kube-scheduler could not be asked. Faults of the plan are in the report.
func (j *Judge) Judge(s *engine.Snapshot, plan *engine.Plan) (Report, error) {
	r := newReplay(j, s, plan)
	r.purchases()
	for world := range r.worlds() {
		if err := r.run(world); err != nil {
			return r.report, fmt.Errorf("seed %d, world %d: %w", j.Seed, world, err)
		}
	}
	r.report.Disagreements = append(r.report.Disagreements, r.accepted...)
	r.declined()
	return r.report, nil
}

func (j *Judge) others() int {
	if j.Others == 0 {
		return 2
	}
	return max(j.Others, 0)
}

func (j *Judge) predict(s *engine.Snapshot, l *engine.Launch, id engine.OfferingID) (*corev1.Node, *storagev1.CSINode) {
	if j.Predict == nil {
		return scheduler.Predict(s, l, id)
	}
	return j.Predict(s, l, id)
}

// sequence returns the plan's sequence. If the plan has none, it returns all placed pods in any order.
func sequence(plan *engine.Plan) []engine.PodID {
	if len(plan.Sequence) > 0 {
		return plan.Sequence
	}
	var all []engine.PodID
	for _, p := range plan.Placements {
		all = append(all, p.Pod)
	}
	for _, l := range plan.Launches {
		all = append(all, l.Pods...)
	}
	return all
}

// targets returns the planned node of each pod that the plan places.
func targets(plan *engine.Plan) map[engine.PodID]string {
	out := map[engine.PodID]string{}
	for _, p := range plan.Placements {
		out[p.Pod] = p.Node
	}
	for i := range plan.Launches {
		for _, pod := range plan.Launches[i].Pods {
			out[pod] = nodeNameOf(&plan.Launches[i])
		}
	}
	return out
}

// launchPrefix distinguishes the nodes of launches from existing nodes.
const launchPrefix = "planned-"

func nodeNameOf(l *engine.Launch) string { return launchPrefix + l.Name }

// unsequenced lists the placed pods that are missing in the sequence, and the pods of the sequence that are not placed.
func unsequenced(plan *engine.Plan) (missing, idle []engine.PodID) {
	where, when := targets(plan), sequence(plan)
	for _, pod := range when {
		if where[pod] == "" {
			idle = append(idle, pod)
		}
	}
	for _, p := range sequence(&engine.Plan{Placements: plan.Placements, Launches: plan.Launches}) {
		if !slices.Contains(when, p) {
			missing = append(missing, p)
		}
	}
	return missing, idle
}

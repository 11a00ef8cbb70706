package oracle

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/scheduler"
)

// A Judge compares plans with what kube-scheduler says.
type Judge struct {
	Scheduler *Scheduler
	// DefaultConstraints are those that the plan was made with.
	DefaultConstraints []corev1.TopologySpreadConstraint
	// Seed names the cluster in the report and chooses what is asked beside the placements.
	Seed uint64
	// Preferences is the policy that the plan was made with.
	Preferences engine.PreferencePolicy
	// Others is how many further nodes each placed pod is asked about; 0 means 2, below 0 none.
	Others int
	// Predict says what a launch will be; nil means scheduler.Predict.
	Predict func(*engine.Snapshot, *engine.Launch, engine.OfferingID) (*corev1.Node, *storagev1.CSINode)
	// Opinion, if there is one, is compared with every verdict on a node that the pod is not placed on.
	Opinion Opinion
}

// An Opinion is what the engine says of a node, existing or planned, that it did not choose, when the first pods of the plan's
// sequence run where the plan wants them. The zero Reason means that it would have done. A node of a launch is named by the
// launch, any other as in placements.
type Opinion func(s *engine.Snapshot, plan *engine.Plan, first int, pod engine.PodID, node string) engine.Reason

// Judge replays the plan: kube-scheduler gets the snapshot's cluster and all machines of the plan, and has to bind one pod
// after another where the plan wants it. A machine that may turn out in several zones does so in as many replays, and in one
// more as any of its offerings. In the end, pods that the plan does not place must find no existing node that takes them, and
// no machine on sale; and no machine may be bought of which all pods have room on existing nodes. What is bought has to be on
// sale, within the pools' limits.
//
// The error tells of a scheduler that could not be asked; what the plan does wrong is in the report.
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

// sequence is the plan's; a plan that has none says nothing of order.
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

// targets says, for every pod that the plan places, the node that it is to run on.
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

// launchPrefix keeps the nodes of launches apart from those that exist.
const launchPrefix = "planned-"

func nodeNameOf(l *engine.Launch) string { return launchPrefix + l.Name }

// unsequenced lists what the plan places without saying when, and what it names without saying where.
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

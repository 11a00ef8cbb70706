package provision

import (
	"cmp"
	"context"
	"errors"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"tenon.sh/cluster"
	"tenon.sh/controller"
	"tenon.sh/engine"
	"tenon.sh/report"
)

// nominate nominates pods to the existing nodes on which the plan places them, and removes nominations that are no longer right. The
// controller of a new node's claim nominates the pods that the node was started for, when the node can take pods.
func (r *Reconciler) nominate(ctx context.Context, snap *engine.Snapshot, view *view, plan *engine.Plan) error {
	for _, p := range plan.Placements {
		if pod := view.pods[p.Pod.UID]; pod != nil {
			r.Recorder.Publish(report.PodNominated(pod, target(p, view)))
		}
	}
	if r.Options.NoNominations {
		return nil
	}
	advice, err := controller.Compute(ctx, func() []engine.Nomination { return r.advisor.Advise(snap, r.Options, plan) })
	if err != nil {
		return err
	}
	errs := make([]error, len(advice))
	var group errgroup.Group
	group.SetLimit(cmp.Or(r.AtOnce, writeAtOnce))
	for i, n := range advice {
		group.Go(func() error {
			_, errs[i] = r.Cluster.Nominate(ctx, n.Pod, n.Node)
			return nil
		})
	}
	_ = group.Wait() // every nomination has its own error
	for i, n := range advice {
		switch {
		case cluster.Expected(errs[i]): // the next pass will see why
			errs[i] = nil
		case errs[i] == nil:
			r.advisor.Written(n)
			log.FromContext(ctx).V(1).Info("nominated node for pod", "Pod", n.Pod.Namespace+"/"+n.Pod.Name, "Node", n.Node, "before", n.Pod.Status.NominatedNodeName)
		}
	}
	return errors.Join(errs...)
}

func target(p engine.Placement, view *view) string {
	if !view.nodes[p.Node] {
		return "nodeclaim/" + p.Claim
	}
	return "node/" + p.Node
}

// Package disrupt removes nodes that are not worth their price. What it begins stands in the objects themselves (a
// condition on the claim, a taint on the node, then the claim's deletion), so that after a restart it is taken up again
// or taken back. Draining and stopping the machine is left to package nodeclaim.
package disrupt

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1 "tenon.sh/api/v1"
	"tenon.sh/cluster"
	"tenon.sh/engine"
	"tenon.sh/report"
)

const (
	atOnce = 8                      // nodes marked or claims deleted at the same time
	fresh  = 300 * time.Millisecond // how old a plan may be to need no check
)

// Config is what a Reconciler is made of.
type Config struct {
	Cluster  *cluster.Cluster
	Recorder *report.Recorder
	Metrics  *report.Metrics
	Options  engine.Options
}

// Reconciler makes passes. It is to be used from one goroutine.
type Reconciler struct {
	Config
	memo engine.Memo
}

// New returns a Reconciler.
func New(config Config) *Reconciler { return &Reconciler{Config: config} }

// Reconcile makes one pass: take back what an earlier pass began and the plan wants no more, then begin what it wants.
// What failed for one node does not stop the others.
func (r *Reconciler) Reconcile(ctx context.Context) error {
	snap, err := r.Cluster.Snapshot(ctx)
	if err != nil {
		return err
	}
	began := r.Cluster.Clock.Now()
	plan := engine.Disrupt(snap, r.Options, &r.memo)
	took := r.Cluster.Clock.Since(began)
	eligible := map[v1.DisruptionReason]int{v1.Empty: 0}
	for _, d := range plan.Disruptions {
		eligible[d.Reason] += len(d.Nodes)
	}
	for reason, nodes := range eligible {
		r.Metrics.Evaluated(reason, took, nodes)
	}
	view := newView(snap)
	r.reportKept(view, plan.Kept)
	return errors.Join(r.takeBack(ctx, view, plan), r.begin(ctx, view, plan.Disruptions))
}

// begin carries disruptions out, several at a time.
func (r *Reconciler) begin(ctx context.Context, view *view, disruptions []engine.Disruption) error {
	errs := make([]error, len(disruptions))
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i, d := range disruptions {
		group.Go(func() error {
			if err := r.disrupt(ctx, view, d); err != nil {
				errs[i] = fmt.Errorf("disrupt %v: %w", d.Nodes, err)
			}
			return nil
		})
	}
	_ = group.Wait() // every disruption has its own error
	return errors.Join(errs...)
}

func (r *Reconciler) reportKept(view *view, kept []engine.Kept) {
	for _, k := range kept {
		if k.Reason.Code == engine.BudgetExhausted {
			if pool := view.pools[k.Reason.NodePool]; pool != nil {
				r.Recorder.Publish(report.BudgetExhausted(pool, k.Reason))
			}
			continue
		}
		r.Recorder.Publish(report.Blocked(view.nodes[k.Node], view.claims[k.Claim], k.Reason)...)
	}
}

// disrupt carries one disruption out, node by node: mark the claim, keep new pods off, look again at what really runs
// there, and only then delete the claim.
func (r *Reconciler) disrupt(ctx context.Context, view *view, d engine.Disruption) error {
	if len(d.Replacements) > 0 {
		return errors.New("replacements cannot be carried out yet")
	}
	if reason, err := r.check(ctx, view, d); err != nil || !reason.OK() {
		return err
	}
	log.FromContext(ctx).Info("disrupting node(s)", report.DisruptionLine(d)...)
	var errs []error
	pools := map[string]bool{}
	for i, name := range d.Nodes {
		node, claim := view.nodes[name], view.claims[d.Claims[i]]
		if node == nil || claim == nil {
			errs = append(errs, fmt.Errorf("node %s or its claim is not in the snapshot", name))
			continue
		}
		gone, err := r.remove(ctx, view, node, claim, d)
		if err != nil && !cluster.Expected(err) {
			errs = append(errs, err)
		}
		if gone {
			pools[claim.Labels[v1.NodePoolLabelKey]] = true
		}
	}
	if len(pools) > 0 {
		r.Metrics.Decided("delete", d.Reason, sorted(pools))
	}
	return errors.Join(errs...)
}

// check asks whether a disruption is still right. A plan that was made this very moment is.
func (r *Reconciler) check(ctx context.Context, view *view, d engine.Disruption) (engine.Reason, error) {
	if r.Cluster.Clock.Since(view.now) < fresh {
		return engine.Reason{}, nil
	}
	newest, err := r.Cluster.Snapshot(ctx)
	if err != nil {
		return engine.Reason{}, err
	}
	reason := engine.Check(d, newest)
	if !reason.OK() {
		r.Metrics.Overtaken(d.Reason)
		log.FromContext(ctx).V(1).Info("dropped disruption, it is not right any more", "nodes", d.Nodes, "reason", reason.String())
	}
	return reason, nil
}

// remove deletes one node's claim if nothing that would have to move runs on the node. It reports whether it did.
func (r *Reconciler) remove(ctx context.Context, view *view, node *corev1.Node, claim *v1.NodeClaim, d engine.Disruption) (bool, error) {
	claim, node, err := r.mark(ctx, claim, node, d.Reason)
	if err != nil {
		return false, err
	}
	pods, err := r.Cluster.PodsOn(ctx, node.Name)
	if err != nil {
		return false, err
	}
	if pod := arrived(pods, d); pod != nil {
		r.Metrics.Overtaken(d.Reason)
		log.FromContext(ctx).Info("kept node, a pod came to run on it", "Node", node.Name, "Pod", pod.Namespace+"/"+pod.Name)
		return false, r.unmark(ctx, claim, node)
	}
	if err := r.Cluster.DeleteClaim(ctx, claim); err != nil {
		return false, err
	}
	log.FromContext(ctx).Info("deleted nodeclaim", "NodeClaim", claim.Name, "Node", node.Name, "reason", d.Reason)
	r.Recorder.Publish(report.Terminating(node, claim, d.Reason)...)
	r.Metrics.ClaimDisrupted(string(d.Reason), claim, view.policy(claim), len(d.Pods))
	return true, nil
}

// arrived returns a pod that would have to move and that the decision did not know of.
func arrived(pods []*corev1.Pod, d engine.Disruption) *corev1.Pod {
	known := map[string]bool{}
	for _, id := range d.Pods {
		known[string(id.UID)] = true
	}
	for _, pod := range pods {
		if engine.IsReschedulable(pod) && !known[string(pod.UID)] {
			return pod
		}
	}
	return nil
}

package disrupt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1 "tenon.sh/api/v1"
	"tenon.sh/cluster"
	"tenon.sh/engine"
	"tenon.sh/engine/disruption"
	"tenon.sh/engine/inventory"
	"tenon.sh/report"
)

// order begins a disruption with replacements: it marks every claim that will go, closes their nodes to new pods, and creates the
// replacements. If a step fails, order takes the earlier steps back; after a crash, the next pass that finds the marks does this.
func (r *Reconciler) order(ctx context.Context, view *view, d engine.Disruption) error {
	var claims []*v1.NodeClaim
	for _, name := range d.Claims {
		if view.claims[name] == nil {
			return fmt.Errorf("claim %s is not in the snapshot", name)
		}
		claims = append(claims, view.claims[name])
	}
	mark := inventory.NewMark(d, claims, view.snapshot.Now)
	marked, err := r.markAll(ctx, view, d.Nodes, claims, mark)
	if err == nil {
		err = r.Cluster.Launching(ctx, func() error { return r.replace(ctx, view, d, mark) })
	}
	if err != nil {
		undo := r.unmarkAll(ctx, view, d.Nodes, marked, mark)
		if overtaken := (overtakenError{}); errors.As(err, &overtaken) || cluster.Expected(err) {
			if overtaken.reason.OK() {
				overtaken.reason = engine.Reason{Code: engine.OrderBroken, Key: strings.Join(d.Claims, ", "), Have: err.Error()}
			}
			r.overtaken(view, d, overtaken.reason)
			log.FromContext(ctx).Info("took disruption back before it began", "nodes", d.Nodes, "cause", err.Error())
			err = nil
		}
		return errors.Join(err, undo)
	}
	log.FromContext(ctx).Info("disrupting node(s)", append(report.DisruptionLine(d), "id", mark.ID)...)
	r.hasBegun(d)
	pools := map[string]bool{}
	for _, c := range claims {
		pools[c.Labels[v1.NodePoolLabelKey]] = true
	}
	r.Metrics.Decided("replace", d.Reason, sorted(pools))
	return nil
}

// overtakenError is the error for a decision that is no longer right.
type overtakenError struct{ reason engine.Reason }

func (e overtakenError) Error() string { return e.reason.String() }

// markAll marks claims and closes their nodes. It returns all claims as they are now, marked or not.
func (r *Reconciler) markAll(ctx context.Context, view *view, nodes []string, claims []*v1.NodeClaim, mark inventory.Mark) ([]*v1.NodeClaim, error) {
	marked, errs := make([]*v1.NodeClaim, len(claims)), make([]error, len(claims))
	r.each(len(claims), func(i int) {
		marked[i], errs[i] = r.markClaim(ctx, claims[i], mark)
	})
	if err := errors.Join(errs...); err != nil {
		return marked, err
	}
	r.each(len(claims), func(i int) {
		node := view.node(nodes[i])
		if node == nil {
			errs[i] = overtakenError{engine.Reason{Code: engine.NodeGone, Need: nodes[i]}}
			return
		}
		_, errs[i] = r.closeNode(ctx, view, node)
	})
	return marked, errors.Join(errs...)
}

// markClaim marks the claim: first with the data that a new process needs, then with the condition that people see.
func (r *Reconciler) markClaim(ctx context.Context, claim *v1.NodeClaim, mark inventory.Mark) (*v1.NodeClaim, error) {
	written, err := r.Cluster.ChangeClaim(ctx, claim, func(c *v1.NodeClaim) {
		if _, marked := inventory.MarkOf(c); !marked {
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, inventory.DisruptionAnnotation, mark.String())
		}
	})
	if err != nil {
		return claim, err
	}
	if other, _ := inventory.MarkOf(written); other.ID != mark.ID { // another process was faster
		return claim, overtakenError{engine.Reason{Code: engine.BeingReplaced, NodePool: claim.Labels[v1.NodePoolLabelKey]}}
	}
	told, err := r.Cluster.ChangeClaimStatus(ctx, written, func(c *v1.NodeClaim) {
		v1.SetCondition(c, v1.ConditionDisruptionReason, metav1.ConditionTrue, string(mark.Reason), string(mark.Reason), r.Cluster.Clock.Now())
	})
	if err != nil {
		return written, err
	}
	return told, nil
}

// closeNode keeps new pods off the node.
func (r *Reconciler) closeNode(ctx context.Context, view *view, node *corev1.Node) (*corev1.Node, error) {
	if tainted(node) {
		return node, nil
	}
	closed, err := r.Cluster.ChangeNode(ctx, node, closeIt)
	if err != nil {
		return node, err
	}
	view.put(closed)
	return closed, nil
}

// replace creates the replacements if their pools can still be used and have room for all of them.
func (r *Reconciler) replace(ctx context.Context, view *view, d engine.Disruption, mark inventory.Mark) error {
	newest, err := r.Cluster.Snapshot(ctx)
	if err != nil {
		return err
	}
	checker := disruption.NewChecker(newest)
	for _, l := range d.Replacements {
		if reason := checker.Room(l); !reason.OK() {
			return overtakenError{reason}
		}
	}
	errs := make([]error, len(d.Replacements))
	r.each(len(d.Replacements), func(i int) { errs[i] = r.createReplacement(ctx, view, d, mark, i) })
	return errors.Join(errs...)
}

func (r *Reconciler) createReplacement(ctx context.Context, view *view, d engine.Disruption, mark inventory.Mark, i int) error {
	launch := d.Replacements[i]
	pool := view.pools[launch.NodePool]
	if pool == nil {
		return overtakenError{engine.Reason{Code: engine.PoolChanged, NodePool: launch.NodePool, Have: "it does not exist"}}
	}
	annotations := map[string]string{inventory.ReplacesAnnotation: mark.Replaces().String()}
	claim, err := r.Cluster.CreateNamed(ctx, pool, launch, mark.Replacements[i], annotations)
	if apierrors.IsAlreadyExists(err) {
		return nil // this decision has created it, because the name depends on the decision
	}
	if err != nil {
		return err
	}
	log.FromContext(ctx).Info("created nodeclaim", append(report.LaunchLine(claim, launch), "replaces", strings.Join(mark.Claims, ","))...)
	r.Metrics.ClaimCreated(strings.ToLower(string(d.Reason)), claim)
	r.Recorder.Publish(report.Launching(claim, d.Reason))
	return nil
}

// unmarkAll reverses markAll, and deletes the replacements that exist. It removes the marks last, because a new process can continue from
// them. It leaves the marks of other disruptions alone.
func (r *Reconciler) unmarkAll(ctx context.Context, view *view, nodes []string, claims []*v1.NodeClaim, mark inventory.Mark) error {
	errs := make([]error, len(mark.Replacements))
	r.each(len(mark.Replacements), func(i int) { errs[i] = r.surrender(ctx, view, mark.Replacements[i], mark.ID) })
	if err := errors.Join(errs...); err != nil {
		return err
	}
	errs = make([]error, len(claims))
	r.each(len(claims), func(i int) {
		if ours, _ := inventory.MarkOf(claims[i]); ours.ID == mark.ID {
			errs[i] = r.release(ctx, view.node(nodes[i]), claims[i], "", engine.Reason{})
		}
	})
	return unexpected(errs)
}

// unexpected joins the errors that need more than a later pass with newer objects.
func unexpected(errs []error) error {
	var out []error
	for _, err := range errs {
		if err != nil && !cluster.Expected(err) {
			out = append(out, err)
		}
	}
	return errors.Join(out...)
}

// each calls do for 0 to n-1, several at a time.
func (r *Reconciler) each(n int, do func(i int)) {
	var group errgroup.Group
	group.SetLimit(cmp.Or(r.AtOnce, atOnce))
	for i := range n {
		group.Go(func() error {
			do(i)
			return nil
		})
	}
	_ = group.Wait() // do keeps its own errors
}

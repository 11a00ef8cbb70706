// Package interruption acts on the notices by which a cloud announces that it will take machines away: the nodes take no
// more pods at once, all of them before anything else is done; then their claims are deleted, and whoever replaces them is
// told to begin. What a notice means is decided in package engine, the rest of the way is left to package nodeclaim.
package interruption

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1 "tenon.sh/api/v1"
	"tenon.sh/cluster"
	"tenon.sh/engine"
	"tenon.sh/provider"
	"tenon.sh/report"
)

// writesAtOnce is the default of Config.WritesAtOnce.
const writesAtOnce = 32

// Config is what a Reconciler is made of.
type Config struct {
	Cluster  *cluster.Cluster
	Notifier provider.Notifier
	Recorder *report.Recorder
	Metrics  *report.Metrics
	// Hurry is called once claims were deleted because of notices: what they ran needs other machines now.
	Hurry func()
	// WritesAtOnce is how many nodes or claims are written at the same time; 0 means 32.
	WritesAtOnce int
}

// Reconciler makes passes. It is to be used from one goroutine, and remembers nothing: a notice that was not acknowledged
// comes again.
type Reconciler struct{ Config }

// New returns a Reconciler.
func New(config Config) *Reconciler { return &Reconciler{Config: config} }

// Reconcile acts on the notices that have arrived. What fails for one machine does not stop the others.
func (r *Reconciler) Reconcile(ctx context.Context) error {
	arrived, err := r.Notifier.Notices(ctx)
	if err != nil {
		return fmt.Errorf("ask the cloud for notices: %w", err)
	}
	if len(arrived) == 0 {
		return nil
	}
	snap, err := r.Cluster.Snapshot(ctx)
	if err != nil {
		return err
	}
	notices := make([]engine.Notice, 0, len(arrived))
	for _, n := range arrived {
		notices = append(notices, engine.Notice{ID: n.ID, Machine: n.Machine, Kind: n.Kind})
	}
	p := newPass(r, snap, engine.Interrupt(snap, notices))
	p.each(func(i int) error { return p.closeNode(ctx, p.list[i]) })
	p.each(func(i int) error { return p.leave(ctx, p.list[i]) })
	if slices.ContainsFunc(p.list, func(x engine.Interruption) bool { return x.Leave }) && r.Hurry != nil {
		r.Hurry()
	}
	p.each(func(i int) error { return p.finish(ctx, p.list[i]) })
	return errors.Join(p.errs...)
}

// pass is the state of one pass.
type pass struct {
	*Reconciler
	list   []engine.Interruption
	errs   []error // one for each
	claims map[string]*v1.NodeClaim
	nodes  map[string]*corev1.Node
}

func newPass(r *Reconciler, s *engine.Snapshot, list []engine.Interruption) *pass {
	p := &pass{Reconciler: r, list: list, errs: make([]error, len(list)), claims: map[string]*v1.NodeClaim{}, nodes: map[string]*corev1.Node{}}
	for _, c := range s.NodeClaims {
		p.claims[c.Name] = c
	}
	for _, n := range s.Nodes {
		p.nodes[n.Name] = n
	}
	return p
}

// each calls do for the interruptions for which nothing has failed, several at a time.
func (p *pass) each(do func(i int) error) {
	var group errgroup.Group
	group.SetLimit(cmp.Or(p.WritesAtOnce, writesAtOnce))
	for i := range p.list {
		if p.errs[i] != nil {
			continue
		}
		group.Go(func() error {
			if err := do(i); err != nil {
				p.errs[i] = fmt.Errorf("notice %s about machine %s: %w", p.list[i].ID, p.list[i].Machine, err)
			}
			return nil
		})
	}
	_ = group.Wait() // every interruption has its own error
}

// closeNode keeps new pods off the node. A node that cannot be closed does not keep its claim from being deleted: that
// closes it too.
func (p *pass) closeNode(ctx context.Context, x engine.Interruption) error {
	node := p.nodes[x.Node]
	if !x.Leave || node == nil || tainted(node) {
		return nil
	}
	_, err := p.Cluster.ChangeNode(ctx, node, func(n *corev1.Node) {
		if !tainted(n) {
			n.Spec.Taints = append(n.Spec.Taints, v1.DisruptedTaint())
		}
	})
	if err != nil {
		log.FromContext(ctx).V(1).Info("could not close node yet", "Node", node.Name, "cause", err.Error())
	}
	return nil
}

func tainted(node *corev1.Node) bool { return slices.Contains(node.Spec.Taints, v1.DisruptedTaint()) }

// leave deletes the claim, after it says why.
func (p *pass) leave(ctx context.Context, x engine.Interruption) error {
	if x.SoldOut != nil {
		p.Cluster.MarkSoldOut(x.Class, []engine.OfferingID{*x.SoldOut})
	}
	if !x.Leave {
		return nil
	}
	claim, err := p.explain(ctx, p.claims[x.Claim], x)
	if err != nil {
		return err
	}
	return p.Cluster.DeleteClaim(ctx, claim)
}

// explain writes on the claim why it goes, and that its pods get no more time, where that is so. Only the second is worth
// more than one attempt: a claim that goes says so anyway.
func (p *pass) explain(ctx context.Context, claim *v1.NodeClaim, x engine.Interruption) (*v1.NodeClaim, error) {
	now := p.Cluster.Clock.Now()
	if _, bounded := claim.Annotations[v1.NodeClaimTerminationTimestampAnnotationKey]; x.AtOnce && !bounded {
		written, err := p.Cluster.ChangeClaim(ctx, claim, func(c *v1.NodeClaim) {
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, v1.NodeClaimTerminationTimestampAnnotationKey, now.UTC().Format(time.RFC3339))
		})
		if err != nil {
			return claim, err
		}
		claim = written
	}
	written, err := p.Cluster.ChangeClaimStatus(ctx, claim, func(c *v1.NodeClaim) {
		v1.SetCondition(c, v1.ConditionDisruptionReason, metav1.ConditionTrue, x.Kind, x.Kind, now)
	})
	if err != nil {
		return claim, nil
	}
	return written, nil
}

// finish tells people, and the cloud that its notice was heard.
func (p *pass) finish(ctx context.Context, x engine.Interruption) error {
	claim, node := p.claims[x.Claim], p.nodes[x.Node]
	if claim != nil {
		p.Recorder.Publish(report.Interrupted(node, claim, x)...)
	}
	if x.Leave {
		log.FromContext(ctx).Info("left machine that the cloud takes away", "NodeClaim", x.Claim, "Node", x.Node, "machine", string(x.Machine), "notice", x.Kind)
		p.Metrics.ClaimDisrupted(x.Cause, claim, "", 0)
	}
	return p.Notifier.Acknowledge(ctx, provider.Notice{ID: x.ID, Machine: x.Machine, Kind: x.Kind})
}

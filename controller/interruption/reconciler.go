// Package interruption acts on the notices by which a cloud announces that it will take machines away. First, all nodes of the notices are closed to
// new pods. Then the provisioner starts replacements, and after that the nodes' claims are deleted. Package engine decides on the meaning of a
// notice, and package nodeclaim does the rest.
package interruption

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1 "tenon.sh/api/v1"
	"tenon.sh/cluster"
	"tenon.sh/cluster/lane"
	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/lifecycle"
	"tenon.sh/provider"
	"tenon.sh/report"
)

// writesAtOnce is the default of Config.WritesAtOnce.
const writesAtOnce = 32

// HeadStart is the longest time that a machine waits for the requests of other machines before it is left, because drains would keep the API server
// busy and delay these requests. Clouds announce the end of a machine two minutes before. The caller must call Leave every second.
const HeadStart = 5 * time.Second

// hearFor bounds how long one pass asks for notices, because a pass with endless notices would look stuck.
const hearFor = 10 * time.Second

// Config is what a Reconciler is made of.
type Config struct {
	Cluster  *cluster.Cluster
	Notifier provider.Notifier
	Recorder *report.Recorder
	Metrics  *report.Metrics
	// Hurry is called after nodes were closed, because their pods need other machines now. Hurry calls then once these machines are
	// requested. Hurry is nil if nothing requests machines.
	Hurry func(then func())
	// Ready is called when machines can be left, because Leave must be called then.
	Ready func()
	// WritesAtOnce is how many nodes or claims are written at the same time; 0 means 32.
	WritesAtOnce int
}

// Reconciler closes nodes in one loop and leaves their machines in another, because no node may stay open while the claims of others
// are deleted. Its memory may be lost: a notice that was not acknowledged comes again.
type Reconciler struct {
	Config

	mu      sync.Mutex // guards what follows
	closed  []*pass    // whose machines are yet to be left
	leaving map[engine.MachineID]bool
}

// New returns a Reconciler.
func New(config Config) *Reconciler {
	return &Reconciler{Config: config, leaving: map[engine.MachineID]bool{}}
}

// Reconcile closes the nodes of the notices that have arrived, and of those that arrive meanwhile, because notices come in groups. Only
// one goroutine may call it.
func (r *Reconciler) Reconcile(ctx context.Context) error {
	for began := r.Cluster.Clock.Now(); ; {
		if closed, err := r.hear(ctx); err != nil || !closed || r.Cluster.Clock.Since(began) >= hearFor {
			return err
		}
	}
}

// hear asks once. It reports whether there were nodes to close.
func (r *Reconciler) hear(ctx context.Context) (closed bool, err error) {
	arrived, err := r.Notifier.Notices(ctx)
	if err != nil {
		return false, fmt.Errorf("ask the cloud for notices: %w", err)
	}
	notices := r.unheard(arrived)
	if len(notices) == 0 {
		return false, nil
	}
	snap, err := r.Cluster.Snapshot(ctx)
	if err != nil {
		return false, err
	}
	p := newPass(r, snap, lifecycle.Interrupt(snap, notices))
	p.each(func(i int) error { return p.closeNode(lane.In(ctx, lane.Foremost), p.list[i]) })
	told := p.split(func(x lifecycle.Interruption) bool { return !x.Leave })
	r.mu.Lock()
	for _, p := range []*pass{told, p} {
		if len(p.list) == 0 {
			continue
		}
		r.closed = append(r.closed, p)
		for _, x := range p.list {
			r.leaving[x.Machine] = true
		}
	}
	r.mu.Unlock()
	if len(told.list) > 0 {
		r.ready(told)
	}
	ready := func() { r.ready(p) }
	switch {
	case len(p.list) == 0:
		return false, nil
	case r.Hurry == nil:
		ready()
	default:
		r.Hurry(ready)
	}
	return true, nil
}

// ready allows the machines of a pass to be left.
func (r *Reconciler) ready(p *pass) {
	r.mu.Lock()
	p.leaveBy = time.Time{}
	r.mu.Unlock()
	if r.Ready != nil {
		r.Ready()
	}
}

// unheard leaves out the notices about machines that are being left, because these notices come again.
func (r *Reconciler) unheard(arrived []provider.Notice) (notices []engine.Notice) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range arrived {
		if !r.leaving[n.Machine] {
			notices = append(notices, engine.Notice{ID: n.ID, Machine: n.Machine, Kind: n.Kind})
		}
	}
	return notices
}

// Leave deletes the claims of the nodes that were closed, tells people and acknowledges the notices. What fails for one
// machine does not stop the others. It is to be used from one goroutine.
func (r *Reconciler) Leave(ctx context.Context) error {
	closed := r.take()
	defer r.settle(closed)
	var errs []error
	for _, p := range closed {
		p.each(func(i int) error { return p.leave(ctx, p.list[i]) })
		p.again = p.failed()
		if p.late.Load() && r.Hurry != nil {
			r.Hurry(nil)
		}
	}
	for _, p := range closed {
		p.each(func(i int) error { return p.finish(ctx, p.list[i]) })
		errs = append(errs, p.errs...)
	}
	return errors.Join(errs...)
}

// take returns the passes whose machines can be left.
func (r *Reconciler) take() (closed []*pass) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.Cluster.Clock.Now()
	r.closed = slices.DeleteFunc(r.closed, func(p *pass) bool {
		due := !now.Before(p.leaveBy)
		if due {
			closed = append(closed, p)
		}
		return due
	})
	return closed
}

// settle keeps the machines that could not be left for the next call of Leave. Notices about the other machines count again, because a
// notice without acknowledgement comes again while its machine is going.
func (r *Reconciler) settle(closed []*pass) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range closed {
		for _, x := range p.list {
			delete(r.leaving, x.Machine)
		}
		if len(p.again) == 0 {
			continue
		}
		for _, x := range p.again {
			r.leaving[x.Machine] = true
		}
		r.closed = append(r.closed, p.of(p.again))
	}
}

// pass is the state of one pass.
type pass struct {
	*Reconciler
	list   []lifecycle.Interruption
	errs   []error                  // one for each
	again  []lifecycle.Interruption // the interruptions whose machines could not be left
	claims map[string]*v1.NodeClaim
	nodes  map[string]*corev1.Node
	// limited are the pools with limits.
	limited map[string]bool
	// late is set if other machines cannot be requested before the claims of this pass are being deleted.
	late atomic.Bool
	// leaveBy is the latest time to leave the machines, zero if they can be left now.
	leaveBy time.Time
}

func newPass(r *Reconciler, s *engine.Snapshot, list []lifecycle.Interruption) *pass {
	p := &pass{
		Reconciler: r, list: list, errs: make([]error, len(list)), claims: map[string]*v1.NodeClaim{}, nodes: map[string]*corev1.Node{},
		limited: map[string]bool{}, leaveBy: r.Cluster.Clock.Now().Add(HeadStart),
	}
	for _, pool := range s.NodePools {
		p.limited[pool.Name] = len(pool.Spec.Limits) > 0
	}
	for _, c := range s.NodeClaims {
		p.claims[c.Name] = c
	}
	for _, n := range s.Nodes {
		p.nodes[n.Name] = n
	}
	return p
}

// of returns a pass of some of the interruptions; their machines can be left now.
func (p *pass) of(list []lifecycle.Interruption) *pass {
	return &pass{Reconciler: p.Reconciler, list: list, errs: make([]error, len(list)), claims: p.claims, nodes: p.nodes, limited: p.limited}
}

// split moves the chosen interruptions to a pass of their own.
func (p *pass) split(chosen func(lifecycle.Interruption) bool) *pass {
	var own, rest []lifecycle.Interruption
	for _, x := range p.list {
		if chosen(x) {
			own = append(own, x)
		} else {
			rest = append(rest, x)
		}
	}
	p.list, p.errs = rest, make([]error, len(rest))
	return p.of(own)
}

func (p *pass) failed() (list []lifecycle.Interruption) {
	for i, x := range p.list {
		if p.errs[i] != nil {
			list = append(list, x)
		}
	}
	return list
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

// closeNode closes the node to new pods, and writes the reason on it. If this fails, the claim is still deleted, because its deletion
// closes the node too.
func (p *pass) closeNode(ctx context.Context, x lifecycle.Interruption) error {
	node := p.nodes[x.Node]
	if !x.Leave {
		return nil
	}
	if claim := p.claims[x.Claim]; node == nil || claim != nil && p.limited[claim.Labels[v1.NodePoolLabelKey]] {
		p.late.Store(true)
	}
	if node == nil || inventory.IsTakenAway(node) {
		return nil
	}
	_, err := p.Cluster.ChangeNode(ctx, node, x.Close)
	if err != nil {
		p.late.Store(true)
		log.FromContext(ctx).V(1).Info("could not close node yet", "Node", node.Name, "cause", err.Error())
	}
	return nil
}

// leave deletes the claim. If the pods get no more time, leave first writes this on the claim.
func (p *pass) leave(ctx context.Context, x lifecycle.Interruption) error {
	if x.SoldOut != nil {
		p.Cluster.MarkSoldOut(x.Class, []engine.OfferingID{*x.SoldOut})
	}
	if !x.Leave {
		return nil
	}
	claim := p.claims[x.Claim]
	if _, bounded := claim.Annotations[v1.NodeClaimTerminationTimestampAnnotationKey]; x.AtOnce && !bounded {
		written, err := p.endNow(ctx, claim)
		if err != nil {
			return client.IgnoreNotFound(err)
		}
		claim = written
	}
	return p.Cluster.DeleteClaim(ctx, claim)
}

// endNow gives the claim's pods no more time, also if the claim was deleted after the pass began.
func (p *pass) endNow(ctx context.Context, claim *v1.NodeClaim) (*v1.NodeClaim, error) {
	end := func(c *v1.NodeClaim) {
		if _, bounded := c.Annotations[v1.NodeClaimTerminationTimestampAnnotationKey]; !bounded {
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, v1.NodeClaimTerminationTimestampAnnotationKey, p.Cluster.Clock.Now().UTC().Format(time.RFC3339))
		}
	}
	written, err := p.Cluster.ChangeClaim(ctx, claim, end)
	if !apierrors.IsConflict(err) {
		return written, err
	}
	newest := &v1.NodeClaim{}
	if err := p.Cluster.API.Get(ctx, client.ObjectKeyFromObject(claim), newest); err != nil {
		return nil, err
	}
	switch {
	case newest.UID != claim.UID: // another claim of that name: the machine's own is gone
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: v1.Group, Resource: "nodeclaims"}, claim.Name)
	case newest.DeletionTimestamp == nil:
		return nil, err
	}
	return p.Cluster.ChangeClaim(ctx, newest, end)
}

// finish tells people, and acknowledges the notice to the cloud.
func (p *pass) finish(ctx context.Context, x lifecycle.Interruption) error {
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

// Package nodeclaim carries one NodeClaim from its launch to its end. It reads the input of the claim's next step, calls lifecycle.Next, and writes
// the step, until there is nothing more to do now. It also removes the remains of crashes and manual deletions: claims whose machine is gone, and
// machines and nodes that have no claim.
//
// Package engine decides on the next step. Other controllers create claims and decide which claims are disrupted.
package nodeclaim

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1 "tenon.sh/api/v1"
	"tenon.sh/cluster"
	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/lifecycle"
	"tenon.sh/provider"
	"tenon.sh/report"
)

const (
	// stepsAtOnce bounds how many steps one reconcile takes; the longest path, from a dead node to a released claim, is shorter.
	stepsAtOnce = 12
	// soon is the time to the next try after somebody else has changed an object that was to be written. The watch usually brings the
	// change before that.
	soon = 50 * time.Millisecond
	// overtaken is the time to the next look if the cache is older than a write; the watch should be faster.
	overtaken = time.Second
)

// Recorder tells people what happened. report.Recorder is one.
type Recorder interface {
	Publish(events ...report.Event)
}

// Config is the input of New.
type Config struct {
	Cluster  *cluster.Cluster
	Recorder Recorder
	Metrics  *report.Metrics
	// Outcome, if set, is told whether a claim's node registered, or whether the claim was given up before. The health of a pool
	// depends on it.
	Outcome func(ctx context.Context, claim *v1.NodeClaim, registered bool)
	// Adopter, if set, finds machines that belong to no claim and may get a claim.
	Adopter provider.Adopter
	// Options determine, among others, whether planned pods are nominated to the node that was started for them.
	Options engine.Options
	// Pause passes time while nodes are opened; it reports false if ctx ended before. Nil means real time.
	Pause func(ctx context.Context, d time.Duration) bool
	// AtOnce is how many claims are worked on at the same time; 0 means 100.
	AtOnce int
	// WritesAtOnce is how many pods or nodes are written at the same time; 0 means as many as kube-scheduler can handle well.
	WritesAtOnce int
}

// Reconciler takes the steps of claims. Its memory between them only saves calls; a new Reconciler continues after an interruption.
type Reconciler struct {
	Config
	memories  memories
	openings  openings
	evictions evictions
	// slices are read once for all claims, as long as they do not change.
	slices struct {
		sync.Mutex
		read inventory.Cache
	}
}

// New returns a Reconciler.
func New(config Config) *Reconciler {
	if config.Pause == nil {
		config.Pause = pause
	}
	return &Reconciler{Config: config, memories: memories{byName: map[string]*memory{}}, evictions: evictions{at: map[types.UID]time.Time{}}}
}

// Reconcile takes the next steps of one claim.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	claim := &v1.NodeClaim{}
	if err := r.Cluster.Client.Get(ctx, req.NamespacedName, claim); err != nil {
		if apierrors.IsNotFound(err) {
			r.memories.forget(req.Name)
			return reconcile.Result{}, nil
		}
		return reconcile.Result{}, fmt.Errorf("read NodeClaim %s: %w", req.Name, err)
	}
	if !r.Cluster.Serves(claim.Spec.NodeClassRef) {
		return reconcile.Result{}, nil
	}
	mem := r.memories.owned(req.Name, claim.UID)
	if mem.released {
		return reconcile.Result{}, nil
	}
	if mem.isStale(claim) || r.openings.isOpening(claim) {
		return reconcile.Result{RequeueAfter: overtaken}, nil
	}
	ctx = log.IntoContext(ctx, log.FromContext(ctx).WithValues("NodePool", claim.Labels[v1.NodePoolLabelKey]))
	return r.run(ctx, mem, claim, "")
}

// NodeReconciler takes the steps of deleted nodes that have Tenon's finalizer and no claim.
type NodeReconciler struct{ *Reconciler }

// Reconcile takes the next steps of such a node; it ignores other nodes.
func (r NodeReconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	node := &corev1.Node{}
	name := "node/" + req.Name
	if err := r.Cluster.Client.Get(ctx, req.NamespacedName, node); err != nil {
		if apierrors.IsNotFound(err) {
			r.memories.forget(name)
			return reconcile.Result{}, nil
		}
		return reconcile.Result{}, fmt.Errorf("read Node %s: %w", req.Name, err)
	}
	if !isLeaving(node) || !r.manages(node) {
		return reconcile.Result{}, nil
	}
	if owned, err := r.hasClaim(ctx, node); err != nil || owned {
		return reconcile.Result{}, err
	}
	mem := r.memories.owned(name, node.UID)
	if mem.isStale(node) {
		return reconcile.Result{RequeueAfter: overtaken}, nil
	}
	return r.run(ctx, mem, nil, req.Name)
}

// run takes steps until there is nothing more to do now.
func (r *Reconciler) run(ctx context.Context, mem *memory, claim *v1.NodeClaim, node string) (reconcile.Result, error) {
	life, err := r.read(ctx, mem, claim, node)
	switch {
	case errors.Is(err, errStale):
		return reconcile.Result{RequeueAfter: overtaken}, nil
	case err != nil:
		return reconcile.Result{}, err
	}
	after, err := r.steps(ctx, mem, life)
	var throttled *provider.ThrottledError
	switch {
	case err == nil:
		return reconcile.Result{RequeueAfter: after}, nil
	case errors.Is(err, errStale):
		return reconcile.Result{RequeueAfter: overtaken}, nil
	case cluster.Expected(err):
		log.FromContext(ctx).V(1).Info("will try again with newer objects", "cause", err.Error())
		return reconcile.Result{RequeueAfter: soon}, nil
	case errors.As(err, &throttled):
		log.FromContext(ctx).Info("the cloud asks for fewer calls", "call", throttled.Call, "retry-after", throttled.RetryAfter.String())
		return reconcile.Result{RequeueAfter: max(throttled.RetryAfter, time.Second)}, nil
	}
	return reconcile.Result{}, err
}

func (r *Reconciler) steps(ctx context.Context, mem *memory, life lifecycle.Life) (after time.Duration, err error) {
	for range stepsAtOnce {
		life.Now = r.Cluster.Clock.Now()
		step := r.next(&life)
		for _, e := range step.Events {
			r.Recorder.Publish(report.Engine(e))
		}
		if step.Ask != lifecycle.AskNothing {
			if err := r.answer(ctx, mem, &life, step.Ask); err != nil {
				return 0, err
			}
			continue
		}
		a := &application{Reconciler: r, mem: mem, life: &life, step: step}
		more, err := a.apply(ctx)
		if err != nil {
			return 0, err
		}
		if after = earlier(step.After, a.after); !more {
			return after, nil
		}
	}
	return earlier(after, overtaken), nil
}

// earlier returns the shorter of two waits; 0 means no wait.
func earlier(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

func isLeaving(node *corev1.Node) bool {
	if node.DeletionTimestamp == nil {
		return false
	}
	for _, f := range node.Finalizers {
		if f == v1.TerminationFinalizer {
			return true
		}
	}
	return false
}

// manages reports whether the node was made from a node class that this process serves.
func (r *Reconciler) manages(node *corev1.Node) bool {
	for _, kind := range r.Cluster.Provider.Kinds() {
		ref := v1.NodeClassReference{Group: kind.Group, Kind: kind.Kind}
		if node.Labels[ref.LabelKey()] != "" {
			return true
		}
	}
	return false
}

// hasClaim reports whether any claim owns the node's machine. Only the API server's answer can prove that none does.
func (r *Reconciler) hasClaim(ctx context.Context, node *corev1.Node) (bool, error) {
	if node.Spec.ProviderID == "" {
		return false, nil
	}
	var claims v1.NodeClaimList
	if err := r.Cluster.Client.List(ctx, &claims, client.MatchingFields{cluster.ClaimsByProviderID: node.Spec.ProviderID}); err != nil {
		return false, fmt.Errorf("find the NodeClaim of Node %s: %w", node.Name, err)
	}
	if len(claims.Items) > 0 {
		return true, nil
	}
	if err := r.Cluster.API.List(ctx, &claims); err != nil {
		return false, fmt.Errorf("find the NodeClaim of Node %s: %w", node.Name, err)
	}
	owners := map[types.UID]bool{}
	for _, o := range node.OwnerReferences {
		owners[o.UID] = true
	}
	for _, c := range claims.Items {
		if c.Status.ProviderID == node.Spec.ProviderID || owners[c.UID] {
			return true, nil
		}
	}
	return false, nil
}

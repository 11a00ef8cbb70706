// Package nodepool keeps the status of NodePools: whether a pool can be used, the resources of its nodes, whether its machines join the cluster, and
// the fingerprint by which its claims drift. It also keeps pools of fixed size at their size. Other controllers start and remove all other machines.
package nodepool

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1 "tenon.sh/api/v1"
	"tenon.sh/cluster"
	"tenon.sh/engine"
	"tenon.sh/engine/constraints"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/overlay"
	"tenon.sh/engine/replacement"
	"tenon.sh/provider"
	"tenon.sh/report"
)

// Config is the input of New.
type Config struct {
	Cluster *cluster.Cluster
	Health  *Health
	// Recorder writes events; nil writes none.
	Recorder *report.Recorder
	// StaticCapacity is true if a Static runs too.
	StaticCapacity bool
}

// Reconciler makes passes. It is to be used from one goroutine.
type Reconciler struct {
	Config
	unsupported map[string]string // by pool, the last message about accepted parts without an effect
}

// New returns a Reconciler.
func New(config Config) *Reconciler {
	return &Reconciler{Config: config, unsupported: map[string]string{}}
}

// Reconcile updates every pool's status. A failure for one pool does not stop the others.
func (r *Reconciler) Reconcile(ctx context.Context) error {
	snap, err := r.Cluster.Snapshot(ctx)
	if err != nil {
		return err
	}
	nodes := map[string]*corev1.Node{}
	for _, n := range snap.Nodes {
		nodes[n.Spec.ProviderID] = n
	}
	claims := map[string][]*v1.NodeClaim{}
	for _, c := range snap.NodeClaims {
		claims[c.Labels[v1.NodePoolLabelKey]] = append(claims[c.Labels[v1.NodePoolLabelKey]], c)
	}
	var errs []error
	for _, pool := range snap.NodePools {
		err := r.reconcile(ctx, pool, claims[pool.Name], nodes, snap)
		if err != nil && !cluster.Expected(err) {
			errs = append(errs, fmt.Errorf("NodePool %s: %w", pool.Name, err))
		}
	}
	r.Health.keep(snap.NodePools)
	r.tellDifferences(snap)
	return errors.Join(errs...)
}

// repeatDifference is how often an event repeats that nodes show other devices than planned.
const repeatDifference = 24 * time.Hour

// tellDifferences makes events on pools whose nodes show other devices than planned.
func (r *Reconciler) tellDifferences(snap *engine.Snapshot) {
	if r.Recorder == nil {
		return
	}
	for _, d := range overlay.DifferingPools(snap) {
		r.Recorder.Publish(report.Event{Object: d.Pool, Reason: report.NodesDiffer, Message: d.Message, Key: d.Message, Every: repeatDifference})
	}
}

func (r *Reconciler) reconcile(ctx context.Context, pool *v1.NodePool, claims []*v1.NodeClaim, nodes map[string]*corev1.Node, snap *engine.Snapshot) error {
	pool, err := r.stamp(ctx, pool, claims)
	if err != nil {
		return err
	}
	changed := pool.DeepCopy()
	changed.Status.Resources = total(claims, nodes)
	count := changed.Status.Resources[v1.ResourceNodes]
	changed.Status.Nodes = ptr.To(count.Value())
	class, err := r.Cluster.Class(ctx, *pool.Spec.Template.Spec.NodeClassRef)
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	now := snap.Now
	if err := changed.RuntimeValidate(); err != nil {
		v1.SetCondition(changed, v1.ConditionValidationSucceeded, metav1.ConditionFalse, "NodePoolValidationFailed", err.Error(), now)
	} else {
		v1.SetCondition(changed, v1.ConditionValidationSucceeded, metav1.ConditionTrue, "", "", now)
	}
	ready := readiness(class)
	v1.SetCondition(changed, v1.ConditionNodeClassReady, ready.Status, ready.Reason, ready.Message, now)
	r.Health.judge(changed, class, now)
	noteBackoff(changed, snap)
	noteLaunches(changed, snap)
	r.noteUnsupported(ctx, changed, kube.ClassOf(snap, pool))
	noteRules(changed, snap)
	return r.write(ctx, pool, changed)
}

// noteBackoff shows on the pool that its nodes are not replaced for a while.
func noteBackoff(pool *v1.NodePool, snap *engine.Snapshot) {
	for _, b := range replacement.Backoffs(snap) {
		if b.NodePool == pool.Name {
			v1.SetCondition(pool, v1.ConditionReplacementsFailing, metav1.ConditionTrue, "ReplacementFailed", b.Message(), snap.Now)
			return
		}
	}
	v1.RemoveCondition(pool, v1.ConditionReplacementsFailing, snap.Now)
}

// noteLaunches shows on the pool that its machines did not take pods that they were started for.
func noteLaunches(pool *v1.NodePool, snap *engine.Snapshot) {
	failures := constraints.LaunchFailures(snap, pool)
	if len(failures) == 0 {
		v1.RemoveCondition(pool, v1.ConditionLaunchesBackedOff, snap.Now)
		return
	}
	last := slices.MaxFunc(failures, func(a, b constraints.LaunchFailure) int { return a.Last.Compare(b.Last) })
	v1.SetCondition(pool, v1.ConditionLaunchesBackedOff, metav1.ConditionTrue, "PodsDidNotFit", last.Message(), snap.Now)
}

func (r *Reconciler) write(ctx context.Context, pool, changed *v1.NodePool) error {
	if equality.Semantic.DeepEqual(pool.Status, changed.Status) {
		return nil
	}
	before, after := v1.GetCondition(pool, v1.ConditionReady), v1.GetCondition(changed, v1.ConditionReady)
	if before == nil || before.Status != after.Status || before.Message != after.Message {
		log.FromContext(ctx).Info("nodepool readiness changed", "NodePool", pool.Name, "ready", after.Status, "why", unready(changed))
	}
	patch := client.MergeFromWithOptions(statusOf(pool), client.MergeFromWithOptimisticLock{})
	if err := r.Cluster.Client.Status().Patch(ctx, statusOf(changed), patch); err != nil {
		return fmt.Errorf("write status: %w", err)
	}
	return nil
}

// statusOf returns a pool with only its name and a copy of its status, because a patch is made by comparing two objects as JSON, which
// costs less for small ones.
func statusOf(pool *v1.NodePool) *v1.NodePool {
	return &v1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: pool.Name, UID: pool.UID, ResourceVersion: pool.ResourceVersion}, Status: *pool.Status.DeepCopy()}
}

// metaOf returns a pool with only a copy of its metadata, for the same reason.
func metaOf(pool *v1.NodePool) *v1.NodePool {
	return &v1.NodePool{ObjectMeta: *pool.ObjectMeta.DeepCopy()}
}

// unready returns the reason why the pool is not ready.
func unready(pool *v1.NodePool) string {
	for _, t := range pool.DependentConditions() {
		if c := v1.GetCondition(pool, t); c != nil && c.Status != metav1.ConditionTrue {
			return c.Reason + ": " + c.Message
		}
	}
	return ""
}

// readiness returns the pool's condition about its node class. Object is nil in a class that does not exist.
func readiness(class provider.Class) metav1.Condition {
	if class.Object == nil {
		return metav1.Condition{Status: metav1.ConditionFalse, Reason: "NodeClassNotFound", Message: "the node class that the pool refers to does not exist"}
	}
	if class.Object.GetDeletionTimestamp() != nil {
		return metav1.Condition{Status: metav1.ConditionFalse, Reason: "NodeClassTerminating", Message: cluster.Problem(class)}
	}
	object, ok := class.Object.(v1.Conditioned)
	if !ok {
		return metav1.Condition{Status: metav1.ConditionTrue}
	}
	ready := v1.GetCondition(object, v1.ConditionReady)
	switch {
	case ready == nil || ready.Status == metav1.ConditionUnknown:
		return metav1.Condition{Status: metav1.ConditionUnknown, Reason: "NodeClassReadinessUnknown", Message: cluster.Problem(class)}
	case ready.Status == metav1.ConditionFalse:
		return metav1.Condition{Status: metav1.ConditionFalse, Reason: ready.Reason, Message: ready.Message}
	}
	return metav1.Condition{Status: metav1.ConditionTrue}
}

// stamp writes the fingerprint of the pool's template on the pool, and on claims whose fingerprint was computed in another way. A claim
// that has drifted keeps its old fingerprint, because it would no longer be drifted with a new one.
func (r *Reconciler) stamp(ctx context.Context, pool *v1.NodePool, claims []*v1.NodeClaim) (*v1.NodePool, error) {
	hash := pool.Hash()
	stamped := pool.Annotations[v1.NodePoolHashVersionAnnotationKey]
	if stamped == v1.HashVersion && pool.Annotations[v1.NodePoolHashAnnotationKey] == hash {
		return pool, nil
	}
	if stamped != v1.HashVersion {
		for _, claim := range claims {
			if err := r.stampClaim(ctx, claim, hash); err != nil {
				return nil, err
			}
		}
	}
	changed := metaOf(pool) // the answer fills in the rest
	annotate(changed, map[string]string{v1.NodePoolHashAnnotationKey: hash, v1.NodePoolHashVersionAnnotationKey: v1.HashVersion})
	if err := r.Cluster.Client.Patch(ctx, changed, client.MergeFrom(metaOf(pool))); err != nil {
		return nil, fmt.Errorf("write fingerprint: %w", err)
	}
	return changed, nil
}

func (r *Reconciler) stampClaim(ctx context.Context, claim *v1.NodeClaim, hash string) error {
	if claim.Annotations[v1.NodePoolHashVersionAnnotationKey] == v1.HashVersion {
		return nil
	}
	changed := claim.DeepCopy()
	annotate(changed, map[string]string{v1.NodePoolHashVersionAnnotationKey: v1.HashVersion})
	if v1.GetCondition(claim, v1.ConditionDrifted) == nil {
		annotate(changed, map[string]string{v1.NodePoolHashAnnotationKey: hash})
	}
	if err := r.Cluster.Client.Patch(ctx, changed, client.MergeFrom(claim)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write fingerprint on NodeClaim %s: %w", claim.Name, err)
	}
	return nil
}

func annotate(o metav1.Object, with map[string]string) {
	annotations := maps.Clone(o.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	maps.Copy(annotations, with)
	o.SetAnnotations(annotations)
}

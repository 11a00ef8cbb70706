package nodeclaim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1 "tenon.sh/api/v1"
	"tenon.sh/cluster"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/lifecycle"
)

// application carries out one step, in the order of lifecycle.Step's fields, and updates life after each write.
type application struct {
	*Reconciler
	mem  *memory
	life *lifecycle.Life
	step lifecycle.Step
	// after is the time until failed parts are tried again.
	after time.Duration
}

// apply carries out the step, and reports whether another step may follow at once. After a deletion, the watch triggers the next step.
func (a *application) apply(ctx context.Context) (more bool, err error) {
	switch {
	case a.step.Delete != nil:
		a.after = overtaken
		return false, a.deleteClaim(ctx, a.step.Delete.Cause)
	case a.step.Launch:
		return a.launch(ctx)
	}
	if a.step.Nominate != "" {
		if opened, err := a.open(ctx); !opened {
			return false, err
		}
		a.step.Nodes = nil
	}
	for _, node := range a.step.Nodes {
		if err := a.writeNode(ctx, node); err != nil {
			return false, err
		}
	}
	if pool := a.step.Pool; pool != nil {
		written, err := a.Cluster.AnnotatePool(ctx, a.life.Pool, v1.LearnedTaintsAnnotationKey, pool.Annotations[v1.LearnedTaintsAnnotationKey])
		if err != nil {
			return false, fmt.Errorf("NodePool %s: write down which taints its nodes lose by themselves: %w", pool.Name, err)
		}
		a.life.Pool = written
	}
	if a.step.Claim != nil {
		if err := a.writeClaim(ctx, a.step.Claim); err != nil {
			return false, err
		}
	}
	for _, name := range a.step.DeleteNodes {
		if err := a.deleteNode(ctx, name); err != nil {
			return false, err
		}
	}
	if len(a.step.Withdraw) > 0 {
		a.withdraw(ctx, a.step.Withdraw)
	}
	a.evict(ctx)
	for _, name := range a.step.ReleaseNodes {
		if err := a.releaseNode(ctx, name); err != nil {
			return false, err
		}
	}
	if a.step.Release {
		return false, a.release(ctx)
	}
	if len(a.step.DeleteNodes) > 0 {
		a.after = overtaken // if the watch shows nothing
	}
	wrote := a.step.Nominate != "" || len(a.step.Nodes) > 0 || a.step.Claim != nil || len(a.step.ReleaseNodes) > 0
	return wrote && len(a.step.DeleteNodes) == 0 && len(a.step.Evict) == 0, nil
}

func (a *application) node(name string) *corev1.Node {
	for _, n := range a.life.Nodes {
		if n.Name == name {
			return n
		}
	}
	return &corev1.Node{}
}

func (a *application) replace(node *corev1.Node) {
	a.mem.wrote(node)
	nodes := slices.Clone(a.life.Nodes)
	for i, n := range nodes {
		if n.Name == node.Name {
			nodes[i] = node
		}
	}
	a.life.Nodes = nodes
}

// writeNode writes the wanted metadata and taints of a node.
func (a *application) writeNode(ctx context.Context, want *corev1.Node) error {
	written, err := a.patchNode(ctx, a.node(want.Name), want)
	if err != nil {
		return err
	}
	a.replace(written)
	return nil
}

// writeClaim writes the wanted claim, and reports the changes.
func (a *application) writeClaim(ctx context.Context, want *v1.NodeClaim) error {
	before := a.life.Claim
	written := before
	if !sameMeta(before, want) {
		var err error
		if written, err = a.patchClaim(ctx, want); err != nil {
			return err
		}
		a.life.Claim = written
	}
	if !equality.Semantic.DeepEqual(before.Status, want.Status) {
		var err error
		written, err = a.Cluster.PatchClaimStatus(ctx, written, func(c *v1.NodeClaim) { c.Status = want.Status })
		if err != nil {
			return err
		}
		a.mem.wrote(written)
		a.life.Claim = written
	}
	a.tellTransitions(ctx, before, written)
	return nil
}

func sameMeta(a, b *v1.NodeClaim) bool {
	return maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Annotations, b.Annotations) && slices.Equal(a.Finalizers, b.Finalizers)
}

// patchClaim writes metadata. The returned status is the API server's.
func (a *application) patchClaim(ctx context.Context, want *v1.NodeClaim) (*v1.NodeClaim, error) {
	changed := cluster.MetaOf(a.life.Claim)
	changed.Labels, changed.Annotations, changed.Finalizers = want.Labels, want.Annotations, want.Finalizers
	patch := client.MergeFromWithOptions(cluster.MetaOf(a.life.Claim), client.MergeFromWithOptimisticLock{})
	if err := a.Cluster.Client.Patch(ctx, changed, patch); err != nil {
		return nil, fmt.Errorf("change NodeClaim %s: %w", want.Name, err)
	}
	a.mem.wrote(changed)
	return changed, nil
}

// tellTransitions logs and counts the conditions that have become true, or are no longer true.
func (a *application) tellTransitions(ctx context.Context, before, after *v1.NodeClaim) {
	became := func(condition string) bool { return v1.IsTrue(after, condition) && !v1.IsTrue(before, condition) }
	logger := log.FromContext(ctx).WithValues("Node", after.Status.NodeName)
	if became(v1.ConditionRegistered) {
		logger.Info("registered node", "after", a.age(after))
		a.Metrics.NodeCreated(after)
		a.tellOutcome(ctx, after, true)
	}
	if v1.IsTrue(before, v1.ConditionRegistered) && !v1.IsTrue(after, v1.ConditionRegistered) {
		logger.Info("node is gone", "machine", after.Status.ProviderID)
	}
	if became(v1.ConditionInitialized) {
		logger.Info("initialized node", "after", a.age(after))
	}
	if v1.GetCondition(before, v1.ConditionDrained) == nil && v1.GetCondition(after, v1.ConditionDrained) != nil {
		logger.Info("draining node", "reason", drainReason(after), "pods", reschedulable(a.life.Pods))
	}
	if became(v1.ConditionDrained) {
		logger.Info("drained node")
		a.Metrics.NodeDrained(after.Labels[v1.NodePoolLabelKey])
	}
}

func (a *application) age(claim *v1.NodeClaim) string {
	return a.Cluster.Clock.Since(claim.CreationTimestamp.Time).Round(100 * time.Millisecond).String()
}

func (a *application) tellOutcome(ctx context.Context, claim *v1.NodeClaim, registered bool) {
	if a.Outcome != nil {
		a.Outcome(ctx, claim, registered)
	}
}

// deleteClaim deletes the claim, and counts the deletion by its cause, unless the cause is empty because another program began it.
func (a *application) deleteClaim(ctx context.Context, cause string) error {
	claim := a.life.Claim
	if err := a.Cluster.DeleteClaim(ctx, claim); err != nil {
		return err
	}
	log.FromContext(ctx).Info("deleted claim", "cause", cause, "Node", claim.Status.NodeName)
	if cause != "" {
		a.Metrics.ClaimDisrupted(cause, claim, "", reschedulable(a.life.Pods))
	}
	if cause == engine.CauseLaunchTimeout || cause == engine.CauseRegistrationTimeout || cause == engine.CauseReadinessTimeout {
		a.tellOutcome(ctx, claim, false)
	}
	return nil
}

// reschedulable counts the pods that need another node. All log lines about a leaving node use this number.
func reschedulable(pods []*corev1.Pod) int {
	n := 0
	for _, p := range pods {
		if kube.IsReschedulable(p) {
			n++
		}
	}
	return n
}

func (a *application) deleteNode(ctx context.Context, name string) error {
	node := a.node(name)
	err := a.Cluster.Client.Delete(ctx, node.DeepCopy(), client.Preconditions{UID: &node.UID})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete Node %s: %w", name, err)
	}
	a.mem.deleted[node.UID] = a.Cluster.Clock.Now()
	return nil
}

// releaseNode removes Tenon's finalizer from a node, which is gone then, unless others hold it.
func (a *application) releaseNode(ctx context.Context, name string) error {
	want := a.node(name).DeepCopy()
	want.Finalizers = without(want.Finalizers)
	node, err := a.patchNode(ctx, a.node(name), want)
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	if err != nil {
		node = want
		node.Finalizers = nil
	}
	a.replace(node)
	if len(node.Finalizers) == 0 {
		a.life.Nodes = slices.DeleteFunc(slices.Clone(a.life.Nodes), func(n *corev1.Node) bool { return n.Name == name })
	}
	now := a.Cluster.Clock.Now()
	log.FromContext(ctx).Info("removed node", "Node", name, "age", now.Sub(node.CreationTimestamp.Time).Round(time.Second).String())
	a.Metrics.NodeTerminated(node, now)
	return nil
}

// release removes Tenon's finalizer from the claim.
func (a *application) release(ctx context.Context) error {
	want := a.life.Claim.DeepCopy()
	want.Finalizers = without(want.Finalizers)
	claim, err := a.patchClaim(ctx, want)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	a.mem.released = true
	log.FromContext(ctx).Info("removed claim", "Node", claim.Status.NodeName, "machine", claim.Status.ProviderID)
	a.Metrics.ClaimTerminated(a.life.Claim, a.Cluster.Clock.Now())
	return nil
}

func without(finalizers []string) []string {
	return slices.DeleteFunc(slices.Clone(finalizers), func(f string) bool { return f == v1.TerminationFinalizer })
}

// drainReason returns why the claim's node goes, in the words of metrics and events.
func drainReason(claim *v1.NodeClaim) string {
	if claim == nil {
		return ""
	}
	if c := v1.GetCondition(claim, v1.ConditionDisruptionReason); c != nil && c.Status == metav1.ConditionTrue {
		return c.Reason
	}
	return "Forceful Termination"
}

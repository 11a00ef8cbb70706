package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
)

// CreateClaim stores a launch as a NodeClaim. The claim has its finalizer from the start, because nothing would stop the machine of a claim
// that vanished unnoticed. Kubernetes deletes the claim with its NodePool. Every later Snapshot contains the claim.
func (c *Cluster) CreateClaim(ctx context.Context, pool *v1.NodePool, launch engine.Launch) (*v1.NodeClaim, error) {
	return c.WriteClaim(ctx, kube.NewClaim(pool, launch))
}

// CreateNamed creates a claim like CreateClaim, with further annotations and with a name that depends only on the decision. If a claim of
// this name exists, CreateNamed fails with an error that Expected recognizes, so a repeated call creates nothing.
func (c *Cluster) CreateNamed(ctx context.Context, pool *v1.NodePool, launch engine.Launch, name string, annotations map[string]string) (*v1.NodeClaim, error) {
	claim := kube.NewClaim(pool, launch)
	claim.Name, claim.GenerateName = name, ""
	maps.Copy(claim.Annotations, annotations)
	return c.WriteClaim(ctx, claim)
}

// WriteClaim creates a claim of a pool. Every later Snapshot contains it.
func (c *Cluster) WriteClaim(ctx context.Context, claim *v1.NodeClaim) (*v1.NodeClaim, error) {
	if c.Leader != "" {
		claim.Annotations[v1.LeaderAnnotationKey] = c.Leader
	}
	if err := c.Client.Create(ctx, claim); err != nil {
		c.doubt(err)
		return nil, fmt.Errorf("create NodeClaim for pool %s: %w", claim.Labels[v1.NodePoolLabelKey], err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.claims.created(claim, c.Clock.Now())
	return claim, nil
}

// doubt handles an error of a creation. If the error does not show whether the claim was created, the next Snapshot asks the API server.
// Otherwise a launch might be stored twice, which is one machine too many.
func (c *Cluster) doubt(err error) {
	switch apierrors.ReasonForError(err) {
	case metav1.StatusReasonUnknown, metav1.StatusReasonTimeout, metav1.StatusReasonServerTimeout, metav1.StatusReasonInternalError:
		c.mu.Lock()
		defer c.mu.Unlock()
		c.began = false
	}
}

// DeleteClaim deletes a claim; then its node is drained and its machine stopped. It leaves another claim of the same name alone. If the
// claim is gone already, this is no error.
func (c *Cluster) DeleteClaim(ctx context.Context, claim *v1.NodeClaim) error {
	err := c.Client.Delete(ctx, claim.DeepCopy(), client.Preconditions{UID: &claim.UID})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("delete NodeClaim %s: %w", claim.Name, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.claims.removed(claim, c.Clock.Now())
	return nil
}

// PatchNode changes a node. It fails with a conflict if the node has changed since it was read. Every later Snapshot contains the
// change.
func (c *Cluster) PatchNode(ctx context.Context, node *corev1.Node, change func(*corev1.Node)) (*corev1.Node, error) {
	changed := node.DeepCopy()
	change(changed)
	patch := client.MergeFromWithOptions(node, client.MergeFromWithOptimisticLock{})
	if err := c.Client.Patch(ctx, changed, patch); err != nil {
		return nil, fmt.Errorf("change Node %s: %w", node.Name, err)
	}
	slimNode(changed)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes.updated(changed, c.Clock.Now())
	return changed, nil
}

// PatchClaim changes a claim's metadata. It fails with a conflict if the claim has changed since it was read. Every later Snapshot
// contains the change.
func (c *Cluster) PatchClaim(ctx context.Context, claim *v1.NodeClaim, change func(*v1.NodeClaim)) (*v1.NodeClaim, error) {
	changed := claim.DeepCopy()
	change(changed)
	changed = MetaOf(changed)
	patch := client.MergeFromWithOptions(MetaOf(claim), client.MergeFromWithOptimisticLock{})
	if err := c.Client.Patch(ctx, changed, patch); err != nil {
		return nil, fmt.Errorf("change NodeClaim %s: %w", claim.Name, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.claims.updated(changed, c.Clock.Now())
	return changed, nil
}

// AnnotatePool writes an annotation on a pool, or removes it if the value is empty. It fails with a conflict if the pool has changed
// since it was read. It returns the changed pool.
func (c *Cluster) AnnotatePool(ctx context.Context, pool *v1.NodePool, key, value string) (*v1.NodePool, error) {
	before := &v1.NodePool{ObjectMeta: *pool.ObjectMeta.DeepCopy()} // a patch of small objects costs less
	changed := before.DeepCopy()
	if changed.Annotations == nil {
		changed.Annotations = map[string]string{}
	}
	if changed.Annotations[key] = value; value == "" {
		delete(changed.Annotations, key)
	}
	return changed, c.Client.Patch(ctx, changed, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// ClaimExists asks the API server itself whether a claim of this name exists and is not deleted. The watch may not show yet the claims of
// an earlier process.
func (c *Cluster) ClaimExists(ctx context.Context, name string) (bool, error) {
	claim := &v1.NodeClaim{}
	err := c.API.Get(ctx, client.ObjectKey{Name: name}, claim)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for NodeClaim %s: %w", name, err)
	}
	return claim.DeletionTimestamp == nil, nil
}

// Launching calls launch while no other caller of this Cluster, and no other leader, launches. If each launch reads the newest snapshot
// before it creates claims, all launches together exceed no limit.
func (c *Cluster) Launching(ctx context.Context, launch func() error) error {
	c.Launches.Lock()
	defer c.Launches.Unlock()
	if c.Leads != nil {
		if err := c.Leads(ctx); err != nil {
			return err
		}
	}
	return launch()
}

// PatchClaimStatus changes a claim's status. It fails with a conflict if the claim has changed since it was read. Every later Snapshot
// contains the change.
func (c *Cluster) PatchClaimStatus(ctx context.Context, claim *v1.NodeClaim, change func(*v1.NodeClaim)) (*v1.NodeClaim, error) {
	changed := claim.DeepCopy()
	change(changed)
	changed = statusOf(changed)
	patch := client.MergeFromWithOptions(statusOf(claim), client.MergeFromWithOptimisticLock{})
	if err := c.Client.Status().Patch(ctx, changed, patch); err != nil {
		return nil, fmt.Errorf("change status of NodeClaim %s: %w", claim.Name, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.claims.updated(changed, c.Clock.Now())
	return changed, nil
}

// MetaOf returns a claim with only a copy of its metadata. A patch of metadata costs least between two of these, because a patch is
// made by comparing two objects as JSON. The API server's answer fills in the rest.
func MetaOf(claim *v1.NodeClaim) *v1.NodeClaim {
	return &v1.NodeClaim{ObjectMeta: *claim.ObjectMeta.DeepCopy()}
}

// statusOf returns a claim with only its name and a copy of its status, for the same reason.
func statusOf(claim *v1.NodeClaim) *v1.NodeClaim {
	return &v1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: claim.Name, UID: claim.UID, ResourceVersion: claim.ResourceVersion}, Status: *claim.Status.DeepCopy()}
}

// Nominate makes kube-scheduler try the node first for the pod; an empty name removes the nomination. It returns the pod after the write, or nil if
// the pod is bound or gone. The UID keeps the nomination off a later pod of the same name.
func (c *Cluster) Nominate(ctx context.Context, pod *corev1.Pod, node string) (*corev1.Pod, error) {
	value := "null"
	if node != "" {
		value = strconv.Quote(node)
	}
	patch := fmt.Appendf(nil, `{"metadata":{"uid":%q},"status":{"nominatedNodeName":%s}}`, pod.UID, value)
	changed := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	err := c.Client.Status().Patch(ctx, changed, client.RawPatch(types.MergePatchType, patch))
	if apierrors.IsInvalid(err) || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("nominate Node %q for Pod %s/%s: %w", node, pod.Namespace, pod.Name, err)
	}
	slimPod(changed)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pods.updated(changed, c.Clock.Now())
	return changed, nil
}

// SetDeletionCost writes the pod's deletion cost, and a mark that Tenon wrote it; an empty value removes both. It fails with a conflict
// if the pod has changed since it was read.
func (c *Cluster) SetDeletionCost(ctx context.Context, pod *corev1.Pod, value string) error {
	text := "null"
	if value != "" {
		text = strconv.Quote(value)
	}
	patch := fmt.Appendf(nil, `{"metadata":{"uid":%q,"resourceVersion":%q,"annotations":{%q:%s,%q:%s}}}`, pod.UID, pod.ResourceVersion,
		v1.PodDeletionCostAnnotationKey, text, v1.WrittenDeletionCostAnnotationKey, text)
	changed := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	if err := c.Client.Patch(ctx, changed, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("write the deletion cost of Pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	slimPod(changed)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pods.updated(changed, c.Clock.Now())
	return nil
}

// PodsOn lists the pods of a node from the API server itself, because the watch may be behind.
func (c *Cluster) PodsOn(ctx context.Context, node string) ([]*corev1.Pod, error) {
	var pods corev1.PodList
	if err := c.API.List(ctx, &pods, client.MatchingFields{PodsByNode: node}); err != nil {
		return nil, fmt.Errorf("list the pods of Node %s: %w", node, err)
	}
	out := make([]*corev1.Pod, 0, len(pods.Items))
	for i := range pods.Items {
		out = append(out, &pods.Items[i])
	}
	return out, nil
}

// Expected reports whether a later pass with a newer snapshot handles the error: the object was changed, deleted or created by another
// writer, or ctx was canceled.
func Expected(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) || errors.Is(err, context.Canceled)
}

package provision

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/kube"
)

// Watch calls trigger if a new plan could differ: a pod begins to wait, a node leaves, a claim is gone, a pool changes, or a volume
// exists for which pods waited. For a new pod that kube-scheduler has not tried yet, it calls join with the pod's controller, because
// this pod will wait too if other pods of the controller do.
func Watch(ctx context.Context, informers cache.Informers, trigger func(cause string), join func(cause, beside string)) error {
	one := func(o client.Object) { trigger(string(o.GetUID())) }
	for _, w := range []struct {
		kind    client.Object
		handler toolscache.ResourceEventHandler
	}{
		{&corev1.Pod{}, handler(podBeginsToWait, func(o client.Object) {
			one(o)
			if owner := controllerOf(o); owner != "" {
				trigger(owner)
			}
		})},
		{&corev1.Pod{}, handler(podIsNew, func(o client.Object) { join(string(o.GetUID()), controllerOf(o)) })},
		{&corev1.Node{}, handler(nodeLeaves, one)},
		{&v1.NodeClaim{}, handler(claimGone, one)},
		{&v1.NodePool{}, handler(poolChanged, one)},
		{&corev1.PersistentVolumeClaim{}, handler(claimBound, one)},
	} {
		informer, err := informers.GetInformer(ctx, w.kind)
		if err != nil {
			return fmt.Errorf("watch %T: %w", w.kind, err)
		}
		if _, err := informer.AddEventHandler(w.handler); err != nil {
			return fmt.Errorf("watch %T: %w", w.kind, err)
		}
	}
	return nil
}

// controllerOf returns the UID of the object's controller. It returns "" if there is none.
func controllerOf(o client.Object) string {
	if owner := metav1.GetControllerOf(o); owner != nil {
		return string(owner.UID)
	}
	return ""
}

// handler calls trigger for events that matter; before is nil for new objects, after is nil for deleted ones.
func handler(matters func(before, after client.Object) bool, trigger func(client.Object)) toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) {
			if after := o.(client.Object); matters(nil, after) {
				trigger(after)
			}
		},
		UpdateFunc: func(old, o any) {
			if after := o.(client.Object); matters(old.(client.Object), after) {
				trigger(after)
			}
		},
		DeleteFunc: func(o any) {
			if missed, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
				o = missed.Obj
			}
			if before, ok := o.(client.Object); ok && matters(before, nil) {
				trigger(before)
			}
		},
	}
}

// podBeginsToWait ignores another try of kube-scheduler for a waiting pod, because it changes no plan.
func podBeginsToWait(before, after client.Object) bool {
	if after == nil || !kube.IsPending(after.(*corev1.Pod)) {
		return false
	}
	if before == nil {
		return true
	}
	old, pod := before.(*corev1.Pod), after.(*corev1.Pod)
	return !kube.IsPending(old) || old.Generation != pod.Generation || old.Status.NominatedNodeName != "" && pod.Status.NominatedNodeName == ""
}

func podIsNew(before, after client.Object) bool {
	return before == nil && kube.IsUntried(after.(*corev1.Pod))
}

func nodeLeaves(before, after client.Object) bool {
	if after == nil {
		return true
	}
	was := before != nil && kube.LeavesSoon(before.(*corev1.Node))
	return kube.LeavesSoon(after.(*corev1.Node)) && !was
}

func claimGone(before, after client.Object) bool {
	if after == nil {
		return true
	}
	return before != nil && before.GetDeletionTimestamp() == nil && after.GetDeletionTimestamp() != nil
}

// claimBound ignores claims that waited for their pod to have a node, because then the pod waits for nothing more.
func claimBound(before, after client.Object) bool {
	if after == nil || after.GetAnnotations()[selectedNode] != "" {
		return false
	}
	bound := func(o client.Object) bool { return o.(*corev1.PersistentVolumeClaim).Status.Phase == corev1.ClaimBound }
	return bound(after) && before != nil && !bound(before)
}

// selectedNode is the annotation by which kube-scheduler asks for the volume of a claim on a node.
const selectedNode = "volume.kubernetes.io/selected-node"

func poolChanged(before, after client.Object) bool {
	if before == nil || after == nil {
		return true
	}
	old, pool := before.(*v1.NodePool), after.(*v1.NodePool)
	return old.Generation != pool.Generation || v1.IsTrue(old, v1.ConditionReady) != v1.IsTrue(pool, v1.ConditionReady)
}

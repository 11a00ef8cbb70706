package provision

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
)

// Watch calls trigger whenever a new plan could be another one: a pod begins to wait, a node leaves, a claim is gone, a
// pool changes, a volume is there that pods had to wait for.
func Watch(ctx context.Context, informers cache.Informers, trigger func(cause string)) error {
	for _, w := range []struct {
		kind    client.Object
		matters func(before, after client.Object) bool
	}{
		{&corev1.Pod{}, podBeginsToWait},
		{&corev1.Node{}, nodeLeaves},
		{&v1.NodeClaim{}, claimGone},
		{&v1.NodePool{}, poolChanged},
		{&corev1.PersistentVolumeClaim{}, claimBound},
	} {
		informer, err := informers.GetInformer(ctx, w.kind)
		if err != nil {
			return fmt.Errorf("watch %T: %w", w.kind, err)
		}
		if _, err := informer.AddEventHandler(handler(w.matters, trigger)); err != nil {
			return fmt.Errorf("watch %T: %w", w.kind, err)
		}
	}
	return nil
}

// handler calls trigger with the object's UID for events that matter; before is nil for new objects, after for deleted
// ones.
func handler(matters func(before, after client.Object) bool, trigger func(string)) toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) {
			if after := o.(client.Object); matters(nil, after) {
				trigger(string(after.GetUID()))
			}
		},
		UpdateFunc: func(old, o any) {
			if after := o.(client.Object); matters(old.(client.Object), after) {
				trigger(string(after.GetUID()))
			}
		},
		DeleteFunc: func(o any) {
			if missed, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
				o = missed.Obj
			}
			if before, ok := o.(client.Object); ok && matters(before, nil) {
				trigger(string(before.GetUID()))
			}
		},
	}
}

// podBeginsToWait leaves out that kube-scheduler tried a waiting pod again: that alone changes no plan.
func podBeginsToWait(before, after client.Object) bool {
	if after == nil || !engine.IsPending(after.(*corev1.Pod)) {
		return false
	}
	if before == nil {
		return true
	}
	old, pod := before.(*corev1.Pod), after.(*corev1.Pod)
	return !engine.IsPending(old) || old.Generation != pod.Generation || old.Status.NominatedNodeName != "" && pod.Status.NominatedNodeName == ""
}

func nodeLeaves(before, after client.Object) bool {
	if after == nil {
		return true
	}
	was := before != nil && engine.LeavesSoon(before.(*corev1.Node))
	return engine.LeavesSoon(after.(*corev1.Node)) && !was
}

func claimGone(before, after client.Object) bool {
	if after == nil {
		return true
	}
	return before != nil && before.GetDeletionTimestamp() == nil && after.GetDeletionTimestamp() != nil
}

// claimBound leaves out claims that waited for their pod to have a node: by then the pod waits for nothing more.
func claimBound(before, after client.Object) bool {
	if after == nil || after.GetAnnotations()[selectedNode] != "" {
		return false
	}
	bound := func(o client.Object) bool { return o.(*corev1.PersistentVolumeClaim).Status.Phase == corev1.ClaimBound }
	return bound(after) && before != nil && !bound(before)
}

// selectedNode is the annotation by which kube-scheduler says where the volume of a claim is wanted.
const selectedNode = "volume.kubernetes.io/selected-node"

func poolChanged(before, after client.Object) bool {
	if before == nil || after == nil {
		return true
	}
	old, pool := before.(*v1.NodePool), after.(*v1.NodePool)
	return old.Generation != pool.Generation || v1.IsTrue(old, v1.ConditionReady) != v1.IsTrue(pool, v1.ConditionReady)
}

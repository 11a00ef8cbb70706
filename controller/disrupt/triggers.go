package disrupt

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
)

// Watch calls trigger if a node may be removable now, or if a node that goes may be needed: a pod is gone or needs less, a claim or a
// pool has changed, a node has another condition, a pause begins or ends. If a kubelet reports a fault that began earlier than known,
// Watch calls fault instead, because a repair may be due, and the kubelet may report Ready again at once.
func Watch(ctx context.Context, informers cache.Informers, trigger func(cause string), fault func(*corev1.Node)) error {
	told := func(o any) {
		if missed, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
			o = missed.Obj
		}
		if object, ok := o.(client.Object); ok {
			trigger(string(object.GetUID()))
		}
	}
	for _, w := range []struct {
		kind    client.Object
		handler toolscache.ResourceEventHandlerFuncs
	}{
		{&corev1.Pod{}, toolscache.ResourceEventHandlerFuncs{
			UpdateFunc: func(old, o any) {
				if old, pod := old.(*corev1.Pod), o.(*corev1.Pod); leftItsNode(old, pod) || shrank(old, pod) {
					told(o)
				}
			},
			DeleteFunc: told,
		}},
		{&corev1.Node{}, toolscache.ResourceEventHandlerFuncs{
			UpdateFunc: func(old, o any) {
				switch changed, late := conditionsChanged(old.(*corev1.Node), o.(*corev1.Node)); {
				case late:
					fault(o.(*corev1.Node))
				case changed:
					told(o)
				}
			},
		}},
		{&v1.NodeClaim{}, toolscache.ResourceEventHandlerFuncs{
			UpdateFunc: func(old, o any) {
				if claimChanged(old.(*v1.NodeClaim), o.(*v1.NodeClaim)) {
					told(o)
				}
			},
			DeleteFunc: told,
		}},
		{&v1.NodePool{}, toolscache.ResourceEventHandlerFuncs{
			AddFunc: told,
			UpdateFunc: func(old, o any) {
				if old := old.(client.Object); old.GetGeneration() != o.(client.Object).GetGeneration() || paused(old) != paused(o) {
					told(o)
				}
			},
		}},
		{&corev1.Namespace{}, toolscache.ResourceEventHandlerFuncs{
			UpdateFunc: func(old, o any) {
				if old := old.(client.Object); old.GetName() == v1.PausingNamespace && paused(old) != paused(o) {
					told(o)
				}
			},
		}},
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

// paused returns the value of the object's pause annotation.
func paused(o any) string { return o.(client.Object).GetAnnotations()[v1.PauseAnnotationKey] }

func leftItsNode(old, pod *corev1.Pod) bool {
	return pod.Spec.NodeName != "" && kube.IsReschedulable(old) && !kube.IsReschedulable(pod)
}

// shrank reports whether the pod was resized in place so that it needs less of anything.
func shrank(old, pod *corev1.Pod) bool {
	if pod.Spec.NodeName == "" {
		return false
	}
	need := kube.PodRequests(pod)
	for name, had := range kube.PodRequests(old) {
		if now := need[name]; now.Cmp(had) < 0 {
			return true
		}
	}
	return false
}

// conditionsChanged reports whether a condition of the node has changed, and as late whether its new transition time is before the known one.
func conditionsChanged(old, node *corev1.Node) (changed, late bool) {
	known := make(map[corev1.NodeConditionType]*corev1.NodeCondition, len(old.Status.Conditions))
	for i := range old.Status.Conditions {
		known[old.Status.Conditions[i].Type] = &old.Status.Conditions[i]
	}
	for i := range node.Status.Conditions {
		c := &node.Status.Conditions[i]
		before := known[c.Type]
		if before != nil && before.Status == c.Status && before.Reason == c.Reason {
			continue
		}
		changed = true
		late = late || before != nil && c.LastTransitionTime.Before(&before.LastTransitionTime)
	}
	return changed, late
}

func claimChanged(old, claim *v1.NodeClaim) bool {
	for _, condition := range []string{v1.ConditionInitialized, v1.ConditionConsolidatable, v1.ConditionDrifted} {
		if v1.IsTrue(old, condition) != v1.IsTrue(claim, condition) {
			return true
		}
	}
	return old.Annotations[v1.DoNotDisruptAnnotationKey] != claim.Annotations[v1.DoNotDisruptAnnotationKey] ||
		claim.DeletionTimestamp != nil && old.DeletionTimestamp == nil && claim.Annotations[inventory.ReplacesAnnotation] != ""
}

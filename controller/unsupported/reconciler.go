// Package unsupported writes a condition on objects whose kind has no effect without its feature gate (CapacityBuffer, NodeOverlay), so that users
// do not count on these objects.
package unsupported

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"tenon.sh/api/autoscalingv1beta1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/api/v1alpha1"
)

// Reconciler makes passes. It is to be used from one goroutine.
type Reconciler struct {
	// API reads from the API server itself, because there are few such objects, and a watch would cost more.
	API    client.Reader
	Writer client.Client
	Clock  clock.PassiveClock
	// Overlays is true if NodeOverlays have an effect.
	Overlays bool
	// Buffers is true if CapacityBuffers have an effect.
	Buffers bool

	told   map[types.UID]bool
	absent map[string]time.Time // by kind, when the API server last did not serve it
}

// askAgain is how long the API server is not asked again for a kind that it does not serve.
const askAgain = time.Hour

// Reconcile marks the objects without a mark. A kind that is not installed has no objects.
func (r *Reconciler) Reconcile(ctx context.Context) error {
	if r.told == nil {
		r.told, r.absent = map[types.UID]bool{}, map[string]time.Time{}
	}
	var errs []error
	kinds := map[string]client.ObjectList{}
	if !r.Buffers {
		kinds["CapacityBuffer"] = &autoscalingv1beta1.CapacityBufferList{}
	}
	if !r.Overlays {
		kinds["NodeOverlay"] = &v1alpha1.NodeOverlayList{}
	}
	for kind, list := range kinds {
		if at, absent := r.absent[kind]; absent && r.Clock.Since(at) < askAgain {
			continue
		}
		err := r.API.List(ctx, list)
		if apimeta.IsNoMatchError(err) || client.IgnoreNotFound(err) == nil && err != nil {
			r.absent[kind] = r.Clock.Now()
			continue
		}
		delete(r.absent, kind)
		if err != nil {
			errs = append(errs, fmt.Errorf("list %ss: %w", kind, err))
			continue
		}
		errs = append(errs, apimeta.EachListItem(list, func(o runtime.Object) error { return r.mark(ctx, kind, o.(client.Object)) }))
	}
	return errors.Join(errs...)
}

func (r *Reconciler) mark(ctx context.Context, kind string, object client.Object) error {
	message := "CapacityBuffers have no effect without the feature gate CapacityBuffer: set FEATURE_GATES=CapacityBuffer=true (settings.featureGates.capacityBuffer of the chart)"
	if kind == "NodeOverlay" {
		message = "NodeOverlays have no effect without the feature gate NodeOverlay: set FEATURE_GATES=NodeOverlay=true (settings.featureGates.nodeOverlay of the chart)"
	}
	if !r.told[object.GetUID()] {
		r.told[object.GetUID()] = true
		log.FromContext(ctx).Info("object has no effect yet", "kind", kind, "namespace", object.GetNamespace(), "name", object.GetName())
	}
	before := object.DeepCopyObject().(client.Object)
	if !setCondition(object, message, r.Clock) {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Writer.Status().Patch(ctx, object, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write status of %s %s: %w", kind, object.GetName(), err)
	}
	return nil
}

func setCondition(object client.Object, message string, clock clock.PassiveClock) bool {
	condition := metav1.Condition{
		Type: v1.ConditionNotSupported, Status: metav1.ConditionTrue, Reason: v1.ConditionNotSupported, Message: message,
		ObservedGeneration: object.GetGeneration(), LastTransitionTime: metav1.NewTime(clock.Now()),
	}
	switch o := object.(type) {
	case *v1alpha1.NodeOverlay:
		others := len(o.Status.Conditions)
		o.Status.Conditions = slices.DeleteFunc(o.Status.Conditions, func(c metav1.Condition) bool { return c.Type != v1.ConditionNotSupported })
		if len(o.Status.Conditions) < others { // conditions from the time with the gate on
			apimeta.SetStatusCondition(&o.Status.Conditions, condition)
			return true
		}
		return apimeta.SetStatusCondition(&o.Status.Conditions, condition)
	case *autoscalingv1beta1.CapacityBuffer:
		return apimeta.SetStatusCondition(&o.Status.Conditions, condition)
	}
	return false
}

// Package capacitybuffer writes the status of CapacityBuffers: whether a buffer is valid, the number of pods for which room is kept, whether there
// is that much room, and its cost. Package buffer and the plans compute these values.
package capacitybuffer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"tenon.sh/api/autoscalingv1beta1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/cluster"
	"tenon.sh/engine"
	"tenon.sh/report"
)

// Writer writes statuses. It is to be used from one goroutine.
type Writer struct {
	Cluster  *cluster.Cluster
	Recorder *report.Recorder
	Metrics  *report.Metrics
}

// repeatEvery is how often an event repeats that a buffer keeps no room.
const repeatEvery = time.Hour

// Write writes the result of the plan on every buffer of the snapshot.
func (w *Writer) Write(ctx context.Context, s *engine.Snapshot, plan *engine.Plan) error {
	rooms := make(map[types.UID]*engine.BufferRoom, len(plan.Buffers))
	for i := range plan.Buffers {
		rooms[plan.Buffers[i].UID] = &plan.Buffers[i]
	}
	w.Metrics.Buffered(plan.Buffers)
	var errs []error
	for _, o := range s.CapacityBuffers {
		if o.DeletionTimestamp != nil {
			continue
		}
		errs = append(errs, w.write(ctx, o, rooms[o.UID], s.PodTemplates))
	}
	return errors.Join(errs...)
}

// write writes the state of one buffer; room is nil for a buffer of another strategy, whose status another program writes.
func (w *Writer) write(ctx context.Context, o *autoscalingv1beta1.CapacityBuffer, room *engine.BufferRoom, templates []*corev1.PodTemplate) error {
	next := o.DeepCopy()
	next.Status.ProvisioningStrategy = o.Spec.ProvisioningStrategy
	if room != nil {
		describe(next, room, templates, w.Cluster.Clock.Now())
		if room.ProblemReason != "" {
			w.Recorder.Publish(report.Event{Object: o, Warning: true, Reason: room.ProblemReason, Message: room.Problem, Key: room.Problem, Every: repeatEvery})
		}
	}
	if apiequality.Semantic.DeepEqual(o.Status, next.Status) {
		return nil
	}
	patch := client.MergeFromWithOptions(o, client.MergeFromWithOptimisticLock{})
	if err := w.Cluster.Client.Status().Patch(ctx, next, patch); err != nil && !cluster.Expected(err) {
		return fmt.Errorf("write status of CapacityBuffer %s/%s: %w", o.Namespace, o.Name, err)
	}
	return nil
}

// describe writes the room into the buffer's status.
func describe(o *autoscalingv1beta1.CapacityBuffer, room *engine.BufferRoom, templates []*corev1.PodTemplate, now time.Time) {
	status := &o.Status
	say := func(kind string, value metav1.ConditionStatus, reason, message string) {
		apimeta.SetStatusCondition(&status.Conditions, metav1.Condition{
			Type: kind, Status: value, Reason: reason, Message: message, ObservedGeneration: o.Generation, LastTransitionTime: metav1.NewTime(now),
		})
	}
	apimeta.RemoveStatusCondition(&status.Conditions, v1.ConditionNotSupported) // said while the feature gate was off
	status.PodTemplateRef, status.PodTemplateGeneration = nil, nil
	if room.ProblemReason != "" {
		status.Replicas = nil
		say(autoscalingv1beta1.ConditionReadyForProvisioning, metav1.ConditionFalse, room.ProblemReason, room.Problem)
		say(autoscalingv1beta1.ConditionProvisioning, metav1.ConditionFalse, autoscalingv1beta1.NotReadyForProvisioning, "no room is kept: "+room.Problem)
		return
	}
	status.Replicas = new(int32(room.Size))
	if ref := o.Spec.PodTemplateRef; ref != nil {
		status.PodTemplateRef = ref
		for _, t := range templates {
			if t.Name == ref.Name && t.Namespace == o.Namespace {
				status.PodTemplateGeneration = new(t.Generation)
			}
		}
	}
	say(autoscalingv1beta1.ConditionReadyForProvisioning, metav1.ConditionTrue, autoscalingv1beta1.Resolved, fmt.Sprintf("room is kept for %s", engine.Plural(room.Size, "pod")))
	switch {
	case room.Size == 0:
		message := "the buffer asks for no room"
		if room.Limit != "" {
			message = "all buffers together may have no more " + string(room.Limit)
		}
		say(autoscalingv1beta1.ConditionProvisioning, metav1.ConditionFalse, autoscalingv1beta1.BufferEmpty, message)
	case room.Existing == room.Size:
		say(autoscalingv1beta1.ConditionProvisioning, metav1.ConditionTrue, autoscalingv1beta1.FitsExistingCapacity,
			fmt.Sprintf("nodes have room for %s%s", engine.Plural(room.Size, "pod"), cost(room)))
	default:
		say(autoscalingv1beta1.ConditionProvisioning, metav1.ConditionFalse, autoscalingv1beta1.RequiresNewCapacity, lacking(room))
	}
	switch was := apimeta.FindStatusCondition(status.Conditions, autoscalingv1beta1.ConditionLimitedByQuotas); {
	case room.Quota != "":
		say(autoscalingv1beta1.ConditionLimitedByQuotas, metav1.ConditionTrue, autoscalingv1beta1.ResourceQuotasAllocated,
			fmt.Sprintf("ResourceQuota %s lets no more than %s be made", room.Quota, engine.Plural(room.Size, "pod")))
	case room.Limit != "":
		say(autoscalingv1beta1.ConditionLimitedByQuotas, metav1.ConditionTrue, autoscalingv1beta1.BufferLimitsReached,
			fmt.Sprintf("all buffers together may have no more %s, by --buffer-limits of the controller: room is kept for no more than %s", room.Limit, engine.Plural(room.Size, "pod")))
	case was != nil:
		say(autoscalingv1beta1.ConditionLimitedByQuotas, metav1.ConditionFalse, autoscalingv1beta1.ResourceQuotasAllocated, "ResourceQuotas and the limits of all buffers leave enough")
	}
}

// lacking returns how much of the room exists, how much is coming, and why the rest has no place.
func lacking(room *engine.BufferRoom) string {
	none := room.Size - room.Existing - room.Coming
	text := fmt.Sprintf("of %s, nodes have room for %d, machines that start for %d, and %d have no place", engine.Plural(room.Size, "pod"), room.Existing, room.Coming, none)
	if none > 0 && len(room.Reasons) > 0 {
		text += ": " + engine.Sentence(room.Reasons)
	}
	return text + cost(room)
}

// cost returns the price and the place of the room. It is exact to cents only, because the message should change only if something matters.
func cost(room *engine.BufferRoom) string {
	if len(room.Pools) == 0 {
		return ""
	}
	return fmt.Sprintf("; the room costs about $%.2f an hour, in %s", room.PerHour, strings.Join(room.Pools, ", "))
}

// Watch calls trigger when a buffer, or an object that its pods are made from, changes. Clusters without the kind have no buffers.
func Watch(ctx context.Context, informers cache.Informers, trigger func(cause string)) error {
	changed := func(before, after client.Object) bool { return before.GetGeneration() != after.GetGeneration() }
	anyhow := func(before, after client.Object) bool {
		return before.GetResourceVersion() != after.GetResourceVersion()
	}
	for _, kind := range []struct {
		client.Object
		matters func(before, after client.Object) bool
	}{
		{&autoscalingv1beta1.CapacityBuffer{}, changed}, {&corev1.PodTemplate{}, anyhow}, {&appsv1.Deployment{}, changed}, {&appsv1.StatefulSet{}, changed},
		{&appsv1.ReplicaSet{}, changed},
	} {
		informer, err := informers.GetInformer(ctx, kind.Object)
		if apimeta.IsNoMatchError(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("watch %T: %w", kind.Object, err)
		}
		_, err = informer.AddEventHandler(toolscache.FilteringResourceEventHandler{FilterFunc: followed, Handler: toolscache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { trigger("buffer") },
			DeleteFunc: func(any) { trigger("buffer") },
			UpdateFunc: func(before, after any) {
				if kind.matters(before.(client.Object), after.(client.Object)) {
					trigger("buffer")
				}
			},
		}})
		if err != nil {
			return fmt.Errorf("watch %T: %w", kind.Object, err)
		}
	}
	return nil
}

// followed ignores ReplicaSets with an owner, because no buffer follows them, and each rollout of a Deployment scales two.
func followed(o any) bool {
	r, is := o.(*appsv1.ReplicaSet)
	return !is || len(r.OwnerReferences) == 0
}

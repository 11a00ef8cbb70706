// Package provisioningrequest writes the status of ProvisioningRequests. Package booking and the plans compute it.
package provisioningrequest

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"tenon.sh/api/autoscalingv1"
	"tenon.sh/cluster"
	"tenon.sh/engine"
	"tenon.sh/report"
)

// Writer writes statuses. It is to be used from one goroutine.
type Writer struct {
	Cluster  *cluster.Cluster
	Recorder *report.Recorder
}

// Write writes the result of the plan on every request of the snapshot, and makes events.
func (w *Writer) Write(ctx context.Context, s *engine.Snapshot, plan *engine.Plan) error {
	objects := make(map[types.UID]*autoscalingv1.ProvisioningRequest, len(s.ProvisioningRequests))
	for _, o := range s.ProvisioningRequests {
		objects[o.UID] = o
	}
	var errs []error
	for i := range plan.ProvisioningRequests {
		room := &plan.ProvisioningRequests[i]
		o := objects[room.UID]
		if o == nil {
			continue
		}
		if room.Status == nil {
			w.Recorder.Publish(report.RequestAnswered(o, room)...)
			continue
		}
		if err := w.Cluster.WriteRequestStatus(ctx, o, room.Status); err != nil {
			if !cluster.Expected(err) {
				errs = append(errs, fmt.Errorf("write status of ProvisioningRequest %s/%s: %w", o.Namespace, o.Name, err))
			}
			continue // told after the write
		}
		w.Recorder.Publish(report.RequestAnswered(o, room)...)
		for _, c := range room.Status.Conditions {
			if !apimeta.IsStatusConditionPresentAndEqual(o.Status.Conditions, c.Type, c.Status) && c.Status == metav1.ConditionTrue {
				log.FromContext(ctx).Info("answered provisioningrequest", "namespace", o.Namespace, "name", o.Name, "condition", c.Type, "reason", c.Reason, "message", c.Message)
			}
		}
	}
	return errors.Join(errs...)
}

// Watch calls trigger when a request, or an object that its pods are made from, changes. Clusters without the kind have no requests.
func Watch(ctx context.Context, informers cache.Informers, trigger func(cause string)) error {
	handler := toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { trigger("provisioningrequest") },
		DeleteFunc: func(any) { trigger("provisioningrequest") },
		UpdateFunc: func(before, after any) {
			if before.(client.Object).GetResourceVersion() != after.(client.Object).GetResourceVersion() {
				trigger("provisioningrequest")
			}
		},
	}
	requests, err := informers.GetInformer(ctx, &autoscalingv1.ProvisioningRequest{})
	if apimeta.IsNoMatchError(err) {
		requests, err = informers.GetInformer(ctx, &autoscalingv1.ProvisioningRequestV1Beta1{})
	}
	if apimeta.IsNoMatchError(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("watch ProvisioningRequests: %w", err)
	}
	templates, err := informers.GetInformer(ctx, &corev1.PodTemplate{})
	if err != nil {
		return fmt.Errorf("watch PodTemplates: %w", err)
	}
	for _, informer := range []cache.Informer{requests, templates} {
		if _, err := informer.AddEventHandler(handler); err != nil {
			return fmt.Errorf("watch ProvisioningRequests: %w", err)
		}
	}
	return nil
}

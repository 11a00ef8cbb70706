// Package nodeoverlay writes the status of NodeOverlays: whether an overlay is in force, and the remedy if it is not or if nodes show other values.
// Package overlay applies the overlays to the catalogs of every Snapshot.
package nodeoverlay

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "tenon.sh/api/v1"
	"tenon.sh/api/v1alpha1"
	"tenon.sh/cluster"
	"tenon.sh/engine/overlay"
	"tenon.sh/report"
)

// Config is what a Reconciler works with.
type Config struct {
	Cluster  *cluster.Cluster
	Recorder *report.Recorder
}

// Reconciler makes passes. It is to be used from one goroutine.
type Reconciler struct {
	Config
	// told holds, by overlay, the last reported difference between the overlay and the nodes: it is reported once.
	told map[string]string
}

// New returns a reconciler.
func New(config Config) *Reconciler { return &Reconciler{Config: config, told: map[string]string{}} }

// Reconcile writes the conditions of all overlays.
func (r *Reconciler) Reconcile(ctx context.Context) error {
	s, verdicts, err := r.Cluster.OverlayVerdicts(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, v := range verdicts {
		errs = append(errs, r.write(ctx, v))
	}
	told := map[string]string{}
	for _, d := range overlay.Differing(s) {
		e := report.Event{Object: d.Overlay, Warning: true, Reason: report.NodesDiffer, Message: d.Message, Key: d.Key}
		if r.told[d.Overlay.Name] == d.Key || r.Recorder.Offer(e) {
			told[d.Overlay.Name] = d.Key
		}
	}
	r.told = told
	return errors.Join(errs...)
}

// write writes the state of an overlay. If the overlay has changed meanwhile, the next pass writes it.
func (r *Reconciler) write(ctx context.Context, v overlay.Verdict) error {
	now, o := r.Cluster.Clock.Now(), v.Overlay.DeepCopy()
	status, reason := metav1.ConditionTrue, v1.ConditionValidationSucceeded
	if v.Reason != "" {
		status, reason = metav1.ConditionFalse, v.Reason
	}
	message := cut(v.Message)
	changed := v1.SetCondition(o, v1.ConditionValidationSucceeded, status, reason, message, now)
	changed = v1.RemoveCondition(o, v1.ConditionNotSupported, now) || changed
	if v.Reason != "" {
		r.Recorder.Publish(report.Event{Object: o, Warning: true, Reason: v.Reason, Message: message, Key: message, Every: repeatEvery})
	}
	if !changed {
		return nil
	}
	patch := client.MergeFromWithOptions(v.Overlay, client.MergeFromWithOptimisticLock{})
	if err := r.Cluster.Client.Status().Patch(ctx, o, patch); err != nil && !cluster.Expected(err) {
		return fmt.Errorf("write status of NodeOverlay %s: %w", o.Name, err)
	}
	return nil
}

// repeatEvery is how often an event repeats that an overlay is not in force. Its condition always shows it.
const repeatEvery = time.Hour

// mostMessage bounds the message of a condition: the API server accepts 32 KiB, and nobody reads so much.
const mostMessage = 1024

func cut(message string) string {
	if len(message) <= mostMessage {
		return message
	}
	return strings.ToValidUTF8(message[:mostMessage-4], "") + " ..."
}

// Watch calls trigger for every NodeOverlay that is created, deleted or gets another spec, and for pools. A cluster without the kind
// has nothing to watch.
func Watch(ctx context.Context, informers cache.Informers, trigger func(cause string)) error {
	for _, kind := range []client.Object{&v1alpha1.NodeOverlay{}, &v1.NodePool{}} {
		informer, err := informers.GetInformer(ctx, kind)
		if apimeta.IsNoMatchError(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("watch %T: %w", kind, err)
		}
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { trigger("overlay") },
			DeleteFunc: func(any) { trigger("overlay") },
			UpdateFunc: func(before, after any) {
				old, now := before.(client.Object), after.(client.Object)
				if old.GetGeneration() != now.GetGeneration() || !overlay.SameInterruptions(old.GetAnnotations(), now.GetAnnotations()) {
					trigger("overlay")
				}
			},
		})
		if err != nil {
			return fmt.Errorf("watch %T: %w", kind, err)
		}
	}
	return nil
}

package endtoend_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "tenon.sh/api/v1"
	"tenon.sh/api/v1alpha1"
)

// TestOverlaysDecideWhatIsBought gives one type of machine a low price, and takes that back: nothing drifts, and consolidation
// replaces what is not worth its price any more.
func TestOverlaysDecideWhatIsBought(t *testing.T) {
	w := newWorld(t)
	w.start("--feature-gates=NodeOverlay=true")
	t.Cleanup(func() { _ = w.DeleteAllOf(w, &v1alpha1.NodeOverlay{}) })
	deal := overlay("deal", corev1.LabelInstanceTypeStable, "m-16x-amd64-linux")
	deal.Spec.Price = new("0.0001")
	loser := overlay("cheap", corev1.LabelInstanceTypeStable, "m-16x-amd64-linux")
	loser.Spec.PriceAdjustment = new("-10%")
	w.must(w.Create(w, deal))
	w.must(w.Create(w, loser))
	w.pool("overlaid", func(p *v1.NodePool) { p.Spec.Disruption.ConsolidateAfter = v1.DurationOf(0) })
	w.overlayIs("deal", metav1.ConditionTrue, "corrects the price of")
	w.overlayIs("cheap", metav1.ConditionFalse, "conflict with NodeOverlay deal")
	w.deploy("overlaid", 1, "900m", "64Mi")
	w.running(1, 2*time.Minute)
	claims := w.claims()
	if len(claims) != 1 || claims[0].Labels[corev1.LabelInstanceTypeStable] != "m-16x-amd64-linux" || claims[0].Annotations[v1.PriceOverlayAppliedAnnotationKey] != "true" {
		t.Fatalf("bought %+v", claims)
	}
	// Resources that nodes show later count from the start.
	added := overlay("added", corev1.LabelInstanceTypeStable, "c-4x-amd64-linux")
	added.Spec.Capacity = corev1.ResourceList{"tenon.test/device": resource.MustParse("4")}
	w.must(w.Create(w, added))
	w.overlayIs("added", metav1.ConditionTrue, "sets tenon.test/device of 1 instance type")

	w.must(w.Delete(w, deal))
	w.until(time.Minute, func() (bool, string) {
		var o v1alpha1.NodeOverlay
		w.must(w.Get(w, client.ObjectKey{Name: "cheap"}, &o))
		return v1.IsTrue(&o, v1.ConditionReady), fmt.Sprintf("%+v", o.Status.Conditions)
	})
	w.until(3*time.Minute, func() (bool, string) {
		claims := w.claims()
		for _, c := range claims {
			if v1.IsTrue(&c, v1.ConditionDrifted) {
				w.Fatalf("an overlay makes %s drift", c.Name)
			}
		}
		return len(claims) == 1 && claims[0].Labels[corev1.LabelInstanceTypeStable] != "m-16x-amd64-linux", fmt.Sprintf("%d claims, nodes stay for %q", len(claims), w.whyKept())
	})
	w.running(1, 2*time.Minute)
}

// overlay is an overlay of what has the label.
func overlay(name, key, value string) *v1alpha1.NodeOverlay {
	return &v1alpha1.NodeOverlay{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.NodeOverlaySpec{
		Requirements: []v1alpha1.Requirement{{Key: key, Operator: v1.In, Values: []string{value}}},
	}}
}

// whyKept lists what events say of nodes.
func (w *world) whyKept() (out []string) {
	var events corev1.EventList
	w.must(w.List(w, &events))
	for _, e := range events.Items {
		if e.InvolvedObject.Kind == "Node" && e.Reason != "Starting" {
			out = append(out, e.Reason+": "+e.Message)
		}
	}
	return out
}

// overlayIs waits until the overlay says whether it is in force, and why.
func (w *world) overlayIs(name string, status metav1.ConditionStatus, says string) {
	w.Helper()
	w.until(time.Minute, func() (bool, string) {
		var o v1alpha1.NodeOverlay
		w.must(w.Get(w, client.ObjectKey{Name: name}, &o))
		ready, valid := v1.GetCondition(&o, v1.ConditionReady), v1.GetCondition(&o, v1.ConditionValidationSucceeded)
		return ready != nil && valid != nil && ready.Status == status && valid.Status == status && strings.Contains(valid.Message, says),
			fmt.Sprintf("NodeOverlay %s: %+v", name, o.Status.Conditions)
	})
}

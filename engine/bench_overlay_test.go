package engine_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/api/v1alpha1"
	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/overlay"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario/workload"
)

// BenchmarkOverlays makes the same plans without overlays, and with 50 that change no proportion, from catalogs that have been
// corrected before, as in a cluster at work. One round makes one plan of each kind, so that whatever else the machine does slows
// both alike; the metric is the time with overlays as a part of that without.
func BenchmarkOverlays(b *testing.B) {
	s := workload.Diverse(2_000, 1)
	with := *s
	for i := range 50 {
		o := &v1alpha1.NodeOverlay{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("overlay-%d", i), ResourceVersion: "1"}}
		o.Spec.PriceAdjustment, o.Spec.Weight = new("+0%"), new(int32(i+1))
		o.Spec.Requirements = []v1alpha1.Requirement{{Key: corev1.LabelInstanceTypeStable, Operator: v1.In}}
		for j, t := range s.Classes[0].InstanceTypes {
			if j%50 == i {
				o.Spec.Requirements[0].Values = append(o.Spec.Requirements[0].Values, t.Name)
			}
		}
		with.NodeOverlays = append(with.NodeOverlays, o)
	}
	memo, plain, corrected := overlay.Memo{}, &inventory.Cache{}, &inventory.Cache{}
	run := func(s *engine.Snapshot, cache *inventory.Cache) (plan *engine.Plan, took float64) {
		began := time.Now()
		at := *s
		if len(at.NodeOverlays) > 0 {
			memo.Lay(&at)
		}
		plan = provisioning.Plan(&at, engine.Options{}, cache)
		return plan, float64(time.Since(began))
	}
	run(&with, corrected)
	run(s, plain)
	var parts []float64
	for b.Loop() {
		a, without := run(s, plain)
		c, spent := run(&with, corrected)
		if a.Cost.LaunchesPerHour != c.Cost.LaunchesPerHour {
			b.Fatalf("prices are the same, and the plans cost %v and %v", a.Cost.LaunchesPerHour, c.Cost.LaunchesPerHour)
		}
		parts = append(parts, spent/without)
	}
	slices.Sort(parts)
	b.ReportMetric(parts[len(parts)/2], "of-without")
}

package engine_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"tenon.sh/api/autoscalingv1beta1"
	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario"
	"tenon.sh/scenario/workload"
)

// BenchmarkBuffers makes plans without and with CapacityBuffers, in turn, so that whatever else the machine does slows both alike: 500
// of one pod beside 10,000 pods that wait, of 10 sizes and of 150, and 100 of 100 pods on machines that are there. It
// reports how much longer the second takes, in milliseconds and as a part of the first.
func BenchmarkBuffers(b *testing.B) {
	for _, c := range []struct{ buffers, size, sizes, pods int }{{500, 1, 10, 10_000}, {500, 1, 150, 10_000}, {100, 100, 100, 0}} {
		b.Run(fmt.Sprintf("%dx%d-of-%d-beside-%d", c.buffers, c.size, c.sizes, c.pods), func(b *testing.B) {
			s := workload.Diverse(max(c.pods, 1), 1)
			if c.pods == 0 {
				s.Pods = nil
			}
			with := *s
			for i := range c.buffers {
				kind := i % c.sizes
				meta := metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("room-%d", i), UID: types.UID(fmt.Sprint("room-", i)), ResourceVersion: "1"}
				template := &corev1.PodTemplate{ObjectMeta: meta}
				template.Template.Spec.Containers = []corev1.Container{{Name: "a", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
					corev1.ResourceCPU: resource.MustParse(fmt.Sprint(100+10*(kind%50), "m")), corev1.ResourceMemory: resource.MustParse(fmt.Sprint(256+64*(kind%30), "Mi")),
				}}}}
				buffer := &autoscalingv1beta1.CapacityBuffer{ObjectMeta: meta}
				buffer.Spec.PodTemplateRef, buffer.Spec.Replicas = &autoscalingv1beta1.LocalObjectRef{Name: meta.Name}, new(int32(c.size))
				with.PodTemplates, with.CapacityBuffers = append(with.PodTemplates, template), append(with.CapacityBuffers, buffer)
			}
			if c.pods == 0 {
				with = *scenario.CarryOut(&with, provisioning.Plan(&with, hasty(0), nil))
				rest := with
				rest.CapacityBuffers = nil
				s = &rest
			}
			plain, buffered := &inventory.Cache{}, &inventory.Cache{}
			plan := func(s *engine.Snapshot, cache *inventory.Cache) float64 {
				began := time.Now()
				provisioning.Plan(s, engine.Options{}, cache)
				return time.Since(began).Seconds() * 1e3
			}
			plan(s, plain)
			plan(&with, buffered)
			var more, parts []float64
			for b.Loop() {
				without, spent := plan(s, plain), plan(&with, buffered)
				more, parts = append(more, spent-without), append(parts, spent/without)
			}
			slices.Sort(more)
			slices.Sort(parts)
			b.ReportMetric(more[len(more)/2], "more-ms")
			if c.pods > 0 {
				b.ReportMetric(parts[len(parts)/2], "of-without")
			}
		})
	}
}

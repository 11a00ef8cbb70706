package endtoend_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "tenon.sh/api/v1"
	"tenon.sh/scenario/workload"
)

// BenchmarkOthersBesideAFlood measures ten pods of one namespace while the pods of another ask for as much as an API server takes, on all of
// EC2's types: how many CPU seconds the controller uses until the ten run, as a multiple of the same without the others, and how long that
// takes. Each input is a mixture of constraints, 100 kB of them.
func BenchmarkOthersBesideAFlood(b *testing.B) {
	for seed := range uint64(4) {
		b.Run(fmt.Sprintf("seed-%d", seed), func(b *testing.B) {
			for b.Loop() {
				flood(b, seed)
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

func flood(b *testing.B, seed uint64) {
	w := newWorld(b)
	w.useProgram()
	kinds := workload.HostileKinds()
	hostile, plain := workload.Hostile(workload.Flexible(0, 1, 0), 100_000, seed, kinds...)
	controller := w.start("--instance-types-file-path="+w.catalogFile(plain.Classes[0].InstanceTypes), "--boot-delay=1s")
	w.pool("flood", func(p *v1.NodePool) {
		p.Spec.Template.Spec.ExpireAfter = v1.NillableDuration{}
		p.Spec.Template.Spec.Requirements = plain.NodePools[0].Spec.Template.Spec.Requirements
		p.Spec.Disruption.ConsolidateAfter = v1.NillableDuration{} // never
	})
	w.poolReady("flood")
	alone, took := w.tenPods(controller, "alone")

	w.must(client.IgnoreAlreadyExists(w.Create(w, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "hostile"}})))
	made := 0
	for _, pod := range hostile.Pods {
		pod.UID, pod.ResourceVersion, pod.Status = "", "", corev1.PodStatus{}
		if err := w.Create(w, pod); err == nil {
			made++
		} else if !apierrors.IsInvalid(err) { // two ports may be the same
			b.Fatal(err)
		}
	}
	beside, tookBeside := w.tenPods(controller, "beside")
	b.ReportMetric(float64(made), "pods-of-others")
	b.ReportMetric(alone, "cpu-s-alone")
	b.ReportMetric(beside, "cpu-s-beside")
	b.ReportMetric(beside/alone, "x-cpu")
	b.ReportMetric(tookBeside.Seconds()/took.Seconds(), "x-time")
	b.ReportMetric(peakMegabytes(b, controller.Process.Pid), "MB-peak")
	b.StopTimer()
	w.must(w.DeleteAllOf(w, &corev1.Pod{}, client.InNamespace("hostile"), client.GracePeriodSeconds(0)))
	w.must(w.DeleteAllOf(w, &appsv1.Deployment{}, client.InNamespace("default"), client.PropagationPolicy(metav1.DeletePropagationBackground)))
	controller.end(syscall.SIGTERM)
	w.clear()
	b.StartTimer()
}

// tenPods starts ten pods, and says how many CPU seconds the controller uses until all run.
func (w *world) tenPods(controller *tenon, app string) (cpu float64, took time.Duration) {
	w.Helper()
	before, began := cpuSeconds(w.TB, controller.Process.Pid), time.Now()
	w.deploy(app, 10, "900m", "1Gi")
	w.until(5*time.Minute, func() (bool, string) {
		n := 0
		for _, pod := range w.pods() {
			if pod.Labels["app"] == app && pod.Status.Phase == corev1.PodRunning {
				n++
			}
		}
		return n == 10, fmt.Sprintf("%d pods of %s run", n, app)
	})
	return cpuSeconds(w.TB, controller.Process.Pid) - before, time.Since(began)
}

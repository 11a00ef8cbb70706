package simulator

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/enginetest"
	"tenon.sh/engine/kube"
	"tenon.sh/scenario"
)

// Somebody taints every node as soon as it takes pods, so that none is of use for long. Nodes come and go for as long as that
// lasts, but there are never many more than pods.
func TestTaintsThatSomebodyGoesOnSettingDoNotMakeTheClusterGrow(t *testing.T) {
	enginetest.Long(t)
	t.Parallel()
	for _, policy := range []v1.ConsolidationPolicy{v1.WhenEmpty, v1.WhenEmptyOrUnderutilized} {
		for _, effect := range []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute} {
			t.Run(fmt.Sprint(policy, " ", effect), func(t *testing.T) {
				t.Parallel()
				file, err := scenario.Parse(`catalog kwok
cloud fixed30
pool general budget=100% consolidate-after=0s capacity in (on-demand)
deployment web x12 cpu=500m mem=1Gi apart=hostname
deployment api x12 cpu=500m mem=1Gi rollout="*/10 * * * *"
cronjob tick x3 cpu=1 mem=1Gi schedule="*/3 * * * *" runs=90s
`)
				if err != nil {
					t.Fatal(err)
				}
				w, err := New(Config{
					Snapshot: file.Snapshot, Course: file.Course, Seed: 1, For: 2 * time.Hour, Policy: policy, DisruptEvery: 10 * time.Second, Audit: true,
				})
				if err != nil {
					t.Fatal(err)
				}
				goOn(t, w, 10*time.Minute)
				launched, most := w.meter.Launched, 0
				for range 2400 {
					w.taintAll(effect)
					goOn(t, w, time.Second)
					most = max(most, w.meter.machines)
				}
				if most > 35 {
					t.Errorf("%d machines for 30 pods at most", most)
				}
				if n := w.meter.Launched - launched; n < 20 {
					t.Errorf("%d machines were started: the taints have done nothing", n)
				}
			})
		}
	}
}

// taintAll taints every node that takes pods.
func (w *World) taintAll(effect corev1.TaintEffect) {
	chaos := corev1.Taint{Key: "chaos", Effect: effect}
	for _, s := range slices.Clone(w.cluster.seatList) {
		if !isOpen(s.node) || !isNodeReady(s.node) || slices.Contains(s.node.Spec.Taints, chaos) {
			continue
		}
		node := s.node.DeepCopy()
		node.Spec.Taints = append(node.Spec.Taints, chaos)
		w.nodes.set(s, node)
		if effect != corev1.TaintEffectNoExecute {
			continue
		}
		for _, u := range slices.Clone(s.units) {
			if !kube.OwnedByDaemonSet(u.pod) {
				w.pods.end(u, u.grace())
			}
		}
	}
}

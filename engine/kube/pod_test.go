package kube

import (
	"math"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/capacity"
	"tenon.sh/engine/enginetest"
)

// Numbers that are too large to write out count as the largest amount.
func TestAmountsBeyondCounting(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"1e999999999": capacity.Most, "-1e999999999": -capacity.Most, "0e999999999": 0, "1e18": capacity.Most, "-1e18": -capacity.Most, "2e3": 2000, "1e-3": 1,
	} {
		if got := Amount(corev1.ResourceMemory, resource.MustParse(text)); got != want {
			t.Errorf("%s of memory counts %d, want %d", text, got, want)
		}
	}
	if got := Amount(corev1.ResourceCPU, resource.MustParse("2e3")); got != 2_000_000 {
		t.Errorf("2e3 cores count %d", got)
	}
	for text, want := range map[string]string{"1e999": "72057594037927936", "-1E+999": "-72057594037927936", "1e-999": "1n", "-1E-999": "-1n"} {
		if got := Counted(text); !IsBeyondCounting(text) || got != want {
			t.Errorf("%s counts as %s, want %s", text, got, want)
		}
	}
}

func TestWhatEvictingAPodCosts(t *testing.T) {
	t.Parallel()
	deletion := func(text string) map[string]string { return map[string]string{v1.PodDeletionCostAnnotationKey: text} }
	plain := EvictionCost(&corev1.Pod{})
	if plain != 1 {
		t.Errorf("a plain pod costs %g, want exactly 1", plain)
	}
	rising := []*corev1.Pod{
		enginetest.CostlyPod(0, deletion("-2147483648")), enginetest.CostlyPod(0, deletion("-100")), enginetest.CostlyPod(0, nil), enginetest.CostlyPod(0, deletion("99")),
		enginetest.CostlyPod(0, deletion("100")), enginetest.CostlyPod(0, deletion("101")), enginetest.CostlyPod(math.MaxInt32, nil),
	}
	for i := range rising[1:] {
		if a, b := EvictionCost(rising[i]), EvictionCost(rising[i+1]); a >= b {
			t.Errorf("pod %d costs %g, the next %g", i, a, b)
		}
	}
	if up, down := EvictionCost(enginetest.CostlyPod(1, nil)), EvictionCost(enginetest.CostlyPod(-1, nil)); up <= 1 || down >= 1 {
		t.Errorf("priorities 1 and -1 cost %g and %g", up, down)
	}
	for _, text := range []string{"1.5", "much", "2147483648", ""} {
		if cost := EvictionCost(enginetest.CostlyPod(0, deletion(text))); cost != 1 {
			t.Errorf("deletion cost %q counts: %g", text, cost)
		}
	}
	written := deletion("500000000")
	written[v1.WrittenDeletionCostAnnotationKey] = "500000000"
	if cost := EvictionCost(enginetest.CostlyPod(0, written)); cost != 1 {
		t.Errorf("what this program wrote itself costs %v", cost)
	}
	written[v1.PodDeletionCostAnnotationKey] = "400000000"
	if cost := EvictionCost(enginetest.CostlyPod(0, written)); cost <= 1 {
		t.Errorf("what somebody changed since costs %v", cost)
	}
	both := map[string]string{v1.DisruptionCostAnnotationKey: "unreadable", v1.PodDeletionCostAnnotationKey: "100"}
	if cost := EvictionCost(enginetest.CostlyPod(0, both)); cost != 1 {
		t.Errorf("the deletion cost counts beside a disruption cost: %g", cost)
	}
	both[v1.DisruptionCostAnnotationKey] = "200"
	if cost := EvictionCost(enginetest.CostlyPod(0, both)); cost != EvictionCost(enginetest.CostlyPod(0, deletion("200"))) {
		t.Errorf("the disruption cost does not win: %g", cost)
	}
}

func TestForHowLongAPodProtectsItsNode(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]Protection{
		"true": {Active: true},
		"10m":  {Active: true, Until: start.Add(10 * time.Minute)},
		"5m":   {Until: start.Add(5 * time.Minute)}, // until that very instant, and no longer
		"0s":   {Invalid: "0s"}, "-5m": {Invalid: "-5m"}, "soon": {Invalid: "soon"}, "false": {Invalid: "false"},
	} {
		pod := &corev1.Pod{Status: corev1.PodStatus{StartTime: new(metav1.NewTime(start))}}
		pod.Annotations = map[string]string{v1.DoNotDisruptAnnotationKey: text}
		if got := ProtectionOf(pod, start.Add(5*time.Minute)); got != want {
			t.Errorf("%q after five minutes: %+v, want %+v", text, got, want)
		}
	}
}

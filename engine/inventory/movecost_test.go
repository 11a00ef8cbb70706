package inventory

import (
	"math"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/engine"
)

func TestWhatMovingAPodCosts(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	aged := func(age time.Duration) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(now.Add(-age))}}
	}
	for name, c := range map[string]struct {
		age, start time.Duration
		want       float64
	}{
		"an old pod is disturbed for ten minutes":       {1e6 * time.Hour, 0, 0.6 * 10 / 60},
		"and for twice the time that it takes to start": {1e6 * time.Hour, 5 * time.Minute, 0.6 * 20 / 60},
		"half an hour old costs twice as much":          {30 * time.Minute, 0, 2 * 0.6 * 10 / 60},
		"a newborn three times":                         {0, 0, 3 * 0.6 * 10 / 60},
	} {
		cache := &Cache{}
		cache.Take(&engine.Snapshot{}, 1)
		info := cache.read(aged(c.age), 1)
		if got := info.SettledCost(0.6, c.start) * info.Young(now); math.Abs(got-c.want) > 1e-6 {
			t.Errorf("%s: %g, want %g", name, got, c.want)
		}
	}
}

func TestStartTimesAreThoseOfTheOwnersOtherPods(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	owned := func(owner string, took time.Duration) *corev1.Pod {
		yes := true
		pod := &corev1.Pod{}
		pod.Namespace, pod.Spec.NodeName = "default", "n"
		pod.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: owner, Controller: &yes}}
		pod.Status.Conditions = []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now)},
			{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(took))},
		}
		return pod
	}
	waiting := owned("new", 0)
	waiting.Status.Conditions = nil
	cache, pods := &Cache{}, []*corev1.Pod{owned("slow", 9*time.Minute), owned("slow", 5*time.Minute), owned("slow", time.Hour), owned("fast", time.Second), waiting}
	cache.Take(&engine.Snapshot{Pods: pods}, 1)
	if got := cache.InfoOf(pods[0]).OwnersStart(); got != 9*time.Minute {
		t.Errorf("slow: %s, want the median", got)
	}
	if got := cache.InfoOf(waiting).OwnersStart(); got != usualStart {
		t.Errorf("unknown: %s", got)
	}
	cache.Take(&engine.Snapshot{Pods: pods[1:]}, 1)
	if got := cache.InfoOf(pods[1]).OwnersStart(); got != time.Hour {
		t.Errorf("slow, once one has left: %s, want the median of the others", got)
	}
}

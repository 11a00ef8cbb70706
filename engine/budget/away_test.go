package budget_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/engine/budget"
)

// A pod is ill ten minutes after it got its node, no matter how long it had waited for the node.
func TestAPodIsAwayForTenMinutesAfterItsNodeGotIt(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	condition := func(kind corev1.PodConditionType, status corev1.ConditionStatus, age time.Duration) corev1.PodCondition {
		return corev1.PodCondition{Type: kind, Status: status, LastTransitionTime: metav1.NewTime(now.Add(-age))}
	}
	for _, c := range []struct {
		name       string
		age        time.Duration
		node       string
		conditions []corev1.PodCondition
		away       bool
	}{
		{name: "no node", age: time.Hour, away: true},
		{name: "ready", age: time.Minute, node: "n", conditions: []corev1.PodCondition{condition(corev1.PodReady, corev1.ConditionTrue, time.Second)}},
		{name: "bound after an hour", age: time.Hour, node: "n", conditions: []corev1.PodCondition{condition(corev1.PodScheduled, corev1.ConditionTrue, time.Minute)}, away: true},
		{name: "bound for long", age: time.Hour, node: "n", conditions: []corev1.PodCondition{condition(corev1.PodScheduled, corev1.ConditionTrue, 10*time.Minute)}},
		{name: "not ready since it was bound", age: time.Hour, node: "n", conditions: []corev1.PodCondition{
			condition(corev1.PodReady, corev1.ConditionFalse, 2*time.Minute), condition(corev1.PodScheduled, corev1.ConditionTrue, 20*time.Minute)}, away: true},
		{name: "nothing is said", age: time.Minute, node: "n", away: true},
		{name: "nothing is said for long", age: time.Hour, node: "n"},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{NodeName: c.node}, Status: corev1.PodStatus{Conditions: c.conditions}}
		pod.CreationTimestamp = metav1.NewTime(now.Add(-c.age))
		if away := budget.IsAway(pod, now); away != c.away {
			t.Errorf("%s: away %t, want %t", c.name, away, c.away)
		}
	}
}

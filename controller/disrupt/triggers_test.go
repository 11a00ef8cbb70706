package disrupt

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Every kubelet reports every few seconds; only what is new in that is a reason to look at the nodes.
func TestOnlyAnotherConditionOfANodeWakesDisruption(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	ready := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastTransitionTime: metav1.NewTime(at)}
	with := func(change func(*corev1.NodeCondition)) *corev1.Node {
		c := ready
		if change != nil {
			change(&c)
		}
		return &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{c}}}
	}
	failed := func(since time.Time) func(*corev1.NodeCondition) {
		return func(c *corev1.NodeCondition) {
			c.Status, c.LastTransitionTime = corev1.ConditionFalse, metav1.NewTime(since)
		}
	}
	for name, c := range map[string]struct {
		node          *corev1.Node
		changed, late bool
	}{
		"a heartbeat":                     {with(func(c *corev1.NodeCondition) { c.LastHeartbeatTime = metav1.NewTime(at.Add(time.Hour)) }), false, false},
		"another message":                 {with(func(c *corev1.NodeCondition) { c.Message = "x" }), false, false},
		"another reason":                  {with(func(c *corev1.NodeCondition) { c.Reason = "x" }), true, false},
		"not ready":                       {with(failed(at.Add(time.Hour))), true, false},
		"not ready since before that":     {with(failed(at.Add(-time.Hour))), true, true},
		"a condition of a type not known": {with(func(c *corev1.NodeCondition) { c.Type = "DiskBroken" }), true, false},
	} {
		if changed, late := conditionsChanged(with(nil), c.node); changed != c.changed || late != c.late {
			t.Errorf("%s: changed %t, late %t", name, changed, late)
		}
	}
}

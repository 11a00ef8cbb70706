package disrupt

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
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

// A pod that was resized in place to less frees room on its node, once the kubelet says so: what it has counts until then.
func TestAPodThatShrinksWakesDisruption(t *testing.T) {
	t.Parallel()
	cpu := func(n string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(n)}
	}
	with := func(wish, has string, pending string) *corev1.Pod {
		p := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{Requests: cpu(wish)}}}}}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", AllocatedResources: cpu(has), Resources: &corev1.ResourceRequirements{Requests: cpu(has)}}}
		if pending != "" {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: pending}}
		}
		return p
	}
	for name, c := range map[string]struct {
		before, after *corev1.Pod
		want          bool
	}{
		"nothing":                            {with("2", "2", ""), with("2", "2", ""), false},
		"it is to grow":                      {with("2", "2", ""), with("3", "2", ""), false},
		"it is to shrink":                    {with("2", "2", ""), with("1", "2", ""), false},
		"it has shrunk":                      {with("1", "2", ""), with("1", "1", ""), true},
		"its wish is given up":               {with("3", "2", corev1.PodReasonDeferred), with("2", "2", ""), true},
		"its node can never give what it is": {with("30", "2", ""), with("30", "2", corev1.PodReasonInfeasible), true},
	} {
		if got := shrank(c.before, c.after); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

package kube

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
)

func TestTaintsThatNobodyHasDeclared(t *testing.T) {
	t.Parallel()
	claim := &v1.NodeClaim{}
	claim.Spec.Taints = []v1.Taint{{Key: "dedicated", Value: "x", Effect: "NoSchedule"}}
	claim.Spec.StartupTaints = []v1.Taint{{Key: "booting", Effect: "NoExecute"}}
	node := &corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{
		{Key: "linkerd.example.com/starting", Effect: corev1.TaintEffectNoSchedule},
		{Key: "booting", Effect: corev1.TaintEffectNoSchedule},
		{Key: "a.example.com/soft", Effect: corev1.TaintEffectPreferNoSchedule},
		{Key: "dedicated", Value: "x", Effect: corev1.TaintEffectNoSchedule},
		{Key: "booting", Effect: corev1.TaintEffectNoExecute},
		{Key: "node.cilium.io/agent-not-ready", Effect: corev1.TaintEffectNoSchedule},
		{Key: "node.kubernetes.io/memory-pressure", Effect: corev1.TaintEffectNoSchedule},
		{Key: v1.DisruptedTaintKey, Effect: corev1.TaintEffectNoSchedule},
		{Key: RemovedElsewhereTaint, Effect: corev1.TaintEffectNoSchedule},
	}}}
	if got := strings.Join(UndeclaredTaints(claim, node), " "); got != "booting:NoSchedule linkerd.example.com/starting:NoSchedule" {
		t.Errorf("undeclared: %s", got)
	}
}

func TestWhatIsLearnedOfStartupTaintsIsBoundedAndForgotten(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	pool := &v1.NodePool{}
	learn := func(lost, stayed []string, at time.Time) bool {
		text := LearnTaints(pool, lost, stayed, at)
		changed := text != pool.Annotations[v1.LearnedTaintsAnnotationKey]
		pool.Annotations = With(pool.Annotations, v1.LearnedTaintsAnnotationKey, text)
		return changed
	}
	if !learn([]string{"a:NoSchedule"}, nil, now) || !HasLearned(pool, "a:NoSchedule", now) || HasLearned(pool, "a:NoExecute", now) {
		t.Fatalf("learned: %v", pool.Annotations)
	}
	if learn([]string{"a:NoSchedule"}, nil, now.Add(23*time.Hour)) {
		t.Errorf("the second node of a day writes: %v", pool.Annotations)
	}
	if !learn([]string{"a:NoSchedule"}, nil, now.Add(25*time.Hour)) || !HasLearned(pool, "a:NoSchedule", now.Add(8*24*time.Hour)) {
		t.Errorf("a node of the next day: %v", pool.Annotations)
	}
	if HasLearned(pool, "a:NoSchedule", now.Add(9*24*time.Hour)) {
		t.Error("it is known after more than a week")
	}
	if !learn(nil, []string{"a:NoSchedule"}, now.Add(26*time.Hour)) || pool.Annotations[v1.LearnedTaintsAnnotationKey] != "" {
		t.Errorf("once it has stayed on a node: %v", pool.Annotations)
	}
	for i := range 40 {
		learn([]string{fmt.Sprintf("t%d:NoSchedule", i)}, nil, now.Add(time.Duration(i)*time.Minute))
	}
	list, ok := LearnedTaints(pool, now.Add(time.Hour))
	if !ok || len(list) != 16 || list[0].Taint != "t39:NoSchedule" {
		t.Errorf("%t, %d are kept: %v", ok, len(list), list)
	}
}

func TestWhatCannotBeReadOfLearnedTaintsIsIgnored(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	many := "[" + strings.Repeat(`{"taint":"a:NoSchedule","last":"2026-01-01T11:00:00Z"},`, 200) + `{}]`
	for _, text := range []string{"{", "true", `{"taint":"a"}`, `[{"taint":1}]`, `[{"taint":"a","last":"yesterday"}]`, many} {
		pool := &v1.NodePool{}
		pool.Annotations = map[string]string{v1.LearnedTaintsAnnotationKey: text}
		if list, ok := LearnedTaints(pool, now); ok || len(list) > 0 {
			t.Errorf("%.30s: %t, %v", text, ok, list)
		}
		learned := LearnTaints(pool, []string{"b:NoSchedule"}, nil, now)
		if !strings.Contains(learned, "b:NoSchedule") || strings.Contains(learned, "a:NoSchedule") {
			t.Errorf("%.30s becomes %s", text, learned)
		}
	}
	for _, text := range []string{"", "[]", "null", `[{"taint":"a:NoSchedule","last":"2026-02-01T11:00:00Z"}]`, `[{"taint":"","last":"2026-01-01T11:00:00Z"}]`} {
		pool := &v1.NodePool{}
		pool.Annotations = map[string]string{v1.LearnedTaintsAnnotationKey: text}
		if list, ok := LearnedTaints(pool, now); !ok || len(slices.Clip(list)) > 0 {
			t.Errorf("%s: %t, %v", text, ok, list)
		}
	}
}

package lifecycle

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
)

// awaitsUndeclared reports whether the node's initialization still waits for undeclared taints: a minute, or ten if the pool has learned all of
// them.
func awaitsUndeclared(l Life, claim *v1.NodeClaim, node *corev1.Node, step *Step) bool {
	taints := kube.UndeclaredTaints(claim, node)
	if len(taints) == 0 {
		return false
	}
	patience, what := kube.StartupTaintMost, "which nodes of the pool lose by themselves"
	if slices.ContainsFunc(taints, func(t string) bool { return !kube.HasLearned(l.Pool, t, l.Now) }) {
		patience, what = kube.UndeclaredTaintPatience, "which the pool does not declare"
	}
	left := inventory.ReadySince(claim, []*corev1.Node{node}).Add(patience).Sub(l.Now)
	if left <= 0 {
		return false
	}
	kube.SetCondition(claim, v1.ConditionInitialized, metav1.ConditionUnknown, "UndeclaredTaintsExist",
		fmt.Sprintf("taint %s, %s, is still on the node", strings.Join(taints, ", "), what), l.Now)
	step.by(left)
	return true
}

// learnTaints records the node's undeclared taints on the claim, and on the pool those that the node has lost within kube.StartupTaintMost. It
// removes a taint that has stayed longer from the pool's learned taints.
func learnTaints(l Life, claim *v1.NodeClaim, node *corev1.Node, step *Step) {
	has, seen := kube.UndeclaredTaints(claim, node), kube.SeenTaints(claim)
	if l.Pool == nil || len(has)+len(seen) == 0 {
		return
	}
	left := kube.StartupTaintMost
	if kube.NodeReady(node) {
		left = inventory.ReadySince(claim, []*corev1.Node{node}).Add(left).Sub(l.Now)
	}
	gone := func(t string) bool { return !slices.Contains(has, t) }
	var lost, stayed []string
	if left > 0 {
		lost = slices.DeleteFunc(slices.Clone(seen), func(t string) bool { return !gone(t) })
		note(claim, v1.UndeclaredTaintsAnnotationKey, kube.SeenTaintsText(has))
		if len(has) > 0 {
			step.by(left)
		}
	} else {
		stayed = slices.DeleteFunc(seen, gone)
		note(claim, v1.UndeclaredTaintsAnnotationKey, "")
	}
	text := kube.LearnTaints(l.Pool, lost, stayed, l.Now)
	if text == l.Pool.Annotations[v1.LearnedTaintsAnnotationKey] {
		return
	}
	for _, taint := range lost {
		if !kube.HasLearned(l.Pool, taint, l.Now) {
			step.Events = append(step.Events, engine.Event{Object: l.Pool, Reason: eventTaintLearned, Key: taint, Message: fmt.Sprintf(
				"node %s lost its taint %s by itself, which the pool does not declare: new nodes are waited for until it goes; name it under spec.template.spec.startupTaints",
				node.Name, taint)})
		}
	}
	pool := *l.Pool
	pool.Annotations = maps.Clone(pool.Annotations)
	note(&pool, v1.LearnedTaintsAnnotationKey, text)
	step.Pool = &pool
}

// note sets an annotation, or removes it if the text is empty.
func note(o metav1.Object, key, text string) {
	if annotations := o.GetAnnotations(); text != "" {
		o.SetAnnotations(kube.With(annotations, key, text))
	} else if annotations[key] != "" {
		annotations = maps.Clone(annotations)
		delete(annotations, key)
		o.SetAnnotations(annotations)
	}
}

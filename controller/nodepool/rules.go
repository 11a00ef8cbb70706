package nodepool

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/budget"
)

// noteRules writes conditions about the pool's annotations: whether a pause is in force, and whether annotations cannot be read.
func noteRules(pool *v1.NodePool, snap *engine.Snapshot) {
	if paused := budget.PoolPaused(snap, pool); paused.OK() {
		v1.RemoveCondition(pool, v1.ConditionPaused, snap.Now)
	} else {
		v1.SetCondition(pool, v1.ConditionPaused, metav1.ConditionTrue, "", paused.Message(), snap.Now)
	}
	var problems []string
	for _, r := range budget.AnnotationProblems(snap, pool) {
		problems = append(problems, r.Message())
	}
	if len(problems) == 0 {
		v1.RemoveCondition(pool, v1.ConditionAnnotationsRead, snap.Now)
		return
	}
	v1.SetCondition(pool, v1.ConditionAnnotationsRead, metav1.ConditionFalse, "Unreadable", strings.Join(problems, "; "), snap.Now)
}

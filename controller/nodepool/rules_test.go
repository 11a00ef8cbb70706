package nodepool_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
)

func TestAPausedPoolSaysSo(t *testing.T) {
	t.Parallel()
	pool := bare("general")
	pool.Annotations = map[string]string{v1.PauseAnnotationKey: "true", v1.PauseReasonAnnotationKey: "migration"}
	w := newWorld(t, pool)
	pool = w.pass()
	if c := v1.GetCondition(pool, v1.ConditionPaused); c == nil || c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, "migration") {
		t.Errorf("condition %+v", c)
	}
	delete(pool.Annotations, v1.PauseAnnotationKey)
	w.Must(w.Client.Update(w, pool))
	if c := v1.GetCondition(w.pass(), v1.ConditionPaused); c != nil {
		t.Errorf("after the pause: %+v", c)
	}
}

func TestAPauseOfTheClusterShowsOnItsPools(t *testing.T) {
	t.Parallel()
	system := &corev1.Namespace{}
	system.Name, system.Annotations = "kube-system", map[string]string{v1.PauseAnnotationKey: "true", v1.PauseReasonAnnotationKey: "incident"}
	w := newWorld(t, bare("general"), system)
	if c := v1.GetCondition(w.pass(), v1.ConditionPaused); c == nil || c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, "the cluster is paused: incident") {
		t.Errorf("condition %+v", c)
	}
}

func TestAnnotationsThatCannotBeReadAreNamed(t *testing.T) {
	t.Parallel()
	pool := bare("general")
	pool.Annotations = map[string]string{v1.BudgetTimeZoneAnnotationKey: "Europe/Atlantis", v1.PaybackAnnotationKey: "soon", v1.MinMemoryAnnotationKey: "much"}
	pool = newWorld(t, pool).pass()
	c := v1.GetCondition(pool, v1.ConditionAnnotationsRead)
	if c == nil || c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "Europe/Atlantis") || !strings.Contains(c.Message, v1.PaybackAnnotationKey) ||
		!strings.Contains(c.Message, v1.MinMemoryAnnotationKey+` is "much", want an amount of memory`) {
		t.Errorf("condition %+v", c)
	}
	if !v1.IsTrue(pool, v1.ConditionReady) {
		t.Error("the pool cannot be used any more")
	}
}

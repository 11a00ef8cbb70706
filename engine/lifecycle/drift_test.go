package lifecycle

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/enginetest"
)

// A change of a pool's template changes its hash if and only if machines must follow the change.
func TestWhichChangesOfAPoolDrift(t *testing.T) {
	t.Parallel()
	drifts := map[string]func(*v1.NodePool){
		"labels":      func(p *v1.NodePool) { p.Spec.Template.Labels = map[string]string{"a": "b"} },
		"annotations": func(p *v1.NodePool) { p.Spec.Template.Annotations = map[string]string{"a": "b"} },
		"taints":      func(p *v1.NodePool) { p.Spec.Template.Spec.Taints = []v1.Taint{{Key: "a", Effect: "NoSchedule"}} },
		"startup taints": func(p *v1.NodePool) {
			p.Spec.Template.Spec.StartupTaints = []v1.Taint{{Key: "a", Effect: "NoSchedule"}}
		},
		"node class":   func(p *v1.NodePool) { p.Spec.Template.Spec.NodeClassRef = &v1.NodeClassReference{Name: "other"} },
		"expire after": func(p *v1.NodePool) { p.Spec.Template.Spec.ExpireAfter = v1.DurationOf(time.Hour) },
		"grace period": func(p *v1.NodePool) {
			p.Spec.Template.Spec.TerminationGracePeriod = &metav1.Duration{Duration: time.Hour}
		},
	}
	stays := map[string]func(*v1.NodePool){
		"requirements": func(p *v1.NodePool) {
			p.Spec.Template.Spec.Requirements = []v1.Requirement{{Key: "a", Operator: v1.Exists}}
		},
		"weight":     func(p *v1.NodePool) { p.Spec.Weight = new(int32) },
		"limits":     func(p *v1.NodePool) { p.Spec.Limits = v1.Limits{} },
		"disruption": func(p *v1.NodePool) { p.Spec.Disruption.Budgets = []v1.Budget{{Nodes: "1"}} },
		"replicas":   func(p *v1.NodePool) { p.Spec.Replicas = new(int64) },
		"annotations of the pool itself": func(p *v1.NodePool) {
			p.Annotations = map[string]string{v1.PauseAnnotationKey: "true"}
		},
	}
	base := func() *v1.NodePool {
		pool := enginetest.LifePool(0)
		pool.Spec.Template.Spec.NodeClassRef = &v1.NodeClassReference{Name: "default"}
		return pool
	}
	for name, change := range drifts {
		pool := base()
		change(pool)
		if pool.Hash() == base().Hash() {
			t.Errorf("a change of %s drifts nothing", name)
		}
	}
	for name, change := range stays {
		pool := base()
		change(pool)
		if pool.Hash() != base().Hash() {
			t.Errorf("a change of %s drifts", name)
		}
	}
}

package prometheus_test

import (
	"context"
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func intOrString(n int32) intstr.IntOrString { return intstr.FromInt32(n) }

// withoutPrometheus kills Prometheus, has Tenon work meanwhile, and starts it again: Tenon did not notice, and an alert that fired
// fires on, until it is mended.
func (w *world) withoutPrometheus(s *server, controller *tenon, mend func()) {
	w.fires(s, "TenonPodsWithoutMachine", nil)
	s.Kill()
	before := len(w.linesWith(controller.Log, `"level":"ERROR"`))
	w.pool("meanwhile", "m5.large")
	w.pods("meanwhile", 2)
	w.awaitPods("meanwhile", 2, time.Minute)
	if lines := w.linesWith(controller.Log, `"level":"ERROR"`); len(lines) > before {
		w.Errorf("without Prometheus Tenon logs %s", lines[before:])
	}
	ctx, cancel := context.WithTimeout(w, time.Minute)
	defer cancel()
	w.must(s.Start(ctx))
	w.fires(s, "TenonPodsWithoutMachine", nil)
	mend()
	w.resolves(s, "TenonPodsWithoutMachine", nil)
}

// withoutTenon kills Tenon, and has it start without the right to list DaemonSets: it serves metrics and knows nothing.
func (w *world) withoutTenon(s *server, controller *tenon) {
	began := time.Now()
	controller.Kill()
	found := w.fires(s, "TenonNotProgressing", nil)
	w.Logf("fires %.0f s after Tenon was killed: %s", time.Since(began).Seconds(), found.Annotations["summary"])

	mend := w.takeAway("daemonsets")
	started := make(chan error, 1)
	go func() { started <- w.again(controller) }()
	began = time.Now()
	found = w.fires(s, "TenonClusterUnknown", nil)
	w.Logf("fires %.0f s after it was started without a right: %s", time.Since(began).Seconds(), found.Annotations["summary"])
	mend()
	began = time.Now()
	w.must(<-started)
	w.resolves(s, "TenonClusterUnknown", nil)
	w.resolves(s, "TenonNotProgressing", nil)
	w.Logf("resolved after %.0f s", time.Since(began).Seconds())
}

// takeAway takes the right to a kind from Tenon, and returns how to give it back.
func (w *world) takeAway(resource string) (giveBack func()) {
	w.Helper()
	role := &rbacv1.ClusterRole{}
	w.must(w.Get(w, client.ObjectKey{Name: "tenon"}, role))
	whole, taken := role.DeepCopy().Rules, false
	for i, rule := range role.Rules {
		var left []string
		for _, r := range rule.Resources {
			if r != resource {
				left = append(left, r)
			}
		}
		taken = taken || len(left) < len(rule.Resources)
		role.Rules[i].Resources = left
	}
	if !taken {
		w.Fatalf("the role has no right to %s: %s", resource, strings.TrimSpace(role.String()))
	}
	w.must(w.Update(w, role))
	return func() {
		w.Helper()
		w.must(w.Get(w, client.ObjectKey{Name: "tenon"}, role))
		role.Rules = whole
		w.must(w.Update(w, role))
	}
}

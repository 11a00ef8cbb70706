package prometheus_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
)

// A trouble is what an alert is for.
type trouble struct {
	alert string
	// cause brings it about, and returns the labels of the alert that has to fire, and how it ends.
	cause func(w *world) (labels map[string]string, mend func())
}

// troubles are those that are there at the same time, most with a pool of their own.
func troubles() []trouble {
	return []trouble{
		{"TenonPodsUnreadable", unreadablePod},
		{"TenonPoolNotReady", missingClass},
		{"TenonPoolAtLimit", usedLimit},
		{"TenonClaimsDoNotRegister", lateMachine},
		{"TenonLaunchesFail", refusedLaunches},
		{"TenonSoldOut", soldOut},
		{"TenonDrainStuck", stuckDrain},
		{"TenonMachinesDoNotStop", machinesThatStay},
		{"TenonBudgetBlocksDrift", frozenDrift},
		{"TenonReplacementsFail", failingReplacements},
	}
}

// ofClouds are alerts about what the simulated cloud has not: notices in a queue, prices that have to be asked for, Azure's codes.
// Tests with those clouds make them fire.
func ofClouds() []string {
	return []string{"TenonAzureRefusesMachines", "TenonInterruptionsWait", "TenonPricesStale"}
}

// TestEveryAlertFiresAndResolves causes the trouble of every alert on a cluster in which a minute of the rules is a second, and ends
// it. In between Prometheus is killed; at last Tenon is, and starts without a right. Then every query of the dashboards has had data.
func TestEveryAlertFiresAndResolves(t *testing.T) {
	w := newWorld(t)
	controller := w.startTenon("--catalog", "aws", "--boot-delay", "2s", "--faults", "testdata/faults.json")
	s := w.startPrometheus(pace{60, 500 * time.Millisecond}, w.installChart(controller.metrics))
	for _, o := range w.readObjects("../../examples/prometheus/web.yaml") {
		w.apply(o)
	}
	w.applyText(agent)
	w.awaitPods("web", 20, time.Minute)

	remove := w.pod("huge", "10000", "")
	all := append(ofClouds(), "TenonPodsWithoutMachine", "TenonNotProgressing", "TenonClusterUnknown")
	t.Run("troubles", func(t *testing.T) {
		for _, x := range troubles() {
			all = append(all, x.alert)
			t.Run(x.alert, func(t *testing.T) {
				t.Parallel()
				x.run(w.in(t), s)
			})
		}
	})
	slices.Sort(all)
	if want := slices.Sorted(slices.Values(s.alerts)); !slices.Equal(all, want) {
		t.Errorf("tried out are %q, there are %q", all, want)
	}
	t.Run("without Prometheus", func(t *testing.T) { w.in(t).withoutPrometheus(s, controller, remove) })
	t.Run("without Tenon", func(t *testing.T) { w.in(t).withoutTenon(s, controller) })
	t.Run("costs", func(t *testing.T) { w.in(t).costs(s) })
	t.Run("dashboards", func(t *testing.T) { w.in(t).dashboards(s, "") })
}

func (x trouble) run(w *world, s *server) {
	began := time.Now()
	labels, mend := x.cause(w)
	fires := w.fires(s, x.alert, labels)
	w.Logf("fires after %.0f s: %s", time.Since(began).Seconds(), fires.Annotations["summary"])
	began = time.Now()
	if mend != nil {
		mend()
	}
	w.resolves(s, x.alert, labels)
	w.Logf("resolved after %.0f s", time.Since(began).Seconds())
}

// fires waits until the alert does.
func (w *world) fires(s *server, name string, labels map[string]string) (found *alert) {
	w.Helper()
	w.until(2*time.Minute, func() (bool, string) {
		var state string
		found, state = s.firing(name, labels)
		return found != nil, state
	})
	return found
}

// resolves waits until the alert does not fire any more, and Prometheus says so itself.
func (w *world) resolves(s *server, name string, labels map[string]string) {
	w.Helper()
	w.until(2*time.Minute, func() (bool, string) {
		var rules any
		if err := s.ask(&rules, "rules", nil); err != nil {
			return false, err.Error()
		}
		found, state := s.firing(name, labels)
		return found == nil, "still there:" + state
	})
}

// unreadablePod: the API server takes a node affinity without any expression, and no node matches it.
func unreadablePod(w *world) (map[string]string, func()) {
	return nil, w.pod("nowhere", "1", "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{}]}}}")
}

func missingClass(w *world) (map[string]string, func()) {
	w.pool("classless", "m5.large")
	w.change("classless", "spec: {template: {spec: {nodeClassRef: {name: later}}}}")
	return map[string]string{"name": "classless"}, func() {
		w.applyText("apiVersion: karpenter.kwok.sh/v1alpha1\nkind: KWOKNodeClass\nmetadata: {name: later}")
	}
}

func usedLimit(w *world) (map[string]string, func()) {
	w.pool("limited", "m5.xlarge", `limits: {cpu: "4"}`)
	w.pods("limited", 1)
	return map[string]string{"nodepool": "limited", "resource_type": "cpu"}, func() { w.change("limited", `spec: {limits: {cpu: "100"}}`) }
}

// lateMachine: testdata/faults.json has its machine join the cluster late, and that is the end of it.
func lateMachine(w *world) (map[string]string, func()) {
	w.pool("late", "c5.large")
	w.pods("late", 1)
	return map[string]string{"name": w.aClaim("late").Name}, nil
}

// aClaim waits for a machine of the pool to be asked for.
func (w *world) aClaim(pool string) (claim v1.NodeClaim) {
	w.Helper()
	w.until(time.Minute, func() (bool, string) {
		claims := w.claims(pool)
		if len(claims) > 0 {
			claim = claims[0]
		}
		return len(claims) > 0, "there is no NodeClaim of pool " + pool
	})
	return claim
}

// refusedLaunches: NodeClaims for what the cloud does not sell in a zone, one after another.
func refusedLaunches(w *world) (map[string]string, func()) {
	w.pool("refused", "m5.large")
	var claims []*v1.NodeClaim
	for i := range 3 {
		w.applyText(fmt.Sprintf(`
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {name: refused-%d, labels: {karpenter.sh/nodepool: refused}}
spec:
  requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [m5.huge]}]
  nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}`, i))
		claims = append(claims, &v1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("refused-%d", i)}})
		w.pause(4 * time.Second)
	}
	return map[string]string{"nodepool": "refused", "error": "unknown"}, func() {
		for _, c := range claims {
			w.must(w.Delete(w, c))
		}
	}
}

// soldOut: testdata/faults.json has a family sold out. What was refused is not asked for again for three minutes, so that the pods
// want one size after another.
func soldOut(w *world) (map[string]string, func()) {
	w.pool("sold", "c6i.large, c6i.xlarge, c6i.2xlarge, c6i.4xlarge, c6i.8xlarge, m5.xlarge")
	var remove []func()
	for _, size := range []string{"large", "xlarge", "2xlarge", "4xlarge", "8xlarge"} {
		remove = append(remove, w.pod("sold-"+size, "1", "nodeSelector: {karpenter.sh/nodepool: sold, node.kubernetes.io/instance-type: c6i."+size+"}"))
		w.pause(8 * time.Second)
	}
	return map[string]string{"nodepool": "sold"}, func() {
		for _, r := range remove {
			r()
		}
		w.pod("sold-other", "1", "nodeSelector: {karpenter.sh/nodepool: sold}")
	}
}

// stuckDrain: a budget of disruptions holds the only pod of a node that is to go.
func stuckDrain(w *world) (map[string]string, func()) {
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "stuck", Namespace: "default"}}
	budget.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "stuck"}}
	budget.Spec.MaxUnavailable = new(intOrString(0))
	w.must(w.Create(w, budget))
	w.pool("stuck", "m5.large")
	w.pods("stuck", 1)
	w.awaitPods("stuck", 1, time.Minute)
	claim := w.claims("stuck")[0]
	w.must(w.Delete(w, &claim))
	return map[string]string{"name": claim.Status.NodeName}, func() { w.must(w.Delete(w, budget)) }
}

// machinesThatStay: testdata/faults.json has the cloud take one call to stop a machine in five seconds, and turn away the others
// until then: the last of the machines has been turned away for half a minute.
func machinesThatStay(w *world) (map[string]string, func()) {
	w.pool("ending", "m5.large", "disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 1s, budgets: [{nodes: 100%}]}")
	w.pods("ending", 8)
	w.awaitPods("ending", 8, time.Minute)
	w.pods("ending", 0)
	return map[string]string{"error": "unknown"}, nil
}

// frozenDrift: a budget keeps a node that has drifted.
func frozenDrift(w *world) (map[string]string, func()) {
	w.pool("frozen", "m5.large", `disruption: {consolidateAfter: 1h, budgets: [{nodes: "0"}]}`)
	w.pods("frozen", 1)
	w.awaitPods("frozen", 1, time.Minute)
	w.change("frozen", "spec: {template: {metadata: {labels: {generation: second}}}}")
	return map[string]string{"nodepool": "frozen"}, func() { w.change("frozen", "spec: {disruption: {budgets: [{nodes: 100%}]}}") }
}

// failingReplacements: nodes are to become ones that testdata/faults.json has sold out.
func failingReplacements(w *world) (map[string]string, func()) {
	w.pool("replaced", "r5.large", "disruption: {consolidateAfter: 1h, budgets: [{nodes: 100%}]}")
	w.pods("replaced", 4)
	w.awaitPods("replaced", 4, time.Minute)
	w.change("replaced", `spec: {template: {spec: {requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [c6a.large]}]}}}`)
	return map[string]string{"reason": "drifted"}, func() {
		w.change("replaced", `spec: {template: {spec: {requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [r5.large]}]}}}`)
	}
}

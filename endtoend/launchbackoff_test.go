package endtoend_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/kube"
)

// agentTaint is one that something puts on new nodes, and that their pool does not know of.
const agentTaint = "tenon.test/starting"

// TestAMachineThatDoesNotTakeItsPodIsNotStartedForEver has every node of the pool come with a taint, until the pool changes.
func TestAMachineThatDoesNotTakeItsPodIsNotStartedForEver(t *testing.T) {
	whole := newWorld(t)
	whole.start()
	w := whole.in(t, "taken")
	w.cornerPool(func(p *v1.NodePool) {
		p.Spec.Disruption.ConsolidateAfter = v1.DurationOf(0)
		p.Spec.Template.Spec.Requirements = append(p.Spec.Template.Spec.Requirements,
			v1.Requirement{Key: corev1.LabelInstanceTypeStable, Operator: v1.In, Values: []string{"m-4x-amd64-linux"}})
	})
	w.taintNewNodes()
	claims, began := w.openLedger(), time.Now()
	d := mixed(w.corner, 1, "1", nil)
	w.settle(d)
	w.must(w.Create(w, d))
	w.until(time.Minute, func() (bool, string) { return len(claims.all(w.TB)) > 0, "no machine is started" })
	w.event(2*time.Minute, claims.all(w.TB)[0].Name, "PodsDidNotFit", agentTaint, "startupTaints")
	w.until(time.Minute, func() (bool, string) {
		var pool v1.NodePool
		w.must(w.Get(w, keyOf(w.corner), &pool))
		return v1.IsTrue(&pool, v1.ConditionLaunchesBackedOff), fmt.Sprintf("the pool does not say it: %+v", pool.Status.Conditions)
	})
	w.event(time.Minute, w.pods()[0].Name, "FailedScheduling", agentTaint, "before")
	w.goes(claims.all(w.TB)[0], time.Minute)
	// One at once, and one after 1, 2, 4, ... minutes.
	if all, most := len(claims.all(w.TB)), 1+int(math.Log2(1+time.Since(began).Minutes())); all > most {
		w.Errorf("%d machines were started in %v, want at most %d", all, time.Since(began), most)
	}
	w.drift("mended") // the pool starts other machines from now on
	w.running(1, 2*time.Minute)
}

// taintNewNodes has the API server put the taint on nodes of the corner that are created, as long as the pool has not drifted.
func (w *world) taintNewNodes() {
	w.Helper()
	name := metav1.ObjectMeta{Name: "taint-" + w.corner}
	policy := &admissionv1.MutatingAdmissionPolicy{ObjectMeta: name, Spec: admissionv1.MutatingAdmissionPolicySpec{
		MatchConstraints: &admissionv1.MatchResources{
			ObjectSelector: &metav1.LabelSelector{
				MatchLabels:      map[string]string{v1.NodePoolLabelKey: w.corner},
				MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "tenon.test/generation", Operator: metav1.LabelSelectorOpDoesNotExist}},
			},
			ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"nodes"}},
			}}},
		},
		ReinvocationPolicy: admissionv1.NeverReinvocationPolicy,
		Mutations: []admissionv1.Mutation{{PatchType: admissionv1.PatchTypeJSONPatch, JSONPatch: &admissionv1.JSONPatch{
			Expression: `[JSONPatch{op: "add", path: "/spec/taints/-", value: Object.spec.taints{key: "` + agentTaint + `", effect: "NoSchedule"}}]`,
		}}},
	}}
	binding := &admissionv1.MutatingAdmissionPolicyBinding{ObjectMeta: name, Spec: admissionv1.MutatingAdmissionPolicyBindingSpec{PolicyName: name.Name}}
	for _, o := range []client.Object{policy, binding} {
		w.must(w.Create(w, o))
		w.Cleanup(func() { w.must(w.Delete(w, o)) })
	}
	w.until(time.Minute, func() (bool, string) {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "dry-run", Labels: map[string]string{v1.NodePoolLabelKey: w.corner}}}
		node.Spec.Taints = []corev1.Taint{{Key: "tenon.test/first", Effect: corev1.TaintEffectNoSchedule}}
		w.must(w.Create(w, node, client.DryRunAll))
		return len(node.Spec.Taints) > 1, fmt.Sprintf("the policy does not act yet: %v", node.Spec.Taints)
	})
}

// TestATaintThatAnAgentTakesAwayStartsNoSecondMachine has every node of the pool come with a taint. The test takes it away from the first
// node, and from the others once plans have been made with a node that is tainted.
func TestATaintThatAnAgentTakesAwayStartsNoSecondMachine(t *testing.T) {
	whole := newWorld(t)
	whole.start()
	w := whole.in(t, "agent")
	w.cornerPool(nil)
	w.taintNewNodes()
	claims := w.openLedger()
	tainted := func(machines, open int) { // an open node does not have the opening taint any more
		w.until(2*time.Minute, func() (bool, string) {
			ready, opened := 0, 0
			for _, node := range w.nodes() {
				if node.Labels[v1.RegisteredLabelKey] == "true" && kube.NodeReady(&node) {
					ready++
					if !kube.HasTaint(&node, kube.OpeningTaint()) {
						opened++
					}
				}
			}
			return ready == machines && opened >= open, fmt.Sprintf("%d nodes are ready, want %d; %d of them are open, want %d", ready, machines, opened, open)
		})
	}
	takeAway := func() {
		for _, n := range w.nodes() {
			before := client.MergeFrom(n.DeepCopy())
			n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(x corev1.Taint) bool { return x.Key == agentTaint })
			w.must(w.Patch(w, &n, before))
		}
	}
	w.deploy("first", 1, "3500m", "1Gi") // each pod fills a machine
	tainted(1, 0)
	takeAway()
	w.running(1, time.Minute)
	w.until(time.Minute, func() (bool, string) {
		var pool v1.NodePool
		w.must(w.Get(w, keyOf(w.corner), &pool))
		learned := pool.Annotations[v1.LearnedTaintsAnnotationKey]
		return strings.Contains(learned, agentTaint), fmt.Sprintf("the pool has not learned the taint: %q", learned)
	})
	w.deploy("second", 1, "3500m", "1Gi")
	tainted(2, 2)
	w.until(time.Minute, func() (bool, string) { // the controller waits ten minutes for a learned taint
		for _, c := range w.claims() {
			if i := v1.GetCondition(&c, v1.ConditionInitialized); i != nil && strings.Contains(i.Message, agentTaint+":NoSchedule, which nodes of the pool lose by themselves") {
				return true, ""
			}
		}
		return false, fmt.Sprintf("no claim says that its node waits for a taint that was learned: %+v", w.claims())
	})
	w.deploy("third", 1, "3500m", "1Gi") // makes the controller plan while the second node is tainted
	tainted(3, 2)
	if text := w.tenon("plan", "--kubeconfig", w.playground.Kubeconfig()); !strings.Contains(text, "2 pods on machines that are there.") {
		t.Errorf("the command plans otherwise than the controller, which waits:\n%s", text)
	}
	takeAway()
	w.running(3, time.Minute)
	w.quiet(3*time.Second, time.Minute)
	w.whole()
	if n := len(claims.all(t)); n != 3 {
		t.Errorf("%d machines were started for three pods that need one each", n)
	}
}

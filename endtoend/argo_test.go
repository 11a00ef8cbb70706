package endtoend_test

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "tenon.sh/api/v1"
	"tenon.sh/provider/simulated"
)

// argoCloud is what Tenon runs on beside Argo: EC2's machines.
var argoCloud = []string{"--catalog", "aws", "--boot-delay", "3s"}

// Argo's own controller runs the sixty steps of the guide. Machines come for them and go with them.
func TestStepsOfArgoRunOnSpotMachines(t *testing.T) {
	w := newWorld(t)
	w.startArgo()
	e := w.startExecutor()
	controller := w.start(argoCloud...)
	bought := w.openLedger()
	began := time.Now()
	e.hold("transform")
	w.submit()
	w.stepsRun("transform", 40, 90*time.Second)
	t.Logf("40 steps at once, %.0f s after the workflow came:\n%s", time.Since(began).Seconds(), w.tenonNodes())
	for _, c := range w.claims() {
		if c.Labels[v1.CapacityTypeLabelKey] != "spot" {
			t.Errorf("%s is %s", c.Name, c.Labels[v1.CapacityTypeLabelKey])
		}
	}
	e.hold("")
	pods := w.succeeds(2 * time.Minute)
	ended := time.Now()
	w.noMachines(30 * time.Second)
	t.Logf("60 steps in %d pods and %.0f s on %d machines, of which none is left %.0f s later", pods, ended.Sub(began).Seconds(), len(bought.all(t)), time.Since(ended).Seconds())
	if pods != 60 {
		t.Errorf("it took %d pods", pods)
	}
	w.noErrors(controller)
}

// The cloud takes all spot machines while steps run, and the last of them dies without a notice: its pods are ended by nobody until
// Kubernetes finds that their node is gone. Argo begins all of these steps anew.
func TestStepsOfArgoWhoseMachineIsTakenBeginAnew(t *testing.T) {
	w := newWorld(t)
	w.startArgo()
	e := w.startExecutor()
	controller := w.start(argoCloud...)
	e.hold("transform")
	w.submit()
	w.stepsRun("transform", 40, 90*time.Second)
	before := map[types.UID]bool{}
	on := map[string][]corev1.Pod{}
	for _, pod := range w.steps("transform") {
		before[pod.UID] = true
		on[pod.Spec.NodeName] = append(on[pod.Spec.NodeName], pod)
	}
	claims := w.claims()
	slices.SortFunc(claims, func(a, b v1.NodeClaim) int { return len(on[b.Status.NodeName]) - len(on[a.Status.NodeName]) })
	var faults []simulated.Fault
	for i, c := range claims {
		fault := simulated.Fault{
			What: simulated.FaultReclaim, Selector: simulated.Selector{Machine: c.Name}, Share: 1,
			At: metav1.Duration{Duration: 5 * time.Second}, For: metav1.Duration{Duration: time.Second},
		}
		if i == len(claims)-1 {
			fault.What, fault.Share = simulated.FaultKill, 0
			e.die(on[c.Status.NodeName])
		}
		faults = append(faults, fault)
	}
	controller.end(syscall.SIGTERM)
	controller = w.start(append(argoCloud, "--faults="+w.faultsFile(faults...))...)
	began := time.Now()
	runAgain := func(n int) func() (bool, string) {
		return func() (bool, string) {
			again := 0
			for _, pod := range w.steps("transform") {
				if !before[pod.UID] && pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil {
					again++
				}
			}
			return again >= n, fmt.Sprintf("%d of %d steps run again; %s\n%s", again, n, w.workflowSays(), w.waiting(3))
		}
	}
	dead := len(on[claims[len(claims)-1].Status.NodeName])
	w.until(90*time.Second, runAgain(40-dead))
	t.Logf("%d steps run again %.0f s after the controller came that heard of it; Argo says %v", 40-dead, time.Since(began).Seconds(), w.failures())
	w.until(4*time.Minute, runAgain(40))
	t.Logf("and %d whose machine had died after %.0f s; Argo says %v", dead, time.Since(began).Seconds(), w.failures())
	e.hold("")
	if pods := w.succeeds(2 * time.Minute); pods < 60+40-dead || pods > 60+40 { // Argo may make a pod that is gone anew without calling that another attempt
		t.Errorf("it took %d attempts, want up to 40 more than the 60 steps", pods)
	}
	w.noMachines(30 * time.Second)
	w.noErrors(controller)
}

// The pool's template changes while steps run that must not be disrupted: their drifted machine stays until they have ended.
func TestStepsOfArgoThatMayNotBeDisruptedEndWhereTheyBegan(t *testing.T) {
	w := newWorld(t)
	w.startArgo()
	e := w.startExecutor()
	controller := w.start(argoCloud...)
	e.hold("train")
	w.submit()
	w.stepsRun("train", 18, 2*time.Minute)
	before := uidsOf(w.steps("train"))
	pool := &v1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "batch"}}
	w.must(w.Patch(w, pool, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"template":{"metadata":{"labels":{"team":"nightly"}}}}}`))))
	w.until(time.Minute, func() (bool, string) {
		drifted := 0
		for _, c := range w.claims() {
			if v1.IsTrue(&c, v1.ConditionDrifted) {
				drifted++
			}
		}
		return drifted == len(w.claims()), fmt.Sprintf("%d of %d machines have drifted", drifted, len(w.claims()))
	})
	w.watchFor(10*time.Second, func() {
		for _, pod := range w.steps("train") {
			if !before[pod.UID] || pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodRunning {
				t.Fatalf("%s was disrupted", pod.Name)
			}
		}
	})
	says := w.tenon("explain", "node", w.nodes()[0].Name, "--kubeconfig", w.playground.Kubeconfig())
	w.said(says, "it stays: pod default/nightly-train-", "carries the annotation karpenter.sh/do-not-disrupt", "Drifted is True")
	e.hold("")
	if pods := w.succeeds(time.Minute); pods != 60 {
		t.Errorf("it took %d pods", pods)
	}
	w.noMachines(30 * time.Second)
	w.noErrors(controller)
}

// Argo's controller is killed while steps run, and comes back when they have ended and their machines are gone: no step is done twice.
// Then its definitions are removed while steps run and the controller is down: their pods hang on its finalizer. Tenon goes on.
func TestTenonGoesOnWithoutArgo(t *testing.T) {
	w := newWorld(t)
	argo := w.startArgo()
	e := w.startExecutor()
	controller := w.start(argoCloud...)
	e.hold("transform")
	w.submit()
	w.stepsRun("transform", 40, 90*time.Second)
	argo.Kill()
	e.hold("")
	w.noMachines(time.Minute)
	for _, pod := range w.steps("transform") { // as Kubernetes' collector of pods without a node does within a minute or two
		w.must(w.Delete(w, &pod))
	}
	w.must(argo.Start(w))
	if pods := w.succeeds(2 * time.Minute); pods != 60 {
		t.Errorf("it took %d pods: steps were done twice", pods)
	}
	w.withdraw()

	e.hold("transform")
	w.submit()
	w.stepsRun("transform", 40, 90*time.Second)
	argo.Kill()
	for _, d := range w.argoDefinitions() {
		w.must(w.Delete(w, d))
	}
	w.noMachines(time.Minute)
	hanging := w.steps("transform")
	if len(hanging) != 40 {
		t.Errorf("%d pods hang, want 40", len(hanging))
	}
	for i := range hanging {
		w.must(w.Patch(w, &hanging[i], client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
	}
	w.until(time.Minute, func() (bool, string) {
		left := w.steps("")
		return len(left) == 0, fmt.Sprintf("%d pods of steps are left", len(left))
	})
	alone := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "alone", Namespace: "default"}, Spec: corev1.PodSpec{
		NodeSelector: map[string]string{v1.NodePoolLabelKey: "batch"}, Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		Containers: []corev1.Container{{Name: "alone", Image: "alone", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}}}},
	}}
	w.must(w.Create(w, alone))
	w.running(1, time.Minute)
	w.must(w.Delete(w, alone))
	w.noMachines(time.Minute)
	w.noErrors(controller)
}

func uidsOf(pods []corev1.Pod) map[types.UID]bool {
	out := map[types.UID]bool{}
	for _, pod := range pods {
		out[pod.UID] = true
	}
	return out
}

// failures count what the workflow says of pods that have failed.
func (w *world) failures() map[string]int {
	w.Helper()
	out := map[string]int{}
	for _, node := range w.workflowNodes() {
		if phase := fmt.Sprint(node["phase"]); node["type"] == "Pod" && (phase == "Failed" || phase == "Error") {
			out[fmt.Sprint(phase, " ", node["message"])]++
		}
	}
	return out
}

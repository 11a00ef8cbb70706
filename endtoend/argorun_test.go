package endtoend_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tenon.sh/playground/playgroundtest"
)

// argoLooks is how long Argo waits after a change before it looks at a workflow. Its own default is 10 s.
const argoLooks = 2 * time.Second

// startArgo installs Argo by its own manifests, as far as they are not about containers, and runs its controller with the rights that
// these grant until the test ends.
func (w *world) startArgo() *playgroundtest.Program {
	w.Helper()
	for _, d := range w.argoDefinitions() {
		w.applyAs(d, "")
	}
	w.must(client.IgnoreAlreadyExists(w.Create(w, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "argo"}})))
	rights, err := filepath.Glob(filepath.Join(w.argoFolder(), "manifests/cluster-install-no-crds/workflow-controller-rbac/workflow-controller-*.yaml"))
	w.must(err)
	for _, file := range append(rights, filepath.Join(w.argoFolder(), "manifests/base/workflow-controller/workflow-controller-sa.yaml")) {
		for _, o := range w.manifests(file) {
			w.applyAs(o, "argo")
		}
	}
	port := playgroundtest.FreePort(w.TB)
	settings := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "workflow-controller-configmap"},
		"data": map[string]any{"metricsConfig": fmt.Sprintf("port: %d\nsecure: false\n", port)},
	}}
	w.applyAs(settings, "argo")
	kubeconfig, err := w.playground.UserKubeconfig("system:serviceaccount:argo:argo", "system:serviceaccounts", "system:serviceaccounts:argo")
	w.must(err)
	path, err := playgroundtest.FindProgram("..", "argo", "workflow-controller")
	w.must(err)
	dir := os.Getenv(logsIn)
	if dir == "" {
		dir = w.TempDir()
	}
	p := &playgroundtest.Program{
		Name: "workflow-controller", Path: path, Log: filepath.Join(dir, fmt.Sprintf("argo-%d.log", port)), Health: fmt.Sprintf("http://127.0.0.1:%d/metrics", port),
		Args: []string{"--kubeconfig", kubeconfig, "--namespace", "argo"},
		Env: []string{
			"ARGO_POD_STATUS_CAPTURE_FINALIZER=true", // as the guide says
			"LEADER_ELECTION_DISABLE=true", "DEFAULT_REQUEUE_TIME=" + argoLooks.String(),
		},
	}
	ctx, cancel := context.WithTimeout(w, time.Minute)
	defer cancel()
	w.must(p.Start(ctx))
	w.Cleanup(p.Kill)
	return p
}

// argoFolder is where Argo's own files are.
func (w *world) argoFolder() string {
	w.Helper()
	command := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/argoproj/argo-workflows/v4")
	command.Dir = "argo/program"
	folder, err := command.Output()
	w.must(err)
	return strings.TrimSpace(string(folder))
}

// argoDefinitions are Argo's CRDs.
func (w *world) argoDefinitions() (definitions []*unstructured.Unstructured) {
	w.Helper()
	files, err := filepath.Glob(filepath.Join(w.argoFolder(), "manifests/base/crds/minimal/argoproj.io_*.yaml"))
	w.must(err)
	for _, file := range files {
		definitions = append(definitions, w.manifests(file)...)
	}
	return definitions
}

// applyAs applies an object, and what it says of service accounts, in a namespace, as a kustomization does.
func (w *world) applyAs(o *unstructured.Unstructured, namespace string) {
	w.Helper()
	if !strings.HasPrefix(o.GetKind(), "Cluster") {
		o.SetNamespace(namespace)
	}
	if subjects, ok, _ := unstructured.NestedSlice(o.Object, "subjects"); ok {
		for _, s := range subjects {
			s.(map[string]any)["namespace"] = namespace
		}
		w.must(unstructured.SetNestedSlice(o.Object, subjects, "subjects"))
	}
	w.must(w.Apply(w, client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("kubectl"), client.ForceOwnership))
}

// submit makes the pool and the workflow of the guide.
func (w *world) submit() {
	w.Helper()
	for _, file := range []string{"nodepool", "rights", "workflow"} {
		w.until(30*time.Second, func() (bool, string) { // until the API server serves new definitions
			for _, o := range w.manifests("../examples/argo-workflows/" + file + ".yaml") {
				if err := w.Apply(w, client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("kubectl"), client.ForceOwnership); err != nil {
					return false, fmt.Sprintf("apply %s %s: %v", o.GetKind(), o.GetName(), err)
				}
			}
			return true, ""
		})
	}
	w.Cleanup(w.withdraw)
}

// withdraw deletes the workflow, and waits until it and its pods are gone.
func (w *world) withdraw() {
	w.Helper()
	if err := w.Delete(w, newWorkflow()); err != nil && !apierrors.IsNotFound(err) && !apimeta.IsNoMatchError(err) {
		w.Error(err)
	}
	w.until(time.Minute, func() (bool, string) {
		left := w.steps("")
		return len(left) == 0, fmt.Sprintf("%d pods of steps are left", len(left))
	})
}

func newWorkflow() *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetAPIVersion("argoproj.io/v1alpha1")
	o.SetKind("Workflow")
	o.SetNamespace("default")
	o.SetName("nightly")
	return o
}

// steps are the pods of steps of a task; with "", of all.
func (w *world) steps(task string) []corev1.Pod {
	w.Helper()
	return slices.DeleteFunc(w.pods(), func(pod corev1.Pod) bool { return !isStepOf(&pod, task) })
}

// stepsRun waits until so many steps of a task run.
func (w *world) stepsRun(task string, n int, patience time.Duration) {
	w.Helper()
	w.until(patience, func() (bool, string) {
		running := 0
		for _, pod := range w.steps(task) {
			if pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil {
				running++
			}
		}
		return running >= n, fmt.Sprintf("%d of %d steps %s run; %s", running, n, task, w.workflowSays())
	})
}

// succeeds waits until the workflow has, and returns how many pods it took.
func (w *world) succeeds(patience time.Duration) (pods int) {
	w.Helper()
	w.until(patience, func() (bool, string) {
		says := w.workflowSays()
		if strings.HasPrefix(says, "Failed") || strings.HasPrefix(says, "Error") {
			w.Fatal(says)
		}
		return strings.HasPrefix(says, "Succeeded"), says
	})
	succeeded := 0
	for _, node := range w.workflowNodes() {
		if node["type"] != "Pod" {
			continue
		}
		pods++
		if node["phase"] == "Succeeded" {
			succeeded++
		}
	}
	if succeeded != 60 {
		w.Errorf("%d steps have succeeded", succeeded)
	}
	return pods
}

// workflowSays is the workflow's phase, its progress, and its message.
func (w *world) workflowSays() string {
	w.Helper()
	o := newWorkflow()
	w.must(w.Get(w, client.ObjectKeyFromObject(o), o))
	status, _, _ := unstructured.NestedMap(o.Object, "status")
	return fmt.Sprint(status["phase"], " ", status["progress"], " ", status["message"])
}

// workflowNodes are the steps as the workflow's status has them.
func (w *world) workflowNodes() (nodes []map[string]any) {
	w.Helper()
	o := newWorkflow()
	w.must(w.Get(w, client.ObjectKeyFromObject(o), o))
	all, _, _ := unstructured.NestedMap(o.Object, "status", "nodes")
	for _, node := range all {
		nodes = append(nodes, node.(map[string]any))
	}
	return nodes
}

// noMachines waits until no machine is left and the bill is zero.
func (w *world) noMachines(patience time.Duration) {
	w.Helper()
	w.until(patience, func() (bool, string) {
		n := len(w.claims())
		return n == 0, fmt.Sprintf("%d machines are left", n)
	})
	if says := w.tenonNodes(); !strings.HasPrefix(says, "0 nodes, $0.0000/h") {
		w.Errorf("tenon nodes says %q", says)
	}
}

// tenonNodes is what tenon nodes prints, without its notes.
func (w *world) tenonNodes() string {
	w.Helper()
	var out strings.Builder
	for line := range strings.Lines(w.tenon("nodes", "--kubeconfig", w.playground.Kubeconfig())) {
		if !strings.HasPrefix(line, "note: ") {
			out.WriteString(line)
		}
	}
	return out.String()
}

// noErrors fails the test if a controller has logged one.
func (w *world) noErrors(t *tenon) {
	w.Helper()
	text, err := os.ReadFile(t.log)
	w.must(err)
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, `"level":"ERROR"`) {
			w.Errorf("Tenon has logged %s", line)
		}
	}
}

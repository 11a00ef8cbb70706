package endtoend_test

import (
	"errors"
	"maps"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// argoWorkflow labels what belongs to a workflow with its name, argoReported a result that nothing will be added to.
	argoWorkflow = "workflows.argoproj.io/workflow"
	argoReported = "workflows.argoproj.io/report-outputs-completed"
	// argoResult and argoStep annotate the pod of a step with the name of its result, and with what the step is called.
	argoResult = "workflows.argoproj.io/node-id"
	argoStep   = "workflows.argoproj.io/node-name"
	// slowDeath is how long KWOK's kubelet takes to end a pod: a real one waits for containers that were told to end.
	slowDeath = "pod-delete.stage.kwok.x-k8s.io/delay"
	// stepTakes is how long a step works.
	stepTakes = 2 * time.Second
)

// executor stands for what a real kubelet runs in the pods of steps, and KWOK's does not: their work, and Argo's executor beside it,
// which reports a WorkflowTaskResult with the rights of the pod's account. A step that is told to end fails, as a process does.
type executor struct {
	*world
	account client.Client // with the rights of the steps' account

	mu   sync.Mutex         // guards what follows
	held string             // steps of this task do not end
	dead map[types.UID]bool // pods whose machines do nothing any more
}

// startExecutor plays the executor in all pods of workflows until the test ends.
func (w *world) startExecutor() *executor {
	w.Helper()
	config, err := w.playground.UserConfig("system:serviceaccount:default:workflow", "system:serviceaccounts")
	w.must(err)
	account, err := client.New(config, client.Options{})
	w.must(err)
	e := &executor{world: w, account: account}
	w.play("play Argo's executor", e.look)
	return e
}

// hold keeps steps of a task running from now on; "" for none.
func (e *executor) hold(task string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.held = task
}

// die has nothing more done in the pods, nor by their kubelets: their machines are about to die.
func (e *executor) die(pods []corev1.Pod) {
	e.Helper()
	e.mu.Lock()
	e.dead = uidsOf(pods)
	e.mu.Unlock()
	for i := range pods {
		e.must(e.Patch(e, &pods[i], client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+slowDeath+`":"1h"}}}`))))
	}
}

func (e *executor) isDead(pod *corev1.Pod) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.dead[pod.UID]
}

func (e *executor) holds(pod *corev1.Pod) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.held != "" && isStepOf(pod, e.held)
}

// isStepOf reports whether a pod is of a step of the task; with "", of any.
func isStepOf(pod *corev1.Pod, task string) bool {
	return pod.Labels[argoWorkflow] != "" && (task == "" || strings.Contains(pod.Annotations[argoStep], "."+task+"("))
}

func (e *executor) look() error {
	var pods corev1.PodList
	if err := e.List(e, &pods, client.InNamespace("default"), client.HasLabels{argoWorkflow}); err != nil {
		return err
	}
	var errs []error
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.Status.Phase != corev1.PodRunning || len(pod.Status.ContainerStatuses) == 0 || e.isDead(pod) {
			continue
		}
		err := e.play(pod)
		leaves := apierrors.IsForbidden(err) && strings.Contains(err.Error(), "definition is terminating")
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) || leaves {
			continue // the pod has gone or changed meanwhile, or nobody knows workflows any more
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// play does what comes next in the life of a pod that runs.
func (e *executor) play(pod *corev1.Pod) error {
	switch {
	case pod.DeletionTimestamp != nil:
		return errors.Join(e.report(pod, "true"), e.end(pod, 143))
	case pod.Annotations[slowDeath] == "":
		before := client.MergeFrom(pod.DeepCopy())
		pod.Annotations = maps.Clone(pod.Annotations)
		pod.Annotations[slowDeath] = "2s"
		return errors.Join(e.Patch(e, pod, before), e.report(pod, "false"))
	case e.holds(pod) || time.Since(pod.Status.StartTime.Time) < stepTakes:
		return nil
	}
	return errors.Join(e.report(pod, "true"), e.end(pod, 0))
}

// report writes the result of a step, which is empty.
func (e *executor) report(pod *corev1.Pod, complete string) error {
	result := &unstructured.Unstructured{}
	result.SetAPIVersion("argoproj.io/v1alpha1")
	result.SetKind("WorkflowTaskResult")
	result.SetNamespace(pod.Namespace)
	result.SetName(pod.Annotations[argoResult])
	if complete == "true" {
		return e.account.Patch(e, result, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"`+argoReported+`":"true"}}}`)))
	}
	result.SetLabels(map[string]string{argoWorkflow: pod.Labels[argoWorkflow], argoReported: complete})
	owner := pod.OwnerReferences[0]
	result.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: owner.APIVersion, Kind: owner.Kind, Name: owner.Name, UID: owner.UID}})
	return client.IgnoreAlreadyExists(e.account.Create(e, result))
}

// end ends a pod's containers, the main one with this exit code.
func (e *executor) end(pod *corev1.Pod, code int32) error {
	pod.Status.Phase = corev1.PodSucceeded
	if code != 0 {
		pod.Status.Phase = corev1.PodFailed
	}
	for i := range pod.Status.ContainerStatuses {
		c := &pod.Status.ContainerStatuses[i]
		ended := &corev1.ContainerStateTerminated{Reason: "Completed", FinishedAt: metav1.Now()}
		if c.State.Running != nil {
			ended.StartedAt = c.State.Running.StartedAt
		}
		if code != 0 && c.Name == "main" {
			ended.Reason, ended.ExitCode = "Error", code
		}
		c.Ready, c.Started, c.State = false, new(false), corev1.ContainerState{Terminated: ended}
	}
	return e.Status().Update(e, pod)
}

package endtoend_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tenon.sh/api/autoscalingv1"
	v1 "tenon.sh/api/v1"
)

// kueueCloud is what Tenon runs on beside Kueue: EC2's machines.
var kueueCloud = []string{"--catalog", "aws", "--boot-delay", "3s"}

// Ten jobs of five cores come to a queue whose quota is twenty. While the queue is stopped nothing is bought; then all run, at every
// moment within the quota, and nothing is left.
func TestKueueAdmitsAndTenonProvides(t *testing.T) {
	w := newWorld(t)
	w.startKueue()
	controller := w.start(kueueCloud...)
	w.queues("queues")
	most := w.watchQuota()
	w.stopQueue("Hold")
	w.jobs(10)
	w.nothingFor("render")
	w.stopQueue("None")
	w.jobsEnd(10, 2*time.Minute)
	w.noMachines(time.Minute)
	if cores := most(); cores != 20 {
		t.Errorf("%.0f cores were asked for at a time, the quota is 20", cores)
	}
	w.noErrors(controller)
}

// Jobs begin when there is room for all of their pods: on machines that were started for all of them, or on nodes that are there.
func TestKueueAsksTenonForRoomFirst(t *testing.T) {
	w := newWorld(t)
	w.defineRequests()
	w.startKueue()
	controller := w.start(append(kueueCloud, "--feature-gates=ProvisioningRequest=true")...)
	bought := w.openLedger()
	w.queues("queues", "checks")

	w.job("large", "whole", 80)
	w.checkSays("large", "Pending", "of 80 pods")
	w.nothingFor("large")
	w.must(w.Delete(w, newJob("large"), client.PropagationPolicy(metav1.DeletePropagationBackground)))

	w.job("gang", "whole", 16)
	w.jobsEnd(1, 90*time.Second)
	request := w.requestOf("gang")
	provisioned := apimeta.FindStatusCondition(request.Status.Conditions, autoscalingv1.ConditionProvisioned)
	if provisioned == nil || provisioned.Status != metav1.ConditionTrue || provisioned.Reason != autoscalingv1.CapacityIsBought {
		t.Fatalf("the request of the job that ran says %+v", request.Status.Conditions)
	}
	for _, pod := range w.pods() {
		if pod.CreationTimestamp.Before(&provisioned.LastTransitionTime) {
			t.Errorf("%s is there before machines are", pod.Name)
		}
		if pod.Annotations[autoscalingv1.ConsumeAnnotationKey] != request.Name {
			t.Errorf("%s has the annotations %v", pod.Name, pod.Annotations)
		}
	}
	w.requestSays(request.Name, autoscalingv1.ConditionBookingExpired, metav1.ConditionTrue, autoscalingv1.CapacityBookingSpent)
	w.noMachines(time.Minute)

	w.job("spare", "spare", 3)
	w.checkSays("spare", "Pending", "of 3 pods")
	w.nothingFor("spare")
	before := len(bought.all(t))
	alone := w.alone("default") // on a machine of eight cores, of which it leaves three
	w.must(w.Create(w, alone))
	w.jobsEnd(2, time.Minute)
	if n := len(bought.all(t)) - before; n != 1 {
		t.Errorf("%d machines were bought, want one, for the pod beside the job", n)
	}
	w.must(w.Delete(w, alone))
	w.noMachines(time.Minute)
	w.noErrors(controller)
}

// Kueue is killed while jobs run: these end, their machines go, and nothing is bought for those that wait. No pod can be made in most
// namespaces then; Tenon goes on, and doctor says why. When Kueue comes back the other jobs run.
// Then it is removed with its definitions while a job waits for its admission.
func TestTenonGoesOnWithoutKueue(t *testing.T) {
	w := newWorld(t)
	k := w.startKueue()
	controller := w.start(kueueCloud...)
	w.queues("queues")
	most := w.watchQuota()
	w.jobs(10)
	w.until(time.Minute, func() (bool, string) {
		n := len(w.pods())
		return n == 20, fmt.Sprintf("%d pods", n)
	})
	k.kill()
	w.until(time.Minute, func() (bool, string) {
		pods := w.pods()
		ended := slices.IndexFunc(pods, func(pod corev1.Pod) bool { return pod.Status.Phase != corev1.PodSucceeded }) < 0
		return ended && len(pods) == 20, fmt.Sprintf("%d pods\n%s", len(pods), w.waiting(3))
	})
	w.noMachines(time.Minute)

	err := w.Create(w, w.alone("default"))
	if err == nil || !strings.Contains(err.Error(), "kueue") {
		t.Errorf("a pod is made while Kueue is down: %v", err)
	}
	found, _ := w.findings(w.playground.Kubeconfig())
	w.saysOf(found, "webhook", "webhook mpod.kb.io refuses to let pods be written while localhost does not answer: its service kueue-system/kueue-webhook-service is of type ExternalName")
	alone := w.alone("kube-system")
	w.must(w.Create(w, alone))
	w.until(time.Minute, func() (bool, string) {
		w.must(w.Get(w, client.ObjectKeyFromObject(alone), alone))
		return alone.Status.Phase == corev1.PodRunning, fmt.Sprintf("the pod of kube-system is %+v", alone.Status)
	})
	w.must(w.Delete(w, alone))
	w.noMachines(time.Minute)

	k.start()
	w.jobsEnd(10, 3*time.Minute)
	if cores := most(); cores != 20 {
		t.Errorf("%.0f cores were asked for at a time, the quota is 20", cores)
	}
	w.noMachines(time.Minute)

	w.stopQueue("Hold")
	w.job("late", "jobs", 2)
	w.until(time.Minute, func() (bool, string) { return w.workloadOf("late") != nil, "the job has no Workload" })
	k.kill()
	w.removeKueue()
	w.nothingFor("late")
	alone = w.alone("default") // nobody keeps it from being made any more
	w.must(w.Create(w, alone))
	w.running(1, time.Minute)
	w.must(w.Delete(w, alone))
	w.noMachines(time.Minute)
	w.noErrors(controller)
}

// queues applies the pool and more files of the guide, and has what jobs leave behind removed when the test ends.
func (w *world) queues(files ...string) {
	w.Helper()
	for _, file := range append([]string{"nodepool"}, files...) {
		w.applyFile("../examples/kueue/" + file + ".yaml")
	}
	w.Cleanup(func() {
		w.must(w.DeleteAllOf(w, &batchv1.Job{}, client.InNamespace("default"), client.PropagationPolicy(metav1.DeletePropagationBackground)))
		w.until(time.Minute, func() (bool, string) {
			n := len(w.pods())
			return n == 0, fmt.Sprintf("%d pods of jobs are left", n)
		})
	})
}

// nothingFor has a look for a while whether a job whose name begins so has pods, or any machine is there.
func (w *world) nothingFor(job string) {
	w.Helper()
	w.watchFor(5*time.Second, func() {
		for _, pod := range w.pods() {
			if strings.HasPrefix(pod.Labels[batchv1.JobNameLabel], job) {
				w.Fatalf("pod %s is there", pod.Name)
			}
		}
		if n := len(w.claims()); n > 0 {
			w.Fatalf("%d machines are there", n)
		}
	})
}

// stopQueue sets the stopPolicy of the ClusterQueue.
func (w *world) stopQueue(policy string) {
	w.Helper()
	queue := &unstructured.Unstructured{}
	queue.SetAPIVersion("kueue.x-k8s.io/v1beta2")
	queue.SetKind("ClusterQueue")
	queue.SetName("jobs")
	w.must(w.Patch(w, queue, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"stopPolicy":"`+policy+`"}}`))))
}

func newJob(name string) *batchv1.Job {
	return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
}

// job makes the job of the guide under another name, in another queue, with so many pods.
func (w *world) job(name, queue string, pods int32) {
	w.Helper()
	job := newJob(name)
	w.must(runtime.DefaultUnstructuredConverter.FromUnstructured(w.manifests("../examples/kueue/job.yaml")[0].Object, job))
	job.Name, job.Labels["kueue.x-k8s.io/queue-name"] = name, queue
	job.Spec.Parallelism, job.Spec.Completions = &pods, &pods
	w.must(w.Create(w, job))
}

// jobs makes the job of the guide so many times.
func (w *world) jobs(n int) {
	w.Helper()
	for i := range n {
		w.job(fmt.Sprintf("render-%d", i), "jobs", 5)
	}
}

// jobsEnd waits until so many jobs have ended well.
func (w *world) jobsEnd(n int, patience time.Duration) {
	w.Helper()
	w.until(patience, func() (bool, string) {
		var jobs batchv1.JobList
		w.must(w.List(w, &jobs, client.InNamespace("default")))
		ended, says := 0, ""
		for _, job := range jobs.Items {
			says += fmt.Sprintf("\n%s %+v", job.Name, job.Status)
			for _, c := range job.Status.Conditions {
				if c.Type == batchv1.JobComplete && c.Status == corev1.ConditionTrue {
					ended++
				}
			}
		}
		return ended == n, fmt.Sprintf("%d of %d jobs have ended:%s", ended, n, says)
	})
}

// watchQuota adds up what pods of jobs that have not ended ask for, from now on, and returns how to read the most cores that there were.
func (w *world) watchQuota() (most func() float64) {
	w.Helper()
	var mu sync.Mutex
	asked, peak := map[types.UID]float64{}, 0.0
	w.follow(&corev1.PodList{}, func(kind watch.EventType, o client.Object) {
		pod := o.(*corev1.Pod)
		if pod.Labels[batchv1.JobNameLabel] == "" {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		delete(asked, pod.UID)
		if kind != watch.Deleted && pod.DeletionTimestamp == nil && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
			asked[pod.UID] = pod.Spec.Containers[0].Resources.Requests.Cpu().AsApproximateFloat64()
		}
		cores := 0.0
		for _, a := range asked {
			cores += a
		}
		peak = max(peak, cores)
	})
	return func() float64 {
		mu.Lock()
		defer mu.Unlock()
		return peak
	}
}

// workloadOf is Kueue's Workload of a job.
func (w *world) workloadOf(job string) *unstructured.Unstructured {
	w.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("kueue.x-k8s.io/v1beta2")
	list.SetKind("WorkloadList")
	w.must(w.List(w, list, client.InNamespace("default")))
	for i := range list.Items {
		for _, owner := range list.Items[i].GetOwnerReferences() {
			if owner.Kind == "Job" && owner.Name == job {
				return &list.Items[i]
			}
		}
	}
	return nil
}

// checkSays waits until the admission check of a job's Workload has a state, and a message with this in it.
func (w *world) checkSays(job, state, says string) {
	w.Helper()
	w.until(time.Minute, func() (bool, string) {
		workload := w.workloadOf(job)
		if workload == nil {
			return false, "job " + job + " has no Workload"
		}
		checks, _, _ := unstructured.NestedSlice(workload.Object, "status", "admissionChecks")
		for _, c := range checks {
			if c := c.(map[string]any); c["state"] == state && strings.Contains(fmt.Sprint(c["message"]), says) {
				w.Logf("the Workload of %s says: %v", job, c["message"])
				return true, ""
			}
		}
		return false, fmt.Sprintf("the Workload of %s says %v", job, workload.Object["status"])
	})
}

// requestOf is the ProvisioningRequest of a job.
func (w *world) requestOf(job string) *autoscalingv1.ProvisioningRequest {
	w.Helper()
	var list autoscalingv1.ProvisioningRequestList
	w.must(w.List(w, &list, client.InNamespace("default")))
	workload := w.workloadOf(job)
	for i := range list.Items {
		if o := &list.Items[i]; workload != nil && metav1.IsControlledBy(o, workload) {
			return o
		}
	}
	w.Fatalf("job %s has no ProvisioningRequest", job)
	return nil
}

// alone is a pod for machines of the pool that is none of Kueue's.
func (w *world) alone(namespace string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "alone", Namespace: namespace}, Spec: corev1.PodSpec{
		TerminationGracePeriodSeconds: new(int64(0)),
		NodeSelector:                  map[string]string{v1.NodePoolLabelKey: "jobs"}, Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		Containers: []corev1.Container{{Name: "alone", Image: "alone", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}}}},
	}}
}

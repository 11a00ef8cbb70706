package nodeclaim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"tenon.sh/engine/lifecycle"
	"tenon.sh/report"
)

const (
	// An eviction that was refused is asked for again after a second, then less often.
	evictRetryFirst = time.Second
	evictRetryMost  = 10 * time.Second
	// evicted is how long the watch may take to show that an evicted pod is being deleted.
	evicted = 10 * time.Second
	// evictTimeout ends a request for an eviction, also while the controller stops.
	evictTimeout = 10 * time.Second
)

// evictionKey distinguishes an eviction from a forced deletion of the same pod, because the deletion does not wait for the eviction.
type evictionKey struct {
	pod   types.UID
	force bool
}

// evict evicts pods, several at once. A refused eviction is tried again later, because a budget only delays it.
func (a *application) evict(ctx context.Context) {
	now := a.Cluster.Clock.Now()
	var mu sync.Mutex // guards the pacings and a.after
	var group errgroup.Group
	group.SetLimit(cmp.Or(a.WritesAtOnce, writesAtOnce))
	for _, e := range a.step.Evict {
		key := evictionKey{e.Pod.UID, e.Force}
		pace := a.mem.evictions[key]
		if pace == nil {
			pace = &pacing{}
			a.mem.evictions[key] = pace
		}
		if wait := pace.wait(now); wait > 0 {
			if pace.failures > 0 {
				a.evictions.refused(e.Pod.UID)
			}
			a.after = earlier(a.after, wait)
			continue
		}
		group.Go(func() error {
			done := a.send(ctx, e)
			mu.Lock()
			defer mu.Unlock()
			if done {
				*pace = pacing{next: now.Add(evicted)}
				return nil
			}
			a.evictions.refused(e.Pod.UID)
			a.after = earlier(a.after, pace.failed(now, evictRetryFirst, evictRetryMost))
			return nil
		})
	}
	_ = group.Wait() // every failure was reported and is tried again
}

// send evicts or deletes one pod, and reports whether this is settled. A request continues when the controller stops, because the API
// server charges a budget before it deletes the pod. If the pod stays, the server gives the charge back only after two minutes, in
// which the budget would let no other pod go.
func (a *application) send(ctx context.Context, e lifecycle.Eviction) bool {
	if e.Force {
		return a.force(ctx, e)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: e.Pod.Namespace, Name: e.Pod.Name}}
	asking, stop := context.WithTimeout(context.WithoutCancel(ctx), evictTimeout)
	defer stop()
	err := a.Cluster.Client.SubResource("eviction").Create(asking, pod, &policyv1.Eviction{
		ObjectMeta:    pod.ObjectMeta,
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &e.Pod.UID}},
	})
	a.Metrics.EvictionAsked(statusCode(err))
	switch {
	case err == nil:
		reason := drainReason(a.life.Claim)
		log.FromContext(ctx).V(1).Info("evicted pod", "Pod", podName(e.Pod), "Node", e.Pod.Spec.NodeName, "reason", reason)
		a.Recorder.Publish(report.Event{Object: e.Pod, Reason: report.Evicted, Message: "Evicted pod: " + reason})
		a.Metrics.PodDrained(reason)
		return true
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return true // it is gone, or a new pod has its name
	case apierrors.IsTooManyRequests(err):
		a.tellRefused(e.Pod, "evicting pod violates a PDB", err)
	case apierrors.IsInternalError(err) && strings.Contains(err.Error(), "more than one PodDisruptionBudget"):
		a.tellRefused(e.Pod, "eviction does not support multiple PDBs", err)
	default:
		log.FromContext(ctx).Error(err, "could not evict pod", "Pod", podName(e.Pod), "Node", e.Pod.Spec.NodeName)
	}
	return false
}

// force deletes a pod whose time is over.
func (a *application) force(ctx context.Context, e lifecycle.Eviction) bool {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: e.Pod.Namespace, Name: e.Pod.Name}}
	err := a.Cluster.Client.Delete(ctx, pod, client.GracePeriodSeconds(e.Grace), client.Preconditions{UID: &e.Pod.UID})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return true
	case err != nil:
		log.FromContext(ctx).Error(err, "could not delete pod whose node's time is up", "Pod", podName(e.Pod), "Node", e.Pod.Spec.NodeName)
		return false
	}
	log.FromContext(ctx).Info("deleted pod, its node's time is up", "Pod", podName(e.Pod), "Node", e.Pod.Spec.NodeName, "grace-seconds", e.Grace)
	a.Recorder.Publish(report.Event{Object: e.Pod, Reason: report.Disrupted, Message: fmt.Sprintf(
		"Deleted the pod to meet the termination deadline of node %s; granted %d seconds of grace-period. Disruption budgets and the do-not-disrupt annotation were bypassed",
		e.Pod.Spec.NodeName, e.Grace)})
	a.Metrics.PodDrained(drainReason(a.life.Claim))
	return true
}

// tellRefused makes an event on the node about the pod that holds it, with the reason.
func (a *application) tellRefused(pod *corev1.Pod, what string, err error) {
	message := fmt.Sprintf("%s: pod %s", what, podName(pod))
	if status := apierrors.APIStatus(nil); errors.As(err, &status) && status.Status().Details != nil {
		for _, c := range status.Status().Details.Causes {
			message += ": " + c.Message
		}
	}
	a.Recorder.Publish(report.Event{Object: a.node(pod.Spec.NodeName), Warning: true, Reason: report.FailedDraining, Message: message, Key: podName(pod)})
}

func podName(pod *corev1.Pod) string { return pod.Namespace + "/" + pod.Name }

// statusCode returns the HTTP status of an answer.
func statusCode(err error) string {
	if err == nil {
		return strconv.Itoa(http.StatusOK)
	}
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		return strconv.Itoa(int(status.Status().Code))
	}
	return ""
}

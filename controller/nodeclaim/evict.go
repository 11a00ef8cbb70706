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
	// evicted is how long the watch gets to show that a pod that was sent away is going.
	evicted = 10 * time.Second
	// evictTimeout ends a request for an eviction, also while the controller stops.
	evictTimeout = 10 * time.Second
)

// evictionKey tells a pod that is asked to go from one that is forced to: the second does not wait for the first.
type evictionKey struct {
	pod   types.UID
	force bool
}

// evict sends pods away, several at once. What is refused is tried again later: a budget says when, not whether.
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
	_ = group.Wait() // every failure was told and is tried again
}

// send sends one pod away and reports whether that is settled. What has been asked for is not cut off when the controller is
// told to stop: the API server charges a budget before it deletes the pod, and gives back what was charged for a pod that
// stayed after two minutes only, in which the budget would let nobody else go.
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

// force deletes a pod that has no more time.
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

// tellRefused says on the node which pod holds it and why.
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

// statusCode is the HTTP status of an answer.
func statusCode(err error) string {
	if err == nil {
		return strconv.Itoa(http.StatusOK)
	}
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		return strconv.Itoa(int(status.Status().Code))
	}
	return ""
}

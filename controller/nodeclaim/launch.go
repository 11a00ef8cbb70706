package nodeclaim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1 "tenon.sh/api/v1"
	"tenon.sh/cluster"
	"tenon.sh/engine"
	"tenon.sh/engine/lifecycle"
	"tenon.sh/provider"
	"tenon.sh/report"
)

// A launch that failed is tried again after a second, then less and less often, but at least once a minute.
const (
	launchRetryFirst = time.Second
	launchRetryMost  = time.Minute
)

// launch starts the claim's machine and records it. The provider returns the same machine for the same claim, so a launch without a
// record is simply repeated.
func (a *application) launch(ctx context.Context) (more bool, err error) {
	now := a.Cluster.Clock.Now()
	if wait := a.mem.launches.wait(now); wait > 0 {
		a.after = wait
		return false, nil
	}
	claim := a.life.Claim
	if stray, err := a.Cluster.Stray(ctx, claim); err != nil {
		return false, err
	} else if stray {
		log.FromContext(ctx).Info("no machine for claim, a leader created it that had been replaced", "leader", claim.Annotations[v1.LeaderAnnotationKey])
		return false, a.deleteClaim(ctx, engine.CauseLeaderChanged)
	}
	ref := *claim.Spec.NodeClassRef
	class, err := a.Cluster.Class(ctx, ref)
	switch {
	case apierrors.IsNotFound(err):
		return false, a.launchRefused(ctx, engine.CauseNodeClassNotReady, fmt.Sprintf("%s %s does not exist", ref.Kind, ref.Name))
	case err != nil:
		return false, err
	}
	if problem := cluster.Problem(class); problem != "" && !lifecycle.IsForetold(claim) {
		return false, a.launchRefused(ctx, engine.CauseNodeClassNotReady, problem)
	}
	if class.Correct, err = a.Cluster.Correction(ctx, claim); err != nil {
		return false, err
	}
	a.mem.unlaunched = false
	machine, err := provider.LaunchNoted(ctx, a.Cluster.Provider, claim, class, a.note)
	if err != nil {
		return false, a.launchFailed(ctx, ref, err)
	}
	a.mem.launches = pacing{}
	machine = a.Cluster.Complete(ref, class.Correct, machine)
	if err := a.writeClaim(ctx, lifecycle.Launched(a.life.Claim, machine, a.Cluster.Clock.Now())); err != nil {
		return false, err
	}
	labels := a.life.Claim.Labels
	log.FromContext(ctx).Info("launched machine", "machine", string(machine.ID), "instance-type", labels[corev1.LabelInstanceTypeStable],
		"zone", labels[corev1.LabelTopologyZone], "capacity-type", labels[v1.CapacityTypeLabelKey], "took", a.Cluster.Clock.Since(now).Round(time.Millisecond).String())
	a.life.Nodes, err = a.readNodes(ctx, a.life.Claim, "")
	return true, err
}

// note writes on the claim the annotations that the provider needs after a crash.
func (a *application) note(ctx context.Context, annotations map[string]string) error {
	want := a.life.Claim.DeepCopy()
	if want.Annotations == nil {
		want.Annotations = map[string]string{}
	}
	maps.Copy(want.Annotations, annotations)
	claim, err := a.patchClaim(ctx, want)
	if err != nil {
		return err
	}
	a.life.Claim = claim
	return nil
}

// launchFailed decides by the kind of error whether the claim is deleted or waits.
func (a *application) launchFailed(ctx context.Context, ref v1.NodeClassReference, err error) error {
	var soldOut *provider.SoldOutError
	var notReady *provider.ClassNotReadyError
	var throttled *provider.ThrottledError
	var pending *provider.PendingError
	claim := a.life.Claim
	switch {
	case cluster.Expected(err): // somebody else wrote to the claim during the provider's write
		return err
	case errors.As(err, &soldOut):
		a.Cluster.MarkSoldOut(ref, soldOut.Offerings)
		a.tell(ctx, claim, report.InsufficientCapacityError, err)
		return a.launchRefused(ctx, engine.CauseInsufficientCapacity, err.Error())
	case errors.As(err, &notReady):
		return a.launchRefused(ctx, engine.CauseNodeClassNotReady, err.Error())
	case errors.As(err, &pending):
		a.after = pending.RetryAfter
		a.mem.launches.next = a.Cluster.Clock.Now().Add(a.after)
		return a.writeClaim(ctx, lifecycle.LaunchPending(claim, err.Error(), a.Cluster.Clock.Now()))
	case errors.As(err, &throttled):
		now := a.Cluster.Clock.Now()
		a.after = max(throttled.RetryAfter, a.mem.launches.failed(now, launchRetryFirst, launchRetryMost))
		a.mem.launches.next = now.Add(a.after)
		log.FromContext(ctx).V(1).Info("launch was throttled", "retry-after", a.after.String())
		return nil
	}
	reason := "LaunchFailed"
	if named := (*provider.LaunchError)(nil); errors.As(err, &named) && named.Reason != "" {
		reason = named.Reason
	}
	a.after = a.mem.launches.failed(a.Cluster.Clock.Now(), launchRetryFirst, launchRetryMost)
	log.FromContext(ctx).Error(err, "launch failed", "retry-after", a.after.String())
	a.tell(ctx, claim, report.LaunchFailed, err)
	failed := lifecycle.LaunchFailed(claim, reason, err.Error(), a.Cluster.Clock.Now())
	return a.writeClaim(ctx, failed)
}

// launchRefused deletes the claim: its pods are planned anew, on another machine.
func (a *application) launchRefused(ctx context.Context, cause, why string) error {
	a.mem.unlaunched = lifecycle.NothingStarted(a.life.Claim, cause)
	log.FromContext(ctx).Info("no machine for claim", "cause", cause, "why", why)
	return a.deleteClaim(ctx, cause)
}

// `tell` tells the owners of the claim and of its planned pods why there is no machine.
func (a *application) tell(ctx context.Context, claim *v1.NodeClaim, reason string, err error) {
	message := lifecycle.CutMessage(fmt.Sprintf("NodeClaim %s: %v", claim.Name, err))
	a.Recorder.Publish(report.Event{Object: claim, Warning: true, Reason: reason, Message: message})
	for _, pod := range a.plannedPods(ctx, claim) {
		a.Recorder.Publish(report.Event{Object: pod, Warning: true, Reason: reason, Message: message})
	}
}

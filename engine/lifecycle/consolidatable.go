package lifecycle

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
)

// observePods records when a lasting pod was last bound to the node or left it, and when a brief one last left it. The times are those of the pods
// themselves, so the record does not depend on the time of the observation or on restarts of the program.
func observePods(l Life, claim *v1.NodeClaim) {
	if l.BriefPodLeft.After(inventory.BriefPodLeft(claim).Add(inventory.PodEventWindow)) {
		claim.Annotations = kube.With(claim.Annotations, v1.BriefPodLeftAnnotationKey, l.BriefPodLeft.UTC().Format(time.RFC3339))
	}
	last := podsOf(l).Lasting
	if last.After(claim.Status.LastPodEventTime.Add(inventory.PodEventWindow)) {
		claim.Status.LastPodEventTime = metav1.NewTime(last.Truncate(time.Second))
	}
}

func podsOf(l Life) inventory.Activity {
	a := inventory.Activity{Lasting: l.PodLeft, Brief: l.BriefPodLeft}
	for _, pod := range l.Pods {
		if !kube.OwnedByDaemonSet(pod) {
			a = a.Add(pod, l.Now)
		}
	}
	return a
}

// consolidatable sets the condition Consolidatable if the node has been quiet for the pool's consolidateAfter.
func consolidatable(l Life, claim *v1.NodeClaim, step *Step) {
	if l.Pool == nil || l.Pool.Spec.Replicas != nil {
		return
	}
	after := l.Pool.Spec.Disruption.ConsolidateAfter.Duration
	if after == nil || !v1.IsTrue(claim, v1.ConditionInitialized) {
		v1.RemoveCondition(claim, v1.ConditionConsolidatable, l.Now)
		return
	}
	a := podsOf(l)
	a.Lasting, a.Brief = kube.Latest(a.Lasting, claim.Status.LastPodEventTime.Time), kube.Latest(a.Brief, inventory.BriefPodLeft(claim))
	quiet := a.QuietSince(v1.GetCondition(claim, v1.ConditionInitialized).LastTransitionTime.Time, *after)
	if left := quiet.Add(*after).Sub(l.Now); left > 0 {
		v1.RemoveCondition(claim, v1.ConditionConsolidatable, l.Now)
		step.by(left)
		return
	}
	kube.SetCondition(claim, v1.ConditionConsolidatable, metav1.ConditionTrue, "", "", l.Now)
}

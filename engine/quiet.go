package engine

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
)

const (
	// podEventWindow is how long after a recorded pod event others are not recorded, so that a burst of pods is one write.
	podEventWindow = 10 * time.Second
	// briefLife is how short a pod's life was if the pod was not what its node is there for.
	briefLife = 5 * time.Minute
	// briefPatience is how long at least brief pods can go on keeping a node from being quiet.
	briefPatience = 30 * time.Minute
)

// activity is when pods came to a node or left it. Brief ones are those of Jobs, and those that soon left again: one of them
// every few minutes would keep a node from ever being quiet, so they do so for a limited time only.
type activity struct {
	lasting, brief time.Time
	// came and left tell lasting pods that stay from those that have ended or begun to. Only read fills them.
	came, left time.Time
}

func (a activity) add(pod *corev1.Pod, now time.Time) activity {
	if t := podEvent(pod); !t.After(now) {
		a.note(t, IsBrief(pod))
	}
	return a
}

func (a *activity) note(t time.Time, brief bool) {
	if brief {
		a.brief = latest(a.brief, t)
	} else {
		a.lasting = latest(a.lasting, t)
	}
}

// quietSince is when the node became quiet. Before there was any lasting pod it counts from begun.
func (a activity) quietSince(begun time.Time, after time.Duration) time.Time {
	quiet := a.lasting
	if quiet.IsZero() {
		quiet = begun
	}
	longest := quiet.Add(max(3*after, briefPatience))
	if a.brief.Before(longest) {
		return latest(quiet, a.brief)
	}
	return longest
}

// IsBrief reports whether the pod comes and goes: a Job runs it, or it has ended, or begun to, soon after it came.
func IsBrief(pod *corev1.Pod) bool {
	if ownedBy(pod, "batch/v1", "Job") {
		return true
	}
	return !isActive(pod) && podEvent(pod).Sub(boundAt(pod)) < briefLife
}

// observePods records when a lasting pod last came to the node or left it, and when a brief one last left it. The times are
// those that the pods themselves carry, so whoever looks, and however often the program is restarted, the record is the same.
func observePods(l Life, claim *v1.NodeClaim) {
	if l.BriefPodLeft.After(briefPodLeft(claim).Add(podEventWindow)) {
		claim.Annotations = with(claim.Annotations, v1.BriefPodLeftAnnotationKey, l.BriefPodLeft.UTC().Format(time.RFC3339))
	}
	last := podsOf(l).lasting
	if last.After(claim.Status.LastPodEventTime.Add(podEventWindow)) {
		claim.Status.LastPodEventTime = metav1.NewTime(last.Truncate(time.Second))
	}
}

// briefPodLeft is when a brief pod was last recorded to have left, the zero time if none was.
func briefPodLeft(claim *v1.NodeClaim) time.Time {
	t, err := time.Parse(time.RFC3339, claim.Annotations[v1.BriefPodLeftAnnotationKey])
	if err != nil {
		return time.Time{}
	}
	return t
}

func podsOf(l Life) activity {
	a := activity{lasting: l.PodLeft, brief: l.BriefPodLeft}
	for _, pod := range l.Pods {
		if !OwnedByDaemonSet(pod) {
			a = a.add(pod, l.Now)
		}
	}
	return a
}

// boundAt is when the pod came to its node.
func boundAt(pod *corev1.Pod) time.Time {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return pod.CreationTimestamp.Time
}

// podEvent is when the pod was bound, began to end, or ended, whichever came last.
func podEvent(pod *corev1.Pod) time.Time {
	last := boundAt(pod)
	if pod.DeletionTimestamp != nil {
		begun := pod.DeletionTimestamp.Time
		if pod.DeletionGracePeriodSeconds != nil {
			begun = begun.Add(-time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second)
		}
		last = latest(last, begun)
	}
	if IsTerminal(pod) { // it stopped being ready when it ended
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodReady || c.Type == corev1.ContainersReady {
				last = latest(last, c.LastTransitionTime.Time)
			}
		}
	}
	return last
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// consolidatable says whether the node has been quiet for as long as its pool asks.
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
	a.lasting, a.brief = latest(a.lasting, claim.Status.LastPodEventTime.Time), latest(a.brief, briefPodLeft(claim))
	quiet := a.quietSince(v1.GetCondition(claim, v1.ConditionInitialized).LastTransitionTime.Time, *after)
	if left := quiet.Add(*after).Sub(l.Now); left > 0 {
		v1.RemoveCondition(claim, v1.ConditionConsolidatable, l.Now)
		step.by(left)
		return
	}
	set(claim, v1.ConditionConsolidatable, metav1.ConditionTrue, "", "", l.Now)
}

// readActivity says as of when activityOn is asked, and reads when pods ended.
func (c *census) readActivity(now time.Time) {
	c.now, c.endings = now, map[*roll]activity{}
	for _, f := range c.ended {
		a := c.endings[f.roll]
		a.read(f, now)
		c.endings[f.roll] = a
	}
}

// read notes when the pod came to its node or left it, unless that is still to come.
func (a *activity) read(f *podFacts, now time.Time) {
	if f.daemonKey != "" || f.event.After(now) {
		return
	}
	a.note(f.event, f.brief)
	switch {
	case f.brief:
	case f.active():
		a.came = latest(a.came, f.event)
	default:
		a.left = latest(a.left, f.event)
	}
}

// activityOn is when pods came to the node or left it.
func (c *census) activityOn(node string) activity {
	r := c.memo.rolls[node]
	if r == nil {
		return activity{}
	}
	a := c.endings[r]
	pods := r.activityAt(c.now)
	return activity{
		lasting: latest(a.lasting, pods.lasting), brief: latest(a.brief, pods.brief), came: latest(a.came, pods.came), left: latest(a.left, pods.left),
	}
}

// activityAt is when pods that have not ended came to the node, or began to leave it, remembered once nothing of that is still to
// come.
func (r *roll) activityAt(now time.Time) activity {
	if r.activityRead && !now.Before(r.activityNow) {
		return r.activity
	}
	r.activity, r.activityNow, r.activityRead = activity{}, now, true
	for _, f := range r.facts {
		r.activity.read(f, now)
		r.activityRead = r.activityRead && !f.event.After(now)
	}
	return r.activity
}

// quietUntil is when the machine will have been quiet for its pool's consolidateAfter: since the last pod came or went,
// recorded on the claim or not, or since it was initialized. It is the zero time if consolidateAfter is Never or 0.
func (d *disruptor) quietUntil(h *host, pool *v1.NodePool) time.Time {
	after := pool.Spec.Disruption.ConsolidateAfter.Duration
	if after == nil || *after == 0 {
		return time.Time{}
	}
	a := d.p.census.activityOn(h.node.Name)
	a.lasting, a.brief = latest(a.lasting, h.claim.Status.LastPodEventTime.Time), latest(a.brief, briefPodLeft(h.claim))
	return a.quietSince(h.begun, *after).Add(*after)
}

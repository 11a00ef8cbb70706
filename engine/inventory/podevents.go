package inventory

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/kube"
)

const (
	// PodEventWindow is how long after a recorded pod event no other is recorded, because a burst of pods should be one write.
	PodEventWindow = 10 * time.Second
	// briefLife is the life below which a pod that has left is brief.
	briefLife = 5 * time.Minute
	// briefPatience is the least time after which brief pods no longer keep a node from being quiet.
	briefPatience = 30 * time.Minute
)

// Activity holds the times when pods were added to a node or left it. Brief pods are pods of Jobs, and pods that soon left again. Brief pods keep a
// node from being quiet for a limited time only, because one of them every few minutes would do so for ever.
type Activity struct {
	Lasting, Brief time.Time
	// Came is the time of the last lasting pod that was bound and still runs, Left of the last one that has ended or begun to end. Only read fills
	// these fields.
	Came, Left time.Time
}

func (a Activity) Add(pod *corev1.Pod, now time.Time) Activity {
	if t := podEvent(pod); !t.After(now) {
		a.note(t, IsBrief(pod))
	}
	return a
}

func (a *Activity) note(t time.Time, brief bool) {
	if brief {
		a.Brief = kube.Latest(a.Brief, t)
	} else {
		a.Lasting = kube.Latest(a.Lasting, t)
	}
}

// QuietSince returns when the node became quiet. If no lasting pod has been bound yet, the node is quiet since begun.
func (a Activity) QuietSince(begun time.Time, after time.Duration) time.Time {
	quiet := a.Lasting
	if quiet.IsZero() {
		quiet = begun
	}
	longest := quiet.Add(max(3*after, briefPatience))
	if a.Brief.Before(longest) {
		return kube.Latest(quiet, a.Brief)
	}
	return longest
}

// IsBrief reports whether the pod is brief: a Job runs it, or it has ended, or begun to end, soon after it was bound.
func IsBrief(pod *corev1.Pod) bool {
	if kube.OwnedBy(pod, "batch/v1", "Job") {
		return true
	}
	return !kube.IsActive(pod) && podEvent(pod).Sub(BoundAt(pod)) < briefLife
}

// BriefPodLeft returns when a brief pod was last recorded to have left. It returns the zero time if none was recorded.
func BriefPodLeft(claim *v1.NodeClaim) time.Time {
	t, err := time.Parse(time.RFC3339, claim.Annotations[v1.BriefPodLeftAnnotationKey])
	if err != nil {
		return time.Time{}
	}
	return t
}

// BoundAt returns when the pod was bound to its node.
func BoundAt(pod *corev1.Pod) time.Time {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return pod.CreationTimestamp.Time
}

// podEvent returns when the pod was bound, began to end, or ended, whichever came last.
func podEvent(pod *corev1.Pod) time.Time {
	last := BoundAt(pod)
	if pod.DeletionTimestamp != nil {
		begun := pod.DeletionTimestamp.Time
		if pod.DeletionGracePeriodSeconds != nil {
			begun = begun.Add(-time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second)
		}
		last = kube.Latest(last, begun)
	}
	if kube.IsTerminal(pod) { // it stopped being ready when it ended
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodReady || c.Type == corev1.ContainersReady {
				last = kube.Latest(last, c.LastTransitionTime.Time)
			}
		}
	}
	return last
}

// ReadActivity sets the time for ActivityOn, and reads when pods ended.
func (c *PodIndex) ReadActivity(now time.Time) {
	c.now, c.endings = now, map[*NodePods]Activity{}
	for _, info := range c.ended {
		a := c.endings[info.node]
		a.read(info, now)
		c.endings[info.node] = a
	}
}

// read records when the pod was bound to its node or left it, unless that is after now.
func (a *Activity) read(info *PodInfo, now time.Time) {
	if info.DaemonKey != "" || info.event.After(now) {
		return
	}
	a.note(info.event, info.brief)
	switch {
	case info.brief:
	case info.Active():
		a.Came = kube.Latest(a.Came, info.event)
	default:
		a.Left = kube.Latest(a.Left, info.event)
	}
}

// ActivityOn returns when pods were bound to the node or left it.
func (c *PodIndex) ActivityOn(node string) Activity {
	r := c.Cache.podsByNode[node]
	if r == nil {
		return Activity{}
	}
	a := c.endings[r]
	pods := r.activityAt(c.now)
	return Activity{
		Lasting: kube.Latest(a.Lasting, pods.Lasting), Brief: kube.Latest(a.Brief, pods.Brief), Came: kube.Latest(a.Came, pods.Came), Left: kube.Latest(a.Left, pods.Left),
	}
}

// activityAt returns when pods that have not ended were bound to the node or began to leave it. It keeps the result if none of these events is after
// now.
func (r *NodePods) activityAt(now time.Time) Activity {
	if r.activityRead && !now.Before(r.activityNow) {
		return r.activity
	}
	r.activity, r.activityNow, r.activityRead = Activity{}, now, true
	for _, info := range r.Infos {
		r.activity.read(info, now)
		r.activityRead = r.activityRead && !info.event.After(now)
	}
	return r.activity
}

package inventory

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"tenon.sh/engine"
	"tenon.sh/engine/kube"
)

// rolloutPatience is how long after its newest pod a workload with pods of two revisions is treated as rolling out. Deployments give a rollout the
// same time to make progress.
const rolloutPatience = 10 * time.Minute

// workloadName is the name of a workload, whose pods may be of several revisions.
type workloadName struct{ namespace, kind, name string }

func (w workloadName) String() string { return w.kind + " " + w.namespace + "/" + w.name }

// revisionOf returns the pod's workload and revision, from the labels that the controllers of Deployments and StatefulSets write; ok is
// false for other pods.
func revisionOf(pod *corev1.Pod) (w workloadName, revision string, ok bool) {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return w, "", false
	}
	switch owner.Kind {
	case "ReplicaSet":
		revision = pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey]
		name, found := strings.CutSuffix(owner.Name, "-"+revision)
		return workloadName{pod.Namespace, "Deployment", name}, revision, found && revision != ""
	case "StatefulSet":
		revision = pod.Labels[appsv1.ControllerRevisionHashLabelKey]
		return workloadName{pod.Namespace, "StatefulSet", owner.Name}, revision, revision != ""
	}
	return w, "", false
}

// Rollouts are the workloads that are replacing their pods by pods of a newer revision.
type Rollouts struct {
	Newest map[workloadName]*corev1.Pod // the youngest pod of each workload
	old    map[workloadName]int         // the number of pods of revisions other than the newest
	total  map[workloadName]int
	next   map[*corev1.Pod]workloadName // pods that do not exist yet and will, with their workloads
}

// workloadInfo holds the counts of a workload in one pass.
type workloadInfo struct {
	name       workloadName
	pass       uint64 // the last call that counted
	seen       uint64 // the last call that forgot pods and saw one of it
	newest     *PodInfo
	total, old int
	mixed      bool      // has pods of several revisions
	rolling    *Rollouts // the last Rollouts that list it
}

func RolloutsOf(c *PodIndex, now time.Time) *Rollouts {
	r := &Rollouts{Newest: map[workloadName]*corev1.Pod{}, old: map[workloadName]int{}, total: map[workloadName]int{}, next: map[*corev1.Pod]workloadName{}}
	mixed := false
	for _, info := range c.all {
		w := info.workload
		if w == nil || !info.Active() {
			continue
		}
		if w.pass != c.Cache.Pass {
			*w = workloadInfo{name: w.name, pass: c.Cache.Pass, seen: w.seen, newest: info}
		}
		w.total++
		w.mixed = w.mixed || info.revision != w.newest.revision
		mixed = mixed || w.mixed
		if younger(info, w.newest) {
			w.newest = info
		}
	}
	if !mixed {
		return r
	}
	for _, info := range c.all {
		if w := info.workload; w != nil && w.mixed && info.Active() && info.revision != w.newest.revision {
			w.old++
		}
	}
	for _, info := range c.all {
		w := info.workload
		if w != nil && w.mixed && w.newest == info && now.Sub(info.Pod.CreationTimestamp.Time) < rolloutPatience {
			r.Newest[w.name], r.old[w.name], r.total[w.name], w.rolling = info.Pod, w.old, w.total, r
		}
	}
	return r
}

func younger(a, b *PodInfo) bool {
	if !a.created.Equal(b.created) {
		return b.created.Before(a.created)
	}
	return a.Pod.Name > b.Pod.Name
}

// Leaving returns the workload whose rollout is about to replace the pod. It returns "" if there is none.
func (r *Rollouts) Leaving(info *PodInfo) string {
	w := info.workload
	if w == nil || w.rolling != r || !info.Active() || info.revision == w.newest.revision {
		return ""
	}
	return w.name.String()
}

// Owner returns the workload of a pod that does not exist yet. It returns "" for all other pods.
func (r *Rollouts) Owner(pod *corev1.Pod) string {
	if w, ok := r.next[pod]; ok {
		return w.String()
	}
	return ""
}

// Foreseen returns the snapshot with the next pods that rollouts will create beside the old ones: a quarter of all, as Deployments do at a
// time. It returns s itself if there are none.
func (r *Rollouts) Foreseen(s *engine.Snapshot) *engine.Snapshot {
	var next []*corev1.Pod
	names := slices.SortedFunc(maps.Keys(r.Newest), func(a, b workloadName) int { return cmp.Compare(a.String(), b.String()) })
	for _, w := range names {
		sample := r.Newest[w]
		if w.kind != "Deployment" {
			continue // StatefulSets delete the old pod first
		}
		for i := range min(r.old[w], (r.total[w]+3)/4) {
			pod := sample.DeepCopy()
			pod.Name, pod.UID = fmt.Sprintf("%s-next-%d", w.name, i+1), types.UID(fmt.Sprintf("%s next %d", sample.UID, i+1))
			delete(pod.Annotations, kube.MustRunOnDemandMark) // it is decided again once the pods exist
			pod.Spec.NodeName = ""
			pod.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
				{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable},
			}}
			r.next[pod] = w
			next = append(next, pod)
		}
	}
	if len(next) == 0 {
		return s
	}
	out := *s
	out.Pods = append(slices.Clone(s.Pods), next...)
	return &out
}

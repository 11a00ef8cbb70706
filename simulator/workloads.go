package simulator

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"tenon.sh/engine/kube"
	"tenon.sh/scenario"
)

// workloads is the controllers of all workloads except those of a trace.
type workloads struct {
	cfg     *Config
	agenda  *agenda
	pending *pending
	cluster *cluster
	pods    *pods
	traced  *traced
	list    []*load
	byKey   map[string]*load
	labels  map[string]map[string]string // of each version's pods
}

// adopt makes workloads of the pods with owners. Each workload keeps its present number of pods.
func (x *workloads) adopt(pods []*corev1.Pod) map[*corev1.Pod]*load {
	out := map[*corev1.Pod]*load{}
	for _, pod := range pods {
		if len(pod.OwnerReferences) == 0 || kube.IsTerminal(pod) || kube.OwnedByDaemonSet(pod) || kube.IsMirror(pod) {
			continue
		}
		owner := pod.OwnerReferences[0]
		key := pod.Namespace + "/" + owner.Kind + "/" + owner.Name
		l := x.byKey[key]
		if l == nil {
			template := pod.DeepCopy()
			template.Name, template.Spec.NodeName = owner.Name, ""
			l, _ = newLoad(scenario.Workload{Kind: scenario.Deployment, Template: template, Weekend: 1, Start: 8 * time.Second, Stop: 3 * time.Second}) // without a schedule nothing can be wrong
			l.key = key
			x.byKey[key] = l
			x.list = append(x.list, l)
		}
		l.want++
		out[pod] = l
	}
	return out
}

// begin starts a workload.
func (x *workloads) begin(l *load) {
	x.list = append(x.list, l)
	x.byKey[l.key] = l
	if l.Kind == jobKind {
		x.repeat(l.schedule, func() { x.runJob(l) })
		return
	}
	l.want = l.wanted(x.cfg.Seed, x.agenda.now)
	x.pending.loads.add(l)
	x.keepScaling(l)
	if l.rollout != nil {
		x.repeat(l.rollout, func() {
			l.newest++
			l.current = 0
			x.pending.loads.add(l)
		})
	}
}

// repeat does something at all times of a schedule.
func (x *workloads) repeat(s cron.Schedule, do func()) {
	if next := s.Next(x.agenda.now); !next.IsZero() {
		x.agenda.at(next, func() {
			do()
			x.repeat(s, do)
		})
	}
}

// keepScaling schedules the next scaling of the workload.
func (x *workloads) keepScaling(l *load) {
	if len(l.Day) == 0 && l.Noise == 0 && l.Weekend == 1 {
		return
	}
	at := x.agenda.now.Truncate(scalePeriod)
	for range 12 * 24 * 8 {
		at = at.Add(scalePeriod)
		if want := l.wanted(x.cfg.Seed, at); isAnother(l.want, want) {
			x.agenda.at(at, func() {
				l.want = want
				x.pending.loads.add(l)
				x.keepScaling(l)
			})
			return
		}
	}
	x.agenda.at(at, func() { x.keepScaling(l) })
}

// makePod makes a pod of the newest version. A Job's pod may replace an earlier one of the same Job.
func (x *workloads) makePod(l *load, index int, earlier *unit) *unit {
	l.made++
	now := x.agenda.now
	name := fmt.Sprintf("%s-%d-%d", l.Template.Name, l.newest, l.made)
	owner := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: l.setName(l.newest), UID: types.UID(l.key + "/" + l.setName(l.newest)), Controller: new(true)}
	switch l.Kind {
	case statefulKind:
		name = fmt.Sprintf("%s-%d", l.Template.Name, index)
		owner.Kind, owner.Name, owner.UID = "StatefulSet", l.Template.Name, types.UID(l.key)
	case jobKind:
		name = fmt.Sprintf("%s-%d-%d", l.Template.Name, l.runs, index)
		owner.APIVersion, owner.Kind, owner.Name = "batch/v1", "Job", fmt.Sprintf("%s-%d", l.Template.Name, now.Unix()/60) // as the CronJob's controller calls it
		owner.UID = types.UID(l.key + "/" + owner.Name)
		if earlier != nil {
			name, owner = fmt.Sprintf("%s-%d", earlier.pod.Name, l.made), earlier.pod.OwnerReferences[0]
		}
	}
	pod := &corev1.Pod{Spec: l.Template.Spec, Status: corev1.PodStatus{Phase: corev1.PodPending}}
	pod.Namespace, pod.Name, pod.Annotations = l.Template.Namespace, name, l.Template.Annotations
	serial := x.cluster.nextID()
	pod.UID = types.UID(fmt.Sprintf("%s/%s/%d", pod.Namespace, name, serial))
	pod.ResourceVersion = strconv.Itoa(serial)
	pod.CreationTimestamp = metav1.NewTime(now)
	pod.Labels = x.labelsOf(l, l.newest)
	pod.OwnerReferences = []metav1.OwnerReference{owner}
	x.cluster.devices.claim(pod)
	u := &unit{pod: pod, load: l, index: index, version: l.newest}
	l.units.put(u.key(), u)
	l.note(u, 1)
	x.pods.add(u)
	return u
}

// labelsOf returns the labels of the pods of a version; all of them share one map.
func (x *workloads) labelsOf(l *load, version int) map[string]string {
	key := fmt.Sprintf("%s %d", l.key, version)
	if known, ok := x.labels[key]; ok {
		return known
	}
	out := maps.Clone(l.Template.Labels)
	if out == nil {
		out = map[string]string{}
	}
	if l.Kind == scenario.Deployment {
		out[appsv1.DefaultDeploymentUniqueLabelKey] = strconv.Itoa(version)
	}
	x.labels[key] = out
	x.declare(l, version, out)
	return out
}

// declare adds the object that owns the pods of a version, because kube-scheduler reads from it which pods to spread.
func (x *workloads) declare(l *load, version int, labels map[string]string) {
	selector := &metav1.LabelSelector{MatchLabels: labels}
	meta := metav1.ObjectMeta{Namespace: l.Template.Namespace, Name: l.setName(version), UID: types.UID(l.key + "/" + l.setName(version)), ResourceVersion: "1"}
	meta.CreationTimestamp = metav1.NewTime(x.agenda.now)
	switch l.Kind {
	case scenario.Deployment:
		meta.Labels = labels
		sets := slices.DeleteFunc(slices.Clone(x.cluster.base.ReplicaSets), func(r *appsv1.ReplicaSet) bool { // one old version may still have pods
			return strings.HasPrefix(string(r.UID), l.key+"/") && r.Name != l.setName(version-1)
		})
		x.cluster.base.ReplicaSets = append(sets, &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Selector: selector}})
	case statefulKind:
		meta.Name, meta.UID = l.Template.Name, types.UID(l.key)
		x.cluster.base.StatefulSets = append(slices.Clone(x.cluster.base.StatefulSets), &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Selector: selector}})
	}
}

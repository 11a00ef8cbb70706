package simulator

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"tenon.sh/scenario"
	"tenon.sh/trace"
)

// tracedKind is the kind of a workload of a trace: equal pods, with the same owner if kube-scheduler spreads pods by it.
const tracedKind scenario.WorkloadKind = "Trace"

// stay is one pod of the trace. If the world's pod ends too early, another pod replaces it, because every policy must do the same work.
type stay struct {
	*trace.Pod
	unit *unit // nil while it has to be made anew
	over bool
	made int
	// takes is how long the pod of a Job works.
	takes time.Duration
}

// replayTrace starts the pods of the trace. Pods that exist from its beginning are created when the world begins, so they have nodes when measuring
// begins.
func (w *World) replayTrace() {
	t := w.cfg.Trace
	if t == nil {
		return
	}
	w.traced, w.declared = map[tracedKey]*load{}, map[string]int{}
	w.traceShift = w.agenda.now.Add(w.cfg.WarmUp).Sub(t.Begin())
	w.arrive()
}

func (w *World) traceTime(m trace.Moment) time.Time { return m.Time().Add(w.traceShift) }

// arrive makes the pods whose time has come.
func (w *World) arrive() {
	t := w.cfg.Trace
	for w.arrived < len(t.Pods) {
		p := &t.Pods[w.arrived]
		if at := w.traceTime(p.Arrival); p.Arrival > t.Pods[0].Arrival && at.After(w.agenda.now) {
			w.agenda.at(at, w.arrive)
			return
		}
		w.arrived++
		s := &stay{Pod: p}
		l := w.tracedLoad(p)
		if !p.Stays() && !l.works(p) {
			w.agenda.at(w.traceTime(p.Departure), func() { w.depart(s) })
		}
		w.makeTraced(l, s)
	}
}

// tracedKey is a kind of pods, with the owner if kube-scheduler spreads pods by it.
type tracedKey struct{ kind, owner int32 }

// works reports whether the pod is one of a Job that ends. It runs, from its binding on, as long as it existed in the trace.
func (l *load) works(p *trace.Pod) bool { return l.jobs && !p.Stays() }

// tracedLoad returns the workload of a pod. Each owner by which pods are spread has a workload of its own. Jobs with pods of one kind
// share one, because there may be as many Jobs as pods.
func (w *World) tracedLoad(p *trace.Pod) *load {
	key := tracedKey{p.Kind, -1}
	owner := ""
	if p.Owner >= 0 {
		owner, _, _ = strings.Cut(w.cfg.Trace.Owners[p.Owner], "/")
	}
	switch owner {
	case "ReplicaSet", "StatefulSet", "ReplicationController":
		key.owner = p.Owner
	case "Job":
		key.owner = -2
	}
	if l := w.traced[key]; l != nil {
		return l
	}
	k := &w.cfg.Trace.Kinds[p.Kind]
	template := &corev1.Pod{Spec: corev1.PodSpec{
		NodeSelector: k.Selector, Tolerations: k.Tolerations,
		Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: k.Requests}}},
	}}
	template.Namespace, template.Labels = k.Namespace, k.Labels
	l, _ := newLoad(scenario.Workload{Kind: tracedKind, Template: template, Weekend: 1, Start: 8 * time.Second, Stop: 3 * time.Second}) // no schedule can be wrong
	l.key, l.jobs = fmt.Sprintf("trace/%d/%d", key.kind, key.owner), key.owner == -2
	l.labels = k.Labels
	w.traced[key] = l
	l.forget = func() { delete(w.traced, key) }
	if key.owner >= 0 {
		w.declareTraced(l, w.cfg.Trace.Owners[p.Owner], p.Owner)
		l.forget = func() {
			delete(w.traced, key)
			w.withdrawTraced(l.Template.Namespace, w.cfg.Trace.Owners[p.Owner])
		}
	}
	return l
}

// declareTraced adds the object that owns pods, with a label by which it selects them, because kube-scheduler reads from it which pods
// to spread.
func (w *World) declareTraced(l *load, owner string, number int32) {
	l.labels = maps.Clone(l.labels)
	if l.labels == nil {
		l.labels = map[string]string{}
	}
	l.labels[appsv1.DefaultDeploymentUniqueLabelKey] = strconv.Itoa(int(number))
	id := l.Template.Namespace + "/" + owner
	if w.declared[id]++; w.declared[id] > 1 { // its pods may have different requests
		return
	}
	kind, name, _ := strings.Cut(owner, "/")
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{appsv1.DefaultDeploymentUniqueLabelKey: strconv.Itoa(int(number))}}
	meta := metav1.ObjectMeta{Namespace: l.Template.Namespace, Name: name, UID: ownerUID(owner), ResourceVersion: "1", CreationTimestamp: metav1.NewTime(w.agenda.now)}
	switch kind {
	case "StatefulSet":
		w.cluster.base.StatefulSets = append(slices.Clone(w.cluster.base.StatefulSets), &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Selector: selector}})
	default:
		w.cluster.base.ReplicaSets = append(slices.Clone(w.cluster.base.ReplicaSets), &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Selector: selector}})
	}
}

// withdrawTraced removes the object that declareTraced has added, with the owner's last workload.
func (w *World) withdrawTraced(namespace, owner string) {
	id := namespace + "/" + owner
	if w.declared[id]--; w.declared[id] > 0 {
		return
	}
	delete(w.declared, id)
	theirs := func(o *metav1.ObjectMeta) bool { return o.Namespace == namespace && o.UID == ownerUID(owner) }
	w.cluster.base.StatefulSets = slices.DeleteFunc(slices.Clone(w.cluster.base.StatefulSets), func(o *appsv1.StatefulSet) bool { return theirs(&o.ObjectMeta) })
	w.cluster.base.ReplicaSets = slices.DeleteFunc(slices.Clone(w.cluster.base.ReplicaSets), func(o *appsv1.ReplicaSet) bool { return theirs(&o.ObjectMeta) })
}

func ownerUID(owner string) types.UID { return types.UID("trace/" + owner) }

// makeTraced creates the pod, or replaces it under another name, as its owner would.
func (w *World) makeTraced(l *load, s *stay) {
	now := w.agenda.now
	pod := &corev1.Pod{Spec: l.Template.Spec, Status: corev1.PodStatus{Phase: corev1.PodPending}}
	pod.Namespace, pod.Name, pod.Labels = l.Template.Namespace, s.Name, l.labels
	s.takes = time.Duration(s.Departure - s.Arrival)
	if s.made++; s.made > 1 {
		pod.Name = fmt.Sprintf("%s-%d", s.Name, s.made)
	} else if s.Arrival == w.cfg.Trace.Pods[0].Arrival { // it runs during the warm-up too
		s.takes += w.cfg.WarmUp
	}
	w.cluster.uids++
	pod.UID = types.UID(fmt.Sprintf("%s/%s/%d", pod.Namespace, pod.Name, w.cluster.uids))
	pod.ResourceVersion = strconv.Itoa(w.cluster.uids)
	pod.CreationTimestamp = metav1.NewTime(now)
	owner := "Trace/" + s.Name // a pod without an owner would not be replaced
	if s.Owner >= 0 {
		owner = w.cfg.Trace.Owners[s.Owner]
	}
	kind, name, _ := strings.Cut(owner, "/")
	version := "apps/v1"
	if kind == "Job" {
		version = "batch/v1"
	}
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: version, Kind: kind, Name: name, UID: ownerUID(owner), Controller: new(true)}}
	u := &unit{pod: pod, load: l, stay: s, version: l.newest}
	s.unit = u
	l.units.put(u.key(), u)
	l.note(u, 1)
	w.pods.add(u)
}

// depart ends a pod of the trace.
func (w *World) depart(s *stay) {
	s.over = true
	if s.unit != nil {
		w.pods.end(s.unit, s.unit.grace())
	}
}

// miss notes that a pod of the trace has ended too early: tendTraced replaces it.
func (l *load) miss(u *unit) {
	if s := u.stay; s != nil && s.unit == u {
		s.unit = nil
		if !s.over {
			l.missing = append(l.missing, s)
		}
	}
}

// tendTraced replaces pods that ended too early, and forgets a workload without pods, because a trace may have very many.
func (w *World) tendTraced(l *load) {
	missing := l.missing
	l.missing = nil
	for _, s := range missing {
		if !s.over {
			w.makeTraced(l, s)
		}
	}
	if len(l.units.list) == 0 && l.forget != nil {
		l.forget()
		l.forget = nil
	}
}

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

// traced adds and removes the pods of the trace.
type traced struct {
	cfg      *Config
	agenda   *agenda
	cluster  *cluster
	pods     *pods
	loads    map[tracedKey]*load
	declared map[string]int // loads of each owner of the trace, by namespace and name
	arrived  int            // pods of the trace
	shift    time.Duration  // from the trace's times to the world's times
}

// replay starts the pods of the trace. Pods that exist from its beginning are created when the world begins, so they have nodes when measuring
// begins.
func (x *traced) replay() {
	t := x.cfg.Trace
	if t == nil {
		return
	}
	x.shift = x.agenda.now.Add(x.cfg.WarmUp).Sub(t.Begin())
	x.arrive()
}

// when returns a time of the trace as a time of the world.
func (x *traced) when(m trace.Moment) time.Time { return m.Time().Add(x.shift) }

// arrive makes the pods whose time has come.
func (x *traced) arrive() {
	t := x.cfg.Trace
	for x.arrived < len(t.Pods) {
		p := &t.Pods[x.arrived]
		if at := x.when(p.Arrival); p.Arrival > t.Pods[0].Arrival && at.After(x.agenda.now) {
			x.agenda.at(at, x.arrive)
			return
		}
		x.arrived++
		s := &stay{Pod: p}
		l := x.loadOf(p)
		if !p.Stays() && !l.works(p) {
			x.agenda.at(x.when(p.Departure), func() { x.depart(s) })
		}
		x.makePod(l, s)
	}
}

// tracedKey is a kind of pods, with the owner if kube-scheduler spreads pods by it.
type tracedKey struct{ kind, owner int32 }

// works reports whether the pod is one of a Job that ends. It runs, from its binding on, as long as it existed in the trace.
func (l *load) works(p *trace.Pod) bool { return l.jobs && !p.Stays() }

// loadOf returns the workload of a pod. Each owner by which pods are spread has a workload of its own. Jobs with pods of one kind
// share one, because there may be as many Jobs as pods.
func (x *traced) loadOf(p *trace.Pod) *load {
	key := tracedKey{p.Kind, -1}
	owner := ""
	if p.Owner >= 0 {
		owner, _, _ = strings.Cut(x.cfg.Trace.Owners[p.Owner], "/")
	}
	switch owner {
	case "ReplicaSet", "StatefulSet", "ReplicationController":
		key.owner = p.Owner
	case "Job":
		key.owner = -2
	}
	if l := x.loads[key]; l != nil {
		return l
	}
	k := &x.cfg.Trace.Kinds[p.Kind]
	template := &corev1.Pod{Spec: corev1.PodSpec{
		NodeSelector: k.Selector, Tolerations: k.Tolerations,
		Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: k.Requests}}},
	}}
	template.Namespace, template.Labels = k.Namespace, k.Labels
	l, _ := newLoad(scenario.Workload{Kind: tracedKind, Template: template, Weekend: 1, Start: 8 * time.Second, Stop: 3 * time.Second}) // no schedule can be wrong
	l.key, l.jobs = fmt.Sprintf("trace/%d/%d", key.kind, key.owner), key.owner == -2
	l.labels = k.Labels
	x.loads[key] = l
	l.forget = func() { delete(x.loads, key) }
	if key.owner >= 0 {
		x.declare(l, x.cfg.Trace.Owners[p.Owner], p.Owner)
		l.forget = func() {
			delete(x.loads, key)
			x.withdraw(l.Template.Namespace, x.cfg.Trace.Owners[p.Owner])
		}
	}
	return l
}

// declare adds the object that owns pods, with a label by which it selects them, because kube-scheduler reads from it which pods
// to spread.
func (x *traced) declare(l *load, owner string, number int32) {
	l.labels = maps.Clone(l.labels)
	if l.labels == nil {
		l.labels = map[string]string{}
	}
	l.labels[appsv1.DefaultDeploymentUniqueLabelKey] = strconv.Itoa(int(number))
	id := l.Template.Namespace + "/" + owner
	if x.declared[id]++; x.declared[id] > 1 { // its pods may have different requests
		return
	}
	kind, name, _ := strings.Cut(owner, "/")
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{appsv1.DefaultDeploymentUniqueLabelKey: strconv.Itoa(int(number))}}
	meta := metav1.ObjectMeta{Namespace: l.Template.Namespace, Name: name, UID: ownerUID(owner), ResourceVersion: "1", CreationTimestamp: metav1.NewTime(x.agenda.now)}
	switch kind {
	case "StatefulSet":
		x.cluster.base.StatefulSets = append(slices.Clone(x.cluster.base.StatefulSets), &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Selector: selector}})
	default:
		x.cluster.base.ReplicaSets = append(slices.Clone(x.cluster.base.ReplicaSets), &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Selector: selector}})
	}
}

// withdraw removes the object that declare has added, with the owner's last workload.
func (x *traced) withdraw(namespace, owner string) {
	id := namespace + "/" + owner
	if x.declared[id]--; x.declared[id] > 0 {
		return
	}
	delete(x.declared, id)
	theirs := func(o *metav1.ObjectMeta) bool { return o.Namespace == namespace && o.UID == ownerUID(owner) }
	x.cluster.base.StatefulSets = slices.DeleteFunc(slices.Clone(x.cluster.base.StatefulSets), func(o *appsv1.StatefulSet) bool { return theirs(&o.ObjectMeta) })
	x.cluster.base.ReplicaSets = slices.DeleteFunc(slices.Clone(x.cluster.base.ReplicaSets), func(o *appsv1.ReplicaSet) bool { return theirs(&o.ObjectMeta) })
}

func ownerUID(owner string) types.UID { return types.UID("trace/" + owner) }

// makePod creates the pod, or replaces it under another name, as its owner would.
func (x *traced) makePod(l *load, s *stay) {
	now := x.agenda.now
	pod := &corev1.Pod{Spec: l.Template.Spec, Status: corev1.PodStatus{Phase: corev1.PodPending}}
	pod.Namespace, pod.Name, pod.Labels = l.Template.Namespace, s.Name, l.labels
	s.takes = time.Duration(s.Departure - s.Arrival)
	if s.made++; s.made > 1 {
		pod.Name = fmt.Sprintf("%s-%d", s.Name, s.made)
	} else if s.Arrival == x.cfg.Trace.Pods[0].Arrival { // it runs during the warm-up too
		s.takes += x.cfg.WarmUp
	}
	serial := x.cluster.nextID()
	pod.UID = types.UID(fmt.Sprintf("%s/%s/%d", pod.Namespace, pod.Name, serial))
	pod.ResourceVersion = strconv.Itoa(serial)
	pod.CreationTimestamp = metav1.NewTime(now)
	owner := "Trace/" + s.Name // a pod without an owner would not be replaced
	if s.Owner >= 0 {
		owner = x.cfg.Trace.Owners[s.Owner]
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
	x.pods.add(u)
}

// depart ends a pod of the trace.
func (x *traced) depart(s *stay) {
	s.over = true
	if s.unit != nil {
		x.pods.end(s.unit, s.unit.grace())
	}
}

// miss notes that a pod of the trace has ended too early: traced.tend replaces it.
func (l *load) miss(u *unit) {
	if s := u.stay; s != nil && s.unit == u {
		s.unit = nil
		if !s.over {
			l.missing = append(l.missing, s)
		}
	}
}

// tend replaces pods that ended too early, and forgets a workload without pods, because a trace may have very many.
func (x *traced) tend(l *load) {
	missing := l.missing
	l.missing = nil
	for _, s := range missing {
		if !s.over {
			x.makePod(l, s)
		}
	}
	if len(l.units.list) == 0 && l.forget != nil {
		l.forget()
		l.forget = nil
	}
}

package simulator

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// unit is one pod of the world, with the world's own data about it.
type unit struct {
	pod   *corev1.Pod
	load  *load // its workload; nil for a pod that nothing replaces
	shape *shape
	seat  *seat // its node; nil without one
	need  amounts
	index int   // its index among the pods of its workload
	stay  *stay // nil for pods of no trace
	// version is the version of its workload.
	version int
	// number is the index of the pod in the order in which pods were added to the world.
	number int
	ready  bool
	ended  bool // it is gone: later events do not apply to it
	tried  bool // the scheduler has found no node for it
}

// key returns the pod's UID, because a later pod may have the same name.
func (u *unit) key() string { return string(u.pod.UID) }

func (u *unit) leaving() bool { return u.pod.DeletionTimestamp != nil }

// amounts are requests, in thousandths of cores and units of everything else, in the order of a resources.
type amounts []int64

// resources maps each resource that pods or nodes have named to its index.
type resources map[corev1.ResourceName]int

func (r resources) amountsIn(list corev1.ResourceList) amounts {
	for _, name := range slices.Sorted(maps.Keys(list)) {
		if _, known := r[name]; !known {
			r[name] = len(r)
		}
	}
	out := make(amounts, len(r))
	for name, q := range list {
		if name == corev1.ResourceCPU {
			out[r[name]] = q.MilliValue()
		} else {
			out[r[name]] = q.Value()
		}
	}
	return out
}

// add adds other n times.
func (a *amounts) add(other amounts, n int64) {
	if more := len(other) - len(*a); more > 0 { // resources that were added later
		*a = append(*a, make(amounts, more)...)
	}
	for i, amount := range other {
		(*a)[i] += n * amount
	}
}

// of returns the amount of the resource with the index.
func (a amounts) of(i int) int64 {
	if i < len(a) {
		return a[i]
	}
	return 0
}

// addUnit adds a new pod to the world.
func (w *World) addUnit(u *unit) {
	u.shape = w.cluster.shapes.of(u)
	u.need = u.shape.need
	w.cluster.numbers++
	u.number = w.cluster.numbers
	if u.pod.Spec.NodeName != "" {
		u.seat = w.cluster.seats[u.pod.Spec.NodeName]
	}
	w.cluster.units.put(u)
	u.shape.units.put(u.key(), u)
	if u.seat != nil {
		u.seat.sit(u)
		u.ready = isReady(u.pod)
		u.shape.ready += count(u.ready)
		w.meter.pods++
	} else if isGated(u.pod) {
		return
	} else {
		w.cluster.unbound.put(u.key(), u)
		w.pending.pods = true
	}
	w.cluster.noteChange()
}

func isGated(pod *corev1.Pod) bool { return len(pod.Spec.SchedulingGates) > 0 }

func isReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// bind puts a pod on a node, as kube-scheduler does.
func (w *World) bind(u *unit, s *seat) {
	w.cluster.devices.allocate(u, s)
	now := w.agenda.now
	pod := *u.pod
	pod.Spec.NodeName, pod.Status.NominatedNodeName = s.node.Name, ""
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now)}}
	w.cluster.units.set(u, &pod)
	u.seat, u.tried = s, false
	s.sit(u)
	w.cluster.unbound.remove(u.key())
	w.meter.pods++
	w.meter.bound(now.Sub(pod.CreationTimestamp.Time))
	w.cluster.podsChanged(s)
	w.start(u)
	w.work(u)
	w.cluster.noteChange()
}

// start makes the pod run after the time that the kubelet takes.
func (w *World) start(u *unit) {
	begin := 8 * time.Second
	if u.load != nil {
		begin = u.load.Start
	}
	w.around("start", u, begin, func() {
		if !u.ended && !u.leaving() && u.seat.alive {
			w.run(u)
		}
	})
}

// around does something with a pod after about that time.
func (w *World) around(what string, u *unit, median time.Duration, do func()) {
	w.agenda.after(w.dice(what, u.key()).around(median), do)
}

// tendSoon lets the controller of a workload handle all changes within a Moment together.
func (w *World) tendSoon(l *load) {
	if l.Kind != jobKind && l.Kind != tracedKind && !l.tended.After(w.agenda.now) {
		l.tended = w.agenda.now.Add(Moment)
		w.agenda.at(l.tended, func() { w.pending.loads.add(l) })
	}
}

// run makes the pod ready.
func (w *World) run(u *unit) {
	now := metav1.NewTime(w.agenda.now)
	pod := *u.pod
	pod.Status.Phase, pod.Status.StartTime = corev1.PodRunning, &now
	bound := min(1, len(pod.Status.Conditions)) // a pod from a file may have none
	pod.Status.Conditions = append(pod.Status.Conditions[:bound:bound], corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: now})
	w.cluster.units.set(u, &pod)
	u.ready = true
	u.shape.ready++
	w.cluster.guards.changed = true
	if u.load == nil {
		return
	}
	u.load.back(u)
	w.tendSoon(u.load)
	if u.load.Kind == jobKind {
		w.around("runs", u, u.load.Runs, func() {
			if !u.ended && !u.leaving() && u.ready {
				w.meter.Jobs++
				w.drop(u)
			}
		})
	}
}

// end begins the deletion of a pod. The pod is gone once it has stopped or its grace period is over.
func (w *World) end(u *unit, grace time.Duration) {
	if u.ended || u.leaving() && !u.pod.DeletionTimestamp.After(w.agenda.now.Add(grace)) {
		return
	}
	if u.seat == nil {
		w.drop(u)
		return
	}
	stop := 3 * time.Second
	if u.load != nil {
		stop = u.load.Stop
		if !u.leaving() {
			u.load.note(u, -1)
		}
	}
	pod := *u.pod
	seconds, at := int64(grace/time.Second), metav1.NewTime(w.agenda.now.Add(grace))
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &at, &seconds
	w.cluster.units.set(u, &pod)
	w.unready(u)
	w.cluster.podsChanged(u.seat)
	if u.load != nil {
		u.load.miss(u)
		w.pending.loads.add(u.load)
	}
	w.around("stop", u, min(stop, grace), func() {
		if u.seat.alive {
			w.drop(u)
		}
	})
	w.cluster.noteChange()
}

// unready marks the pod as not ready.
func (w *World) unready(u *unit) {
	if u.ready {
		u.ready = false
		u.shape.ready--
		w.cluster.guards.changed = true
	}
}

// drop removes a pod from the world.
func (w *World) drop(u *unit) {
	if u.ended {
		return
	}
	u.ended = true
	w.unready(u)
	w.cluster.devices.drop(u)
	w.cluster.units.remove(u)
	w.cluster.unbound.remove(u.key())
	u.shape.units.remove(u.key())
	if len(u.shape.units.list) == 0 && (u.load == nil || u.version != u.load.newest || u.stay != nil) {
		w.cluster.shapes.forget(u)
	}
	if u.seat == nil {
		w.meter.unserved(u)
	} else {
		u.seat.rise(u)
		u.seat.left = w.agenda.now
		w.meter.pods--
		w.cluster.podsChanged(u.seat)
		w.cluster.freed()
		if c := w.cluster.claimOf(u.seat); c != nil && c.DeletionTimestamp == nil {
			w.timetable.departed++
		}
	}
	if u.load != nil {
		if !u.leaving() {
			u.load.note(u, -1)
		}
		u.load.miss(u)
		u.load.units.remove(u.key())
		w.pending.loads.add(u.load)
	}
	w.cluster.noteChange()
}

// grace returns the termination grace period of the pod.
func (u *unit) grace() time.Duration {
	if s := u.pod.Spec.TerminationGracePeriodSeconds; s != nil {
		return time.Duration(*s) * time.Second
	}
	return 30 * time.Second
}

package simulator

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"tenon.sh/engine/kube"
)

// pods changes the pods of the cluster, as kube-scheduler, the kubelets and the eviction API do.
type pods struct {
	cfg       *Config
	agenda    *agenda
	laws      *laws
	pending   *pending
	timetable *timetable
	meter     *meter
	cluster   *cluster
}

// add adds a new pod to the cluster.
func (p *pods) add(u *unit) {
	p.cluster.addUnit(u)
	if u.seat != nil {
		u.seat.sit(u)
		u.ready = isReady(u.pod)
		u.shape.ready += count(u.ready)
		p.meter.pods++
	} else if isGated(u.pod) {
		return
	} else {
		p.cluster.unbound.put(u.key(), u)
		p.pending.pods = true
	}
	p.cluster.noteChange()
}

// bind puts a pod on a node, as kube-scheduler does.
func (p *pods) bind(u *unit, s *seat) {
	p.cluster.devices.allocate(u, s)
	now := p.agenda.now
	pod := *u.pod
	pod.Spec.NodeName, pod.Status.NominatedNodeName = s.node.Name, ""
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now)}}
	p.cluster.units.set(u, &pod)
	u.seat, u.tried = s, false
	s.sit(u)
	p.cluster.unbound.remove(u.key())
	p.meter.pods++
	p.meter.bound(now.Sub(pod.CreationTimestamp.Time))
	p.cluster.podsChanged(s)
	p.start(u)
	p.work(u)
	p.cluster.noteChange()
}

// refuse marks the pod as unschedulable, and removes its nomination.
func (p *pods) refuse(u *unit) {
	if u.tried && u.pod.Status.NominatedNodeName == "" {
		return
	}
	pod := *u.pod
	pod.Status.NominatedNodeName = ""
	pod.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, LastTransitionTime: metav1.NewTime(p.agenda.now),
	}}
	p.cluster.units.set(u, &pod)
	u.tried = true
	p.timetable.wantMachines()
}

// point nominates a pod to a node; an empty name removes its nomination.
func (p *pods) point(u *unit, node string) {
	pod := *u.pod
	pod.Status.NominatedNodeName = node
	p.cluster.units.set(u, &pod)
}

// start makes the pod run after the time that the kubelet takes.
func (p *pods) start(u *unit) {
	begin := 8 * time.Second
	if u.load != nil {
		begin = u.load.Start
	}
	p.around("start", u, begin, func() {
		if !u.ended && !u.leaving() && u.seat.alive {
			p.run(u)
		}
	})
}

// around does something with a pod after about that time.
func (p *pods) around(what string, u *unit, median time.Duration, do func()) {
	p.agenda.after(newDice(p.cfg.Seed, what, u.key()).around(median), do)
}

// run makes the pod ready.
func (p *pods) run(u *unit) {
	now := metav1.NewTime(p.agenda.now)
	pod := *u.pod
	pod.Status.Phase, pod.Status.StartTime = corev1.PodRunning, &now
	bound := min(1, len(pod.Status.Conditions)) // a pod from a file may have none
	pod.Status.Conditions = append(pod.Status.Conditions[:bound:bound], corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: now})
	p.cluster.units.set(u, &pod)
	u.ready = true
	u.shape.ready++
	p.cluster.guards.changed = true
	if u.load == nil {
		return
	}
	u.load.back(u)
	p.tendSoon(u.load)
	if u.load.Kind == jobKind {
		p.around("runs", u, u.load.Runs, func() {
			if !u.ended && !u.leaving() && u.ready {
				p.meter.Jobs++
				p.drop(u)
			}
		})
	}
}

// work ends a pod of a Job when its work is done. A replacement does the whole work again.
func (p *pods) work(u *unit) {
	s := u.stay
	if s == nil || !u.load.works(s.Pod) {
		return
	}
	p.agenda.after(s.takes, func() {
		if !u.ended && !u.leaving() && s.unit == u {
			s.over = true
			p.meter.Jobs++
			p.drop(u)
		}
	})
}

// tendSoon lets the controller of a workload handle all changes within a Moment together.
func (p *pods) tendSoon(l *load) {
	if l.Kind != jobKind && l.Kind != tracedKind && !l.tended.After(p.agenda.now) {
		l.tended = p.agenda.now.Add(Moment)
		p.agenda.at(l.tended, func() { p.pending.loads.add(l) })
	}
}

// evict asks the eviction API to evict a pod, and reports whether the API agreed.
func (p *pods) evict(u *unit, cause string) bool {
	p.cluster.guards.count()
	covering := u.shape.guards
	switch {
	case u.ended || u.leaving():
		return true
	case len(covering) > 1:
		return false
	case len(covering) == 1 && u.ready && covering[0].budget.Status.DisruptionsAllowed <= 0:
		return false
	case len(covering) == 1 && !u.ready && covering[0].budget.Status.DisruptionsAllowed <= 0 && !covering[0].lenient():
		return false
	}
	p.auditAway(u, cause)
	p.meter.evicted(cause)
	p.end(u, u.grace())
	return true
}

// auditAway records that consolidation or drift evicts a ready pod. At most half of a controller's pods, rounded up, may be away for these reasons at
// a time. A pod is away until another pod of the workload becomes ready, or until the workload is scaled down.
func (p *pods) auditAway(u *unit, cause string) {
	if !p.cfg.Audit || p.cfg.Policy == Baseline || u.load == nil || !u.ready || cause != "underutilized" && cause != "drifted" {
		return
	}
	uid, pods := kube.WorkloadOf(u.pod), 0
	for _, other := range u.load.units.list {
		if kube.WorkloadOf(other.pod) == uid {
			pods++
		}
	}
	if u.load.away == nil {
		u.load.away = map[types.UID]int{}
	}
	u.load.away[uid]++
	if n := u.load.away[uid]; n > (pods+1)/2 {
		p.laws.violate("%d of %d pods of %s are away because they were evicted by choice", n, pods, u.pod.OwnerReferences[0].Name)
	}
}

// end begins the deletion of a pod. The pod is gone once it has stopped or its grace period is over.
func (p *pods) end(u *unit, grace time.Duration) {
	if u.ended || u.leaving() && !u.pod.DeletionTimestamp.After(p.agenda.now.Add(grace)) {
		return
	}
	if u.seat == nil {
		p.drop(u)
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
	seconds, at := int64(grace/time.Second), metav1.NewTime(p.agenda.now.Add(grace))
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &at, &seconds
	p.cluster.units.set(u, &pod)
	p.unready(u)
	p.cluster.podsChanged(u.seat)
	if u.load != nil {
		u.load.miss(u)
		p.pending.loads.add(u.load)
	}
	p.around("stop", u, min(stop, grace), func() {
		if u.seat.alive {
			p.drop(u)
		}
	})
	p.cluster.noteChange()
}

// unready marks the pod as not ready.
func (p *pods) unready(u *unit) {
	if u.ready {
		u.ready = false
		u.shape.ready--
		p.cluster.guards.changed = true
	}
}

// drop removes a pod from the world.
func (p *pods) drop(u *unit) {
	if u.ended {
		return
	}
	u.ended = true
	p.unready(u)
	p.cluster.removeUnit(u)
	if u.seat == nil {
		p.meter.unserved(u)
	} else {
		u.seat.rise(u)
		u.seat.left = p.agenda.now
		p.meter.pods--
		p.cluster.podsChanged(u.seat)
		p.cluster.freed()
		if c := p.cluster.claimOf(u.seat); c != nil && c.DeletionTimestamp == nil {
			p.timetable.podLeft()
		}
	}
	if u.load != nil {
		if !u.leaving() {
			u.load.note(u, -1)
		}
		u.load.miss(u)
		u.load.units.remove(u.key())
		p.pending.loads.add(u.load)
	}
	p.cluster.noteChange()
}

package simulator

import "time"

const (
	// A plan waits until no pending pod has been created for batchIdle, but not longer than batchMost, because pods are planned together.
	batchIdle, batchMost = time.Second, 10 * time.Second
	// enough is the share of all pods that must leave nodes before the next look at the nodes follows soon, because room may be saved. Otherwise the
	// pause before the look is quietTimes as long.
	enough, quietTimes = 0.015, 3
	// smallWorld is the number of nodes up to which nodes are looked at each minute, as the controllers do, because a look is cheap.
	smallWorld = 50
	// backOff is how long kube-scheduler leaves unschedulable pods alone after a small change.
	backOff = 10 * time.Second
)

// timetable decides when plans are due: provisioning plans soon after a part wants machines, disruption plans some time after changes. The timetable also
// decides when kube-scheduler tries pods again.
type timetable struct {
	cfg     *Config
	agenda  *agenda
	pending *pending
	buffers bool // there are CapacityBuffers
	// Since when machines are wanted, and when they are planned; zero if none are wanted.
	wanted, planAt time.Time
	scheduled      time.Time // the last round of kube-scheduler
	retrying       bool      // the next round of kube-scheduler after new room is entered
	looks          time.Time // when the next look at the nodes is; zero while none is entered
	disrupted      time.Time // the last look
	changed        time.Time // the last change, or the last look after which a node may be removed in time without a change
	pressing       bool      // the last look at the nodes found some to remove for another reason than their price
	departed       int       // the number of pods that have left nodes since that look, without the pods of leaving nodes
	unplaced       bool      // the last provisioning plan had no machine for some pod
}

// wantMachines schedules a provisioning plan soon.
func (t *timetable) wantMachines() {
	now := t.agenda.now
	if t.wanted.IsZero() {
		t.wanted = now
	}
	at := now.Add(batchIdle)
	if latest := t.wanted.Add(batchMost); latest.Before(at) {
		at = latest
	}
	if at.Equal(t.planAt) {
		return
	}
	t.planAt, t.pending.provision = at, t.pending.provision && !at.After(now) // a pod that is created at the time of the plan delays the plan
	t.agenda.at(at, func() {
		if t.planAt.Equal(at) {
			t.pending.provision = true
		}
	})
}

// beginPlan notes that a provisioning plan is made now, for all pods until now.
func (t *timetable) beginPlan() {
	t.wanted, t.planAt, t.pending.provision = time.Time{}, time.Time{}, false
}

// endPlan notes whether the plan had no machine for some pod.
func (t *timetable) endPlan(unplaced bool) { t.unplaced = unplaced }

// noteChange schedules a look at the nodes that may be disrupted. Looks have a configured pause, and a longer one if there is little to gain in a
// cluster with these numbers of pods and nodes.
func (t *timetable) noteChange(pods, nodes int) {
	t.changed = t.agenda.now
	t.lookAt(t.disrupted.Add(t.lookPause(pods, nodes)))
}

// noteAge schedules a look at the nodes for the time when the last change is twice as long ago as now, because older pods cost less to move.
func (t *timetable) noteAge(pods, nodes int) {
	t.lookAt(t.agenda.now.Add(max(t.lookPause(pods, nodes), t.agenda.now.Sub(t.changed))))
}

// beginLook notes that a disruption plan is made now.
func (t *timetable) beginLook() {
	t.pending.disrupt, t.disrupted, t.departed = false, t.agenda.now, 0
}

// retry lets kube-scheduler try again soon, if there are pods then.
func (t *timetable) retry(waiting func() bool) {
	if t.retrying {
		return
	}
	t.retrying = true
	t.agenda.at(later(t.agenda.now, t.scheduled.Add(backOff)), func() {
		t.retrying = false
		t.pending.pods = t.pending.pods || waiting()
	})
}

// beginRound notes that kube-scheduler tries all pods now.
func (t *timetable) beginRound() { t.pending.pods, t.scheduled = false, t.agenda.now }

// endLook notes whether the plan removes nodes for another reason than their price.
func (t *timetable) endLook(pressing bool) { t.pressing = pressing }

// podLeft counts a pod that has left a node which stays.
func (t *timetable) podLeft() { t.departed++ }

// lookPause returns the shortest time from one look at the nodes to the next.
func (t *timetable) lookPause(pods, nodes int) time.Duration {
	pause := t.cfg.disruptEvery()
	if !t.pressing && !t.mayYield() && float64(t.departed) < enough*float64(pods) {
		pause *= quietTimes
	}
	if t.cfg.Policy == Baseline || t.cfg.DisruptEvery == 0 && nodes <= smallWorld {
		pause = min(pause, baselineLook)
	}
	return pause
}

// lookAt schedules a look at the nodes at a time, unless the next look is sooner.
func (t *timetable) lookAt(at time.Time) {
	at = later(t.agenda.now.Add(batchIdle), at)
	if !t.looks.IsZero() && !at.Before(t.looks) {
		return
	}
	t.looks = at
	t.agenda.at(at, func() {
		if t.looks.Equal(at) {
			t.looks, t.pending.disrupt = time.Time{}, true
		}
	})
}

// mayYield reports whether the room of CapacityBuffers may be the only reason why pods wait.
func (t *timetable) mayYield() bool { return t.unplaced && t.buffers }

package inventory

import (
	"slices"
	"time"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/kube"
)

const (
	// leastPatience is the least time for which plans use a started machine before it is ready, and usualPatience the time if no start time is known.
	// After that, its pods are planned again, because some machines boot slowly and some never become ready.
	leastPatience = 3 * time.Minute
	usualPatience = RegistrationTimeout
	// sharePatience is the share of machines, in percent, that were ready within half of the time for which plans use others that are not ready.
	sharePatience = 95
	// mostLate is the share of the machines that a pool has started lately, in percent and rounded up, up to which machines are treated as late. If
	// more are late, none is, because new machines would be late for the same cause, and would cost money too.
	mostLate = 20
)

// startKind is a kind of machines that take about equally long to start.
type startKind struct{ pool, instanceType string }

// overdue lists the indexes of the machines that should be ready by now.
func (l *machineList) overdue(now time.Time) []int {
	if len(l.starting) == 0 {
		return nil
	}
	var out []int
	count := map[string]int{}
	for _, i := range l.starting {
		x := l.Machines[i]
		from := kube.Latest(kube.TrueSince(x.Claim, v1.ConditionLaunched), kube.TrueSince(x.Claim, v1.ConditionRegistered)) // or since its node was lost
		if now.Sub(from) > l.PatienceFor(x.Start) {
			count[x.Pool()]++
			out = append(out, i)
		}
	}
	if len(out) == 0 {
		return nil
	}
	begun := map[string]int{} // by pool, the number of machines that were started lately, and are not being removed
	for _, x := range l.Machines {
		if x.Claim != nil && !x.Goes && (!x.Initialized || now.Sub(kube.TrueSince(x.Claim, v1.ConditionLaunched)) < usualPatience) {
			begun[x.Pool()]++
		}
	}
	return slices.DeleteFunc(out, func(i int) bool {
		pool := l.Machines[i].Pool()
		return count[pool] > (mostLate*begun[pool]+99)/100
	})
}

// PatienceFor returns how long plans use machines of the kind before they are ready: twice the time in which nearly all ready machines of the kind
// started. If none of the type is ready, it is twice the patience for the pool's other machines.
func (l *machineList) PatienceFor(kind startKind) time.Duration {
	if p, known := l.patience[kind]; known {
		return p
	}
	var of, others []time.Duration
	for _, x := range l.Machines {
		if x.Goes || x.Start.pool != kind.pool || !x.launched.Known || !x.Arrived.Known || x.cameAgain() {
			continue
		}
		took := x.Arrived.At.Sub(x.launched.At)
		others = append(others, took)
		if x.Start == kind {
			of = append(of, took)
		}
	}
	patience := usualPatience
	switch {
	case len(of) > 0:
		patience = patienceAfter(of)
	case len(others) > 0:
		patience = 2 * patienceAfter(others)
	}
	if l.patience == nil {
		l.patience = map[startKind]time.Duration{}
	}
	l.patience[kind] = patience
	return patience
}

// cameAgain reports whether the machine's node is not its first, because a first node registers sooner, or not at all.
func (m *MachineInfo) cameAgain() bool {
	return kube.TrueSince(m.Claim, v1.ConditionRegistered).Sub(m.launched.At) > RegistrationTimeout
}

func patienceAfter(took []time.Duration) time.Duration {
	slices.Sort(took)
	return max(2*took[(len(took)-1)*sharePatience/100], leastPatience)
}

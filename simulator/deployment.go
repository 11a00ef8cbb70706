package simulator

import (
	"cmp"
	"slices"
	"strconv"

	v1 "tenon.sh/api/v1"
)

// tend does the work of the workload's controller: it creates missing pods, deletes surplus pods, and continues a rollout.
func (x *workloads) tend(l *load) {
	switch l.Kind {
	case jobKind:
		x.tendJob(l)
	case statefulKind:
		x.tendStateful(l)
	case tracedKind:
		x.traced.tend(l)
	default:
		x.tendDeployment(l)
	}
}

// tendDeployment rolls out a version with at most a quarter more pods than wanted, and at most a quarter fewer ready pods.
func (x *workloads) tendDeployment(l *load) {
	if l.staying == l.current { // no pod is of an older version
		x.resize(l)
		return
	}
	var older []*unit
	readyCount := 0
	for _, u := range l.units.list {
		if u.leaving() {
			continue
		}
		if u.version != l.newest {
			older = append(older, u)
		}
		readyCount += count(u.ready)
	}
	surge, below := (l.want+3)/4, l.want/4
	for range min(l.want-l.current, l.want+surge-l.staying) {
		x.makePod(l, 0, nil)
	}
	// All pods of an old version that are not ready are deleted, because they serve nobody. At most spare ready pods are deleted.
	spare := readyCount - (l.want - below)
	if spare > 0 || slices.ContainsFunc(older, func(u *unit) bool { return !u.ready }) {
		slices.SortStableFunc(older, goesFirst(l))
	}
	for _, u := range older {
		if u.ready {
			if spare <= 0 {
				break
			}
			spare--
		}
		x.pods.end(u, u.grace())
	}
	if l.current > l.want {
		x.resize(l)
	}
}

// resize creates missing pods of the newest version, and deletes surplus pods.
func (x *workloads) resize(l *load) {
	for range l.want - l.current {
		x.makePod(l, 0, nil)
	}
	extra := l.current - l.want
	if extra <= 0 {
		return
	}
	var pods []*unit
	for _, u := range l.units.list {
		if !u.leaving() && u.version == l.newest {
			pods = append(pods, u)
		}
	}
	slices.SortStableFunc(pods, goesFirst(l))
	for _, u := range pods[:extra] {
		l.back(u)
		x.pods.end(u, u.grace())
	}
}

// goesFirst orders pods as a ReplicaSet scales down: first pods without a node, then pods that are not ready, then by the lowest
// deletion cost, by the most pods of the workload on their node, and by the latest creation.
func goesFirst(l *load) func(a, b *unit) int {
	together := map[*seat]int{}
	for _, u := range l.units.list {
		together[u.seat]++
	}
	return func(a, b *unit) int {
		return cmp.Or(
			cmp.Compare(count(a.seat != nil), count(b.seat != nil)), cmp.Compare(count(a.ready), count(b.ready)),
			cmp.Compare(deletionCost(a), deletionCost(b)), cmp.Compare(together[b.seat], together[a.seat]),
			b.pod.CreationTimestamp.Compare(a.pod.CreationTimestamp.Time), cmp.Compare(a.key(), b.key()))
	}
}

func deletionCost(u *unit) int {
	text, ok := u.pod.Annotations[v1.PodDeletionCostAnnotationKey]
	if !ok {
		return 0
	}
	cost, _ := strconv.Atoi(text) // invalid text gives 0
	return cost
}

// tendStateful keeps one pod for each ordinal from 0 on. A rollout replaces one pod at a time, the highest ordinal first.
func (x *workloads) tendStateful(l *load) {
	there := map[int]*unit{}
	waiting := false
	for _, u := range l.units.list {
		there[u.index] = u
		waiting = waiting || !u.ready
	}
	var old *unit
	for _, u := range l.units.list {
		switch {
		case u.leaving():
		case u.index >= l.want:
			x.pods.end(u, u.grace())
		case u.version != l.newest && (old == nil || u.index > old.index):
			old = u
		}
	}
	for i := range l.want {
		if there[i] == nil {
			x.makePod(l, i, nil)
			waiting = true
		}
	}
	if old != nil && !waiting {
		x.pods.end(old, old.grace())
	}
}

// runJob starts a run of a CronJob.
func (x *workloads) runJob(l *load) {
	l.runs++
	for i := range l.wanted(x.cfg.Seed, x.agenda.now) {
		x.makePod(l, i, nil)
	}
}

// tendJob replaces the pods that were evicted before their end. It does not replace the pods that reached their end.
func (x *workloads) tendJob(l *load) {
	for _, u := range slices.Clone(l.units.list) {
		if u.leaving() && !l.again[u] {
			l.again[u] = true
			x.makePod(l, u.index, u)
		}
	}
	for u := range l.again {
		if u.ended {
			delete(l.again, u)
		}
	}
}

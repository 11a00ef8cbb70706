package simulator

import (
	"cmp"
	"slices"
	"strconv"

	v1 "tenon.sh/api/v1"
)

// tend does what the workload's controller does: it makes pods that are missing, ends those that are too many, and goes
// on with what it has begun to roll out.
func (w *World) tend(l *load) {
	for u := range l.versions { // order does not matter: nothing but forgetting
		if u.ended {
			delete(l.versions, u)
		}
	}
	switch l.Kind {
	case jobKind:
		w.tendJob(l)
	case statefulKind:
		w.tendStateful(l)
	default:
		w.tendDeployment(l)
	}
}

// tendDeployment keeps to a quarter more pods than wanted, and a quarter fewer that are ready, while versions change.
func (w *World) tendDeployment(l *load) {
	var newest, older []*unit
	readyCount := 0
	for _, u := range l.units.list {
		switch {
		case u.leaving():
			continue
		case l.version(u) == l.newest:
			newest = append(newest, u)
		default:
			older = append(older, u)
		}
		readyCount += count(u.ready)
	}
	if len(older) == 0 {
		w.resize(l, newest)
		return
	}
	surge, below := (l.want+3)/4, l.want/4
	for range min(l.want-len(newest), l.want+surge-len(newest)-len(older)) {
		w.makePod(l, 0)
	}
	// Pods of the old version that are not ready serve nobody; of the others as many go as may be missing.
	spare := readyCount - (l.want - below)
	if spare > 0 || slices.ContainsFunc(older, func(u *unit) bool { return !u.ready }) {
		slices.SortStableFunc(older, w.goesFirst(l))
	}
	for _, u := range older {
		if u.ready {
			if spare <= 0 {
				break
			}
			spare--
		}
		w.end(u, u.grace())
	}
	if extra := len(newest) - l.want; extra > 0 {
		w.resize(l, newest)
	}
}

func (w *World) resize(l *load, pods []*unit) {
	for range l.want - len(pods) {
		w.makePod(l, 0)
	}
	if extra := len(pods) - l.want; extra > 0 {
		slices.SortStableFunc(pods, w.goesFirst(l))
		for _, u := range pods[:extra] {
			w.end(u, u.grace())
		}
	}
}

// goesFirst orders pods as a ReplicaSet ends them when there are too many: those without a node, those that are not
// ready, the cheapest to delete, those that share a node with most others of their own, the youngest.
func (w *World) goesFirst(l *load) func(a, b *unit) int {
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
	cost, _ := strconv.Atoi(u.pod.Annotations[v1.PodDeletionCostAnnotationKey]) // what cannot be read is 0
	return cost
}

// tendStateful keeps one pod for each number from 0 on; of an old version one at a time goes, the last one first.
func (w *World) tendStateful(l *load) {
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
			w.end(u, u.grace())
		case l.version(u) != l.newest && (old == nil || u.index > old.index):
			old = u
		}
	}
	for i := range l.want {
		if there[i] == nil {
			w.makePod(l, i)
			waiting = true
		}
	}
	if old != nil && !waiting {
		w.end(old, old.grace())
	}
}

// runJob starts a run of a CronJob.
func (w *World) runJob(l *load) {
	l.runs++
	for i := range l.wanted(w.cfg.Seed, w.clock.now) {
		w.makePod(l, i)
	}
}

// tendJob makes anew the pods that were sent away before their end; those that reached it are gone for good.
func (w *World) tendJob(l *load) {
	for _, u := range slices.Clone(l.units.list) {
		if u.leaving() && !l.again[u] {
			l.again[u] = true
			w.makePod(l, u.index)
		}
	}
	for u := range l.again {
		if u.ended {
			delete(l.again, u)
		}
	}
}

package budget

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
)

// OwnerMoves keeps count of how many pods of each owner consolidation may move: half of them an hour, rounded up. What was
// moved in the last hour shows in the pods themselves: those that replaced others are younger than that, and younger than
// their owner. Where that cannot be told yet it is written down: RecordMoves.
type OwnerMoves struct {
	s     *engine.Snapshot
	cache *inventory.Cache
	made  map[string]time.Time // when owners were made, as far as that is known; nil until it is asked
	left  map[string]int       // of owners that were asked for
	// recorded is how many pods of owners were moved as far as pools remember; nil until it is asked.
	recorded map[string]int
}

// NewOwnerMoves is for one pass over the snapshot.
func NewOwnerMoves(s *engine.Snapshot, cache *inventory.Cache) *OwnerMoves {
	return &OwnerMoves{s: s, cache: cache, left: map[string]int{}}
}

const (
	moveHour = time.Hour
	// firstPods is how long after their owner the first pods of it may come.
	firstPods = 10 * time.Minute
)

// Left is how many pods of the owner may move.
func (m *OwnerMoves) Left(owner string) int {
	n, known := m.left[owner]
	if known {
		return n
	}
	if o := m.cache.Owned[owner]; o != nil && o.Count > 0 {
		n = max(0, (o.Active()+1)/2-m.moved(o))
	}
	m.left[owner] = n
	return n
}

// moved counts the owner's pods that were moved within the last hour: as far as it is remembered, and as others replaced them.
func (m *OwnerMoves) moved(o *inventory.OwnerInfo) int {
	if m.recorded == nil {
		m.recorded = recordedMoves(m.s)
	}
	// While the first pods of an owner come its cluster is being filled, and much is worth moving: each pod may move once.
	recorded := (m.recorded[o.Name] + 1) / 2
	young := func(f *inventory.PodInfo) bool {
		return kube.IsActive(f.Pod) && m.s.Now.Sub(f.Pod.CreationTimestamp.Time) < moveHour
	}
	if !slices.ContainsFunc(o.Infos, young) {
		return recorded
	}
	since := m.firstPods(o)
	n := 0
	for _, f := range o.Infos {
		if young(f) && f.Pod.CreationTimestamp.Sub(since) > firstPods {
			n++
		}
	}
	return max(n, recorded)
}

// firstPods is when the first pods of the owner began to come.
func (m *OwnerMoves) firstPods(o *inventory.OwnerInfo) time.Time {
	first := o.First()
	since, known := m.madeAt(o.Name)
	if late := first.Sub(since); !known || o.Active() > 1 && late > 0 && late < moveHour {
		// Consolidation cannot have moved all pods of an owner that is so young: where many pods are made at a time, those of
		// some owners come late.
		return first
	}
	return since
}

// IsNew reports whether more of the owner's first pods may come, so that nobody could tell what comes in the place of those that are moved.
func (m *OwnerMoves) IsNew(o *inventory.OwnerInfo) bool {
	return m.s.Now.Sub(m.firstPods(o)) <= firstPods
}

// madeAt is when the owner was made, if the snapshot knows it.
func (m *OwnerMoves) madeAt(owner string) (time.Time, bool) {
	if m.made == nil {
		m.made = map[string]time.Time{}
		note := func(kind string, o metav1.Object) {
			m.made[o.GetNamespace()+"/"+kind+"/"+o.GetName()] = o.GetCreationTimestamp().Time
		}
		for _, r := range m.s.ReplicaSets {
			note("ReplicaSet", r)
		}
		for _, r := range m.s.StatefulSets {
			note("StatefulSet", r)
		}
		for _, r := range m.s.ReplicationControllers {
			note("ReplicationController", r)
		}
	}
	at, known := m.made[owner]
	return at, known
}

// Allow says whether so many pods of each owner may move now.
func (m *OwnerMoves) Allow(owners map[string]int) engine.Reason {
	worst := ""
	for owner, n := range owners {
		if n > m.Left(owner) && (worst == "" || owner < worst) {
			worst = owner
		}
	}
	if worst == "" {
		return engine.Reason{}
	}
	return m.Refusal(worst, owners[worst])
}

// Refusal says that n pods of the owner are more than may move now, or at any time, or that those of other nodes come first.
func (m *OwnerMoves) Refusal(owner string, n int) engine.Reason {
	have := engine.Plural(m.Left(owner), "more pod")
	if o := m.cache.Owned[owner]; o != nil && n > (o.Active()+1)/2 {
		have = fmt.Sprintf("half, %s,", engine.Plural((o.Active()+1)/2, "pod"))
	}
	need := engine.Plural(n, "pod")
	if n <= m.Left(owner) {
		need += ", beside those that go first,"
	}
	return engine.Reason{Code: engine.OwnerMoved, Key: owner, Need: need, Have: have}
}

// Use counts pods of owners that this pass moves.
func (m *OwnerMoves) Use(owners map[string]int) {
	for owner, n := range owners {
		m.left[owner] = m.Left(owner) - n
	}
}

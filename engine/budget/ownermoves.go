package budget

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
)

// OwnerMoves counts how many pods of each owner consolidation may still move in this hour: as many as the owner has, so that no pod is moved again
// and again. The drain keeps half of the pods running meanwhile (package lifecycle). The NodePools record the moves (RecordMoves). If a record is
// full, the ages of the pods count instead: a pod that replaced another one is younger than an hour, and younger than its owner.
type OwnerMoves struct {
	s     *engine.Snapshot
	cache *inventory.Cache
	made  map[string]time.Time // creation times of known owners; nil until first used
	left  map[string]int       // filled on demand
	// recorded is the number of moved pods by owner, from the pools' records; nil until first used. cut means that a record may lack earlier
	// moves.
	recorded map[string]int
	cut      bool
}

// NewOwnerMoves returns the counts for one pass over the snapshot.
func NewOwnerMoves(s *engine.Snapshot, cache *inventory.Cache) *OwnerMoves {
	return &OwnerMoves{s: s, cache: cache, left: map[string]int{}}
}

const (
	moveHour = time.Hour
	// firstPods is the time after their owner's creation in which its first pods may come.
	firstPods = 10 * time.Minute
)

// Left returns how many pods of the owner may move: none while half of them are away, because a drain would wait for these.
func (m *OwnerMoves) Left(owner string) int {
	n, known := m.left[owner]
	if known {
		return n
	}
	if o := m.cache.Owned[owner]; o != nil && o.Count > 0 && m.away(o) < half(o.Active()) {
		n = max(0, o.Active()-m.moved(o))
	}
	m.left[owner] = n
	return n
}

// half returns how many of n pods may be away at a time.
func half(n int) int { return (n + 1) / 2 }

// moved counts the owner's pods that were moved within the last hour.
func (m *OwnerMoves) moved(o *inventory.OwnerInfo) int {
	if m.recorded == nil {
		m.recorded, m.cut = recordedMoves(m.s)
	}
	recorded := m.recorded[o.Name]
	young := func(info *inventory.PodInfo) bool {
		return kube.IsActive(info.Pod) && m.s.Now.Sub(info.Pod.CreationTimestamp.Time) < moveHour
	}
	if !m.cut || !slices.ContainsFunc(o.Infos, young) {
		return recorded
	}
	since := m.firstPods(o)
	n := 0
	for _, info := range o.Infos {
		if young(info) && info.Pod.CreationTimestamp.Sub(since) > firstPods {
			n++
		}
	}
	return max(n, recorded)
}

// away counts the owner's pods that are out of service and not ill: a drain would wait for them. Pods on a node without a Ready condition, as in
// files, count as ready.
func (m *OwnerMoves) away(o *inventory.OwnerInfo) int {
	n := 0
	for _, info := range o.Infos {
		said, _ := readiness(info.Pod)
		if kube.IsActive(info.Pod) && (said != "" || info.Pod.Spec.NodeName == "") && IsAway(info.Pod, m.s.Now) {
			n++
		}
	}
	return n
}

// firstPods returns when the first pods of the owner began to come.
func (m *OwnerMoves) firstPods(o *inventory.OwnerInfo) time.Time {
	first := o.First()
	since, known := m.madeAt(o.Name)
	if late := first.Sub(since); !known || o.Active() > 1 && late > 0 && late < moveHour {
		// Consolidation cannot have moved all pods of such a young owner: if many pods are created at a time, the first pods of some owners come
		// late.
		return first
	}
	return since
}

// madeAt returns when the owner was created, if the snapshot has it.
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

// Allow reports whether these numbers of pods may move now; if not, worst is the first owner, by name, with too many.
func (m *OwnerMoves) Allow(owners map[string]int) (worst string, ok bool) {
	for owner, n := range owners {
		if n > m.Left(owner) && (worst == "" || owner < worst) {
			worst = owner
		}
	}
	return worst, worst == ""
}

// Use counts the pods that this pass moves, by owner.
func (m *OwnerMoves) Use(owners map[string]int) {
	for owner, n := range owners {
		m.left[owner] = m.Left(owner) - n
	}
}

package nodepool

import (
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "tenon.sh/api/v1"
	"tenon.sh/provider"
)

const (
	remembered = 4 // outcomes of a pool
	tooMany    = 2 // failures among them
)

// Health remembers whether the last machines of each pool joined the cluster. The controller of claims records this, and the status of
// pools shows it.
type Health struct {
	mu      sync.Mutex // guards what follows
	byPool  map[types.UID]*outcomes
	changed func()
}

// outcomes are the last ones of one pool, oldest first; true is a machine that joined.
type outcomes struct {
	last            []bool
	seeded          bool   // last contains the record of an earlier process
	reason, message string // of the last failure
}

// NewHealth returns a Health that calls changed after each outcome; changed may be nil.
func NewHealth(changed func()) *Health {
	return &Health{byPool: map[types.UID]*outcomes{}, changed: changed}
}

// Registered says that a machine of the pool joined the cluster or, if ok is false, that it did not in time. Reason and
// message are those of the claim's Launched condition if the machine was not even launched, else empty.
func (h *Health) Registered(pool types.UID, ok bool, reason, message string) {
	h.mu.Lock()
	o := h.byPool[pool]
	if o == nil {
		o = &outcomes{}
		h.byPool[pool] = o
	}
	o.add(ok)
	if !ok {
		o.reason, o.message = reason, message
	}
	changed := h.changed
	h.mu.Unlock()
	if changed != nil {
		changed()
	}
}

func (o *outcomes) add(ok bool) {
	o.last = append(o.last, ok)
	if len(o.last) > remembered {
		o.last = o.last[1:]
	}
}

func (o *outcomes) healthy() bool {
	failures := 0
	for _, ok := range o.last {
		if !ok {
			failures++
		}
	}
	return failures < tooMany
}

// judge writes the pool's condition. A change of the pool or of its class begins a new record. After a restart, the old condition
// replaces the lost record.
func (h *Health) judge(pool *v1.NodePool, class provider.Class, now time.Time) {
	condition := v1.GetCondition(pool, v1.ConditionNodeRegistrationHealthy)
	generation := pool.Status.NodeClassObservedGeneration
	if class.Object != nil {
		generation = class.Object.GetGeneration()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if condition == nil || condition.ObservedGeneration != pool.Generation || generation != pool.Status.NodeClassObservedGeneration {
		delete(h.byPool, pool.UID)
		pool.Status.NodeClassObservedGeneration = generation
		v1.SetCondition(pool, v1.ConditionNodeRegistrationHealthy, metav1.ConditionUnknown, v1.ReasonAwaitingReconciliation,
			"no machine has joined the cluster since the pool or its node class changed", now)
		return
	}
	o := h.byPool[pool.UID]
	if o == nil {
		return
	}
	if !o.seeded {
		o.seeded = true
		o.last = append(seed(condition.Status), o.last...)
		o.last = o.last[max(0, len(o.last)-remembered):]
	}
	if o.healthy() {
		if o.last[len(o.last)-1] {
			v1.SetCondition(pool, v1.ConditionNodeRegistrationHealthy, metav1.ConditionTrue, "", "", now)
		}
		return
	}
	reason, message := o.reason, o.message
	if reason == "" {
		reason, message = "RegistrationFailed", "Failed to register node"
	}
	v1.SetCondition(pool, v1.ConditionNodeRegistrationHealthy, metav1.ConditionFalse, reason, message, now)
}

func seed(status metav1.ConditionStatus) []bool {
	switch status {
	case metav1.ConditionTrue:
		return []bool{true}
	case metav1.ConditionFalse:
		return []bool{false, false}
	}
	return nil
}

// keep forgets pools that are gone.
func (h *Health) keep(pools []*v1.NodePool) {
	here := map[types.UID]bool{}
	for _, p := range pools {
		here[p.UID] = true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for uid := range h.byPool {
		if !here[uid] {
			delete(h.byPool, uid)
		}
	}
}

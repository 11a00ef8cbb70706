package replacement

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/constraints"
	"tenon.sh/engine/inventory"
)

// After replacements failed, their pool's nodes are left alone for backoffFirst, then for twice as long each time, at most
// for backoffMost. Failures that are further apart than backoffMemory have nothing to do with each other.
const (
	backoffFirst  = time.Minute
	backoffMost   = 10 * time.Minute
	backoffMemory = time.Hour
)

// Failure is what is known of disruptions that were taken back: because their replacements failed, or because these were ready
// and a pod would have had no place.
type Failure struct {
	Count int       `json:"count"`
	Last  time.Time `json:"last"`
	Why   string    `json:"why"`
	// Alone is true if that says nothing about other machines of the pool: only this one is left alone for a while. Reason is
	// then why it was to go.
	Alone  bool                `json:"alone,omitempty"`
	Reason v1.DisruptionReason `json:"reason,omitempty"`
}

// Backoff says until when a pool's nodes are not replaced, because their replacements failed.
type Backoff struct {
	NodePool string
	Until    time.Time
	Failure
}

// NextFailure is what to write on a claim whose disruption, for that reason, was taken back once more; ok is false if nothing is.
// Replacements that failed concern the pool. That they were ready and a pod would have had no place concerns the claim alone:
// the next pass may make the same plan again, but what holds for its pods says nothing about another node's.
func NextFailure(claim *v1.NodeClaim, reason v1.DisruptionReason, why engine.Reason, now time.Time) (text string, ok bool) {
	alone := why.Code == engine.PodStranded
	if !alone && why.Code != engine.ReplacementGone && why.Code != engine.ReplacementLate {
		return "", false
	}
	next := Failure{Count: 1, Last: now.UTC().Truncate(time.Second), Why: why.Message()}
	if alone {
		next.Alone, next.Reason = true, reason
	}
	if last, known := failureOf(claim); known && now.Sub(last.Last) < backoffMemory {
		switch {
		case last.Alone == alone:
			next.Count = last.Count + 1
		case alone && now.Before(last.until()):
			return "", false // the pool goes on waiting
		}
	}
	return next.Text(), true
}

// TakenBack says that the machine is left alone for a while, because a disruption of it was taken back. A broken one is not.
func TakenBack(m *inventory.Machine, now time.Time) engine.Reason {
	if m.Claim == nil {
		return engine.Reason{}
	}
	f, ok := failureOf(m.Claim)
	if !ok || !f.Alone || !now.Before(f.until()) {
		return engine.Reason{}
	}
	return engine.Reason{Code: engine.TakenBack, NodePool: m.Pool(), Need: engine.ClockText(f.until()), Have: f.Why}
}

// Text is what to write on the claim.
func (f Failure) Text() string { return inventory.AsJSON(f) }

func failureOf(claim *v1.NodeClaim) (f Failure, ok bool) {
	text, ok := claim.Annotations[v1.DisruptionBackoffAnnotationKey]
	if !ok || json.Unmarshal([]byte(text), &f) != nil || f.Count < 1 {
		return Failure{}, false
	}
	return f, true
}

func (f Failure) until() time.Time {
	return f.Last.Add(constraints.Doubled(backoffFirst, backoffMost, f.Count))
}

// Backoffs lists the pools whose nodes are not replaced now, in order of name. A wave of replacements stops for the whole
// pool: what one machine of it could not become, the next one will not become either.
func Backoffs(s *engine.Snapshot) []Backoff {
	byPool := map[string]Backoff{}
	for _, c := range s.NodeClaims {
		f, ok := failureOf(c)
		if !ok || f.Alone || c.DeletionTimestamp != nil || !s.Now.Before(f.until()) {
			continue
		}
		pool := c.Labels[v1.NodePoolLabelKey]
		if other, known := byPool[pool]; !known || other.Until.Before(f.until()) {
			byPool[pool] = Backoff{pool, f.until(), f}
		}
	}
	out := make([]Backoff, 0, len(byPool))
	for _, b := range byPool {
		out = append(out, b)
	}
	slices.SortFunc(out, func(a, b Backoff) int { return cmp.Compare(a.NodePool, b.NodePool) })
	return out
}

// Message says the backoff to people.
func (b Backoff) Message() string {
	return fmt.Sprintf("no node is replaced until %s, because replacements failed %s in a row: %s", engine.ClockText(b.Until), engine.Plural(b.Count, "time"), b.Why)
}

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

// After failed replacements, the pool's nodes are not replaced for backoffFirst. Each further failure doubles the time, up to backoffMost. Failures
// that are further apart than backoffMemory are unrelated.
const (
	backoffFirst  = time.Minute
	backoffMost   = 10 * time.Minute
	backoffMemory = time.Hour
)

// Failure records disruptions that were taken back: their replacements failed, or they were ready and a pod would have had no place.
type Failure struct {
	Count int       `json:"count"`
	Last  time.Time `json:"last"`
	Why   string    `json:"why"`
	// Alone means that the failure concerns only this machine of the pool, which is not disrupted for a while. Reason is then the reason of the
	// disruption.
	Alone  bool                `json:"alone,omitempty"`
	Reason v1.DisruptionReason `json:"reason,omitempty"`
}

// Backoff is the time until which a pool's nodes are not replaced, because replacements failed.
type Backoff struct {
	NodePool string
	Until    time.Time
	Failure
}

// NextFailure returns the record for a claim whose disruption for that reason was taken back once more. ok is false if no record is to be made.
// Failed replacements concern the pool. A pod without a place concerns the claim alone: the next pass may make the same plan again, but other nodes
// have other pods.
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
			return "", false // the pool's backoff continues
		}
	}
	return next.Text(), true
}

// TakenBack returns the reason that the machine is not disrupted for a while, because a disruption of it was taken back.
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

// Text returns the record for the claim.
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

// Backoffs lists the pools whose nodes are not replaced now, by name. Replacements stop for the whole pool, because the replacement of its next
// machine would probably fail too.
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

// Message describes the backoff in words.
func (b Backoff) Message() string {
	return fmt.Sprintf("no node is replaced until %s, because replacements failed %s in a row: %s", engine.ClockText(b.Until), engine.Plural(b.Count, "time"), b.Why)
}

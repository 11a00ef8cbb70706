package engine

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	v1 "tenon.sh/api/v1"
)

// After replacements failed, their pool's nodes are left alone for backoffFirst, then for twice as long each time, at most
// for backoffMost. Failures that are further apart than backoffMemory have nothing to do with each other.
const (
	backoffFirst  = time.Minute
	backoffMost   = 10 * time.Minute
	backoffMemory = time.Hour
)

// Failure is what is known of replacements that failed.
type Failure struct {
	Count int       `json:"count"`
	Last  time.Time `json:"last"`
	Why   string    `json:"why"`
}

// Backoff says until when a pool's nodes are not replaced, because their replacements failed.
type Backoff struct {
	NodePool string
	Until    time.Time
	Failure
}

// Reason is the backoff as a reason why a node stays.
func (b Backoff) Reason() Reason {
	return Reason{Code: BackedOff, NodePool: b.NodePool, Need: clockText(b.Until), Have: b.Why}
}

// NextFailure is what to write on a claim whose replacements failed once more; ok is false if why is not about
// replacements that failed.
func NextFailure(claim *v1.NodeClaim, why Reason, now time.Time) (text string, ok bool) {
	if why.Code != ReplacementGone && why.Code != ReplacementLate {
		return "", false
	}
	next := Failure{Count: 1, Last: now.UTC().Truncate(time.Second), Why: why.Message()}
	if last, known := failureOf(claim); known && now.Sub(last.Last) < backoffMemory {
		next.Count = last.Count + 1
	}
	return asJSON(next), true
}

// Failed is what to write on a claim whose replacements have failed once.
func Failed(at time.Time, why string) string {
	return asJSON(Failure{Count: 1, Last: at.UTC(), Why: why})
}

func failureOf(claim *v1.NodeClaim) (f Failure, ok bool) {
	text, ok := claim.Annotations[v1.DisruptionBackoffAnnotationKey]
	if !ok || json.Unmarshal([]byte(text), &f) != nil || f.Count < 1 {
		return Failure{}, false
	}
	return f, true
}

func (f Failure) until() time.Time {
	return f.Last.Add(min(backoffFirst<<min(f.Count-1, 10), backoffMost))
}

// Backoffs lists the pools whose nodes are not replaced now, in order of name. A wave of replacements stops for the whole
// pool: what one machine of it could not become, the next one will not become either.
func Backoffs(s *Snapshot) []Backoff {
	byPool := map[string]Backoff{}
	for _, c := range s.NodeClaims {
		f, ok := failureOf(c)
		if !ok || c.DeletionTimestamp != nil || !s.Now.Before(f.until()) {
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
	return fmt.Sprintf("no node is replaced until %s, because replacements failed %s in a row: %s", clockText(b.Until), plural(b.Count, "time"), b.Why)
}

package engine

import (
	"slices"
	"time"
)

// ownerFacts is what the engine asks of the pods of an owner again and again.
type ownerFacts struct {
	name  string
	seen  uint64 // the last call that saw a pod of it
	facts []*podFacts
	// sum and count tell whether the pods are still the same.
	sum, seenSum     uint64
	count, seenCount int
	changed          bool
	start            time.Duration // as median of the pods, below zero for none; known once startRead
	startRead        bool
}

func (o *ownerFacts) see(f *podFacts, pass uint64) {
	if o.seen != pass {
		o.seen, o.seenSum, o.seenCount = pass, 0, 0
	}
	o.seenSum += f.id
	o.seenCount++
}

// begin reports whether the owner's pods are not those of the last call; they will be written anew.
func (o *ownerFacts) begin() bool {
	if o.sum == o.seenSum && o.count == o.seenCount {
		return false
	}
	o.changed, o.startRead, o.facts = true, false, o.facts[:0]
	return true
}

func (o *ownerFacts) close() { o.changed, o.sum, o.count = false, o.seenSum, o.seenCount }

// active counts the pods that have not ended, or begun to.
func (o *ownerFacts) active() int {
	n := 0
	for _, f := range o.facts {
		if isActive(f.pod) {
			n++
		}
	}
	return n
}

// first is when the first of the pods was made.
func (o *ownerFacts) first() time.Time {
	at := o.facts[0].pod.CreationTimestamp.Time
	for _, f := range o.facts {
		if t := f.pod.CreationTimestamp.Time; t.Before(at) {
			at = t
		}
	}
	return at
}

// startTime is how long the pods take from being bound to being ready: the median over those that run, below zero if that is
// not known.
func (o *ownerFacts) startTime() time.Duration {
	if o.startRead {
		return o.start
	}
	o.start, o.startRead = -1, true
	var took []time.Duration
	for _, f := range o.facts {
		if t := f.startTime(); f.roll != nil && t >= 0 {
			took = append(took, t)
		}
	}
	if len(took) > 0 {
		slices.Sort(took)
		o.start = took[len(took)/2]
	}
	return o.start
}

package engine

import (
	"slices"
	"time"
)

// ownerFacts is what the engine asks of the pods of an owner again and again.
type ownerFacts struct {
	name  string
	facts []*podFacts
	crew
	start     time.Duration // as median of the pods, below zero for none; known once startRead
	startRead bool
}

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

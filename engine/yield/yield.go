// Package yield chooses the machines of a pool that make way at the pool's limits for a machine that is needed more. It knows no Kubernetes.
package yield

import (
	"slices"
	"time"

	"tenon.sh/engine/capacity"
)

// Pool is a pool with limits.
type Pool struct {
	// Left is what the limits leave, those machines not counted that go anyway.
	Left capacity.Vector
	// Unused lists the machines that nobody uses; of those that are as good the first go first.
	Unused []Machine
	// Most is how many of them may go.
	Most int

	tried string // for whom machines go to see whether others can be had now
}

// Machine is a machine that nobody uses.
type Machine struct {
	Number  int
	Counts  capacity.Vector // against the limits
	Created time.Time
	Yields  bool // it may go
	ForRoom bool // it was bought for nobody
}

// Choice is what the limits have to say of one more machine.
type Choice struct {
	// Gone lists the numbers of the machines that have to go first.
	Gone []int
	// Made is true if they go, and for a machine that the limits have a place for. It is false if the limits are too small, if more would have to
	// go than may, and before From.
	Made, TooMany bool
	From          time.Time
}

// For chooses, for a machine that counts as one of the needs, as few machines as it takes, or none. It is for pods of which the first has waited
// since a time; those start together that have the same name. Each choice counts on those before.
func (p *Pool) For(name string, needs []capacity.Vector, since, now time.Time) Choice {
	var c Choice
	var need capacity.Vector
	for _, n := range needs {
		if gone, enough := p.fewest(n); enough && (need == nil || len(gone) < len(c.Gone)) {
			need, c.Gone = n, gone
		}
	}
	if need == nil {
		return c
	}
	if len(c.Gone) == 0 {
		p.Left.Add(need, -1)
		c.Made = true
		return c
	}
	c.From, c.TooMany = p.pausedUntil(need, since), len(c.Gone) > p.Most
	doubtful := !c.From.IsZero()
	if c.TooMany || now.Before(c.From) || doubtful && p.tried != "" && p.tried != name {
		return c
	}
	if c.Made = true; doubtful {
		p.tried = name
	}
	p.Left.Add(need, -1)
	p.Most -= len(c.Gone)
	p.Unused = slices.DeleteFunc(p.Unused, func(m Machine) bool {
		goes := slices.Contains(c.Gone, m.Number)
		if goes {
			p.Left.Add(m.Counts, 1)
		}
		return goes
	})
	return c
}

// fewest takes as few machines as the limits need, each time the one that brings them furthest.
func (p *Pool) fewest(need capacity.Vector) (gone []int, enough bool) {
	left := p.Left.Clone()
	left.Add(need, -1)
	for left.Overdrawn(need) {
		best, most := -1, 0.0
		for i, m := range p.Unused {
			if m.Yields && !slices.Contains(gone, m.Number) {
				if share := m.shareOf(left, need); share > most {
					best, most = i, share
				}
			}
		}
		if best < 0 {
			return nil, false
		}
		gone = append(gone, p.Unused[best].Number)
		left.Add(p.Unused[best].Counts, 1)
	}
	return gone, true
}

// shareOf is how much the machine gives back of what limits have too little of, from 0 to 1; above 1 it gives all, and the nearer to 2 the less
// beyond.
func (m *Machine) shareOf(left, need capacity.Vector) float64 {
	gives, lacks, all := 0.0, 0.0, 0.0
	for i, n := range need {
		if lack := -left[i]; n > 0 && lack > 0 {
			share := float64(m.Counts[i]) / float64(lack)
			gives, all, lacks = gives+min(share, 1), all+share, lacks+1
		}
	}
	if gives < lacks {
		return gives / lacks
	}
	return 1 + lacks/all
}

// longestPause bounds for how long machines stay that were bought while a pod waited.
const longestPause = time.Hour

// together is how far apart machines are asked for at most that one plan has bought.
const together = time.Minute

// pausedUntil is when machines may go for pods that have waited since a time; the zero time if nothing says that it would be in vain. Pods come
// first: where machines that were bought meanwhile, and at one time, took the place of theirs, it could not be had, being sold out for example.
// Then these stay for as long as the pods had waited, so that ever fewer are given up in vain.
func (p *Pool) pausedUntil(need capacity.Vector, since time.Time) time.Time {
	last := time.Time{}
	for _, m := range p.Unused {
		if m.ForRoom && m.Created.After(since) && m.Created.After(last) {
			last = m.Created
		}
	}
	had := p.Left.Clone()
	for _, m := range p.Unused {
		if m.ForRoom && last.Sub(m.Created) <= together {
			had.Add(m.Counts, 1)
		}
	}
	if last.IsZero() || !need.Fits(had) {
		return time.Time{}
	}
	return last.Add(min(last.Sub(since), longestPause))
}

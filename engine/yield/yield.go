// Package yield chooses the unused machines of a pool that go to make room under the pool's limits for a machine that is needed more. It does not
// depend on types of Kubernetes.
package yield

import (
	"slices"
	"time"

	"tenon.sh/engine/capacity"
)

// Pool is a pool with limits.
type Pool struct {
	// Left is the rest of the limits. Machines that go anyway are not counted against the limits.
	Left capacity.Vector
	// Unused lists the machines without users. Of equally good machines, the first go first.
	Unused []Machine
	// Most is the largest number of unused machines that may go.
	Most int

	tried string // the name for which machines go to find out whether new machines are available
}

// Machine is a machine without users.
type Machine struct {
	Number  int
	Counts  capacity.Vector // the amounts that count against the limits
	Created time.Time
	Yields  bool // it may go
	ForRoom bool // it was bought for no pod
}

// Choice is the answer of the limits to one more machine.
type Choice struct {
	// Gone lists the numbers of the machines that must go first.
	Gone []int
	// Made is true if the machines in Gone go, or if the limits have room without that. It is false if the limits are too small, if more machines
	// than Most would have to go (TooMany), and before From. If new machines may be unavailable, it is false, too, while machines go for another
	// name.
	Made, TooMany bool
	From          time.Time
}

// For chooses as few machines as possible, or none, to make room for a machine that counts as one of the needs. The machine is for pods of which
// the first has waited since the given time. Pods with the same name start together. Each choice takes earlier choices into account.
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

// fewest chooses as few machines as the limits need, each time the machine that frees most of the lacking amounts.
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

// shareOf returns the part of the lacking amounts that the machine frees, from 0 to 1. If it frees all, the result is above 1, and the smaller
// the surplus, the nearer it is to 2.
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

// longestPause is the longest time for which machines stay that were bought while a pod waited.
const longestPause = time.Hour

// together is the largest time between the purchases of machines of one plan.
const together = time.Minute

// pausedUntil returns the time from which machines may go for pods that have waited since a time. It returns the zero time if there is no sign
// that their removal would be in vain. Pods have precedence over unused machines. If machines were bought at one time while the pods waited, and
// fill the room that the pods need, the pods' machine was probably not available. It may have been sold out, for example. Then the bought
// machines stay for as long as the pods had waited, so that removals in vain become rarer.
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

package simulated

import (
	"container/heap"
	"time"
)

// happening is a time at which a machine may register, become ready or end.
type happening struct {
	at time.Time
	to *Record
}

// valid reports whether the event will still happen. The end of a machine may have been moved, but never to a later time.
func (h happening) valid(now time.Time) bool {
	r := h.to
	return !r.gone(now) && (h.at.Equal(r.Registers) || h.at.Equal(r.Ready) || h.at.Equal(r.end()))
}

// happenings is a heap of future events, so that finding the next event does not need a look at all machines.
type happenings []happening

func (h happenings) Len() int           { return len(h) }
func (h happenings) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h happenings) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *happenings) Push(x any)        { *h = append(*h, x.(happening)) }
func (h *happenings) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	(*h)[last] = happening{}
	*h = (*h)[:last]
	return x
}

// expect records times at which events of the machine happen; zero times are ignored. Callers call it for every time that they set or change.
func (c *Cloud) expect(r *Record, times ...time.Time) {
	for _, at := range times {
		if !at.IsZero() {
			heap.Push(&c.coming, happening{at, r})
		}
	}
}

// pass removes the events up to now, and counts ended machines.
func (c *Cloud) pass(now time.Time) {
	for len(c.coming) > 0 && !c.coming[0].at.After(now) {
		if h := heap.Pop(&c.coming).(happening); h.to.gone(now) {
			c.ends++
		}
	}
}

// nextOfMachines returns the time of the next event of a machine, the zero time for never.
func (c *Cloud) nextOfMachines(now time.Time) time.Time {
	for len(c.coming) > 0 && !c.coming[0].valid(now) {
		heap.Pop(&c.coming)
	}
	if len(c.coming) == 0 {
		return time.Time{}
	}
	return c.coming[0].at
}

// Ends returns a number that grows whenever machines end.
func (c *Cloud) Ends() int {
	c.lock()
	defer c.mu.Unlock()
	return c.ends
}

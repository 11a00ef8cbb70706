package simulator

import (
	"container/heap"
	"time"
)

// clock is the world's time. It does not advance while an event is handled.
type clock struct{ now time.Time }

func (c *clock) Now() time.Time                  { return c.now }
func (c *clock) Since(t time.Time) time.Duration { return c.now.Sub(t) }

// agenda lists future events by time; events of the same time are in the order of their entry. The agenda contains the clock.
type agenda struct {
	*clock
	begin  time.Time // the beginning of the world, from which Moments are counted
	events eventHeap
	count  uint64
}

func newAgenda(begin time.Time) *agenda { return &agenda{clock: &clock{begin}, begin: begin} }

// Moment is the resolution of the world's time, because events at the same time cost less than separate events.
const Moment = 2 * time.Second

type event struct {
	at    time.Time
	order uint64
	do    func()
}

// at schedules a function for the first full Moment at or after a time. A time in the past means now.
func (a *agenda) at(when time.Time, do func()) {
	if over := when.Sub(a.begin) % Moment; over > 0 {
		when = when.Add(Moment - over)
	}
	a.exactly(when, do)
}

// exactly schedules a function without rounding its time.
func (a *agenda) exactly(when time.Time, do func()) { a.add(later(when, a.now), do) }

// after schedules a function for the first full Moment after a time has passed.
func (a *agenda) after(d time.Duration, do func()) { a.at(a.now.Add(max(d, 0)), do) }

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// add enters an event.
func (a *agenda) add(at time.Time, do func()) {
	a.count++
	heap.Push(&a.events, event{at, a.count, do})
}

// next returns the time of the next event.
func (a *agenda) next() (at time.Time, ok bool) {
	if len(a.events) == 0 {
		return time.Time{}, false
	}
	return a.events[0].at, true
}

// take removes and returns the next event.
func (a *agenda) take() event { return heap.Pop(&a.events).(event) }

type eventHeap []event

func (h eventHeap) Len() int { return len(h) }
func (h eventHeap) Less(i, j int) bool {
	if h[i].at.Equal(h[j].at) {
		return h[i].order < h[j].order
	}
	return h[i].at.Before(h[j].at)
}
func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *eventHeap) Push(x any)   { *h = append(*h, x.(event)) }
func (h *eventHeap) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = event{}
	*h = (*h)[:last]
	return e
}

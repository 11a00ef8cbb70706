package dashboard

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// A Source reads the cluster anew.
type Source func(ctx context.Context) (*Picture, error)

// A Reader holds the newest picture of a cluster. It reads the cluster only when a page is requested, one reading at a time, and
// returns at once the picture that it has. A page without readers costs nothing.
type Reader struct {
	source Source // nil if the picture never changes
	every  time.Duration
	clock  clock.PassiveClock
	ctx    context.Context // ends the reading in progress

	mu      sync.Mutex // guards all below
	newest  *view
	problem error         // of the newest reading
	since   time.Time     // when the problem began
	ended   time.Time     // when the newest reading ended
	took    time.Duration // how long it took
	reading chan struct{} // closed once the reading in progress ends, nil without one
}

// NewReader reads the cluster a first time. If every is 0 it never reads again, because a file does not change.
func NewReader(ctx context.Context, source Source, every time.Duration, clock clock.PassiveClock) (*Reader, error) {
	r := &Reader{source: source, every: every, clock: clock, ctx: ctx}
	if err := r.read(); err != nil {
		return nil, err
	}
	return r, nil
}

// read asks the source for a picture, and keeps the answer.
func (r *Reader) read() error {
	began := r.clock.Now()
	picture, err := r.source(r.ctx)
	var v *view
	if err == nil {
		v, err = newView(picture)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = r.clock.Now()
	r.took = r.ended.Sub(began)
	if err != nil {
		if r.problem == nil {
			r.since = r.ended
		}
		r.problem = err
		return err
	}
	r.newest, r.problem = v, nil
	return nil
}

// interval returns how often the cluster is read while pages are requested. The caller holds mu.
func (r *Reader) interval() time.Duration { return max(r.every, 9*r.took) }

// isStale reports whether the newest picture is older than it can be while pages are requested: there was no request, or the cluster
// cannot be read. The caller holds mu.
func (r *Reader) isStale(now time.Time) bool {
	return r.every > 0 && now.Sub(r.newest.At) > 2*r.interval()+r.took
}

// age returns the age of the newest picture if this picture is stale. If not, it returns 0.
func (r *Reader) age() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.clock.Now()
	if !r.isStale(now) {
		return 0
	}
	return now.Sub(r.newest.At)
}

// patienceForNew is how long a request waits for a new picture if the newest one is old.
const patienceForNew = 2 * time.Second

// look returns the newest picture, and the problem that prevented newer ones. If the interval since the last reading is over, look begins
// to read the next picture. Reading takes at most a tenth of the time.
func (r *Reader) look(ctx context.Context) (*view, string) {
	r.mu.Lock()
	now := r.clock.Now()
	if r.every > 0 && r.reading == nil && now.Sub(r.ended) >= r.interval() {
		done := make(chan struct{})
		r.reading = done
		go func() {
			defer close(done)
			_ = r.read() // kept as the problem
			r.mu.Lock()
			r.reading = nil
			r.mu.Unlock()
		}()
	}
	wait, old := r.reading, now.Sub(r.newest.At) > 2*r.every
	r.mu.Unlock()
	if wait != nil && old {
		ctx, stop := context.WithTimeout(ctx, patienceForNew)
		defer stop()
		select {
		case <-wait:
		case <-ctx.Done():
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.problem != nil {
		return r.newest, fmt.Sprintf("The cluster could not be read since %s: %v. What is shown is of %s.",
			r.since.UTC().Format(exactTime), r.problem, r.newest.At.UTC().Format(exactTime))
	}
	return r.newest, ""
}

// exactTime is the format of times where an age is not exact enough.
const exactTime = "2006-01-02 15:04:05 UTC"

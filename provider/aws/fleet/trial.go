package fleet

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"tenon.sh/engine"
)

const (
	// trialMemory is how long an offering that had no capacity is asked for with care.
	trialMemory = time.Hour
	// callsAtOnce is how many calls may run whose cheapest offer is the same. Those that wait learn whether it is sold out.
	callsAtOnce = 10
)

// trials is the budget of calls for offerings: a few at a time for each, and one for those that had no capacity lately, until
// one succeeds. Without it a thousand claims that wait for the same scarce type would ask for it a thousand times as soon as they may.
type trials struct {
	clock clock.PassiveClock

	mu    sync.Mutex // guards what follows
	known map[engine.OfferingID]*trial
	calls map[engine.OfferingID]int // that run, by their cheapest offer
	ended chan struct{}             // closed when any trial ends
}

type trial struct {
	failed  time.Time
	running bool
}

func newTrials(clock clock.PassiveClock) *trials {
	return &trials{clock: clock, known: map[engine.OfferingID]*trial{}, calls: map[engine.OfferingID]int{}, ended: make(chan struct{})}
}

// enter returns those of the offers that may be asked for now. If none may, it waits for a call to end and returns none.
// Whoever was let in has to leave.
func (t *trials) enter(ctx context.Context, offers []Offer) ([]Offer, error) {
	t.mu.Lock()
	now := t.clock.Now()
	var allowed []Offer
	for _, o := range offers {
		if t.calls[offers[0].OfferingID] >= callsAtOnce {
			break
		}
		known := t.known[o.OfferingID]
		if known != nil && now.Sub(known.failed) > trialMemory && !known.running {
			delete(t.known, o.OfferingID)
			known = nil
		}
		if known != nil && known.running {
			continue
		}
		if known != nil {
			known.running = true
		}
		allowed = append(allowed, o)
	}
	ended := t.ended
	if len(allowed) > 0 {
		t.calls[allowed[0].OfferingID]++
	}
	t.mu.Unlock()
	if len(allowed) > 0 {
		return allowed, nil
	}
	select {
	case <-ended:
		return nil, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// leave ends the trials of offers that were entered.
func (t *trials) leave(offers []Offer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(offers) == 0 {
		return
	}
	first := offers[0].OfferingID
	if t.calls[first]--; t.calls[first] <= 0 {
		delete(t.calls, first)
	}
	for _, o := range offers {
		if known := t.known[o.OfferingID]; known != nil {
			known.running = false
		}
	}
	close(t.ended)
	t.ended = make(chan struct{})
}

// failed notes that an offering had no capacity.
func (t *trials) failed(id engine.OfferingID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known[id] == nil {
		t.known[id] = &trial{}
	}
	t.known[id].failed = t.clock.Now()
}

// succeeded notes that an offering has capacity.
func (t *trials) succeeded(id engine.OfferingID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.known, id)
}

package fleet

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"tenon.sh/engine"
)

const (
	// trialMemory is the time for which an offering without capacity is on trial: one call at a time may ask for it.
	trialMemory = time.Hour
	// callsAtOnce is the number of calls with the same cheapest offer that may run at once. Calls that wait learn whether the offer is sold
	// out.
	callsAtOnce = 10
)

// trials limits the calls for offerings: ten at a time for each, and one for an offering that had no capacity lately, until a call succeeds.
// Without the limit, a thousand claims for the same scarce type would make a thousand parallel calls for it.
type trials struct {
	clock clock.PassiveClock

	mu    sync.Mutex // guards the fields below
	known map[engine.OfferingID]*trial
	calls map[engine.OfferingID]int // running calls, by their cheapest offer
	ended chan struct{}             // closed when any trial ends
}

type trial struct {
	failed  time.Time
	running bool
}

func newTrials(clock clock.PassiveClock) *trials {
	return &trials{clock: clock, known: map[engine.OfferingID]*trial{}, calls: map[engine.OfferingID]int{}, ended: make(chan struct{})}
}

// enter returns the offers that may be asked for now. If there are none, it waits for a call to end and returns none. After enter has
// returned offers, the caller must call leave.
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

// failed records that an offering had no capacity.
func (t *trials) failed(id engine.OfferingID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known[id] == nil {
		t.known[id] = &trial{}
	}
	t.known[id].failed = t.clock.Now()
}

// succeeded records that an offering has capacity.
func (t *trials) succeeded(id engine.OfferingID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.known, id)
}

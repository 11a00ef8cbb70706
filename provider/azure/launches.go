package azure

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"tenon.sh/engine"
)

// launchAge is the time for which an unused launch is remembered. By then its machine is written on the claim, or the claim is gone.
const launchAge = time.Hour

// launches holds the state of claims that are being launched. It only saves calls, and names the refused offerings.
type launches struct {
	clock clock.PassiveClock

	mu     sync.Mutex // guards the fields below
	claims map[types.UID]*launch
}

// launch is the state of one claim. Only the holder of busy may use it.
type launch struct {
	busy chan struct{} // holds a token during a launch of the claim
	used time.Time

	noted   map[string]string // the annotations that were written on the claim
	nic     string
	machine *engine.Machine // once it runs
	// refused holds the offerings without capacity, with reasons; cause is the first reason.
	refused map[engine.OfferingID]string
	cause   string
	// failed is the reason why the last requested machine failed, if another offering would not help.
	failed error
}

func newLaunches(clock clock.PassiveClock) *launches {
	return &launches{clock: clock, claims: map[types.UID]*launch{}}
}

// lock finds or makes the state of a claim, and prevents two launches of it at the same time.
func (l *launches) lock(ctx context.Context, uid types.UID) (*launch, func(), error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	l.mu.Lock()
	now := l.clock.Now()
	known := l.claims[uid]
	if known == nil {
		known = &launch{busy: make(chan struct{}, 1), refused: map[engine.OfferingID]string{}}
		l.claims[uid] = known
	}
	known.used = now
	l.mu.Unlock()
	select {
	case known.busy <- struct{}{}:
		return known, func() { <-known.busy }, nil
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
}

// forget drops old launches. A later launch of the claim starts from Azure's state.
func (l *launches) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for uid, known := range l.claims {
		if l.clock.Since(known.used) < launchAge || len(known.busy) > 0 {
			continue
		}
		delete(l.claims, uid)
	}
}

// refuse records that an offering had no capacity.
func (l *launch) refuse(id engine.OfferingID, why string) {
	if l.cause == "" {
		l.cause = why
	}
	if l.refused[id] == "" {
		l.refused[id] = why
	}
}

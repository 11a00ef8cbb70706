package azure

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"tenon.sh/engine"
)

// launchAge is how long a launch is remembered that nobody asks after. By then its machine is written down on the claim, or the
// claim is gone.
const launchAge = time.Hour

// launches is what is known here of claims that are being launched. Nothing depends on it: it saves calls, and names what a launch
// was refused.
type launches struct {
	clock clock.PassiveClock

	mu     sync.Mutex // guards what follows
	claims map[types.UID]*launch
}

// launch is what is known of one claim. Whoever holds busy may use it.
type launch struct {
	busy chan struct{} // holds a token while somebody launches the claim
	used time.Time

	noted   map[string]string // the word that was left on the claim
	nic     string
	machine *engine.Machine // once it runs
	// refused are the offerings that Azure had none of, with the reasons; cause is the first of these.
	refused map[engine.OfferingID]string
	cause   string
	// failed is why the machine that was asked for last did not come, if another will fare no better.
	failed error
}

func newLaunches(clock clock.PassiveClock) *launches {
	return &launches{clock: clock, claims: map[types.UID]*launch{}}
}

// lock finds or makes what is known of a claim, and keeps others from launching it at the same time.
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

// forget drops what is old. Whoever launches one of these claims meanwhile starts from what Azure says.
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

// refuse notes that an offering was not to be had.
func (l *launch) refuse(id engine.OfferingID, why string) {
	if l.cause == "" {
		l.cause = why
	}
	if l.refused[id] == "" {
		l.refused[id] = why
	}
}

package fleet

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Tokens records the calls of this process. EC2 knows the results of forgotten calls, and of calls of other processes.
type Tokens struct {
	clock clock.PassiveClock

	mu    sync.Mutex // guards calls
	calls map[string]*outcome
}

type outcome struct {
	ended    time.Time // zero while the call runs
	answered bool
}

func newTokens(clock clock.PassiveClock) *Tokens {
	return &Tokens{clock: clock, calls: map[string]*outcome{}}
}

func (t *Tokens) begin() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.clock.Now()
	for token, o := range t.calls {
		if !o.ended.IsZero() && now.Sub(o.ended) > time.Hour {
			delete(t.calls, token)
		}
	}
	token := newToken(now)
	t.calls[token] = &outcome{}
	return token
}

func (t *Tokens) end(token string, answered bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.calls[token] = &outcome{ended: t.clock.Now(), answered: answered}
}

// Runs reports whether a call has begun in this process and not ended.
func (t *Tokens) Runs(token string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.calls[token]
	return o != nil && o.ended.IsZero()
}

// Settled reports whether this process knows which machines a call has started.
func (t *Tokens) Settled(token string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.calls[token]
	return o != nil && o.answered
}

// Ended returns the time at which this process recorded the end of a call. Without a record, it returns the time in the call's token, which is
// the time of the call's opening.
func (t *Tokens) Ended(token string) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	if o := t.calls[token]; o != nil && !o.ended.IsZero() {
		return o.ended
	}
	return TokenTime(token)
}

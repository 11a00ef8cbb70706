package market

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"tenon.sh/provider/azure/cloud"
)

// longestWait is the longest time to wait that is accepted from Azure.
const longestWait = time.Hour

// source caches one answer of Azure, and asks again when the answer is old. Callers share one call. The call continues when its callers give
// up, because the next caller needs its answer too.
type source struct {
	what  string
	clock clock.Clock
	ask   func(context.Context) (believe time.Duration, err error)
	retry func() time.Duration // after an error

	mu      sync.Mutex    // guards the fields below
	running chan struct{} // closed when the call has ended; nil if none runs
	begun   time.Time     // of the last call
	due     time.Time     // of the next one
	early   time.Time     // if not zero: of the next call, requested while this one runs
	err     error         // of the last one
	told    string        // the last error in the log
}

func newSource(what string, clock clock.Clock, ask func(context.Context) (time.Duration, error), retry func() time.Duration) *source {
	return &source{what: what, clock: clock, ask: ask, retry: retry, err: errNotAsked}
}

// begin starts a call if one is due and none runs.
func (s *source) begin(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	if s.running != nil || now.Before(s.due) || ctx.Err() != nil {
		return
	}
	s.begun, s.running = now, make(chan struct{})
	go s.run(context.WithoutCancel(ctx))
}

func (s *source) run(ctx context.Context) {
	believe, err := s.ask(ctx)
	if err != nil {
		believe = max(s.retry(), min(cloud.RetryAfter(err), longestWait))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err, s.due = err, s.clock.Now().Add(believe)
	if !s.early.IsZero() && s.early.Before(s.due) {
		s.due = s.early
	}
	s.early = time.Time{}
	close(s.running)
	s.running = nil
	if err == nil {
		s.told = ""
	} else if text := err.Error(); text != s.told { // the same error is logged once
		s.told = text
		log.FromContext(ctx).Error(err, s.what+" could not be renewed", "retryAfter", believe.String())
	}
}

// wait waits until the running call, if any, has ended. If an older answer will do, it waits at most for patience. Its error is the
// context's.
func (s *source) wait(ctx context.Context, canDoWithout bool) error {
	s.mu.Lock()
	running, left := s.running, s.begun.Add(patience).Sub(s.clock.Now())
	s.mu.Unlock()
	if running == nil || canDoWithout && left <= 0 {
		return ctx.Err()
	}
	var late <-chan time.Time
	if canDoWithout {
		timer := s.clock.NewTimer(left)
		defer timer.Stop()
		late = timer.C()
	}
	select {
	case <-running:
		return nil
	case <-late:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// problem returns the error of the last call.
func (s *source) problem() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// sooner moves the next call forward to the given time after the last one.
func (s *source) sooner(after time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.begun.Add(after)
	if s.running != nil {
		s.early = at
	} else if at.Before(s.due) {
		s.due = at
	}
}

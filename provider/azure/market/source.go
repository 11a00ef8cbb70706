package market

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"tenon.sh/provider/azure/cloud"
)

// longestWait is how long Azure may ask to wait.
const longestWait = time.Hour

// source is an answer of Azure's, asked for again when it is old. Whoever needs it meanwhile waits for the same call. The call goes
// on when they give up: who comes next will want its answer too.
type source struct {
	what  string
	clock clock.Clock
	ask   func(context.Context) (believe time.Duration, err error)
	retry func() time.Duration // after an error

	mu      sync.Mutex    // guards what follows
	running chan struct{} // closed when the call has ended; nil if none runs
	begun   time.Time     // of the last call
	due     time.Time     // of the next one
	early   time.Time     // if not zero: of the next one, as somebody wants while this one runs
	err     error         // of the last one
	told    string        // what the log said last
}

func newSource(what string, clock clock.Clock, ask func(context.Context) (time.Duration, error), retry func() time.Duration) *source {
	return &source{what: what, clock: clock, ask: ask, retry: retry, err: errNotAsked}
}

// begin asks if it is time to, and nobody does already.
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
	} else if text := err.Error(); text != s.told { // the same trouble is told once
		s.told = text
		log.FromContext(ctx).Error(err, s.what+" could not be renewed", "retryAfter", believe.String())
	}
}

// wait waits until the call that runs, if any, has ended; where an older answer will do, only until it has taken too long. The
// error is the context's.
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

// problem is what the last call ended in.
func (s *source) problem() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// sooner has the next call be made so long after the last one, if not before.
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

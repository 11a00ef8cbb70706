package fresh_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"tenon.sh/provider/fresh"
)

func TestAValueIsLoadedOnceUntilItIsTooOld(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakeClock(time.Now())
	cache := fresh.New[string, int](clock, time.Minute)
	loads := 0
	get := func() int {
		v, err := cache.Get(t.Context(), "a", func(context.Context) (int, error) { loads++; return loads, nil })
		if err != nil {
			t.Error(err)
		}
		return v
	}
	if got := []int{get(), get()}; got[0] != 1 || got[1] != 1 {
		t.Errorf("got %v, want 1 twice", got)
	}
	clock.Step(time.Minute)
	if got := get(); got != 2 {
		t.Errorf("after a minute %d, want 2", got)
	}
	cache.Forget("a")
	if got := get(); got != 3 {
		t.Errorf("after it was forgotten %d, want 3", got)
	}
}

func TestAnErrorIsKeptForSomeSeconds(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakeClock(time.Now())
	cache := fresh.New[string, int](clock, time.Minute)
	fails, works := errors.New("no"), false
	get := func(ctx context.Context) (int, error) {
		return cache.Get(ctx, "a", func(ctx context.Context) (int, error) {
			if works {
				return 7, nil
			}
			return 0, errors.Join(fails, ctx.Err())
		})
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	_, _ = get(canceled) // other callers are not affected
	if _, err := get(t.Context()); !errors.Is(err, fails) || errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	works = true
	if _, err := get(t.Context()); !errors.Is(err, fails) {
		t.Errorf("at once: %v, want the error again", err)
	}
	clock.Step(5 * time.Second)
	if v, err := get(t.Context()); v != 7 || err != nil {
		t.Errorf("later: %d, %v", v, err)
	}
}

func TestManyWhoAskAtOnceCauseOneLoad(t *testing.T) {
	t.Parallel()
	cache := fresh.New[string, int](clocktesting.NewFakeClock(time.Now()), time.Minute)
	loads, group := 0, sync.WaitGroup{}
	for range 50 {
		group.Go(func() {
			// No lock guards loads, on purpose: only one load runs at a time.
			v, err := cache.Get(t.Context(), "a", func(context.Context) (int, error) { loads++; return loads, nil })
			if v != 1 || err != nil {
				t.Errorf("got %d, %v", v, err)
			}
		})
	}
	group.Wait()
}

func TestWhoWaitsForALoadMayGiveUp(t *testing.T) {
	t.Parallel()
	cache := fresh.New[string, int](clocktesting.NewFakeClock(time.Now()), time.Minute)
	started, release := make(chan struct{}), make(chan struct{})
	go cache.Get(t.Context(), "a", func(context.Context) (int, error) { close(started); <-release; return 1, nil })
	<-started
	defer close(release)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := cache.Get(ctx, "a", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

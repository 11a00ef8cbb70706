package controller

import (
	"context"
	"errors"
	"strings"
	"testing"
)

func TestWhatIsComputedIsLeftBehindWhenThePassHasToEnd(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	computing, release, over := make(chan bool), make(chan bool), make(chan bool)
	go func() {
		<-computing
		cancel()
	}()
	_, err := Compute(ctx, func() int {
		defer close(over)
		close(computing)
		<-release // for ever, as far as the pass is concerned
		return 1
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that of the context", err)
	}
	close(release)
	<-over
}

func TestAPanicWhileComputingIsThePassesOwn(t *testing.T) {
	t.Parallel()
	l, _ := newLoop(func(ctx context.Context) error {
		_, err := Compute(ctx, func() int { panic("broken invariant") })
		return err
	})
	l.Run(t.Context())
	if l.failures != 1 {
		t.Errorf("%d failures, want 1", l.failures)
	}
	if err := l.pass(t.Context()); err == nil || !strings.Contains(err.Error(), "broken invariant") {
		t.Errorf("error %v does not name the panic", err)
	}
}

package controller

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestWindowClosesAfterSilenceOrAtTheLatest(t *testing.T) {
	type cause struct {
		name string
		at   time.Duration
	}
	for name, c := range map[string]struct {
		causes []cause
		closes time.Duration
	}{
		"one cause":                         {[]cause{{"a", 0}}, time.Second},
		"a new cause puts it off":           {[]cause{{"a", 0}, {"b", 700 * time.Millisecond}}, 1700 * time.Millisecond},
		"a known cause does not put it off": {[]cause{{"a", 0}, {"a", 700 * time.Millisecond}}, time.Second},
		"not beyond the latest":             {[]cause{{"a", 0}, {"b", 9500 * time.Millisecond}}, 10 * time.Second},
		"the latest counts from the first":  {[]cause{{"a", 2 * time.Second}, {"b", 11500 * time.Millisecond}}, 12 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			var w Window
			for _, c := range c.causes {
				w.Add(c.name, start.Add(c.at))
			}
			at, open := w.Closes(time.Second, 10*time.Second)
			if !open || at.Sub(start) != c.closes {
				t.Errorf("closes after %v (open %v), want %v", at.Sub(start), open, c.closes)
			}
		})
	}
}

func TestWindowIsClosedWithoutCauses(t *testing.T) {
	if _, open := (&Window{}).Closes(time.Second, time.Second); open {
		t.Error("a window without causes is open")
	}
}

func newLoop(pass func(context.Context) error) (*Loop, *clocktesting.FakeClock) {
	clock := clocktesting.NewFakeClock(start)
	return &Loop{Name: "test", Pass: pass, Idle: time.Second, Max: 10 * time.Second, Every: time.Minute, Clock: clock}, clock
}

func TestLoopIsDueAfterATriggerOrAfterAWhile(t *testing.T) {
	l, clock := newLoop(func(context.Context) error { return nil })
	l.Run(t.Context())
	if wait := l.Due().Sub(clock.Now()); wait != time.Minute {
		t.Errorf("without a trigger due after %v, want a minute", wait)
	}
	l.Trigger("pod")
	if wait := l.Due().Sub(clock.Now()); wait != time.Second {
		t.Errorf("after a trigger due after %v, want a second", wait)
	}
	clock.Step(time.Second)
	l.Run(t.Context())
	if wait := l.Due().Sub(clock.Now()); wait != time.Minute {
		t.Errorf("after the pass due after %v: the trigger was not used up", wait)
	}
}

func TestAnOpenWindowIsNotCutShort(t *testing.T) {
	l, clock := newLoop(func(context.Context) error { return nil })
	l.Run(t.Context())
	clock.Step(time.Minute - 100*time.Millisecond)
	l.Trigger("the first pod of many")
	if wait := l.Due().Sub(clock.Now()); wait != time.Second {
		t.Errorf("due after %v though more may come within a second", wait)
	}
}

func TestAPodThatIsLikeOneThatWaitsPutsThePassOff(t *testing.T) {
	l, clock := newLoop(func(context.Context) error { return nil })
	l.Run(t.Context())
	l.Join("web-1", "web")
	if wait := l.Due().Sub(clock.Now()); wait != time.Minute {
		t.Errorf("due after %v though nothing waits, want a minute", wait)
	}
	l.Trigger("web")
	for range 3 {
		clock.Step(700 * time.Millisecond)
		l.Join("web-2", "web")
	}
	if wait := l.Due().Sub(clock.Now()); wait != -400*time.Millisecond {
		t.Errorf("due after %v: want a second after web-2 came, which was 1.4 s ago", wait)
	}
}

func TestLoopTriesAgainLessAndLessOftenAfterFailures(t *testing.T) {
	l, clock := newLoop(func(context.Context) error { return errors.New("no") })
	for _, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 30 * time.Second, 30 * time.Second} {
		l.Run(t.Context())
		if wait := l.Due().Sub(clock.Now()); wait != want {
			t.Errorf("due after %v, want %v", wait, want)
		}
	}
}

func TestWhatFailsDoesNotHoldUpWhatIsNew(t *testing.T) {
	l, clock := newLoop(func(context.Context) error { return errors.New("one claim of many was refused") })
	for range 7 {
		l.Run(t.Context())
	}
	l.Trigger("another pod")
	if wait := l.Due().Sub(clock.Now()); wait != time.Second {
		t.Errorf("due after %v, want a second", wait)
	}
}

func TestWhoHurriesHearsOfTheEndOfThePassThatBeganAfter(t *testing.T) {
	var l *Loop
	var order []string
	l, _ = newLoop(func(context.Context) error {
		order = append(order, "pass")
		if len(order) == 1 {
			l.Hurry("in the middle", func() { order = append(order, "end") })
		}
		return nil
	})
	for range 3 {
		l.Run(t.Context())
	}
	if want := []string{"pass", "pass", "end", "pass"}; !slices.Equal(order, want) {
		t.Errorf("%v, want %v", order, want)
	}
}

func TestAPanicFailsThePassOnly(t *testing.T) {
	l, _ := newLoop(func(context.Context) error { panic("poisoned object") })
	if err := l.pass(t.Context()); err == nil || !strings.Contains(err.Error(), "poisoned object") {
		t.Errorf("error %v does not tell of the panic", err)
	}
}

func TestLoopIsHealthyWhilePassesEnd(t *testing.T) {
	stuck, release := make(chan struct{}), make(chan struct{})
	l, clock := newLoop(func(context.Context) error {
		close(stuck)
		<-release
		return nil
	})
	if err := l.Healthy(); err != nil {
		t.Errorf("before the start: %v", err)
	}
	done := make(chan struct{})
	go func() {
		l.Run(t.Context())
		close(done)
	}()
	<-stuck
	clock.Step(stuckAfter + time.Second)
	if err := l.Healthy(); err == nil {
		t.Error("a pass that does not end goes unnoticed")
	}
	close(release)
	<-done
	if err := l.Healthy(); err != nil {
		t.Errorf("after the pass: %v", err)
	}
	clock.Step(time.Minute + stuckAfter + time.Second)
	if err := l.Healthy(); err == nil {
		t.Error("that no pass begins goes unnoticed")
	}
}

func TestAPassThatComputesForLongIsNotStuck(t *testing.T) {
	computing, computed, waiting, release := make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan struct{})
	l, clock := newLoop(func(ctx context.Context) error {
		_, err := Compute(ctx, func() int {
			close(computing)
			<-computed
			return 0
		})
		close(waiting)
		<-release
		return err
	})
	done := make(chan struct{})
	go func() {
		l.Run(t.Context())
		close(done)
	}()
	<-computing
	clock.Step(10 * stuckAfter)
	if err := l.Healthy(); err != nil {
		t.Errorf("while it computes: %v", err)
	}
	close(computed)
	<-waiting
	if err := l.Healthy(); err != nil {
		t.Errorf("when it has computed: %v", err)
	}
	clock.Step(stuckAfter + time.Second)
	if err := l.Healthy(); err == nil {
		t.Error("a pass that waits for ever after it has computed goes unnoticed")
	}
	close(release)
	<-done
}

func TestLoopRunsAPassForATriggerAndEndsWithItsContext(t *testing.T) {
	passes := make(chan struct{}, 10)
	l, clock := newLoop(func(context.Context) error {
		passes <- struct{}{}
		return nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- l.Start(ctx) }()
	for range 2 { // the first comes by itself, once its window closes
		for len(passes) == 0 { // the loop may not have begun to wait yet
			clock.Step(100 * time.Millisecond)
		}
		<-passes
		l.Trigger("pod")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("ended with %v", err)
	}
}

func TestWhatCannotWaitBeginsAtOnceButAtMostOnceASecond(t *testing.T) {
	t.Parallel()
	l, clock := newLoop(func(context.Context) error { return nil })
	l.Hurry("notice", nil)
	if wait := l.Due().Sub(clock.Now()); wait > 0 {
		t.Errorf("due after %v, want at once", wait)
	}
	l.Run(t.Context())
	clock.Step(300 * time.Millisecond)
	for range 100 {
		l.Hurry("notice", nil)
		l.Trigger("pod")
	}
	if wait := l.Due().Sub(clock.Now()); wait != 700*time.Millisecond {
		t.Errorf("due after %v, want a second after the last one", wait)
	}
	clock.Step(700 * time.Millisecond)
	l.Run(t.Context())
	if wait := l.Due().Sub(clock.Now()); wait != time.Minute {
		t.Errorf("due after %v with nothing new", wait)
	}
	l.Trigger("pod")
	if wait := l.Due().Sub(clock.Now()); wait != time.Second {
		t.Errorf("an ordinary cause is due after %v", wait)
	}
}

// A pass that takes long is said once, however long it takes, and once more only after one that did not.
func TestAPassThatTakesLongIsSaidOnce(t *testing.T) {
	t.Parallel()
	var clock *clocktesting.FakeClock
	takes := time.Duration(0)
	l, clock := newLoop(func(context.Context) error {
		for range int(takes / (10 * time.Second)) {
			clock.Step(10 * time.Second)
		}
		return nil
	})
	told := 0
	l.Slow = func() { told++ }
	for _, c := range []struct {
		takes time.Duration
		told  int
	}{{50 * time.Second, 0}, {70 * time.Second, 1}, {5 * time.Minute, 1}, {10 * time.Second, 1}, {2 * time.Minute, 2}} {
		takes = c.takes
		l.Run(t.Context())
		if told != c.told {
			t.Errorf("after a pass of %s: told %d times, want %d", c.takes, told, c.told)
		}
	}
}

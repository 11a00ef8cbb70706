// Package controller holds the common part of the loops below it: it begins passes, repeats failed passes, and detects a loop that is stuck. Each
// loop has a folder of its own, reads the cluster, asks the engine and writes. This package does not know the loops' work.
package controller

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// slowAfter is the duration of a pass after which it is reported as slow.
const slowAfter = time.Minute

// stuckAfter is the duration of a pass, without its computations, after which its loop is treated as stuck.
const stuckAfter = 5 * time.Minute

// Loop runs passes one after another: soon after an event that matters, and at least from time to time, because events can be missed.
type Loop struct {
	Name string
	Pass func(context.Context) error
	// Idle is how long no new cause must come before a pass begins, Max the longest delay of the pass.
	Idle, Max time.Duration
	// Every is the longest time from the end of one pass to the next.
	Every time.Duration
	Clock clock.WithTickerAndDelayedExecution
	// Slow, unless nil, is called when a pass has taken a minute, and not again before a pass has taken less.
	Slow func()

	once sync.Once
	wake chan struct{}

	mu       sync.Mutex // guards what follows
	window   Window
	hurried  bool      // the next pass does not wait for the window to close
	then     []func()  // to call when the next pass has ended
	last     time.Time // when the last pass began
	began    time.Time // when the running pass began, or last computed; zero between passes
	compute  int       // how many computations the pass waits for
	ended    time.Time // when the last pass ended, zero before the first
	failures int
	slow     bool // the last pass took long, or this one does
}

// Trigger notes an event, named by its cause. A cause that has already been noted for the next pass does not delay the pass.
func (l *Loop) Trigger(cause string) {
	l.mu.Lock()
	fresh := l.window.Add(cause, l.Clock.Now())
	l.mu.Unlock()
	if fresh {
		l.rouse()
	}
}

// Join notes a cause like Trigger, but only if the cause `beside` has been noted for the coming pass. It then delays that pass.
func (l *Loop) Join(cause, beside string) {
	l.mu.Lock()
	fresh := l.window.Join(cause, beside, l.Clock.Now())
	l.mu.Unlock()
	if fresh {
		l.rouse()
	}
}

// hurryEvery is the time from the start of a pass until another pass may start without waiting for its window.
const hurryEvery = time.Second

// Hurry notes an urgent cause: a pass begins at once, but at most one a second. After the pass, the loop calls `then`, unless it is nil.
func (l *Loop) Hurry(cause string, then func()) {
	l.mu.Lock()
	l.window.Add(cause, l.Clock.Now())
	l.hurried = true
	if then != nil {
		l.then = append(l.then, then)
	}
	l.mu.Unlock()
	l.rouse()
}

// rouse makes the loop check again when it is due.
func (l *Loop) rouse() {
	select {
	case l.woken() <- struct{}{}:
	default:
	}
}

func (l *Loop) woken() chan struct{} {
	l.once.Do(func() { l.wake = make(chan struct{}, 1) })
	return l.wake
}

// Start runs passes until ctx ends. The start is a cause like any other: events at the same time belong to the first pass.
func (l *Loop) Start(ctx context.Context) error {
	ctx = log.IntoContext(ctx, log.FromContext(ctx).WithName(l.Name))
	defer l.stopped()
	l.Trigger("start")
	for {
		l.wait(ctx)
		if ctx.Err() != nil {
			return nil
		}
		l.Run(ctx)
	}
}

// wait returns when the next pass is due, or when ctx ends.
func (l *Loop) wait(ctx context.Context) {
	for ctx.Err() == nil {
		delay := l.Due().Sub(l.Clock.Now())
		if delay <= 0 {
			return
		}
		timer := l.Clock.NewTimer(delay)
		select {
		case <-ctx.Done():
		case <-timer.C():
		case <-l.woken():
		}
		timer.Stop()
	}
}

// Due returns the time of the next pass if nothing else happens. A pass never starts before its window closes, because related events
// belong to one pass. A failed pass is repeated less and less often. This must not delay new causes, because one object that cannot be
// helped would block all others.
func (l *Loop) Due() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if closes, open := l.window.Closes(l.Idle, l.Max); open {
		if soon := l.last.Add(hurryEvery); l.hurried && soon.Before(closes) {
			return soon
		}
		return closes
	}
	if l.failures > 0 {
		return l.ended.Add(min(time.Second<<min(l.failures-1, 5), 30*time.Second))
	}
	return l.ended.Add(l.Every)
}

// Run makes one pass. A panic in it fails the pass, not the process, because one object among thousands may have caused it.
func (l *Loop) Run(ctx context.Context) {
	l.mu.Lock()
	then := l.then
	l.window, l.hurried, l.then = Window{}, false, nil
	l.began = l.Clock.Now()
	l.last = l.began
	l.mu.Unlock()
	timer := l.Clock.AfterFunc(slowAfter, func() { l.tellSlow(ctx) })
	err := l.pass(context.WithValue(ctx, loopKey{}, l))
	quick := timer.Stop()
	for _, f := range then {
		f()
	}
	l.mu.Lock()
	l.slow = l.slow && !quick
	l.began, l.ended = time.Time{}, l.Clock.Now()
	l.failures++
	if err == nil || ctx.Err() != nil {
		l.failures = 0
	}
	l.mu.Unlock()
	if err != nil && ctx.Err() == nil {
		log.FromContext(ctx).Error(err, "pass failed, will be tried again")
	}
}

// loopKey is the key of the loop in a pass's context.
type loopKey struct{}

// computes notes that a computation begins (1) or ends (-1).
func (l *Loop) computes(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.compute += n; !l.began.IsZero() {
		l.began = l.Clock.Now()
	}
}

// tellSlow reports a slow pass, unless the last one was slow too.
func (l *Loop) tellSlow(ctx context.Context) {
	l.mu.Lock()
	told := l.slow
	l.slow = true
	l.mu.Unlock()
	if told {
		return
	}
	log.FromContext(ctx).Info("a pass takes longer than it should, and what is new waits for it", "longer-than", slowAfter.String())
	if l.Slow != nil {
		l.Slow()
	}
}

func (l *Loop) pass(ctx context.Context) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return l.Pass(ctx)
}

func (l *Loop) stopped() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.began, l.ended = time.Time{}, time.Time{}
}

// Healthy returns an error if the loop makes no progress: a pass does not end though it computes nothing, or no pass begins. A loop
// that was not started is healthy.
func (l *Loop) Healthy() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.Clock.Now()
	if !l.began.IsZero() && l.compute == 0 && now.Sub(l.began) > stuckAfter {
		return fmt.Errorf("loop %s: a pass has been waiting for %s", l.Name, now.Sub(l.began).Round(time.Second))
	}
	if l.began.IsZero() && !l.ended.IsZero() && now.Sub(l.ended) > l.Every+stuckAfter {
		return fmt.Errorf("loop %s: the last pass ended %s ago", l.Name, now.Sub(l.ended).Round(time.Second))
	}
	return nil
}

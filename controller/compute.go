package controller

import (
	"context"
	"fmt"
	"runtime/debug"
)

// Compute answers with what f returns, or with ctx's error if ctx ends before: f, which nothing can interrupt, is then left to
// run out, and nobody hears what it found. So a pass that computes does not keep its process from ending, or from giving its Lease
// back. A panic in f is one of the caller's. The loop whose pass it is does not count as stuck meanwhile: what f does has an end, and a
// process that is started anew would only begin it again.
func Compute[T any](ctx context.Context, f func() T) (T, error) {
	type outcome struct {
		value    T
		panicked error
	}
	done := make(chan outcome, 1)
	if l, ok := ctx.Value(loopKey{}).(*Loop); ok {
		l.computes(1)
		defer l.computes(-1)
	}
	go func() {
		var o outcome
		defer func() {
			if p := recover(); p != nil {
				o.panicked = fmt.Errorf("%v\n%s", p, debug.Stack())
			}
			done <- o
		}()
		o.value = f()
	}()
	select {
	case o := <-done:
		if o.panicked != nil {
			panic(o.panicked)
		}
		return o.value, nil
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

package controller

import (
	"context"
	"fmt"
	"runtime/debug"
)

// Compute returns the result of f, or ctx's error if ctx ends before. Nothing can interrupt f: it then runs to its end, and its result is dropped. So
// a computation does not delay the end of its process, or the release of its Lease. A panic in f is a panic of the caller. Meanwhile the loop of the
// pass is not treated as stuck, because f ends, and a new process would only start it again.
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

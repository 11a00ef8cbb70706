// Package parallel runs the parts of a computation at the same time.
package parallel

import (
	"fmt"
	"runtime/debug"
	"sync"
)

// Run runs the parts at the same time, the first one on the caller's goroutine, and returns when all have ended. No part may
// write what another one reads or writes, so that the result is the same however they are run. If parts panic, Run panics
// with what the first of them said and its stack, once all have ended: it is the caller who knows what to do about it.
func Run(parts ...func()) {
	if len(parts) == 1 {
		parts[0]()
		return
	}
	panics := make([]any, len(parts))
	keep := func(i int) {
		defer func() {
			if p := recover(); p != nil {
				panics[i] = fmt.Sprintf("%v\n%s", p, debug.Stack())
			}
		}()
		parts[i]()
	}
	var group sync.WaitGroup
	for i := 1; i < len(parts); i++ {
		group.Go(func() { keep(i) })
	}
	if len(parts) > 0 {
		keep(0)
	}
	group.Wait()
	for _, p := range panics {
		if p != nil {
			panic(p)
		}
	}
}

// Range is part of a list: From, up to but not including To.
type Range struct{ From, To int }

// Ranges divides a list of n among as many as threads, of which none gets fewer than least unless there is one only. An empty
// list has no ranges.
func Ranges(n, threads, least int) []Range {
	if n == 0 {
		return nil
	}
	k := max(1, min(threads, n/least))
	out := make([]Range, k)
	for i := range out {
		out[i] = Range{i * n / k, (i + 1) * n / k}
	}
	return out
}

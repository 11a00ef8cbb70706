package cli

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	garbageFrom = 32 << 20        // bytes of heap that are always allowed before garbage is collected in a hurry
	smallHeap   = 64 << 20        // bytes in use up to which collecting twice as often costs next to nothing
	memoryEvery = 2 * time.Second // between two looks at the heap
)

// limitMemory makes Go collect garbage in time. With a limit it is nine tenths of it. Without one the limit follows what
// is really in use, so that a burst of work in a small cluster does not leave the process at several times its size.
func limitMemory(ctx context.Context, bytes int64, profiling bool) {
	if !profiling {
		runtime.MemProfileRate = 0 // nobody can ask for what it would gather
	}
	h := heap{follow: bytes <= 0}
	if !h.follow {
		debug.SetMemoryLimit(bytes / 10 * 9)
	}
	h.look()
	go func() {
		for ctx.Err() == nil {
			pause(ctx, memoryEvery)
			h.look()
		}
	}()
}

// heap tells Go how much garbage to let lie.
type heap struct {
	follow  bool // whether the limit follows what is in use
	percent int  // of what is in use that may be garbage
}

// look allows a quarter of what is in use as garbage, in a large heap a half; and in a burst, until the next look, twice what
// is in use, besides what stacks and the runtime itself take.
func (h *heap) look() {
	sample := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"},
		{Name: "/memory/classes/heap/free:bytes"}, {Name: "/memory/classes/heap/released:bytes"},
	}
	metrics.Read(sample)
	live, rest := int64(sample[0].Value.Uint64()), int64(sample[1].Value.Uint64())
	for _, ofHeap := range sample[2:] {
		rest -= int64(ofHeap.Value.Uint64())
	}
	percent := 25
	if live > smallHeap {
		percent = 50
	}
	if percent != h.percent { // setting it stops everything for a moment
		debug.SetGCPercent(percent)
		h.percent = percent
	}
	if h.follow {
		debug.SetMemoryLimit(max(2*live, garbageFrom) + rest)
	}
}

package cli

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	garbageFrom = 32 << 20        // bytes of heap that are always allowed before garbage is collected in a hurry
	memoryEvery = 2 * time.Second // between two looks at the heap
)

// limitMemory makes Go collect garbage in time. With a limit it is nine tenths of it. Without one the limit follows what
// is really in use, so that a burst of work in a small cluster does not leave the process at several times its size.
func limitMemory(ctx context.Context, bytes int64) {
	debug.SetGCPercent(50)
	if bytes > 0 {
		debug.SetMemoryLimit(bytes / 10 * 9)
		return
	}
	followHeap()
	go func() {
		for ctx.Err() == nil {
			pause(ctx, memoryEvery)
			followHeap()
		}
	}()
}

// followHeap allows twice what is in use, besides what stacks and the runtime itself take.
func followHeap() {
	sample := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"},
		{Name: "/memory/classes/heap/free:bytes"}, {Name: "/memory/classes/heap/released:bytes"},
	}
	metrics.Read(sample)
	live, rest := int64(sample[0].Value.Uint64()), int64(sample[1].Value.Uint64())
	for _, heap := range sample[2:] {
		rest -= int64(heap.Value.Uint64())
	}
	debug.SetMemoryLimit(max(2*live, garbageFrom) + rest)
}

package cli

import (
	"os"
	"runtime"
	"runtime/debug"
)

// garbagePercent is the amount of garbage at which Go collects, in percent of the live heap.
const garbagePercent = 50

// limitMemory sets Go's garbage collection relative to the live heap: the heap grows during a burst of work, and Go returns the memory to the
// system afterwards. Nine tenths of bytes become Go's memory limit; 0 or less sets no limit. A limit that follows the live heap would have to
// include the heap's fragmentation: if it were a little too low, Go would collect all the time without success.
func limitMemory(bytes int64, profiling bool) {
	if !profiling {
		runtime.MemProfileRate = 0 // its results would be inaccessible without profiling
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbagePercent)
	}
	if bytes > 0 && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(bytes / 10 * 9)
	}
}

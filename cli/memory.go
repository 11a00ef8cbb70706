package cli

import (
	"os"
	"runtime"
	"runtime/debug"
)

// garbagePercent is how much garbage may lie in the heap before it is collected, as a share of what is in use.
const garbagePercent = 50

// limitMemory makes Go collect garbage by what is in use: a burst of work lets the heap grow, and at rest Go gives back to the
// system what the burst has left. Only a limit that somebody named is Go's limit too, nine tenths of it. One that follows what is
// in use would have to know how much the heap's fragments take: a little too low, and Go collects without a pause for nothing.
func limitMemory(bytes int64, profiling bool) {
	if !profiling {
		runtime.MemProfileRate = 0 // nobody can ask for what it would gather
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbagePercent)
	}
	if bytes > 0 && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(bytes / 10 * 9)
	}
}

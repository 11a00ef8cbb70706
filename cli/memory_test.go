package cli

import (
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"testing"
)

// alone is an environment variable. It makes the test binary run one test that needs a heap of its own.
const alone = "TENON_TEST_ALONE"

// A burst leaves few objects in many spans of the heap. Small later allocations must not cause a collection after each kilobyte.
func TestAfterABurstGarbageIsCollectedAsRarelyAsBefore(t *testing.T) {
	t.Parallel()
	if os.Getenv(alone) == "" {
		command := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		command.Env = append(os.Environ(), alone+"=1")
		if out, err := command.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	limitMemory(-1, false)
	kept := burst()
	debug.FreeOSMemory() // the burst is over, whatever the state of the collector
	limitMemory(-1, false)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 5000 {
		kept[0] = make([]byte, 10<<10)
	}
	runtime.ReadMemStats(&after)
	if n := after.NumGC - before.NumGC; n > 12 {
		t.Errorf("50 MB of garbage beside %d MB in use were collected in %d turns; %d MB of the heap's spans are unused",
			before.HeapAlloc>>20, n, (before.HeapInuse-before.HeapAlloc)>>20)
	}
	runtime.KeepAlive(kept)
}

// burst allocates 128 MB and keeps a sixteenth, spread over all of it.
func burst() [][]byte {
	var all, kept [][]byte
	for range 128 << 10 {
		all = append(all, make([]byte, 1<<10))
	}
	for i := 0; i < len(all); i += 16 {
		kept = append(kept, all[i])
	}
	return kept
}

// The chart passes the container's memory limit. A user's own GOMEMLIMIT takes precedence.
func TestGoKeepsNineTenthsOfTheMemoryLimit(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	for _, c := range []struct {
		limit, want int64
		own         string
	}{{10 << 30, 9 << 30, ""}, {-1, before, ""}, {10 << 30, before, "5GiB"}} {
		debug.SetMemoryLimit(before)
		t.Setenv("GOMEMLIMIT", c.own)
		limitMemory(c.limit, true)
		if got := debug.SetMemoryLimit(-1); got != c.want {
			t.Errorf("limit %d, GOMEMLIMIT %q: Go keeps %d, want %d", c.limit, c.own, got, c.want)
		}
	}
}

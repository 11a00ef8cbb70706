package explore_test

import (
	"fmt"
	"maps"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tenon.sh/engine/enginetest"
	"tenon.sh/explore"
)

// number returns a number from the environment.
func number(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// tally is the result of many runs.
type tally struct {
	mu       sync.Mutex // guards the fields below
	broken   map[string][]explore.Result
	steps    int
	troubles int
	launches int
	shortest int
	runs     int
	told     time.Time // time of the last progress message
}

func (s *tally) add(r explore.Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps += r.Taken
	s.troubles += len(r.Happened)
	s.launches += r.Launches
	if s.shortest == 0 || r.Taken < s.shortest {
		s.shortest = r.Taken
	}
	if r.Violation != nil {
		s.broken[r.Violation.Law] = append(s.broken[r.Violation.Law], r)
	}
	s.runs++
	if testing.Verbose() && time.Since(s.told) > time.Minute {
		s.told = time.Now()
		seeds := []uint64{}
		for _, results := range s.broken {
			for _, r := range results {
				seeds = append(seeds, r.Seed)
			}
		}
		fmt.Fprintf(os.Stderr, "%d runs so far, laws broken by seeds %v\n", s.runs, seeds)
	}
}

// explorers makes the runs of seeds, on all cores, until stop returns true.
func explorers(first, runs uint64, opt explore.Options, stop func(explore.Result) bool) *tally {
	s := &tally{broken: map[string][]explore.Result{}, told: time.Now()}
	var next atomic.Uint64
	var enough atomic.Bool
	var group sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			e := explore.New()
			for !enough.Load() {
				i := next.Add(1) - 1
				if i >= runs {
					return
				}
				r := e.Run(first+i, opt)
				s.add(r)
				if stop(r) {
					enough.Store(true)
				}
			}
		})
	}
	group.Wait()
	return s
}

// Many interleavings of the real reconcilers break no law: 2,000 with make test-draws, 200 with make test. The environment variable
// EXPLORE_RUNS sets another number, EXPLORE_SEED the first seed.
func TestNoInterleavingBreaksALaw(t *testing.T) {
	t.Parallel()
	first, runs := number(t, "EXPLORE_SEED", 1), number(t, "EXPLORE_RUNS", enginetest.Draws(2000))
	began := time.Now()
	s := explorers(first, runs, explore.Options{}, func(explore.Result) bool { return false })
	t.Logf("%d runs from seed %d, %d steps (at least %d in a run), %d troubles, %d machines started, %s",
		runs, first, s.steps, s.shortest, s.troubles, s.launches, time.Since(began).Round(time.Second))
	for _, law := range slices.Sorted(maps.Keys(s.broken)) {
		results := s.broken[law]
		slices.SortFunc(results, func(a, b explore.Result) int { return int(a.Seed) - int(b.Seed) })
		seeds := []uint64{}
		for _, r := range results[:min(len(results), 20)] {
			seeds = append(seeds, r.Seed)
		}
		small := explore.New().Shrink(results[0])
		t.Errorf("%d runs broke the law %q: seeds %v\n%s\nagain: EXPLORE_SEED=%d EXPLORE_RUNS=1 go test -run %s ./explore",
			len(results), law, seeds, tell(small), results[0].Seed, t.Name())
	}
}

// A buffer that is quickly created and deleted fifty times and more leaves no machine at the end. No machine is started for it after its
// deletion, whatever faults and delays occur.
func TestABufferThatComesAndGoesLeavesNoMachine(t *testing.T) {
	t.Parallel()
	first, runs := number(t, "EXPLORE_SEED", 1), number(t, "EXPLORE_BUFFER_RUNS", enginetest.Draws(40))
	// With a cloud without machines, or an unusable class, most of these long runs would start no machine.
	opt := explore.Options{Buffers: true, Steps: 1500, Without: map[string]bool{"cloud short": true, "cloud outage": true, "user breaks or mends the node class": true}}
	s := explorers(first, runs, opt, func(r explore.Result) bool {
		n := 0
		for _, kind := range r.Kinds {
			if kind == "user makes or deletes a buffer" {
				n++
			}
		}
		if n < 100 && r.Violation == nil {
			t.Errorf("seed %d: the buffer is made %d times only", r.Seed, n/2)
		}
		return false
	})
	t.Logf("%d runs, %d machines started", runs, s.launches)
	for law, results := range s.broken {
		t.Errorf("%d runs broke the law %q\n%s", len(results), law, tell(explore.New().Shrink(results[0])))
	}
}

// tell returns the story of a run that broke a law.
func tell(r explore.Result) string {
	return fmt.Sprintf("seed %d, made smaller (%d of %d steps with trouble, troubles %v):\n%s", r.Seed, r.Wrong, r.Taken, r.Kinds, r.Story)
}

// Faults of machines and their nodes happen in these runs and have an effect.
func TestFaultsOfMachinesHappen(t *testing.T) {
	t.Parallel()
	marks := map[string]string{
		"cloud kill": "", "cloud reclaim": "", "cloud short": "", "cloud outage": "", "cloud late-register": "",
		"cloud less": "FailedConsistencyCheck", "cloud taint": "taint example.com/agent", "cloud label": "label topology.kubernetes.io/zone=",
		"cloud attach": "kubelet attach of ", "cloud gone": "NodeNotFound", "cloud bare": "kubelet bare of ", "cloud second": "-second is new",
		"cloud slices": "kubelet slices of ", "user makes a template of claims anew": "ResourceClaimTemplate", "user deletes a template of claims": "ResourceClaimTemplate",
	}
	for seed := uint64(1); len(marks) > 0 && seed < 400; seed++ {
		r := explore.New().Run(seed, explore.Options{Traced: true})
		for _, kind := range r.Kinds {
			if mark, open := marks[kind]; open && strings.Contains(r.Story, mark) {
				delete(marks, kind)
			}
		}
	}
	if len(marks) > 0 {
		t.Errorf("not seen: %q", marks)
	}
}

// The same seed gives the same run, to the last line of its story.
func TestASeedIsOneRun(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		a := explore.New().Run(seed, explore.Options{Traced: true})
		b := explore.New().Run(seed, explore.Options{Traced: true})
		if a.Story != b.Story {
			t.Errorf("seed %d: two runs differ", seed)
		}
	}
}

func TestMain(m *testing.M) {
	debug.SetGCPercent(1600) // many short-lived objects, few long-lived ones
	os.Exit(m.Run())
}

package explore_test

import (
	"testing"

	"tenon.sh/engine/enginetest"
	"tenon.sh/explore"
)

// The smaller run breaks the same law each time, in fewer steps and with fewer faults.
func TestARunIsMadeSmallerAndBreaksTheSameLaw(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		put  func() explore.Switches
	}{{"a limit that is off by one", limits(oneMore)}, {"nodes that leave are not seen to", blindToLeaving}}[:enginetest.Few(2)] {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := explore.New()
			large := e.Run(1, explore.Options{Switches: c.put()})
			for seed := uint64(2); large.Violation == nil || len(large.Happened) < 5; seed++ {
				if seed > 1000 {
					t.Fatal("no run breaks a law after much trouble")
				}
				large = e.Run(seed, explore.Options{Switches: c.put()})
			}
			small := e.Shrink(large)
			if small.Violation == nil || small.Violation.Law != large.Violation.Law {
				t.Fatalf("seed %d: broken was %v, made smaller %v", large.Seed, large.Violation, small.Violation)
			}
			if small.Wrong >= large.Wrong || len(small.Happened) >= len(large.Happened) {
				t.Errorf("seed %d: %d troubles in %d steps, made smaller %d in %d", large.Seed, len(large.Happened), large.Wrong, len(small.Happened), small.Wrong)
			}
			again := e.Run(small.Seed, small.Options)
			if again.Violation == nil || *again.Violation != *small.Violation || again.Story != small.Story || small.Story == "" {
				t.Errorf("seed %d: made smaller it broke %v with the story\n%s\nand again %v with\n%s", large.Seed, small.Violation, small.Story, again.Violation, again.Story)
			}
		})
	}
}

func TestARunThatBreaksNoLawIsNotMadeSmaller(t *testing.T) {
	t.Parallel()
	e := explore.New()
	r := e.Run(1, explore.Options{})
	if small := e.Shrink(r); r.Violation != nil || small.Violation != nil || small.Wrong != r.Wrong || small.Taken != r.Taken {
		t.Errorf("%d steps, broken was %v; made smaller %d, %v", r.Taken, r.Violation, small.Taken, small.Violation)
	}
}

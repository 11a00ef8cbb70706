package parallel_test

import (
	"strings"
	"testing"

	"tenon.sh/engine/parallel"
)

func TestAllPartsRunAndTheFirstPanicIsTheCallers(t *testing.T) {
	t.Parallel()
	parallel.Run()
	var done [4]bool
	defer func() {
		if p, ok := recover().(string); !ok || !strings.HasPrefix(p, "two") || !strings.Contains(p, "parallel_test.go") {
			t.Errorf("recovered %v", p)
		}
		if done != [4]bool{true, false, true, false} {
			t.Errorf("parts that ran to their end: %v", done)
		}
	}()
	parallel.Run(
		func() { done[0] = true },
		func() { panic("two") },
		func() { done[2] = true },
		func() { panic("four") },
	)
}

func TestRangesCoverAListOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ n, threads, least, want int }{
		{0, 4, 10, 0}, {1, 4, 10, 1}, {9, 0, 1, 1}, {10, 4, 10, 1}, {39, 4, 10, 3}, {1000, 4, 10, 4}, {7, 3, 1, 3},
	} {
		ranges, at := parallel.Ranges(c.n, c.threads, c.least), 0
		for _, x := range ranges {
			if x.From != at || x.To-x.From < min(c.n, c.least) {
				t.Errorf("%+v: %v", c, ranges)
			}
			at = x.To
		}
		if len(ranges) != c.want || at != c.n {
			t.Errorf("%+v: %v, want %d ranges", c, ranges, c.want)
		}
	}
}

package engine_test

import (
	"testing"

	"tenon.sh/engine"
	"tenon.sh/scenario/workload"
)

// A pool that asks for several values of something (minValues), of one key or of four, makes a plan take at most three times the
// work that it takes otherwise, on the full catalog of EC2: the search knows what it spends, and ends.
func TestMinValuesTakeNoMoreThanThreeTimesTheWork(t *testing.T) {
	t.Parallel()
	const pods, enough = 30, 3000 // units that are too few to compare
	worst := 0.0
	for seed := range uint64(10) {
		plain := engine.Compile(workload.Flexible(pods, seed, 0), engine.Options{}, nil).Work()
		for keys := 1; keys <= 4; keys++ {
			work := engine.Compile(workload.Flexible(pods, seed, keys), engine.Options{}, nil).Work()
			worst = max(worst, float64(work)/float64(max(plain, enough)))
			t.Logf("seed %d: %d units with minValues on %d keys, %d without", seed, work, keys, plain)
		}
	}
	if worst > 3 {
		t.Errorf("minValues take up to %.1f times the work", worst)
	}
}

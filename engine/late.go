package engine

import (
	"slices"
	"time"

	v1 "tenon.sh/api/v1"
)

const (
	// leastPatience and mostPatience bound how long a machine that has been started is counted on before it is ready. After
	// that its pods are planned for anew: some machines boot slowly, some never come.
	leastPatience = 3 * time.Minute
	mostPatience  = registrationTimeout
	// sharePatience is the share of a pool's machines, in percent, that were ready within half of its patience.
	sharePatience = 95
	// mostLate is the share of a pool's machines, in percent and rounded up, of which more cannot be late: that many have a
	// cause that others would share, and would only cost money as well.
	mostLate = 20
)

// poolStarts is what is known of how machines of a pool start.
type poolStarts struct {
	machines int           // that are not about to go
	patience time.Duration // twice as long as nearly all took that are ready by now
}

// late lists the machines that should be ready by now, by number.
func (f *fleet) late(now time.Time) []int {
	var out []int
	count := map[string]int{}
	for _, i := range f.starting {
		x := f.machines[i]
		if now.Sub(since(x.claim, v1.ConditionLaunched)) > f.startsOf(x.pool()).patience {
			count[x.pool()]++
			out = append(out, i)
		}
	}
	return slices.DeleteFunc(out, func(i int) bool {
		pool := f.machines[i].pool()
		return count[pool] > (mostLate*f.startsOf(pool).machines+99)/100
	})
}

func (f *fleet) startsOf(pool string) poolStarts {
	if p, known := f.starts[pool]; known {
		return p
	}
	p := poolStarts{patience: mostPatience}
	var took []time.Duration
	for _, x := range f.machines {
		if x.claim == nil || x.goes || x.pool() != pool {
			continue
		}
		p.machines++
		if v1.IsTrue(x.claim, v1.ConditionLaunched) && v1.IsTrue(x.claim, v1.ConditionInitialized) {
			took = append(took, since(x.claim, v1.ConditionInitialized).Sub(since(x.claim, v1.ConditionLaunched)))
		}
	}
	if len(took) > 0 {
		slices.Sort(took)
		p.patience = min(max(2*took[(len(took)-1)*sharePatience/100], leastPatience), mostPatience)
	}
	if f.starts == nil {
		f.starts = map[string]poolStarts{}
	}
	f.starts[pool] = p
	return p
}

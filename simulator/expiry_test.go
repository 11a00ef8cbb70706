package simulator_test

import (
	"testing"
	"time"
)

// Machines that were all started together grow old together. They are replaced one after another within the day before their
// end, as budgets allow, though nothing else happens in the cluster; none is left to be torn away from its pods. The same goes
// for those that replace them.
func TestMachinesThatGrowOldTogetherDoNotGoTogether(t *testing.T) {
	t.Parallel()
	const machines = 24
	c := config(t, `now 2026-03-02T00:00:00Z
catalog kwok
cloud fixed30
pool general capacity in (on-demand) budget=2 budget=(nodes=0 schedule="0 4 * * *" duration=3h) expire-after=720h
deployment web x24 cpu=1 mem=1Gi apart=hostname
`)
	c.For, c.BoundEvery = 60*24*time.Hour, 60*24*time.Hour
	r := run(t, c) // which fails when a budget is exceeded
	if begun, gone := r.Counts.Moves["Expired"], r.Counts.Removed["expired"]; begun != 2*machines || gone != begun {
		t.Errorf("%d machines were replaced because of their age and %d went because of it: want %d, two lives of each", begun, gone, 2*machines)
	}
	for _, h := range r.Hours {
		if h.Evictions > machines/4 {
			t.Errorf("%s: %d of %d machines went in one hour", h.Begin.UTC().Format(time.RFC3339), h.Evictions, machines)
		}
	}
	checkEnd(t, "sixty days", r)
}

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

// Nodes that go because of their age, one after another, are looked at as often as that is allowed, though hardly a pod leaves.
func TestWhatHasToGoDoesNotWaitUntilThereIsMuchToGain(t *testing.T) {
	t.Parallel()
	const machines = 24 // one in half an hour takes half a day, one in one and a half hours would take too long
	c := config(t, `now 2026-03-02T00:00:00Z
catalog kwok
cloud fixed30
pool general capacity in (on-demand) budget=1 expire-after=720h
deployment web x24 cpu=1 mem=1Gi apart=hostname
deployment rest x2400 cpu=10m mem=10Mi
`)
	c.For, c.BoundEvery, c.DisruptEvery = 31*24*time.Hour, 60*24*time.Hour, 30*time.Minute
	if r := run(t, c); r.Counts.Moves["Expired"] < machines || r.Counts.Removed["expired"] != r.Counts.Moves["Expired"] {
		t.Errorf("%d machines were replaced because of their age, %d went because of it: want all %d replaced", r.Counts.Moves["Expired"], r.Counts.Removed["expired"], machines)
	}
}

// A pause that ends is over when it says so, though nothing else happens.
func TestAPauseEndsThoughNothingElseHappens(t *testing.T) {
	t.Parallel()
	c := config(t, `now 2026-03-02T00:00:00Z
pool general budget=100% pause=2026-03-02T03:00:00Z
type two cpu=2 mem=4Gi price=0.05
node idle pool=general type=two zone=a quiet=10m
`)
	c.For = 2 * time.Hour
	if r := run(t, c); r.AtEnd.Machines != 1 {
		t.Errorf("during the pause: %+v, %d machines", r.Counts.Moves, r.AtEnd.Machines)
	}
	c.For = 4 * time.Hour
	if r := run(t, c); r.Counts.Moves["Empty"] != 1 || r.AtEnd.Machines != 0 {
		t.Errorf("after the pause: %+v, %d machines", r.Counts.Moves, r.AtEnd.Machines)
	}
}

package simulator_test

import (
	"fmt"
	"testing"
	"time"

	"tenon.sh/engine/enginetest"
	"tenon.sh/simulator"
)

// jobsEvery is a cluster that has nothing to do but to run one pod for ten seconds every so many minutes: of one CronJob, or each time
// of another one, so that none is known to come again soon.
func jobsEvery(t *testing.T, minutes int, oneOwner bool) simulator.Config {
	t.Helper()
	world := "now 2026-03-02T00:00:30Z\ncatalog aws\ncloud aws-typical\n" +
		"pool general consolidate-after=0s capacity in (on-demand) arch in (amd64) karpenter.k8s.aws/instance-category in (c,m,r)\n"
	schedule := fmt.Sprintf("*/%d * * * *", minutes)
	if oneOwner {
		world += fmt.Sprintf("cronjob report x1 schedule=%q runs=10s cpu=500m mem=500Mi\n", schedule)
	} else {
		for minute := 0; minute < 60; minute += minutes {
			world += fmt.Sprintf("cronjob report-%d x1 schedule=\"%d * * * *\" runs=10s cpu=500m mem=500Mi\n", minute, minute)
		}
	}
	c := config(t, world)
	c.WarmUp, c.For, c.DisruptEvery, c.BoundEvery, c.Audit = 10*time.Minute, 2*time.Hour, simulator.Moment, 2*time.Hour, false
	return c
}

// A machine that a CronJob needs again soon stays for it, and one that it needs later does not, however often it comes: the bill is
// lower, or a quarter higher at most where the pods do not wait any more.
func TestAMachineStaysForACronJobWhileThatCostsLessThanAnother(t *testing.T) {
	enginetest.Long(t)
	t.Parallel()
	for _, c := range []struct {
		minutes  int
		machines float64 // at most, of those that are started where no owner comes again
		usd      float64 // the same of what is paid
		same     bool    // nothing is kept
	}{
		{1, 0.3, 0.9, false},
		{2, 1, 1.25, false},
		{5, 1, 1.1, true},
		{30, 1, 1.1, true},
	} {
		t.Run(fmt.Sprint(c.minutes), func(t *testing.T) {
			t.Parallel()
			started, startedWithout, cost, costWithout := 0.0, 0.0, 0.0, 0.0
			for seed := range uint64(2) {
				one, many := jobsEvery(t, c.minutes, true), jobsEvery(t, c.minutes, false)
				one.Seed, many.Seed = seed, seed
				with, without := run(t, one), run(t, many)
				t.Logf("seed %d: %d machines for %.4f USD, %d for %.4f USD without; half of the pods wait %.0f and %.0f s",
					seed, with.Counts.Launched, with.Cost, without.Counts.Launched, without.Cost, with.Waited.Median, without.Waited.Median)
				started, startedWithout = started+float64(with.Counts.Launched), startedWithout+float64(without.Counts.Launched)
				cost, costWithout = cost+with.Cost, costWithout+without.Cost
			}
			if started > c.machines*startedWithout || c.same && started < 0.95*startedWithout {
				t.Errorf("%v machines were started, and %v for pods of which none comes again", started, startedWithout)
			}
			if cost > c.usd*costWithout {
				t.Errorf("%.4f USD, and %.4f for pods of which none comes again", cost, costWithout)
			}
		})
	}
}

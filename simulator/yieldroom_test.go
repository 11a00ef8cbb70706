package simulator_test

import (
	"testing"
	"time"
)

// Room has taken all of the limit when a pod comes that could not run on its machines: one machine makes way, the pod runs, and that is all that
// happens in two days. Where the pod's type is sold out, machines make way in vain ever more rarely, once an hour in the end.
func TestRoomAtALimitMakesWayOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		fault          string
		least, most    int // machines that are started
		sooner, latest time.Duration
	}{
		{"", 1, 1, 0, 2 * time.Minute},
		{"fault short at=0s for=40h type=arm", 36, 50, 40 * time.Hour, 42 * time.Hour},
	} {
		cfg := config(t, `now 2026-03-02T00:00:00Z
cloud fixed30
pool general limits=cpu:4 consolidate-after=1m budget=100%
type two cpu=2 mem=4Gi price=0.10
type arm cpu=2 mem=4Gi arch=arm64 price=0.15
buffer web replicas=2 cpu=1500m mem=1Gi
node n pool=general type=two zone=a quiet=10m
node m pool=general type=two zone=a quiet=10m
pod real cpu=1500m mem=1Gi arch in (arm64) age=0s
`+c.fault+"\n")
		cfg.WarmUp, cfg.For = 0, 48*time.Hour
		r := run(t, cfg)
		waited := time.Duration(r.Waited.Most * float64(time.Second))
		if n := r.Counts.Launched; n < c.least || n > c.most || r.Counts.Moves["Empty"] != n || len(r.Counts.Moves) != 1 {
			t.Errorf("%q: %d machines were started, and there were these disruptions: %v", c.fault, n, r.Counts.Moves)
		}
		if r.Counts.Unserved > 0 || waited < c.sooner || waited > c.latest {
			t.Errorf("%q: the pod waited for %v, %d wait", c.fault, waited, r.Counts.Unserved)
		}
	}
}

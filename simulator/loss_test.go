package simulator_test

import (
	"testing"
	"time"
)

// The cloud takes all spot machines of a zone. Of a workload with machines in both half are lost; all are where the cloud could start them
// wherever it liked.
func TestHalfOfAWorkloadIsLostWithAZone(t *testing.T) {
	t.Parallel()
	const cluster = `now 2026-03-02T00:00:00Z
cloud aws-typical
pool general consolidate-after=Never capacity in (spot)
type small cpu=2 mem=4Gi zones=a,b price=0.10 spot=0.03
deployment web x4 cpu=1500m mem=1Gi
deployment alone x1 cpu=1500m mem=1Gi
fault reclaim at=3h zone=a share=100%
`
	for share, want := range map[float64]float64{0: 0.5, -1: 1} {
		c := config(t, cluster)
		c.For, c.Options.SpotSpreadShare = 4*time.Hour, share
		if r := run(t, c); r.MostLost != want || r.AtEnd.Waiting > 0 {
			t.Errorf("with %v, %v of a workload were lost at once, want %v; %d pods wait", share, r.MostLost, want, r.AtEnd.Waiting)
		}
	}
}

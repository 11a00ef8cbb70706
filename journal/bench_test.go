package journal

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"k8s.io/utils/clock"
)

// BenchmarkFull fills a journal up to its limits: records of two machines with all steps of their life, and as many pod names as a record
// holds.
func BenchmarkFull(b *testing.B) {
	var kept *Journal
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for b.Loop() {
		kept = New(clock.RealClock{})
		now := time.Date(2026, 1, 5, 12, 0, 0, 0, time.UTC)
		for i := range mostRecords + 100 {
			r := Record{Time: now, Kind: Launch, Reason: Pending, NodePools: []string{"general"}, Says: fmt.Sprintf("%d machines", i), Pods: mostPodNames}
			for p := range mostPodNames {
				r.PodNames = append(r.PodNames, fmt.Sprintf("shop/web-7c9d8f6b5-%d-%d", i, p))
			}
			for m := range mostMachines / mostRecords {
				r.Machines = append(r.Machines, Machine{Comes: true, Claim: fmt.Sprintf("general-%d-%d", i, m), NodePool: "general", InstanceType: "m7g.large", PricePerHour: new(0.1)})
			}
			for m := range r.Machines {
				for _, what := range []What{Asked, Launched, Registered, Ready} {
					r.apply(Step{Time: now, Claim: r.Machines[m].Claim, What: what})
				}
			}
			r = r.named()
			kept.append(&r)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/1e6, "MB")
	runtime.KeepAlive(kept)
}

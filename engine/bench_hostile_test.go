package engine_test

import (
	"fmt"
	"testing"
	"time"

	"tenon.sh/engine"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario/workload"
)

// BenchmarkHostile reports how many seconds a plan takes for each megabyte of pods of one namespace that ask for as much of one
// kind, or of all, as fits their bytes, beyond what it takes for as many pods that ask for nothing; beside 50 pods of others.
func BenchmarkHostile(b *testing.B) {
	run := func(megabytes int, name string, kinds ...string) {
		b.Run(fmt.Sprintf("%s/%dMB", name, megabytes), func(b *testing.B) {
			hostile, plain := workload.Hostile(workload.Flexible(50, 1, 0), megabytes*1_000_000, 1, kinds...)
			var beyond time.Duration
			unplaced := 0
			for b.Loop() {
				beyond += elapsed(func() { unplaced = len(provisioning.Plan(hostile, engine.Options{}, nil).Unplaced) })
				beyond -= elapsed(func() { provisioning.Plan(plain, engine.Options{}, nil) })
			}
			b.ReportMetric(beyond.Seconds()/float64(b.N)/float64(megabytes), "s/MB")
			b.ReportMetric(float64(len(hostile.Pods)), "pods")
			b.ReportMetric(float64(unplaced), "unplaced")
		})
	}
	for _, megabytes := range []int{1, 4} {
		for _, kind := range workload.HostileKinds() {
			run(megabytes, kind, kind)
		}
		run(megabytes, "all", workload.HostileKinds()...)
	}
}

func elapsed(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}

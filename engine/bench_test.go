package engine_test

import (
	"fmt"
	"math"
	"runtime"
	"runtime/metrics"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario/workload"
)

// The large cluster that every benchmark is repeated on.
const (
	manyNodes   = 5_000
	manyRunning = 100_000
)

// benchmark plans the pending pods of the snapshot that draw makes, in an empty cluster and in a large one. Snapshots are
// drawn outside the timer.
func benchmark(b *testing.B, name string, opt engine.Options, draw func() *engine.Snapshot) {
	b.Run(name+"/empty", func(b *testing.B) { provision(b, draw(), opt) })
	b.Run(name+"/on-5000-nodes", func(b *testing.B) { provision(b, workload.Running(draw(), manyNodes, manyRunning, 1), opt) })
}

func provision(b *testing.B, s *engine.Snapshot, opt engine.Options) {
	pods := pendingPods(s)
	runtime.GC()
	b.ReportAllocs()
	var plan *engine.Plan
	for b.Loop() {
		plan = provisioning.Plan(s, opt, nil)
	}
	report(b, plan, pods)
}

// report adds what a plan comes to. The number of unplaced pods is 0 for every benchmark here; another one means that the
// time is not what it seems.
func report(b *testing.B, plan *engine.Plan, pods int) {
	b.ReportMetric(float64(pods)*float64(b.N)/b.Elapsed().Seconds(), "pods/s")
	b.ReportMetric(float64(len(plan.Launches)), "nodes")
	b.ReportMetric(float64(len(plan.Unplaced)), "unplaced")
	if plan.Cost.Bound > 0 {
		b.ReportMetric(plan.Cost.LaunchesPerHour/plan.Cost.Bound, "cost/bound")
	}
}

func pendingPods(s *engine.Snapshot) int {
	count := 0
	for _, pod := range s.Pods {
		if kube.IsPending(pod) {
			count++
		}
	}
	return count
}

func BenchmarkDiverse(b *testing.B) {
	for _, pods := range []int{100, 1_000, 10_000, 100_000} {
		benchmark(b, fmt.Sprint(pods), engine.Options{}, func() *engine.Snapshot { return workload.Diverse(pods, 1) })
	}
}

func BenchmarkPreference(b *testing.B) {
	draw := func() *engine.Snapshot { return workload.Preference(4_000, 1) }
	benchmark(b, "Respect", engine.Options{}, draw)
	benchmark(b, "Weighted", engine.Options{Preferences: engine.Weighted}, draw)
}

func BenchmarkCost(b *testing.B) {
	for _, c := range workload.CostCases() {
		benchmark(b, c.Name(), engine.Options{}, func() *engine.Snapshot { return workload.Cost(c.Kind, c.Pods, 1, v1.CapacityTypeOnDemand) })
	}
}

// BenchmarkIncremental times the pass that a busy controller makes most often: 100 pods are new since the last one, on a
// large cluster that is otherwise as it was, and the cache remembers it.
func BenchmarkIncremental(b *testing.B) {
	const added = 100
	base := workload.Running(workload.Cost(workload.Mix, added, 1, v1.CapacityTypeOnDemand), manyNodes, manyRunning, 1)
	running := slices.DeleteFunc(slices.Clone(base.Pods), kube.IsPending)
	pass := func(b *testing.B, cache *inventory.Cache) {
		provisioning.Plan(base, engine.Options{}, cache)
		runtime.GC()
		b.ReportAllocs()
		var plan *engine.Plan
		seed := uint64(1)
		for b.Loop() {
			b.StopTimer()
			seed++
			next := *base
			next.Pods = slices.Concat(running, mixed(added, seed))
			b.StartTimer()
			plan = provisioning.Plan(&next, engine.Options{}, cache)
		}
		report(b, plan, added)
	}
	b.Run("warm", func(b *testing.B) { pass(b, &inventory.Cache{}) })
	b.Run("cold", func(b *testing.B) { pass(b, nil) })
}

// mixed are pending pods that no other seed has.
func mixed(count int, seed uint64) []*corev1.Pod {
	return workload.Cost(workload.Mix, count, seed, v1.CapacityTypeOnDemand).Pods
}

// BenchmarkGrowth says how the time grows with the number of pods: with the power that it reports as exponent, fitted to
// 1, 2, 4 and 8 times 10,000. Of several rounds the fastest counts.
func BenchmarkGrowth(b *testing.B) {
	var snapshots []*engine.Snapshot
	for _, times := range []int{1, 2, 4, 8} {
		snapshots = append(snapshots, workload.Diverse(times*10_000, 1))
	}
	fastest := slices.Repeat([]float64{math.Inf(1)}, len(snapshots))
	for b.Loop() {
		for i, s := range snapshots {
			runtime.GC()
			began := time.Now()
			provisioning.Plan(s, engine.Options{}, nil)
			fastest[i] = min(fastest[i], time.Since(began).Seconds())
		}
	}
	for i, s := range snapshots {
		b.ReportMetric(fastest[i], fmt.Sprintf("s/%d-pods", len(s.Pods)))
	}
	b.ReportMetric(exponent(fastest), "exponent")
}

// exponent is the slope of the line of least squares through the logarithms of the times, each of which is for twice as
// many pods as the one before.
func exponent(seconds []float64) float64 {
	var x, y, xx, xy float64
	for i, s := range seconds {
		u, v := float64(i), math.Log2(s)
		x, y, xx, xy = x+u, y+v, xx+u*u, xy+u*v
	}
	n := float64(len(seconds))
	return (n*xy - x*y) / (n*xx - x*x)
}

// BenchmarkMemory says how large the heap gets beyond the snapshot itself, garbage that is not collected yet included.
func BenchmarkMemory(b *testing.B) {
	measure := func(b *testing.B, draw func() *engine.Snapshot) {
		empty := heapAfterGC()
		s := draw()
		full := heapAfterGC()
		peak := watchedPeak(func() {
			for b.Loop() {
				provisioning.Plan(s, engine.Options{}, nil)
			}
		})
		b.ReportMetric(float64(full-empty)/(1<<20), "snapshot-MiB")
		b.ReportMetric(float64(peak-full)/(1<<20), "peak-MiB")
		runtime.KeepAlive(s)
	}
	draw := func() *engine.Snapshot { return workload.Diverse(100_000, 1) }
	b.Run("diverse-100000/empty", func(b *testing.B) { measure(b, draw) })
	b.Run("diverse-100000/on-5000-nodes", func(b *testing.B) {
		measure(b, func() *engine.Snapshot { return workload.Running(draw(), manyNodes, manyRunning, 1) })
	})
}

func heapAfterGC() int64 {
	runtime.GC()
	return heapNow()
}

func heapNow() int64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}

// watchedPeak is the largest heap, looked at once a millisecond, while work runs.
func watchedPeak(work func()) int64 {
	stop, largest := make(chan struct{}), make(chan int64)
	go func() {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		peak := heapNow()
		for {
			select {
			case <-tick.C:
				peak = max(peak, heapNow())
			case <-stop:
				largest <- peak
				return
			}
		}
	}()
	work()
	close(stop)
	return <-largest
}

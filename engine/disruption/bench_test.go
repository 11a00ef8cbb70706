package disruption_test

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/disruption"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario"
	"tenon.sh/scenario/scenariotest"
	"tenon.sh/scenario/workload"
)

// quiet returns a cluster that 30 % of the pods have left. It still has this number of pods, about 20 on each node.
func quiet(kind string, pods int) *engine.Snapshot {
	largest := map[string]int{workload.Web: 16, workload.Mix: 32}[kind]
	return workload.ScaledDown(workload.Cost(kind, pods*10/7+1, 1, v1.CapacityTypeOnDemand), scenariotest.Hasty(largest), 0.3, 1)
}

// uneven is a cluster whose pods all differ and whose nodes are of 40 types, many of them dear.
func uneven(nodes int) *engine.Snapshot {
	s := workload.Running(workload.Cost(workload.Mix, 0, 1, v1.CapacityTypeOnDemand), nodes, 20*nodes, 1)
	s.NodePools[0].Spec.Disruption.Budgets = []v1.Budget{{Nodes: "100%"}}
	return s
}

// asController are the options of passes that use the machine as a controller does.
func asController() engine.Options { return engine.Options{Threads: runtime.GOMAXPROCS(0)} }

// BenchmarkDisrupt times whole passes over clusters with much to save. The passes of a controller have a warm cache.
func BenchmarkDisrupt(b *testing.B) {
	pass := func(name string, draw func() *engine.Snapshot, cache *inventory.Cache) {
		b.Run(name, func(b *testing.B) {
			s := draw()
			if cache != nil {
				disruption.Plan(s, asController(), cache)
			}
			runtime.GC()
			b.ReportAllocs()
			gone, saving := 0, 0.0
			for b.Loop() {
				plan := disruption.Plan(s, asController(), cache)
				gone, saving = nodesOf(plan), 0
				for _, d := range plan.Disruptions {
					saving += d.SavingPerHour
				}
			}
			b.ReportMetric(saving, "$/h")
			b.ReportMetric(float64(len(s.Nodes)), "nodes")
			b.ReportMetric(float64(len(s.Pods)), "pods")
			b.ReportMetric(float64(gone), "disrupted")
		})
	}
	for _, pods := range []int{6_000, scenariotest.ManyRunning} {
		pass(fmt.Sprint("web/", pods), func() *engine.Snapshot { return quiet(workload.Web, pods) }, nil)
		pass(fmt.Sprint("mix/", pods), func() *engine.Snapshot { return quiet(workload.Mix, pods) }, nil)
		pass(fmt.Sprint("mix-warm/", pods), func() *engine.Snapshot { return quiet(workload.Mix, pods) }, &inventory.Cache{})
		pass(fmt.Sprint("uneven/", pods), func() *engine.Snapshot { return uneven(pods / 20) }, nil)
	}
}

func nodesOf(plan *engine.Plan) int {
	n := 0
	for _, d := range plan.Disruptions {
		n += len(d.Nodes)
	}
	return n
}

// BenchmarkDisruptIncremental times the pass after one pod has come or left, in a cluster where nothing more can be saved and with a cache
// of the passes before.
func BenchmarkDisruptIncremental(b *testing.B) {
	s := consolidated(quiet(workload.Web, scenariotest.ManyRunning), scenariotest.Hasty(16))
	pass := func(b *testing.B, change func(pods []*corev1.Pod, i int) []*corev1.Pod) {
		cache, next := &inventory.Cache{}, *s
		next.EarlierPasses = &engine.EarlierPasses{}
		next.EarlierPasses = disruption.Plan(&next, asController(), cache).Passes
		runtime.GC()
		b.ReportAllocs()
		gone, i := 0, 0
		for b.Loop() {
			b.StopTimer()
			i++
			changed := next
			changed.Pods = change(next.Pods, i)
			b.StartTimer()
			plan := disruption.Plan(&changed, asController(), cache)
			next.EarlierPasses = plan.Passes
			if len(plan.Disruptions) == 0 {
				next.Pods = changed.Pods
			} else {
				gone++
			}
		}
		b.ReportMetric(float64(len(s.Nodes)), "nodes")
		b.ReportMetric(float64(len(s.Pods)), "pods")
		b.ReportMetric(float64(gone)/float64(b.N), "disruptions")
	}
	b.Run("came", func(b *testing.B) {
		pass(b, func(pods []*corev1.Pod, i int) []*corev1.Pod {
			at := i * 7919 % len(pods)
			came := pods[at].DeepCopy()
			came.Name = fmt.Sprint("came-", i)
			return slices.Insert(slices.Clone(pods), at, came)
		})
	})
	b.Run("left", func(b *testing.B) {
		pass(b, func(pods []*corev1.Pod, i int) []*corev1.Pod {
			at := i * 7919 % len(pods)
			return slices.Delete(slices.Clone(pods), at, at+1)
		})
	})
}

// consolidated makes passes until one finds nothing.
func consolidated(s *engine.Snapshot, opt engine.Options) *engine.Snapshot {
	for {
		plan := disruption.Plan(s, opt, nil)
		if len(plan.Disruptions) == 0 {
			return s
		}
		s = scenario.MoveOver(s, plan)
		s = scenario.CarryOut(s, provisioning.Plan(s, opt, nil))
		s.Now = s.Now.Add(61 * time.Minute)
	}
}

// BenchmarkDisruptGrowth reports how the time of a pass grows with the cluster, like BenchmarkGrowth.
func BenchmarkDisruptGrowth(b *testing.B) {
	var snapshots []*engine.Snapshot
	for _, times := range []int{1, 2, 4, 8} {
		snapshots = append(snapshots, quiet(workload.Web, times*25_000))
	}
	fastest := slices.Repeat([]float64{math.Inf(1)}, len(snapshots))
	for b.Loop() {
		for i, s := range snapshots {
			runtime.GC()
			began := time.Now()
			disruption.Plan(s, asController(), nil)
			fastest[i] = min(fastest[i], time.Since(began).Seconds())
		}
	}
	for i, s := range snapshots {
		b.ReportMetric(fastest[i], fmt.Sprintf("s/%d-pods", len(s.Pods)))
	}
	b.ReportMetric(scenariotest.Exponent(fastest), "exponent")
}

// BenchmarkDisruptMemory is BenchmarkMemory for passes.
func BenchmarkDisruptMemory(b *testing.B) {
	empty := scenariotest.HeapAfterGC()
	s := uneven(scenariotest.ManyNodes)
	full := scenariotest.HeapAfterGC()
	peak := scenariotest.WatchedPeak(func() {
		for b.Loop() {
			disruption.Plan(s, asController(), nil)
		}
	})
	b.ReportMetric(float64(full-empty)/(1<<20), "snapshot-MiB")
	b.ReportMetric(float64(peak-full)/(1<<20), "peak-MiB")
	runtime.KeepAlive(s)
}

package engine_test

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"testing"
	"time"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/scenario"
	"tenon.sh/scenario/workload"
)

// hasty plans the clusters that passes start from: how cheap they are does not matter.
func hasty(largest int) engine.Options { return engine.Options{Effort: -1, LargestCPU: largest} }

// quiet is the cluster of so many nodes after 30 % of its pods have left: about 20 of them are left on each node.
func quiet(kind string, nodes int) *engine.Snapshot {
	largest := map[string]int{workload.Web: 16, workload.Mix: 32}[kind]
	per := map[string]int{workload.Web: 23, workload.Mix: 37}[kind]
	return workload.ScaledDown(workload.Cost(kind, nodes*per, 1, v1.CapacityTypeOnDemand), hasty(largest), 0.3, 1)
}

// uneven is a cluster whose pods all differ and whose nodes are of 40 types, many of them dear.
func uneven(nodes int) *engine.Snapshot {
	s := workload.Running(workload.Cost(workload.Mix, 0, 1, v1.CapacityTypeOnDemand), nodes, 20*nodes, 1)
	s.NodePools[0].Spec.Disruption.Budgets = []v1.Budget{{Nodes: "100%"}}
	return s
}

// BenchmarkDisrupt times whole passes over clusters where much is to be had.
func BenchmarkDisrupt(b *testing.B) {
	pass := func(name string, draw func() *engine.Snapshot) {
		b.Run(name, func(b *testing.B) {
			s := draw()
			runtime.GC()
			b.ReportAllocs()
			gone := 0
			for b.Loop() {
				gone = nodesOf(engine.Disrupt(s, engine.Options{}, nil))
			}
			b.ReportMetric(float64(len(s.Nodes)), "nodes")
			b.ReportMetric(float64(len(s.Pods)), "pods")
			b.ReportMetric(float64(gone), "disrupted")
		})
	}
	for _, nodes := range []int{300, manyNodes} {
		pass(fmt.Sprint("web/", nodes), func() *engine.Snapshot { return quiet(workload.Web, nodes) })
		pass(fmt.Sprint("mix/", nodes), func() *engine.Snapshot { return quiet(workload.Mix, nodes) })
		pass(fmt.Sprint("uneven/", nodes), func() *engine.Snapshot { return uneven(nodes) })
	}
}

func nodesOf(plan *engine.Plan) int {
	n := 0
	for _, d := range plan.Disruptions {
		n += len(d.Nodes)
	}
	return n
}

// BenchmarkDisruptIncremental times the pass after one change in a cluster where nothing is to be had any more: one pod has
// left, and the memo remembers the rest.
func BenchmarkDisruptIncremental(b *testing.B) {
	s := consolidated(quiet(workload.Web, manyNodes), hasty(16))
	memo := &engine.Memo{}
	engine.DisruptAgain(s, engine.Options{}, memo)
	runtime.GC()
	b.ReportAllocs()
	gone, at := 0, 0
	for b.Loop() {
		b.StopTimer()
		next := *s
		at = (at + 7919) % len(s.Pods)
		next.Pods = slices.Delete(slices.Clone(s.Pods), at, at+1)
		b.StartTimer()
		gone = nodesOf(engine.DisruptAgain(&next, engine.Options{}, memo))
	}
	b.ReportMetric(float64(len(s.Nodes)), "nodes")
	b.ReportMetric(float64(gone), "disrupted")
}

// consolidated plays passes until one finds nothing.
func consolidated(s *engine.Snapshot, opt engine.Options) *engine.Snapshot {
	for {
		plan := engine.Disrupt(s, opt, nil)
		if len(plan.Disruptions) == 0 {
			return s
		}
		s = scenario.MoveOver(s, plan)
		s = scenario.CarryOut(s, engine.Provision(s, opt, nil))
		s.Now = s.Now.Add(61 * time.Minute)
	}
}

// BenchmarkDisruptGrowth says how the time of a pass grows with the number of nodes, as BenchmarkGrowth does.
func BenchmarkDisruptGrowth(b *testing.B) {
	var snapshots []*engine.Snapshot
	for _, nodes := range []int{1_250, 2_500, 5_000, 10_000} {
		snapshots = append(snapshots, quiet(workload.Web, nodes))
	}
	fastest := slices.Repeat([]float64{math.Inf(1)}, len(snapshots))
	for b.Loop() {
		for i, s := range snapshots {
			runtime.GC()
			began := time.Now()
			engine.Disrupt(s, engine.Options{}, nil)
			fastest[i] = min(fastest[i], time.Since(began).Seconds())
		}
	}
	for i, s := range snapshots {
		b.ReportMetric(fastest[i], fmt.Sprintf("s/%d-nodes", len(s.Nodes)))
	}
	b.ReportMetric(exponent(fastest), "exponent")
}

// BenchmarkDisruptMemory is BenchmarkMemory for passes.
func BenchmarkDisruptMemory(b *testing.B) {
	empty := heapAfterGC()
	s := uneven(manyNodes)
	full := heapAfterGC()
	peak := watchedPeak(func() {
		for b.Loop() {
			engine.Disrupt(s, engine.Options{}, nil)
		}
	})
	b.ReportMetric(float64(full-empty)/(1<<20), "snapshot-MiB")
	b.ReportMetric(float64(peak-full)/(1<<20), "peak-MiB")
	runtime.KeepAlive(s)
}

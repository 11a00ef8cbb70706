package provisioning_test

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"tenon.sh/api/autoscalingv1beta1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/api/v1alpha1"
	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/overlay"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario"
	"tenon.sh/scenario/scenariotest"
	"tenon.sh/scenario/workload"
)

// BenchmarkBuffers makes plans without and with CapacityBuffers, in turn, because other work of the machine then slows both alike: 500
// buffers of one pod beside 10,000 waiting pods, of 10 sizes and of 150, and 100 buffers of 100 pods on existing machines. It reports how
// much longer a plan with buffers takes, in milliseconds and as a part of one without.
func BenchmarkBuffers(b *testing.B) {
	for _, c := range []struct{ buffers, size, sizes, pods int }{{500, 1, 10, 10_000}, {500, 1, 150, 10_000}, {100, 100, 100, 0}} {
		b.Run(fmt.Sprintf("%dx%d-of-%d-beside-%d", c.buffers, c.size, c.sizes, c.pods), func(b *testing.B) {
			s := workload.Diverse(max(c.pods, 1), 1)
			if c.pods == 0 {
				s.Pods = nil
			}
			with := *s
			for i := range c.buffers {
				kind := i % c.sizes
				meta := metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("room-%d", i), UID: types.UID(fmt.Sprint("room-", i)), ResourceVersion: "1"}
				template := &corev1.PodTemplate{ObjectMeta: meta}
				template.Template.Spec.Containers = []corev1.Container{{Name: "a", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
					corev1.ResourceCPU: resource.MustParse(fmt.Sprint(100+10*(kind%50), "m")), corev1.ResourceMemory: resource.MustParse(fmt.Sprint(256+64*(kind%30), "Mi")),
				}}}}
				buffer := &autoscalingv1beta1.CapacityBuffer{ObjectMeta: meta}
				buffer.Spec.PodTemplateRef, buffer.Spec.Replicas = &autoscalingv1beta1.LocalObjectRef{Name: meta.Name}, new(int32(c.size))
				with.PodTemplates, with.CapacityBuffers = append(with.PodTemplates, template), append(with.CapacityBuffers, buffer)
			}
			if c.pods == 0 {
				with = *scenario.CarryOut(&with, provisioning.Plan(&with, scenariotest.Hasty(0), nil))
				rest := with
				rest.CapacityBuffers = nil
				s = &rest
			}
			plain, buffered := &inventory.Cache{}, &inventory.Cache{}
			plan := func(s *engine.Snapshot, cache *inventory.Cache) float64 {
				began := time.Now()
				provisioning.Plan(s, engine.Options{}, cache)
				return time.Since(began).Seconds() * 1e3
			}
			plan(s, plain)
			plan(&with, buffered)
			var more, parts []float64
			for b.Loop() {
				without, spent := plan(s, plain), plan(&with, buffered)
				more, parts = append(more, spent-without), append(parts, spent/without)
			}
			slices.Sort(more)
			slices.Sort(parts)
			b.ReportMetric(more[len(more)/2], "more-ms")
			if c.pods > 0 {
				b.ReportMetric(parts[len(parts)/2], "of-without")
			}
		})
	}
}

// BenchmarkGangs plans gangs on the whole catalog of EC2: one of 512 pods with 8 GPUs each, and 50 of 20 pods, of which the pool's limit has
// room for some.
func BenchmarkGangs(b *testing.B) {
	many := "pool general limits=cpu:600\ncatalog aws\n"
	for i := range 50 {
		many += fmt.Sprintf("gang g%d min=20 age=%ds\npods g%d x20 cpu=1500m mem=3Gi gang=g%d\n", i, i, i, i)
	}
	for name, text := range map[string]string{
		"512x8gpu": "pool general\ncatalog aws\ngang train min=512\npods train x512 cpu=32 mem=256Gi nvidia.com/gpu=8 gang=train\n",
		"scarce":   many,
	} {
		b.Run(name, func(b *testing.B) {
			f, err := scenario.Parse(text)
			if err != nil {
				b.Fatal(err)
			}
			launches := 0
			for b.Loop() {
				launches = len(provisioning.Plan(f.Snapshot, engine.Options{}, nil).Launches)
			}
			b.ReportMetric(float64(launches), "launches")
		})
	}
}

// BenchmarkHostile reports the seconds that each megabyte of hostile pods adds to a plan. The hostile pods are of one namespace, and ask for as much
// of one kind, or of all, as fits their bytes. The plan without them has as many plain pods. Both have 50 pods of other namespaces.
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

// BenchmarkOverlays makes the same plans without overlays, and with 50 that change no proportion, from catalogs that have been corrected
// before, as in a cluster at work. One round makes one plan of each kind, because other work of the machine then slows both alike. The
// metric is the time with overlays as a part of that without.
func BenchmarkOverlays(b *testing.B) {
	s := workload.Diverse(2_000, 1)
	with := *s
	for i := range 50 {
		o := &v1alpha1.NodeOverlay{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("overlay-%d", i), ResourceVersion: "1"}}
		o.Spec.PriceAdjustment, o.Spec.Weight = new("+0%"), new(int32(i+1))
		o.Spec.Requirements = []v1alpha1.Requirement{{Key: corev1.LabelInstanceTypeStable, Operator: v1.In}}
		for j, t := range s.Classes[0].InstanceTypes {
			if j%50 == i {
				o.Spec.Requirements[0].Values = append(o.Spec.Requirements[0].Values, t.Name)
			}
		}
		with.NodeOverlays = append(with.NodeOverlays, o)
	}
	memo, plain, corrected := overlay.Memo{}, &inventory.Cache{}, &inventory.Cache{}
	run := func(s *engine.Snapshot, cache *inventory.Cache) (plan *engine.Plan, took float64) {
		began := time.Now()
		at := *s
		if len(at.NodeOverlays) > 0 {
			memo.Lay(&at)
		}
		plan = provisioning.Plan(&at, engine.Options{}, cache)
		return plan, float64(time.Since(began))
	}
	run(&with, corrected)
	run(s, plain)
	var parts []float64
	for b.Loop() {
		a, without := run(s, plain)
		c, spent := run(&with, corrected)
		if a.Cost.LaunchesPerHour != c.Cost.LaunchesPerHour {
			b.Fatalf("prices are the same, and the plans cost %v and %v", a.Cost.LaunchesPerHour, c.Cost.LaunchesPerHour)
		}
		parts = append(parts, spent/without)
	}
	slices.Sort(parts)
	b.ReportMetric(parts[len(parts)/2], "of-without")
}

// BenchmarkManyRequests plans for many ProvisioningRequests of both classes, most of which find no room, on nodes that have some.
func BenchmarkManyRequests(b *testing.B) {
	for _, class := range []string{"check", "atomic"} {
		for _, n := range []int{125, 250, 500, 1000} {
			b.Run(fmt.Sprintf("%s/%d", class, n), func(b *testing.B) {
				file, err := scenario.Parse(manyRequests(class, n))
				if err != nil {
					b.Fatal(err)
				}
				cache := &inventory.Cache{}
				for b.Loop() {
					provisioning.Plan(file.Snapshot, file.Options, cache)
				}
			})
		}
	}
}

// manyRequests is a cluster of 100 nodes with a fifth of its room left, and so many requests of various sizes.
func manyRequests(class string, n int) string {
	text := "pool general limits=cpu:500\ntype four cpu=4 mem=16Gi price=0.2\n"
	for i := range 100 {
		text += fmt.Sprintf("node n%d pool=general type=four\npod p%d cpu=3 node=n%d\n", i, i, i)
	}
	for i := range n {
		text += fmt.Sprintf("request r%d class=%s count=%d cpu=%dm age=%ds\n", i, class, 3+i%7, 500+100*(i%5), n-i)
	}
	return text
}

// benchmark plans the pending pods of the snapshot that draw makes, in an empty cluster and in a large one. Snapshots are
// drawn outside the timer.
func benchmark(b *testing.B, name string, opt engine.Options, draw func() *engine.Snapshot) {
	b.Run(name+"/empty", func(b *testing.B) { provision(b, draw(), opt) })
	b.Run(name+"/on-5000-nodes", func(b *testing.B) {
		provision(b, workload.Running(draw(), scenariotest.ManyNodes, scenariotest.ManyRunning, 1), opt)
	})
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

// report adds metrics of a plan. The number of unplaced pods is 0 for every benchmark here; another number means that the time is of no use.
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

// BenchmarkIncremental times the pass that a busy controller makes most often: 100 pods are new on a large cluster that has not changed
// otherwise, and the cache remembers the cluster.
func BenchmarkIncremental(b *testing.B) {
	const added = 100
	base := workload.Running(workload.Cost(workload.Mix, added, 1, v1.CapacityTypeOnDemand), scenariotest.ManyNodes, scenariotest.ManyRunning, 1)
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

// BenchmarkGrowth reports the exponent with which the time grows with the number of pods, fitted to 1, 2, 4 and 8 times 10,000. Of several
// rounds the fastest counts.
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
	b.ReportMetric(scenariotest.Exponent(fastest), "exponent")
}

// BenchmarkMemory reports how large the heap gets beyond the snapshot, with garbage that is not collected yet.
func BenchmarkMemory(b *testing.B) {
	measure := func(b *testing.B, draw func() *engine.Snapshot) {
		empty := scenariotest.HeapAfterGC()
		s := draw()
		full := scenariotest.HeapAfterGC()
		peak := scenariotest.WatchedPeak(func() {
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
		measure(b, func() *engine.Snapshot {
			return workload.Running(draw(), scenariotest.ManyNodes, scenariotest.ManyRunning, 1)
		})
	})
}

func BenchmarkFleet(b *testing.B) {
	for _, pods := range []int{500, 2_000, 8_000} {
		benchmark(b, fmt.Sprint(pods), engine.Options{}, func() *engine.Snapshot { return workload.Fleet(pods, 1) })
	}
}

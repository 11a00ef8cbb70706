package endtoend_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/kube"
)

func keyOf(name string) client.ObjectKey { return types.NamespacedName{Name: name} }

// BenchmarkOnePod measures how long one pending pod waits: until its NodeClaim is there, and from then until it runs.
func BenchmarkOnePod(b *testing.B) {
	w := newWorld(b)
	w.start()
	w.pool("one", nil)
	var toClaim, toRunning []float64
	for i := 0; b.Loop(); i++ {
		name := fmt.Sprintf("one-%d", i)
		before := len(w.claims())
		began := time.Now()
		w.deploy(name, 1, "15", "30Gi")
		w.until(time.Minute, func() (bool, string) { return len(w.claims()) > before, "no claim" })
		claimed := time.Now()
		w.running(i+1, time.Minute)
		toClaim = append(toClaim, claimed.Sub(began).Seconds())
		toRunning = append(toRunning, time.Since(claimed).Seconds())
	}
	b.ReportMetric(median(toClaim), "s-to-claim")
	b.ReportMetric(median(toRunning), "s-to-running")
	b.ReportMetric(0, "ns/op")
}

func median(x []float64) float64 {
	slices.Sort(x)
	return x[len(x)/2]
}

// BenchmarkThousandPods measures two Deployments of 500 pods on machines below 32 cpu that boot at once: how long until
// all run, how full the machines are, and what the controller itself uses over the first 50 seconds.
func BenchmarkThousandPods(b *testing.B) {
	for b.Loop() {
		thousandPods(b)
	}
	b.ReportMetric(0, "ns/op")
}

func thousandPods(b *testing.B) {
	w := newWorld(b)
	w.useProgram()
	controller := w.start()
	w.pool("scale", func(p *v1.NodePool) { p.Spec.Template.Spec.ExpireAfter = v1.NillableDuration{} })
	w.until(time.Minute, func() (bool, string) {
		var pool v1.NodePool
		w.must(w.Get(w, keyOf("scale"), &pool))
		return v1.IsTrue(&pool, v1.ConditionReady), "the pool is not ready"
	})
	cpuBefore := cpuSeconds(b, controller.Process.Pid)
	began := time.Now()
	w.deploy("small", 500, "900m", "3100Mi")
	w.deploy("large", 500, "3500m", "28Gi")
	w.running(1000, 3*time.Minute)
	took := time.Since(began)
	time.Sleep(max(0, 50*time.Second-took)) // the span over which the controller's own use is averaged
	used := cpuSeconds(b, controller.Process.Pid) - cpuBefore
	window := time.Since(began).Seconds()
	cpu, memory := utilisation(w)
	b.ReportMetric(took.Seconds(), "s-to-running")
	b.ReportMetric(float64(len(w.nodes())), "nodes")
	b.ReportMetric(cpu*100, "%cpu")
	b.ReportMetric(memory*100, "%memory")
	b.ReportMetric(landed(w)*100, "%landed")
	b.ReportMetric(peakMegabytes(b, controller.Process.Pid), "MB-peak")
	b.ReportMetric(used/window, "cores")
	controller.end(syscall.SIGTERM)
	b.StopTimer()
	w.clear()
	b.StartTimer()
}

// utilisation is the share of the nodes' allocatable cpu and memory that pods request.
func utilisation(w *world) (cpu, memory float64) {
	var have, asked [2]float64
	for _, n := range w.nodes() {
		have[0] += n.Status.Allocatable.Cpu().AsApproximateFloat64()
		have[1] += n.Status.Allocatable.Memory().AsApproximateFloat64()
	}
	for _, p := range w.pods() {
		requests := p.Spec.Containers[0].Resources.Requests
		asked[0] += requests.Cpu().AsApproximateFloat64()
		asked[1] += requests.Memory().AsApproximateFloat64()
	}
	return asked[0] / have[0], asked[1] / have[1]
}

// landed is the share of the planned pods that run on the machine that was started for them, or that an equal pod runs
// there in their place.
func landed(w *world) float64 {
	type place struct {
		owner types.UID
		node  string
	}
	owners, there := map[string]types.UID{}, map[place]int{}
	for _, p := range w.pods() {
		owner := p.UID
		if o := metav1.GetControllerOf(&p); o != nil {
			owner = o.UID
		}
		owners[string(p.UID)] = owner
		there[place{owner, p.Spec.NodeName}]++
	}
	planned, found := 0.0, 0.0
	for _, c := range w.claims() {
		for _, uid := range kube.PlannedPods(&c) {
			planned++
			if at := (place{owners[uid], c.Status.NodeName}); there[at] > 0 {
				there[at]--
				found++
			}
		}
	}
	return found / max(1, planned)
}

// cpuSeconds is the processor time that the process has used.
func cpuSeconds(tb testing.TB, pid int) float64 {
	tb.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		tb.Fatal(err)
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	user, _ := strconv.ParseFloat(fields[11], 64)
	system, _ := strconv.ParseFloat(fields[12], 64)
	return (user + system) / 100
}

// useProgram builds the program that users run, and makes it the one that controllers run: a test binary is larger, and what
// of it is in memory counts.
func (w *world) useProgram() {
	w.Helper()
	path := filepath.Join(w.TempDir(), "tenon")
	if out, err := exec.CommandContext(w, "go", "build", "-ldflags", "-s -w", "-o", path, "tenon.sh").CombinedOutput(); err != nil {
		w.Fatalf("build the program: %v\n%s", err, out)
	}
	w.program = path
}

// peakMegabytes is the largest resident memory that the process has had.
func peakMegabytes(tb testing.TB, pid int) float64 {
	tb.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		tb.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, _ := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 64)
			return kb / 1024
		}
	}
	tb.Fatal("no VmHWM")
	return 0
}

// BenchmarkRest measures what the controller uses while 100 nodes run 500 pods and nothing changes, in cores.
func BenchmarkRest(b *testing.B) {
	for b.Loop() {
		w := newWorld(b)
		w.useProgram()
		controller := w.start()
		w.corner = "rest"
		w.cornerPool(nil)
		claims := w.openLedger()
		w.workload(500, "720m", nil)
		w.stable(claims, time.Now())
		before, began := cpuSeconds(b, controller.Process.Pid), time.Now()
		time.Sleep(rest) // this is what is measured
		b.ReportMetric((cpuSeconds(b, controller.Process.Pid)-before)/time.Since(began).Seconds(), "cores")
		b.ReportMetric(float64(len(w.nodes())), "nodes")
		b.ReportMetric(peakMegabytes(b, controller.Process.Pid), "MB-peak")
		w.corner = ""
		w.afterwards(b, controller)
	}
	b.ReportMetric(0, "ns/op")
}

// rest is how long a controller is watched that has nothing to do.
const rest = 5 * time.Minute

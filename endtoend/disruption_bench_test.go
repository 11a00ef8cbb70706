package endtoend_test

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario/workload"
)

// still is how long nothing may have changed for a cluster to count as stable: longer than consolidateAfter and the time between
// two passes together, however late it is written down that the last pod has left.
const still = 75 * time.Second

// shrinking is a workload of two Deployments of 500 pods each.
type shrinking struct {
	name         string
	small, large [2]string // cpu and memory that a pod of each asks for
	spread       bool      // over hosts, so that a node runs no more than one of each
}

// BenchmarkScaleDown measures how a cluster of two Deployments of 500 pods shrinks when both become 350, with consolidateAfter
// 30 s: how long until the last machine has gone, how full those are that stay, and what the controller uses. Where the pods
// are spread over hosts, one of each fills a machine.
func BenchmarkScaleDown(b *testing.B) {
	for _, s := range []shrinking{
		{"plain", [2]string{"900m", "3100Mi"}, [2]string{"3500m", "28Gi"}, false},
		{"spread", [2]string{"340m", "700Mi"}, [2]string{"3500m", "12Gi"}, true},
	} {
		b.Run(s.name, func(b *testing.B) {
			for b.Loop() {
				s.run(b)
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// deployment makes 500 pods.
func (s shrinking) deployment(app string, asks [2]string) *appsv1.Deployment {
	d := mixed(app, 500, asks[0], func(p *corev1.PodSpec) {
		if s.spread {
			spreads(p, app, corev1.LabelHostname, 1, corev1.DoNotSchedule)
		}
	})
	d.Spec.Template.Spec.Containers[0].Resources.Requests[corev1.ResourceMemory] = resource.MustParse(asks[1])
	return d
}

func (s shrinking) run(b *testing.B) {
	w := newWorld(b)
	w.useProgram()
	w.must(w.Create(w, s.deployment("small", s.small)))
	w.must(w.Create(w, s.deployment("large", s.large)))
	w.until(5*time.Minute, func() (bool, string) { // what is planned together does not depend on how busy the computer is
		n := len(w.pods())
		return n == 1000, fmt.Sprintf("there are %d pods", n)
	})
	controller := w.start()
	w.pool("scale", func(p *v1.NodePool) { p.Spec.Template.Spec.ExpireAfter = v1.NillableDuration{} })
	claims := w.openLedger()
	w.running(1000, 8*time.Minute)
	w.settled(claims)
	nodes, cpuBefore, began := len(w.nodes()), cpuSeconds(b, controller.Process.Pid), time.Now()
	w.scale("small", 350)
	w.scale("large", 350)
	took := w.stable(claims, began)
	used, window := cpuSeconds(b, controller.Process.Pid)-cpuBefore, time.Since(began).Seconds()
	w.running(700, time.Minute)
	claims.check(b)
	cpu, memory := utilisation(w)
	if cpu < 0.97 {
		b.Logf("%.1f %% of the cpu is requested; nodes stay because:\n%s", cpu*100, w.kept(controller))
	}
	b.ReportMetric(took.Seconds(), "s-to-stable")
	b.ReportMetric(float64(nodes), "nodes-before")
	b.ReportMetric(float64(len(w.nodes())), "nodes")
	b.ReportMetric(cpu*100, "%cpu")
	b.ReportMetric(memory*100, "%memory")
	b.ReportMetric(peakMegabytes(b, controller.Process.Pid), "MB-peak")
	b.ReportMetric(used/window, "cores")
	w.afterwards(b, controller)
}

// stable waits until no machine has come or gone for a while, and says how long after began the last one did.
func (w *world) stable(claims *ledger, began time.Time) time.Duration {
	w.Helper()
	w.until(20*time.Minute, func() (bool, string) {
		last := claims.last()
		if last.Before(began) {
			last = began
		}
		return time.Since(last) >= still, fmt.Sprintf("not stable: %d claims, the last change %v ago", len(w.claims()), time.Since(last))
	})
	return claims.last().Sub(began)
}

// kept is what the controller counts of why nodes stay.
func (w *world) kept(controller *tenon) string {
	w.Helper()
	response, err := http.Get(controller.metrics + "/metrics")
	w.must(err)
	defer response.Body.Close()
	var lines []string
	for text := bufio.NewScanner(response.Body); text.Scan(); {
		if strings.HasPrefix(text.Text(), "tenon_nodes_kept{") {
			lines = append(lines, text.Text())
		}
	}
	return strings.Join(lines, "\n")
}

// afterwards ends the controller and clears the world, which is not measured.
func (w *world) afterwards(b *testing.B, controller *tenon) {
	b.StopTimer()
	defer b.StartTimer()
	controller.end(syscall.SIGTERM)
	w.clear()
}

// BenchmarkTemplateDrift measures how long it takes to replace 300 nodes of 600 pods after their pool's template has changed,
// with a budget of 100 %.
func BenchmarkTemplateDrift(b *testing.B) {
	for b.Loop() {
		w := newWorld(b)
		w.useProgram()
		controller := w.start()
		w.corner = "drift"
		w.cornerPool(nil)
		claims := w.openLedger()
		w.workload(600, "1900m", nil)
		nodes, pods, began := len(w.nodes()), w.watchPods(w.corner), time.Now()
		w.drift("two")
		w.until(9*time.Minute, func() (bool, string) {
			n := w.drifted("two")
			return n == 0, fmt.Sprintf("%d of %d claims are of the old template", n, len(w.claims()))
		})
		w.running(600, 5*time.Minute)
		b.ReportMetric(time.Since(began).Seconds(), "s-to-replaced")
		b.ReportMetric(w.stable(claims, began).Seconds(), "s-to-stable")
		b.ReportMetric(float64(nodes), "nodes-before")
		b.ReportMetric(float64(len(w.nodes())), "nodes")
		b.ReportMetric(float64(pods.fewest), "pods-fewest")
		b.ReportMetric(peakMegabytes(b, controller.Process.Pid), "MB-peak")
		claims.check(b)
		w.corner = ""
		w.afterwards(b, controller)
	}
	b.ReportMetric(0, "ns/op")
}

// atRest waits until nothing changes any more, and would not either if owners might move again: no node stays for that, or nothing
// has changed for so long that it would stay for ever, as one does that runs all pods of an owner.
func (w *world) atRest(controller *tenon, claims *ledger, began time.Time) {
	w.Helper()
	var looked time.Time
	var kept string
	w.until(3*time.Hour, func() (bool, string) {
		since := time.Since(began)
		if last := claims.last(); last.After(began) {
			since = time.Since(last)
		}
		if time.Since(looked) > 10*time.Second { // more often would be work for the controller
			looked, kept = time.Now(), w.kept(controller)
		}
		return since >= still && !strings.Contains(kept, `reason="owner_moved"`) || since >= ownersHour,
			fmt.Sprintf("not at rest: the last change %v ago, nodes stay because of:\n%s", since, kept)
	})
}

// ownersHour is when all owners may move pods again, and the controller has seen so.
const ownersHour = 62 * time.Minute

// billed is what all machines cost, in USD per hour.
func (w *world) billed(book *inventory.PriceBook) float64 {
	w.Helper()
	sum := 0.0
	for _, c := range w.claims() {
		usd, known := book.Price(c.Labels, c.Spec.NodeClassRef)
		if !known {
			w.Fatalf("claim %s has no price: %v", c.Name, c.Labels)
		}
		sum += usd
	}
	return sum
}

// BenchmarkBillAfterScaleDown measures what the machines of a cost workload cost, as a multiple of what its pods must cost at
// least, after three tenths of all pods have left: once nothing has changed for a moment, and once nothing changes because
// owners have moved enough for an hour. The 10,000 pods need about 370 machines of up to 32 cores. TENON_BENCH_PODS is another
// number of pods: 13,500 need about 500 machines, and a computer on which an API server keeps up with so many.
func BenchmarkBillAfterScaleDown(b *testing.B) {
	const kind, cores = workload.Mix, 32
	pods := 10_000
	if text := os.Getenv("TENON_BENCH_PODS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			b.Fatalf("TENON_BENCH_PODS: %v", err)
		}
		pods = n
	}
	for b.Loop() {
		w := newWorld(b)
		drawn := workload.Cost(kind, pods, 1, v1.CapacityTypeOnDemand)
		controller := w.start(fmt.Sprintf("--largest-cpu=%d", cores), "--instance-types-file-path="+w.catalogFile(drawn.Classes[0].InstanceTypes))
		w.pool("billed", func(p *v1.NodePool) {
			p.Spec.Template.Spec.Requirements = drawn.NodePools[0].Spec.Template.Spec.Requirements
			p.Spec.Template.Spec.ExpireAfter = v1.NillableDuration{}
		})
		w.poolReady("billed")
		claims := w.openLedger()
		list := deploymentsOf(drawn.Pods)
		for _, d := range list {
			w.must(w.Create(w, d))
		}
		w.running(len(drawn.Pods), 20*time.Minute)
		w.settled(claims)
		nodes, began, left := len(w.nodes()), time.Now(), 0
		for _, d := range list {
			n := (*d.Spec.Replicas*7 + 5) / 10
			left += int(n)
			w.scale(d.Name, n)
		}
		w.running(left, 20*time.Minute)
		w.stable(claims, time.Now()) // until pods have left, nodes need not change
		took := claims.last().Sub(began)
		w.running(left, time.Minute)
		claims.check(b)
		snapshot := w.allWaiting(drawn.Classes)
		plan := provisioning.Plan(snapshot, engine.Options{LargestCPU: cores}, nil)
		book := inventory.NewPriceBook(snapshot)
		b.ReportMetric(w.billed(book)/plan.Cost.Bound, "x-bound-at-first")
		b.Logf("after %.0fs %d nodes; why they stay:\n%s", took.Seconds(), len(w.nodes()), w.kept(controller))
		w.atRest(controller, claims, time.Now())
		w.running(left, time.Minute)
		claims.check(b)
		b.Logf("in the end:\n%s", w.kept(controller))
		b.ReportMetric(w.billed(book)/plan.Cost.Bound, "x-bound")
		b.ReportMetric(plan.Cost.LaunchesPerHour/plan.Cost.Bound, "x-bound-anew")
		b.ReportMetric(took.Seconds(), "s-to-stable")
		b.ReportMetric(float64(nodes), "nodes-before")
		b.ReportMetric(float64(len(w.nodes())), "nodes")
		b.ReportMetric(peakMegabytes(b, controller.Process.Pid), "MB-peak")
		w.afterwards(b, controller)
	}
	b.ReportMetric(0, "ns/op")
}

package endtoend_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tenon.sh/api/kwokv1alpha1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/provisioning"
	"tenon.sh/playground"
	"tenon.sh/scenario/workload"
)

// BenchmarkBurst measures 10,000 pods that come at once: 25 Deployments of 400 pods each, on spot machines of EC2's families c, m
// and r from large to 2xlarge that take 20 s to boot. It reports how long it takes until all pods run, also as a multiple of what
// kube-scheduler takes for the same pods on the same nodes when these are there already; the bill as a multiple of what one plan for
// all pods costs; how long a pass took at most and the memory at most; the time that kube-scheduler's filters took for each pod
// that it tried; and how many plans there were. TENON_ARGS are further arguments of the controller.
func BenchmarkBurst(b *testing.B) {
	for _, replicas := range []int32{40, 160, 400} {
		b.Run(fmt.Sprintf("%d-pods", 25*replicas), func(b *testing.B) {
			for b.Loop() {
				burst(b, 25, replicas)
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

func burst(b *testing.B, apps int, replicas int32) {
	w := newWorld(b)
	w.useProgram()
	drawn := workload.Cost(workload.Web, 1, 1, v1.CapacityTypeSpot)
	controller := w.start(append(strings.Fields(os.Getenv("TENON_ARGS")), "--boot-delay=20s",
		"--instance-types-file-path="+w.catalogFile(drawn.Classes[0].InstanceTypes))...)
	w.pool("burst", func(p *v1.NodePool) {
		p.Spec.Template.Spec.ExpireAfter = v1.NillableDuration{}
		p.Spec.Template.Spec.Requirements = append(drawn.NodePools[0].Spec.Template.Spec.Requirements,
			v1.Requirement{Key: kwokv1alpha1.InstanceCPULabelKey, Operator: v1.Lt, Values: []string{"9"}})
		p.Spec.Disruption.ConsolidateAfter = v1.NillableDuration{} // never
	})
	w.poolReady("burst")
	all, claims, pods := apps*int(replicas), w.openLedger(), w.countPods()
	before, began := w.filtering(), time.Now()
	for i := range apps {
		w.deploy(fmt.Sprintf("burst-%02d", i), replicas, fmt.Sprintf("%dm", 100+100*(i%5)), fmt.Sprintf("%dMi", 256<<(i%4)))
	}
	pods.until(all, all)
	took, filter := time.Since(began), w.filtering().since(before)
	longest, plans := passes(w, controller)
	b.ReportMetric(peakMegabytes(b, controller.Process.Pid), "MB-peak")
	controller.end(syscall.SIGTERM)

	snapshot := w.allWaiting(drawn.Classes)
	plan := provisioning.Plan(snapshot, engine.Options{}, nil)
	realised := claims.perHour(b, inventory.NewPriceBook(snapshot))
	cpu, _ := utilisation(w)
	nodes, share := len(w.nodes()), landed(w)

	var sets appsv1.DeploymentList
	w.must(w.List(w, &sets, client.InNamespace("default")))
	for _, d := range sets.Items {
		w.scale(d.Name, 0)
	}
	pods.until(0, 0)
	before, began = w.filtering(), time.Now()
	// A few pods less: scores spread them, and the last ones would find every node almost full.
	fewer := replicas - replicas/20
	for _, d := range sets.Items {
		w.scale(d.Name, fewer)
	}
	pods.until(apps*int(fewer), apps*int(fewer))
	binding, undisturbed := time.Since(began)*time.Duration(replicas)/time.Duration(fewer), w.filtering().since(before)

	b.ReportMetric(took.Seconds(), "s-to-running")
	b.ReportMetric(binding.Seconds(), "s-binding")
	b.ReportMetric(took.Seconds()/binding.Seconds(), "x-binding")
	b.ReportMetric(realised/plan.Cost.LaunchesPerHour, "x-plan")
	b.ReportMetric(realised, "USD/h")
	b.ReportMetric(float64(nodes), "nodes")
	b.ReportMetric(cpu*100, "%cpu")
	b.ReportMetric(share*100, "%landed")
	b.ReportMetric(longest, "s-longest-pass")
	b.ReportMetric(plans, "passes")
	b.ReportMetric(filter.each()*1000, "ms-filter")
	b.ReportMetric(filter.tried, "tries")
	b.ReportMetric(undisturbed.each()*1000, "ms-filter-binding")
	b.StopTimer()
	for _, d := range sets.Items {
		w.scale(d.Name, 0)
	}
	pods.until(0, 0)
	w.clear()
	b.StartTimer()
}

// podCount counts pods by what is heard of them: to list thousands again and again would keep the API server from its work.
type podCount struct {
	*world
	mu      sync.Mutex // guards what follows
	running map[types.UID]bool
}

func (w *world) countPods() *podCount {
	c := &podCount{world: w, running: map[types.UID]bool{}}
	w.follow(&corev1.PodList{}, func(kind watch.EventType, o client.Object) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if pod := o.(*corev1.Pod); kind == watch.Deleted {
			delete(c.running, pod.UID)
		} else {
			c.running[pod.UID] = pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil
		}
	})
	return c
}

// until waits for so many pods, and for so many of them that run.
func (c *podCount) until(there, running int) {
	c.Helper()
	c.world.until(30*time.Minute, func() (bool, string) {
		c.mu.Lock()
		defer c.mu.Unlock()
		n := 0
		for _, runs := range c.running {
			if runs {
				n++
			}
		}
		return len(c.running) == there && n == running, fmt.Sprintf("%d pods, of which %d run; wanted %d and %d", len(c.running), n, there, running)
	})
}

// filtering is what kube-scheduler's filters have taken, in seconds, and for how many attempts.
type filtering struct{ seconds, tried float64 }

func (f filtering) since(before filtering) filtering {
	return filtering{f.seconds - before.seconds, f.tried - before.tried}
}

func (f filtering) each() float64 { return f.seconds / max(1, f.tried) }

// filtering asks kube-scheduler.
func (w *world) filtering() (out filtering) {
	w.Helper()
	command, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", w.playground.PID(playground.Scheduler)))
	w.must(err)
	_, rest, _ := strings.Cut(string(command), "--secure-port=")
	port, _, _ := strings.Cut(rest, "\x00")
	const extension = "scheduler_framework_extension_point_duration_seconds"
	// Its certificate is the playground's own, and what it says of itself is no secret.
	loopback := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	w.series(loopback, "https://127.0.0.1:"+port, func(name string, value float64) {
		switch {
		case !strings.Contains(name, `extension_point="Filter"`):
		case strings.HasPrefix(name, extension+"_sum"):
			out.seconds += value
		case strings.HasPrefix(name, extension+"_count"):
			out.tried += value
		}
	})
	return out
}

// passes is how long the controller's longest pass took, in seconds and as far as its histogram tells, and how many there were.
func passes(w *world, controller *tenon) (longest, count float64) {
	w.Helper()
	const histogram = "karpenter_scheduler_scheduling_duration_seconds"
	within := map[float64]float64{}
	w.series(http.DefaultClient, controller.metrics, func(name string, value float64) {
		if rest, ok := strings.CutPrefix(name, histogram+"_bucket"); ok {
			_, limit, _ := strings.Cut(rest, `le="`)
			seconds, err := strconv.ParseFloat(strings.TrimSuffix(limit, `"}`), 64)
			if err == nil {
				within[seconds] += value
			}
		} else if strings.HasPrefix(name, histogram+"_count") {
			count += value
		}
	})
	for limit, n := range within {
		if n == count && (longest == 0 || limit < longest) {
			longest = limit
		}
	}
	return longest, count
}

// series reads all metrics of a component.
func (w *world) series(c *http.Client, url string, each func(name string, value float64)) {
	w.Helper()
	response, err := c.Get(url + "/metrics")
	w.must(err)
	defer response.Body.Close()
	for text := bufio.NewScanner(response.Body); text.Scan(); {
		at := strings.LastIndexByte(text.Text(), ' ')
		if value, err := strconv.ParseFloat(text.Text()[at+1:], 64); err == nil && at > 0 {
			each(text.Text()[:at], value)
		}
	}
}

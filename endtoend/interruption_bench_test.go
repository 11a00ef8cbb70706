package endtoend_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "tenon.sh/api/v1"
	"tenon.sh/provider/simulated"
)

// BenchmarkInterruptions measures how long after the last of 500 notices, which the cloud gives within ten seconds, every node
// is closed, and how long until a machine is asked for in place of each, and of 99 in 100: the others are those for pods whose
// room kube-scheduler gave to another pod; and until all machines have left and what ran there runs again. The first controller
// builds the cluster; the second one hears of the notices.
func BenchmarkInterruptions(b *testing.B) {
	const machines, within = 500, 10 * time.Second
	for b.Loop() {
		w := newWorld(b)
		builder := w.start()
		w.corner = "noticed"
		w.cornerPool(nil)
		w.workload(machines, "3500m", nil)
		if n := len(w.nodes()); n != machines {
			b.Fatalf("%d nodes for %d pods", n, machines)
		}
		builder.end(syscall.SIGTERM)
		closed, asked, gone := w.watchClosing()
		at := 20 * time.Second
		controller := w.start("--faults=" + w.faultsFile(simulated.Fault{
			What: simulated.FaultReclaim, Share: 1, At: metav1.Duration{Duration: at}, For: metav1.Duration{Duration: within},
		}))
		last := cloudBegan(b, controller).Add(at + within)
		w.until(3*time.Minute, func() (bool, string) {
			return closed.count() >= machines && asked.count() >= 2*machines, fmt.Sprintf("%d nodes closed, %d claims", closed.count(), asked.count())
		})
		w.until(10*time.Minute, func() (bool, string) {
			return gone.count() >= machines, fmt.Sprintf("%d claims are gone", gone.count())
		})
		w.running(machines, 3*time.Minute)
		b.ReportMetric(closed.nth(machines).Sub(last).Seconds(), "s-to-closed")
		b.ReportMetric(asked.nth(machines+machines*99/100).Sub(last).Seconds(), "s-to-asked-99%")
		b.ReportMetric(asked.nth(2*machines).Sub(last).Seconds(), "s-to-asked")
		b.ReportMetric(time.Since(last).Seconds(), "s-to-running")
		b.ReportMetric(peakMegabytes(b, controller.Process.Pid), "MB-peak")
		w.corner = ""
		w.afterwards(b, controller)
	}
	b.ReportMetric(0, "ns/op")
}

// moments is when something was first seen of each object.
type moments struct {
	mu   sync.Mutex // guards seen
	seen map[types.UID]time.Time
}

func (m *moments) add(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.seen[uid].IsZero() {
		m.seen[uid] = time.Now()
	}
}

func (m *moments) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.seen)
}

// nth is when the n-th was seen.
func (m *moments) nth(n int) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []time.Time
	for _, t := range m.seen {
		all = append(all, t)
	}
	slices.SortFunc(all, time.Time.Compare)
	return all[n-1]
}

// watchClosing notes when nodes are closed, when there are claims, and when those are gone.
func (w *world) watchClosing() (closed, asked, gone *moments) {
	w.Helper()
	closed, asked = &moments{seen: map[types.UID]time.Time{}}, &moments{seen: map[types.UID]time.Time{}}
	gone = &moments{seen: map[types.UID]time.Time{}}
	w.follow(&corev1.NodeList{}, func(_ watch.EventType, o client.Object) {
		if slices.Contains(o.(*corev1.Node).Spec.Taints, v1.DisruptedTaint()) {
			closed.add(o.GetUID())
		}
	})
	w.follow(&v1.NodeClaimList{}, func(event watch.EventType, o client.Object) {
		if asked.add(o.GetUID()); event == watch.Deleted {
			gone.add(o.GetUID())
		}
	})
	return closed, asked, gone
}

func (w *world) faultsFile(faults ...simulated.Fault) string {
	w.Helper()
	text, err := json.Marshal(faults)
	w.must(err)
	path := filepath.Join(w.TempDir(), "faults.json")
	w.must(os.WriteFile(path, text, 0o600))
	return path
}

// cloudBegan is when the simulated cloud of a controller came into being, by its log.
func cloudBegan(tb testing.TB, controller *tenon) time.Time {
	tb.Helper()
	file, err := os.Open(controller.log)
	if err != nil {
		tb.Fatal(err)
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var line struct {
			Time    time.Time `json:"time"`
			Message string    `json:"message"`
		}
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Message == "the simulated cloud has begun, things will go wrong in it" {
			return line.Time
		}
	}
	tb.Fatal("the controller's log does not say when its cloud began")
	return time.Time{}
}

package endtoend_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/provisioning"
	"tenon.sh/provider/catalog"
	"tenon.sh/scenario/workload"
)

// A workload that is billed: so many pods of a kind, on machines that are bought on demand.
type billedCase struct {
	kind string
	pods int
	seed uint64
}

func (c billedCase) name() string { return fmt.Sprintf("%s-%d-seed-%d", c.kind, c.pods, c.seed) }

// billedCases are the cost workloads of tenon bench, small enough for a test.
func billedCases() []billedCase {
	return []billedCase{
		{workload.Web, 200, 1}, {workload.Mem, 200, 1}, {workload.CPU, 200, 1}, {workload.Mix, 200, 1},
		{workload.Spread, 200, 1}, {workload.GPU, 200, 1}, {workload.Mix, 200, 2},
	}
}

// How well the pods land, and so what the machines cost beside the plan, depends on how fast the computer is: BenchmarkRealisedCost
// reports both.
func TestNoMachineIsStartedTwiceForTheSamePods(t *testing.T) {
	for _, c := range billedCases() {
		t.Run(c.name(), func(t *testing.T) {
			b := billOf(t, c)
			t.Log(b)
			if len(b.tooSoon) > 0 {
				t.Errorf("machines were started a second time for the same pods: %q", b.tooSoon)
			}
		})
	}
}

// BenchmarkRealisedCost reports what the machines of each workload cost, as a multiple of what the plan for all of its
// pods together costs (1.03 at most on a computer with nothing else to do), the share of the pods that run on the machine that was started
// for them, and the machines that run nothing; the worst of the repetitions counts.
func BenchmarkRealisedCost(b *testing.B) {
	for _, c := range billedCases() {
		b.Run(c.name(), func(b *testing.B) {
			ratio, landed, displaced, idle := 0.0, 1.0, 0, 0
			for b.Loop() {
				x := billOf(b, c)
				b.Log(x)
				ratio, landed = max(ratio, x.ratio()), min(landed, x.landed)
				displaced, idle = max(displaced, len(x.displaced)), max(idle, len(x.idle))
			}
			b.ReportMetric(ratio, "x-plan")
			b.ReportMetric(landed*100, "%landed")
			b.ReportMetric(float64(displaced), "displaced")
			b.ReportMetric(float64(idle), "idle")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// bill is what a workload cost, and what it would cost after one plan for all of its pods.
type bill struct {
	realised, planned  float64 // USD per hour
	machines, wanted   int     // started, and in the plan
	landed             float64 // share of the pods that run on the machine that was started for them
	idle               []string
	tooSoon, displaced []string // machines that pods got as a second one
	took               time.Duration
}

func (b bill) ratio() float64 { return b.realised / b.planned }

func (b bill) String() string {
	return fmt.Sprintf("$%.4f/h for a plan of $%.4f/h: %.4f; %d machines, %d planned, %d idle; %.1f %% of the pods landed as planned, %d machines "+
		"were for pods whose room others took; all ran after %.1fs", b.realised, b.planned, b.ratio(), b.machines, b.wanted, len(b.idle), b.landed*100,
		len(b.displaced), b.took.Seconds())
}

// billOf runs a workload, one Deployment for each of its apps, until every pod runs, adds up, and clears everything away.
func billOf(t testing.TB, c billedCase) bill {
	t.Helper()
	w := newWorld(t)
	drawn := workload.Cost(c.kind, c.pods, c.seed, v1.CapacityTypeOnDemand)
	controller := w.start("--instance-types-file-path=" + w.catalogFile(drawn.Classes[0].InstanceTypes))
	w.pool("billed", func(p *v1.NodePool) {
		p.Spec.Template.Spec.Requirements = drawn.NodePools[0].Spec.Template.Spec.Requirements
		p.Spec.Disruption.ConsolidateAfter = v1.NillableDuration{} // never
	})
	w.poolReady("billed")
	claims := w.openLedger()
	began := time.Now()
	for _, d := range deploymentsOf(drawn.Pods) {
		w.must(w.Create(w, d))
	}
	w.running(len(drawn.Pods), 3*time.Minute)
	b := bill{took: time.Since(began)}
	w.settled(claims)
	controller.end(syscall.SIGTERM)
	snapshot := w.allWaiting(drawn.Classes)
	plan := provisioning.Plan(snapshot, engine.Options{}, nil)
	if len(plan.Unplaced) > 0 {
		w.Fatalf("the plan for all pods refuses %d, the first because of %v", len(plan.Unplaced), plan.Unplaced[0].Reasons)
	}
	b.realised, b.planned = claims.perHour(w.TB, inventory.NewPriceBook(snapshot)), plan.Cost.LaunchesPerHour
	b.machines, b.wanted, b.landed = len(claims.all(w.TB)), len(plan.Launches), landed(w)
	b.idle = w.idle()
	b.tooSoon, b.displaced = claims.again(w.TB)
	w.clear()
	return b
}

// catalogFile writes instance types in the format that the controller reads.
func (w *world) catalogFile(kinds []engine.InstanceType) string {
	w.Helper()
	path := filepath.Join(w.TempDir(), "instance-types.json")
	file, err := os.Create(path)
	w.must(err)
	w.must(catalog.Write(file, kinds))
	w.must(file.Close())
	return path
}

func (w *world) poolReady(name string) {
	w.Helper()
	w.until(time.Minute, func() (bool, string) {
		var pool v1.NodePool
		w.must(w.Get(w, keyOf(name), &pool))
		return v1.IsTrue(&pool, v1.ConditionReady), fmt.Sprintf("pool %s is not ready: %+v", name, pool.Status.Conditions)
	})
}

// deploymentsOf makes a Deployment of the pods that share the label "app".
func deploymentsOf(pods []*corev1.Pod) []*appsv1.Deployment {
	byApp := map[string]*appsv1.Deployment{}
	for _, pod := range pods {
		app := pod.Labels["app"]
		if byApp[app] == nil {
			d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: app, Namespace: metav1.NamespaceDefault}}
			d.Spec.Replicas = new(int32)
			d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
			d.Spec.Template.Labels = map[string]string{"app": app}
			d.Spec.Template.Spec = *pod.Spec.DeepCopy()
			d.Spec.Template.Spec.TerminationGracePeriodSeconds = new(int64)
			byApp[app] = d
		}
		*byApp[app].Spec.Replicas++
	}
	var out []*appsv1.Deployment
	for _, app := range slices.Sorted(maps.Keys(byApp)) {
		out = append(out, byApp[app])
	}
	return out
}

// settled waits until every machine that was asked for has gone or is a node that counts.
func (w *world) settled(l *ledger) {
	w.Helper()
	w.until(time.Minute, func() (bool, string) {
		live := map[string]bool{}
		for _, c := range w.claims() {
			live[c.Name] = true
		}
		for _, c := range l.all(w.TB) {
			if live[c.Name] && !v1.IsTrue(c, v1.ConditionInitialized) {
				return false, fmt.Sprintf("claim %s is not initialized: %+v", c.Name, c.Status.Conditions)
			}
		}
		return len(w.nodes()) == len(live), fmt.Sprintf("%d nodes for %d claims", len(w.nodes()), len(live))
	})
}

// idle lists the nodes that run nothing but daemons.
func (w *world) idle() []string {
	w.Helper()
	used := map[string]bool{}
	for _, pod := range w.pods() {
		if !kube.OwnedByDaemonSet(&pod) && !kube.IsTerminal(&pod) {
			used[pod.Spec.NodeName] = true
		}
	}
	var idle []string
	for _, node := range w.nodes() {
		if !used[node.Name] {
			idle = append(idle, node.Name+" "+node.Labels[corev1.LabelInstanceTypeStable])
		}
	}
	return idle
}

// allWaiting is the cluster as it was before the first machine: all the pods that run now wait.
func (w *world) allWaiting(classes []engine.Class) *engine.Snapshot {
	w.Helper()
	var pools v1.NodePoolList
	var sets appsv1.ReplicaSetList
	var namespaces corev1.NamespaceList
	w.must(w.List(w, &pools))
	w.must(w.List(w, &sets))
	w.must(w.List(w, &namespaces))
	s := &engine.Snapshot{
		Now: time.Now(), NodePools: pointers(pools.Items), ReplicaSets: pointers(sets.Items), Namespaces: pointers(namespaces.Items), Classes: classes,
	}
	for _, pod := range pointers(w.pods()) {
		pod.Spec.NodeName = ""
		pod.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, LastTransitionTime: pod.CreationTimestamp,
		}}}
		s.Pods = append(s.Pods, pod)
	}
	return s
}

func pointers[T any](list []T) []*T {
	out := make([]*T, len(list))
	for i := range list {
		out[i] = &list[i]
	}
	return out
}

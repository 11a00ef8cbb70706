package nodeclaim_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"tenon.sh/api/kwokv1alpha1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/cluster"
	"tenon.sh/controller/nodeclaim"
	"tenon.sh/engine"
	"tenon.sh/engine/device"
	"tenon.sh/engine/kube"
	"tenon.sh/provider"
	"tenon.sh/provider/catalog"
	"tenon.sh/provider/kwok"
	"tenon.sh/provider/simulated"
	"tenon.sh/report"
)

var errCrashed = errors.New("the process has ended")

// world is an API server in memory, a simulated cloud on a clock that the test moves, and a reconciler that the test
// drives. Everything but the reconciler outlives a crash.
type world struct {
	t      *testing.T
	clock  *testclock.FakeClock
	client client.WithWatch
	cloud  *simulated.Cloud
	events *heard
	// selectors has claims for devices act.
	selectors func([]string, *device.Shape) []device.Answer

	lines    []string             // of the log
	registry *prometheus.Registry // of the process that runs now

	// writes counts what was written; from the crashAt-th write on everything fails. If lost is set, that write is done
	// and only its answer is lost.
	writes, crashAt int
	lost            bool

	provider   *watchedProvider
	reconciler *nodeclaim.Reconciler
	outcomes   []bool
	failLaunch error
	nodesStay  bool   // a kubelet that never gets ready
	never      string // the one node that does not
	paused     func() // what happens while nodes are opened
	behind     bool   // the cache does not show yet that nodes were deleted
	blind      bool   // the cache shows no nodes yet
	overtake   func() // what happens before an eviction or the deletion of a pod arrives
	stop       func() // tells the process to end, while it reconciles
	unseen     bool   // the cache does not show yet that pods were evicted
	evicted    []string
}

// heard keeps what people were told.
type heard struct {
	mu     sync.Mutex
	events []report.Event
}

func (h *heard) Publish(events ...report.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, events...)
}

func (h *heard) has(reason string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.ContainsFunc(h.events, func(e report.Event) bool { return e.Reason == reason })
}

// watchedProvider is the kwok provider; it checks what must hold whenever a machine is told to stop.
type watchedProvider struct {
	*kwok.Provider
	w          *world
	launches   int
	terminated []engine.MachineID
}

func (p *watchedProvider) Launch(ctx context.Context, claim *v1.NodeClaim, class provider.Class) (engine.Machine, error) {
	p.launches++
	if p.w.failLaunch != nil {
		return engine.Machine{}, p.w.failLaunch
	}
	if !slices.Contains(claim.Finalizers, v1.TerminationFinalizer) {
		p.w.t.Error("a machine is launched for a claim without finalizer")
	}
	return p.Provider.Launch(ctx, claim, class)
}

func (p *watchedProvider) Terminate(ctx context.Context, id engine.MachineID) error {
	p.terminated = append(p.terminated, id)
	p.w.checkNoPods(id)
	return p.Provider.Terminate(ctx, id)
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	w := &world{t: t, clock: testclock.NewFakeClock(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)), events: &heard{}, crashAt: -1}
	builder := fake.NewClientBuilder().WithScheme(cluster.Scheme()).WithStatusSubresource(&v1.NodeClaim{}, &v1.NodePool{}, &corev1.Pod{}).
		WithInterceptorFuncs(w.interceptors())
	for _, index := range cluster.Indexes() {
		builder = builder.WithIndex(index.Object, index.Field, index.Values)
	}
	class := &kwokv1alpha1.KWOKNodeClass{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	class.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Ready"}}
	w.client = builder.WithObjects(append(objects, class)...).Build()
	var err error
	w.cloud, err = simulated.NewCloud(simulated.Config{
		Seed: 1, Clock: w.clock, Catalog: catalog.KWOK(), IDPrefix: kwok.IDPrefix,
		Profile: simulated.Profile{Termination: simulated.Stage{Median: 2 * time.Second}},
	})
	if err != nil {
		t.Fatal(err)
	}
	w.restart()
	return w
}

// restart begins a new process: all memory is lost.
func (w *world) restart() {
	w.t.Helper()
	w.crashAt = -1
	kwoked, err := kwok.New(kwok.Config{Client: w.client, Clock: w.clock, Cloud: w.cloud})
	if err != nil {
		w.t.Fatal(err)
	}
	w.provider, w.registry = &watchedProvider{Provider: kwoked, w: w}, prometheus.NewRegistry()
	w.reconciler = nodeclaim.New(nodeclaim.Config{
		Cluster:  cluster.New(cluster.Config{Client: w.client, API: w.client, Provider: w.provider, Clock: w.clock, Selectors: w.selectors}),
		Recorder: w.events, Metrics: report.NewMetrics(w.registry, "test"),
		Pause: func(_ context.Context, d time.Duration) bool {
			w.clock.Step(d)
			if w.paused != nil {
				w.paused()
			}
			return true
		},
		Outcome: func(_ context.Context, _ *v1.NodeClaim, registered bool) { w.outcomes = append(w.outcomes, registered) },
	})
}

// interceptors fail every write after the crash; one may get through whose answer is lost.
func (w *world) interceptors() interceptor.Funcs {
	write := func(do func() error) error {
		w.writes++
		switch {
		case w.crashAt < 0 || w.writes < w.crashAt:
			return do()
		case w.writes == w.crashAt && w.lost:
			_ = do()
		}
		return errCrashed
	}
	return interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			err := c.List(ctx, list, opts...)
			nodes, ok := list.(*corev1.NodeList)
			for i := 0; ok && w.behind && i < len(nodes.Items); i++ {
				nodes.Items[i].DeletionTimestamp = nil
			}
			if ok && w.blind {
				nodes.Items = nil
			}
			return err
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if pod, ok := o.(*corev1.Pod); ok {
				if w.overtake != nil {
					w.overtake()
				}
				if err := w.meets((&client.DeleteOptions{}).ApplyOptions(opts).Preconditions, pod); err != nil {
					return err
				}
			}
			return write(func() error { return c.Delete(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			return write(func() error { return c.Patch(ctx, o, p, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			return write(func() error { return c.SubResource(sub).Patch(ctx, o, p, opts...) })
		},
		SubResourceCreate: func(ctx context.Context, c client.Client, sub string, o client.Object, s client.Object, opts ...client.SubResourceCreateOption) error {
			if w.overtake != nil {
				w.overtake()
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			if e, ok := s.(*policyv1.Eviction); ok && e.DeleteOptions != nil {
				if err := w.meets(e.DeleteOptions.Preconditions, o); err != nil {
					return err
				}
			}
			return write(func() error {
				w.evicted = append(w.evicted, o.GetName())
				if w.unseen {
					return nil
				}
				return c.SubResource(sub).Create(ctx, o, s, opts...)
			})
		},
	}
}

// meets says what the API server says of preconditions, of which the client in memory reads no UIDs.
func (w *world) meets(p *metav1.Preconditions, o client.Object) error {
	var there corev1.Pod
	if err := w.client.Get(w.t.Context(), client.ObjectKeyFromObject(o), &there); err != nil {
		return err
	}
	if p != nil && p.UID != nil && *p.UID != there.UID {
		return apierrors.NewConflict(corev1.Resource("pods"), o.GetName(), fmt.Errorf("the UID is %s, not %s", there.UID, *p.UID))
	}
	return nil
}

// counted is how often a counter, or a metric that observes, has counted for all its labels together.
func (w *world) counted(name string) (n float64) {
	w.t.Helper()
	for _, m := range w.metrics(name) {
		n += m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount()) + float64(m.GetSummary().GetSampleCount())
	}
	return n
}

// metrics are those of the name, one for each set of labels.
func (w *world) metrics(name string) []*dto.Metric {
	w.t.Helper()
	families, err := w.registry.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()
		}
	}
	return nil
}

// checkNoPods is the law of all termination: no pod is bound to a machine that is told to stop, unless nobody waits for it.
func (w *world) checkNoPods(id engine.MachineID) {
	w.t.Helper()
	for _, p := range w.pods() {
		if p.Spec.NodeName == strings.TrimPrefix(string(id), kwok.IDPrefix) && p.DeletionTimestamp == nil && !kube.IsTerminal(p) {
			w.t.Errorf("machine %s is terminated while pod %s is bound to it", id, p.Name)
		}
	}
}

// pass moves everything as far as it goes without the clock, then moves the clock.
func (w *world) pass(d time.Duration) (crashed bool) {
	w.t.Helper()
	for range 6 {
		if w.outside(); w.round() {
			return true
		}
	}
	w.clock.Step(d)
	return false
}

// outside is what the cloud and the kubelets do; they do not crash with us.
func (w *world) outside() {
	w.t.Helper()
	ctx, crashAt, writes := w.t.Context(), w.crashAt, w.writes
	w.crashAt = -1
	defer func() { w.crashAt, w.writes = crashAt, writes }()
	if _, err := w.provider.Tick(ctx); err != nil {
		w.t.Fatal(err)
	}
	for _, n := range w.nodes() {
		if w.nodesStay || n.Name == w.never || len(n.Status.Conditions) > 0 {
			continue
		}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		if err := w.client.Status().Update(ctx, n); err != nil {
			w.t.Fatal(err)
		}
	}
}

// round reconciles every claim and every node once.
func (w *world) round() (crashed bool) {
	w.t.Helper()
	for _, c := range w.claims() {
		if w.reconcile(w.reconciler, c.Name) {
			return true
		}
	}
	for _, n := range w.nodes() {
		if w.reconcile(nodeclaim.NodeReconciler{Reconciler: w.reconciler}, n.Name) {
			return true
		}
	}
	return false
}

func (w *world) reconcile(r reconcile.Reconciler, name string) (crashed bool) {
	w.t.Helper()
	logger := funcr.New(func(_, line string) { w.lines = append(w.lines, line) }, funcr.Options{})
	ctx, stop := context.WithCancel(log.IntoContext(w.t.Context(), logger))
	defer stop()
	w.stop = stop
	_, err := r.Reconcile(ctx, reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
	if errors.Is(err, errCrashed) {
		return true
	}
	if err != nil {
		w.t.Fatalf("reconcile %s: %v", name, err)
	}
	return w.crashAt >= 0 && w.writes >= w.crashAt
}

// until passes time, in steps of a second, until done.
func (w *world) until(what string, done func() bool) (crashed bool) {
	w.t.Helper()
	for range 120 {
		if w.pass(time.Second) {
			return true
		}
		if done() {
			return false
		}
	}
	w.t.Fatalf("%s: not after two minutes\n%s", what, w.describe())
	return false
}

func (w *world) claims() []*v1.NodeClaim {
	var list v1.NodeClaimList
	w.list(&list)
	var out []*v1.NodeClaim
	for i := range list.Items {
		out = append(out, &list.Items[i])
	}
	return out
}

func (w *world) nodes() []*corev1.Node {
	var list corev1.NodeList
	w.list(&list)
	var out []*corev1.Node
	for i := range list.Items {
		out = append(out, &list.Items[i])
	}
	return out
}

func (w *world) pods() []*corev1.Pod {
	var list corev1.PodList
	w.list(&list)
	var out []*corev1.Pod
	for i := range list.Items {
		out = append(out, &list.Items[i])
	}
	return out
}

func (w *world) list(into client.ObjectList) {
	w.t.Helper()
	if err := w.client.List(w.t.Context(), into); err != nil {
		w.t.Fatal(err)
	}
}

// machines lists what is billed.
func (w *world) machines() []engine.Machine {
	w.t.Helper()
	list, err := w.cloud.List()
	if err != nil {
		w.t.Fatal(err)
	}
	return slices.DeleteFunc(list, func(m engine.Machine) bool { return m.Leaving })
}

func (w *world) create(o client.Object) {
	w.t.Helper()
	if err := w.client.Create(w.t.Context(), o); err != nil {
		w.t.Fatal(err)
	}
}

// update changes an object as somebody else would; it is not counted as our write.
func (w *world) update(o client.Object, change func()) {
	w.t.Helper()
	if err := w.client.Get(w.t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
		w.t.Fatal(err)
	}
	change()
	status := o.DeepCopyObject().(client.Object)
	if err := w.client.Update(w.t.Context(), o); err != nil {
		w.t.Fatal(err)
	}
	status.SetResourceVersion(o.GetResourceVersion())
	if err := w.client.Status().Update(w.t.Context(), status); err != nil {
		w.t.Fatal(err)
	}
}

// remove deletes an object as somebody else would.
func (w *world) remove(o client.Object) {
	w.t.Helper()
	crashAt, writes := w.crashAt, w.writes
	w.crashAt = -1
	defer func() { w.crashAt, w.writes = crashAt, writes }()
	if err := w.client.Delete(w.t.Context(), o); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) initialized() bool {
	claims := w.claims()
	return len(claims) > 0 && !slices.ContainsFunc(claims, func(c *v1.NodeClaim) bool { return !v1.IsTrue(c, v1.ConditionReady) })
}

func (w *world) empty() bool {
	return len(w.claims()) == 0 && len(w.nodes()) == 0 && len(w.machines()) == 0
}

func (w *world) describe() string {
	var b strings.Builder
	for _, c := range w.claims() {
		fmt.Fprintf(&b, "claim %s deleted=%v finalizers=%v %s\n", c.Name, c.DeletionTimestamp != nil, c.Finalizers, c.Status.ProviderID)
		for _, x := range c.Status.Conditions {
			fmt.Fprintf(&b, "  %s=%s %s %s\n", x.Type, x.Status, x.Reason, x.Message)
		}
	}
	for _, n := range w.nodes() {
		fmt.Fprintf(&b, "node %s deleted=%v finalizers=%v taints=%v\n", n.Name, n.DeletionTimestamp != nil, n.Finalizers, n.Spec.Taints)
	}
	for _, p := range w.pods() {
		fmt.Fprintf(&b, "pod %s on %q deleted=%v\n", p.Name, p.Spec.NodeName, p.DeletionTimestamp != nil)
	}
	for _, m := range w.machines() {
		fmt.Fprintf(&b, "machine %s\n", m.ID)
	}
	return b.String()
}

func newClaim(name string, change ...func(*v1.NodeClaim)) *v1.NodeClaim {
	claim := &v1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{v1.NodePoolLabelKey: "general"},
			CreationTimestamp: metav1.NewTime(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)),
		},
		Spec: v1.NodeClaimSpec{
			NodeClassRef: &v1.NodeClassReference{Group: "karpenter.kwok.sh", Kind: "KWOKNodeClass", Name: "default"},
			Resources:    v1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1")}},
			Requirements: []v1.Requirement{},
		},
	}
	for _, f := range change {
		f(claim)
	}
	return claim
}

func newPod(name, node string, change ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "x", Image: "x"}}},
	}
	for _, f := range change {
		f(pod)
	}
	return pod
}

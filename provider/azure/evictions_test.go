package azure_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v7"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"tenon.sh/api/azurev1beta1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/cluster"
	"tenon.sh/cluster/clustertest"
	"tenon.sh/controller/interruption"
	"tenon.sh/provider/azure/azuretest"
	"tenon.sh/provider/azure/machine"
	"tenon.sh/report"
)

// evictions is a cluster of spot machines, with the loops that receive their evictions.
type evictions struct {
	*world
	names   []string
	loops   map[string]*interruption.Reconciler // by the name of the source
	deleted atomic.Int64                        // deleted claims
	marked  atomic.Int64                        // nodes with the taint
	latency atomic.Int64                        // of Azure, for each call
}

// slow delays answers.
type slow struct {
	http.RoundTripper
	by *atomic.Int64
}

func (s slow) RoundTrip(r *http.Request) (*http.Response, error) {
	time.Sleep(time.Duration(s.by.Load()))
	return s.RoundTripper.RoundTrip(r)
}

func newEvictions(t testing.TB, n int) *evictions {
	t.Helper()
	e := &evictions{loops: map[string]*interruption.Reconciler{}}
	pool := clustertest.Pool("pool")
	pool.Spec.Template.Spec.NodeClassRef = &v1.NodeClassReference{Group: azurev1beta1.Group, Kind: "AKSNodeClass", Name: "general"}
	e.world = newWorld(t, nil)
	builder := fake.NewClientBuilder().WithScheme(cluster.Scheme()).WithObjects(pool).
		WithStatusSubresource(&azurev1beta1.AKSNodeClass{}, &v1.NodeClaim{}, &corev1.Node{}, &v1.NodePool{}).WithInterceptorFuncs(interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption) error {
			if _, claim := o.(*v1.NodeClaim); claim {
				e.deleted.Add(1)
			}
			return c.Delete(ctx, o, options...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption) error {
			if _, node := o.(*corev1.Node); node {
				e.marked.Add(1)
			}
			return c.Patch(ctx, o, p, options...)
		},
	})
	for _, index := range cluster.Indexes() {
		builder = builder.WithIndex(index.Object, index.Field, index.Values)
	}
	for i := range n {
		name := fmt.Sprintf("spot-%03d", i)
		claim, node := clustertest.Machine(pool, name, e.clock.Now().Add(-time.Hour))
		id := machine.ID(e.ID, azuretest.Group, name)
		claim.Status.ProviderID, node.Spec.ProviderID = string(id), string(id)
		for _, o := range []client.Object{claim, node} {
			o.GetLabels()[v1.CapacityTypeLabelKey], o.GetLabels()[corev1.LabelInstanceTypeStable], o.GetLabels()[corev1.LabelTopologyZone] = v1.CapacityTypeSpot, "Standard_D4s_v5", "eastus-1"
		}
		builder = builder.WithObjects(claim, node)
		e.Put(azuretest.Group, "Microsoft.Compute/virtualMachines", name, map[string]any{"evictionPolicy": "Delete", "priority": "Spot", "hardwareProfile": map[string]any{"vmSize": "Standard_D4s_v5"}})
		e.names = append(e.names, name)
	}
	e.client = builder.Build()
	e.config.Client = e.client
	e.Client().Transport = slow{e.Client().Transport, &e.latency}
	e.restart()
	for _, name := range e.names {
		e.must(e.config.Cloud.UpdateVM(t.Context(), azuretest.Group, name, armcompute.VirtualMachineUpdate{Tags: map[string]*string{
			"karpenter.azure.com_cluster": new(clusterName), "tenon.sh_nodeclaim": &name, "tenon.sh_nodeclaim-uid": new("claim-" + name)}}))
	}
	e.resolved("general", nil)
	mirror := cluster.New(cluster.Config{Client: e.client, API: e.client, Clock: e.clock, Provider: e.provider})
	for _, source := range e.provider.Sources() {
		e.loops[source.Name] = interruption.New(interruption.Config{
			Cluster: mirror, Notifier: source, Recorder: report.NewRecorder(e.client, e.clock), Metrics: report.NewMetrics(prometheus.NewRegistry(), "test"),
		})
	}
	e.clock.Step(time.Minute)
	e.hear("machines") // the initial state
	e.hear("nodes")
	return e
}

// hear reads a source, and leaves the machines in its notices.
func (e *evictions) hear(source string) {
	e.Helper()
	e.must(e.loops[source].Reconcile(e.Context()))
	e.must(e.loops[source].Leave(e.Context()))
}

// announce sets the condition that node-problem-detector sets half a minute before an eviction.
func (e *evictions) announce(names []string) {
	e.Helper()
	for _, name := range names {
		node := &corev1.Node{}
		e.must(e.client.Get(e.Context(), clientKey(name), node))
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: "PreemptionScheduled", Status: corev1.ConditionTrue, Reason: "SpotEvictionIncoming"})
		e.must(e.client.Status().Update(e.Context(), node))
	}
}

// left fails the test unless each claim was deleted once.
func (e *evictions) left() {
	e.Helper()
	var claims v1.NodeClaimList
	e.must(e.client.List(e.Context(), &claims))
	for i := range claims.Items {
		if claims.Items[i].DeletionTimestamp == nil {
			e.Errorf("NodeClaim %s stays", claims.Items[i].Name)
		}
	}
	if n := int(e.deleted.Load()); len(claims.Items) != len(e.names) || n != len(e.names) {
		e.Errorf("%d claims, %d of them still there, were told to go %d times", len(e.names), len(claims.Items), n)
	}
	if n := int(e.marked.Load()); n != len(e.names) {
		e.Errorf("%d nodes were closed %d times", len(e.names), n)
	}
}

// calls returns the calls to Azure since the last time, by operation.
func (e *evictions) calls(before int) map[string]int {
	out := map[string]int{}
	for _, c := range e.Calls("")[before:] {
		out[c.Operation]++
	}
	return out
}

func TestTwoHundredEvictionsAreEachActedOnOnce(t *testing.T) {
	t.Parallel()
	t.Run("that nodes announce", func(t *testing.T) {
		t.Parallel()
		e := newEvictions(t, 200)
		before := len(e.Calls(""))
		for batch := range slices.Chunk(e.names, 20) {
			e.announce(batch)
			e.hear("nodes")
			e.clock.Step(time.Second)
		}
		e.hear("nodes")
		e.left()
		if calls := e.calls(before); calls["VirtualMachines_List"]+calls["VirtualMachines_Get"] != 0 {
			t.Errorf("Azure was asked for what nodes say: %v", calls)
		}
	})
	for name, takes := range map[string]time.Duration{"that are gone without a word": 0, "that Azure is about to carry out": time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEvictions(t, 200)
			e.Take(azuretest.Timing{Delete: takes})
			for _, name := range e.names {
				e.Evict(name)
			}
			e.clock.Step(time.Minute)
			before := len(e.Calls(""))
			for range 3 {
				e.hear("machines")
				e.clock.Step(30 * time.Second)
			}
			e.left()
			calls := e.calls(before)
			if gets := calls["VirtualMachines_Get"]; gets > 200 || takes > 0 && gets > 0 {
				t.Errorf("%d machines were asked for one by one", gets)
			}
			if lists := calls["VirtualMachines_List"]; lists > 4*4 { // pages, for each read of the source
				t.Errorf("%d lists", lists)
			}
		})
	}
}

// A claim remains for a while after its machine is gone. Azure is not asked for the machine again, and callers get the same answer.
func TestMachinesThatAreGoneAreAskedForOnce(t *testing.T) {
	t.Parallel()
	e := newEvictions(t, 3)
	for _, name := range e.names {
		e.Evict(name)
	}
	e.clock.Step(time.Minute)
	before := len(e.Calls(""))
	for _, source := range e.provider.Sources() {
		for range 3 {
			if notices, err := source.Notices(e.Context()); source.Name == "machines" && (err != nil || len(notices) != len(e.names)) {
				t.Errorf("%d notices, %v", len(notices), err)
			}
		}
	}
	if gets := e.calls(before)["VirtualMachines_Get"]; gets != len(e.names) {
		t.Errorf("%d calls for %d machines", gets, len(e.names))
	}
}

// BenchmarkEvictions evicts two hundred machines within ten seconds, while each call to Azure takes a tenth of a second. It measures the longest
// time from the beginning of a source's read until the claims of all evicted machines in the answer are deleted. The source "nodes" is read every
// second; "machines" is read once at the end.
func BenchmarkEvictions(b *testing.B) {
	const n, batches = 200, 10
	run := func(b *testing.B, source string, appear func(e *evictions, names []string), together bool) {
		var last time.Duration
		for range b.N {
			b.StopTimer()
			e := newEvictions(b, n)
			e.latency.Store(int64(100 * time.Millisecond))
			b.StartTimer()
			for batch := range slices.Chunk(e.names, n/batches) {
				appear(e, batch)
				began := time.Now()
				if !together {
					e.hear(source)
					last = max(last, time.Since(began))
				}
				e.clock.Step(time.Second)
			}
			began := time.Now()
			e.clock.Step(30 * time.Second)
			e.hear(source)
			last = max(last, time.Since(began))
			e.left()
		}
		b.ReportMetric(last.Seconds(), "s/last")
	}
	b.Run("nodes", func(b *testing.B) {
		run(b, "nodes", func(e *evictions, names []string) { e.announce(names) }, false)
	})
	b.Run("machines", func(b *testing.B) {
		run(b, "machines", func(e *evictions, names []string) {
			for _, name := range names {
				e.Evict(name)
			}
		}, true)
	})
}

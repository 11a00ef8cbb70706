// Package clustertest gives the tests of controllers a cluster in memory: an API server's objects without its rules,
// a simulated cloud, and a clock that only the test moves.
package clustertest

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/prometheus/client_golang/prometheus"

	"tenon.sh/api/autoscalingv1"
	"tenon.sh/api/autoscalingv1beta1"
	"tenon.sh/api/kwokv1alpha1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/api/v1alpha1"
	"tenon.sh/cluster"
	"tenon.sh/provider/catalog"
	"tenon.sh/provider/simulated"
	"tenon.sh/report"
)

// World is a cluster in memory.
type World struct {
	testing.TB
	context.Context
	Client   client.WithWatch
	Clock    *clocktesting.FakeClock
	Cluster  *cluster.Cluster
	Recorder *report.Recorder
	Registry *prometheus.Registry
	Metrics  *report.Metrics
}

// New returns a world with a ready node class "default" and the given objects. Calls go through the interceptor.
func New(t testing.TB, calls interceptor.Funcs, objects ...client.Object) *World {
	t.Helper()
	class := readyClass()
	builder := fake.NewClientBuilder().WithScheme(cluster.Scheme()).WithInterceptorFuncs(calls).
		WithStatusSubresource(&v1alpha1.NodeOverlay{}, &autoscalingv1beta1.CapacityBuffer{}, &autoscalingv1.ProvisioningRequest{}, &v1.NodePool{}, &v1.NodeClaim{}, &corev1.Pod{}, &corev1.Node{}, class).
		WithObjects(class).WithObjects(objects...)
	for _, index := range cluster.Indexes() {
		builder = builder.WithIndex(index.Object, index.Field, index.Values)
	}
	return newWorld(t, builder.Build())
}

// start returns the first time of a world's clock.
func start() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }

func readyClass() *kwokv1alpha1.KWOKNodeClass {
	class := &kwokv1alpha1.KWOKNodeClass{ObjectMeta: metav1.ObjectMeta{Name: "default", UID: "class"}}
	v1.SetCondition(class, v1.ConditionReady, metav1.ConditionTrue, "", "", start())
	return class
}

// NewOn returns a world on a real API server that has the kinds installed. Calls go through the interceptor. Objects are created with their
// status. The rest is as in New.
func NewOn(t testing.TB, rest *rest.Config, calls interceptor.Funcs, objects ...client.Object) *World {
	t.Helper()
	direct, err := client.NewWithWatch(rest, client.Options{Scheme: cluster.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, interceptor.NewClient(direct, calls))
	if class := readyClass(); direct.Get(w, client.ObjectKeyFromObject(class), class) != nil {
		w.Put(class)
	}
	for _, o := range objects {
		w.Put(o)
	}
	return w
}

// Put creates an object with its status.
func (w *World) Put(o client.Object) {
	w.Helper()
	status := o.DeepCopyObject().(client.Object)
	o.SetResourceVersion("")
	w.Must(w.Client.Create(w, o))
	status.SetUID(o.GetUID())
	for { // the controllers of a real control plane write too
		status.SetResourceVersion(o.GetResourceVersion())
		err := w.Client.Status().Update(w, status)
		if !apierrors.IsConflict(err) {
			w.Must(err)
			break
		}
		w.Must(w.Client.Get(w, client.ObjectKeyFromObject(o), o))
	}
	w.Must(w.Client.Get(w, client.ObjectKeyFromObject(o), o))
}

func newWorld(t testing.TB, c client.WithWatch) *World {
	t.Helper()
	clock := clocktesting.NewFakeClock(start())
	cloud, err := simulated.NewCloud(simulated.Config{Clock: clock, Catalog: catalog.KWOK()})
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	return &World{
		TB: t, Context: t.Context(), Client: c, Clock: clock,
		Cluster:  cluster.New(cluster.Config{Client: c, API: c, Clock: clock, Provider: simulated.New(cloud)}),
		Recorder: report.NewRecorder(c, clock),
		Registry: registry,
		Metrics:  report.NewMetrics(registry, "test"),
	}
}

// Must fails the test on an error.
func (w *World) Must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// Claims lists the NodeClaims.
func (w *World) Claims() []v1.NodeClaim {
	w.Helper()
	var list v1.NodeClaimList
	w.Must(w.Client.List(w, &list))
	return list.Items
}

// Events writes the queued events, and counts the events by "Kind Reason".
func (w *World) Events() map[string]int {
	w.Helper()
	w.Recorder.Flush(w)
	var list corev1.EventList
	w.Must(w.Client.List(w, &list))
	counts := map[string]int{}
	for _, e := range list.Items {
		counts[e.InvolvedObject.Kind+" "+e.Reason] += int(e.Count)
	}
	return counts
}

// Pool returns a ready pool of Linux machines with the class "default".
func Pool(name string) *v1.NodePool {
	pool := &v1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("pool-" + name), Generation: 1}}
	pool.Spec.Template.Spec.NodeClassRef = &v1.NodeClassReference{
		Group: kwokv1alpha1.GroupVersion.Group, Kind: "KWOKNodeClass", Name: "default",
	}
	pool.Spec.Template.Spec.Requirements = []v1.Requirement{{Key: corev1.LabelOSStable, Operator: v1.In, Values: []string{"linux"}}}
	pool.Spec.Template.Spec.ExpireAfter = v1.DurationOf(720 * time.Hour)
	pool.Spec.Disruption = v1.Disruption{
		ConsolidateAfter: v1.DurationOf(0), ConsolidationPolicy: v1.WhenEmpty, Budgets: []v1.Budget{{Nodes: "100%"}},
	}
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	v1.SetCondition(pool, v1.ConditionValidationSucceeded, metav1.ConditionTrue, "", "", at)
	v1.SetCondition(pool, v1.ConditionNodeClassReady, metav1.ConditionTrue, "", "", at)
	return pool
}

// Pending returns a pod for which kube-scheduler has found no node.
func Pending(name, cpu string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("pod-" + name)}}
	pod.Spec.Containers = []corev1.Container{{
		Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}},
	}}
	pod.Status.Phase = corev1.PodPending
	pod.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
	}}
	return pod
}

// Bound returns a pod that runs on a node.
func Bound(name, cpu, node string) *corev1.Pod {
	pod := Pending(name, cpu)
	pod.Spec.NodeName = node
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = nil
	return pod
}

// Machine returns an initialized node of a pool with 4 cores, and its claim. Both have the same name.
func Machine(pool *v1.NodePool, name string, created time.Time) (*v1.NodeClaim, *corev1.Node) {
	id := "simulated://" + name
	labels := map[string]string{
		v1.NodePoolLabelKey: pool.Name, corev1.LabelInstanceTypeStable: "c-4x-amd64-linux", corev1.LabelTopologyZone: "test-zone-a",
		v1.CapacityTypeLabelKey: v1.CapacityTypeOnDemand, corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux",
		pool.Spec.Template.Spec.NodeClassRef.LabelKey(): pool.Spec.Template.Spec.NodeClassRef.Name,
	}
	size := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("64"),
	}
	claim := &v1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID("claim-" + name), CreationTimestamp: metav1.NewTime(created), Labels: labels,
			Finalizers:      []string{v1.TerminationFinalizer},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "karpenter.sh/v1", Kind: "NodePool", Name: pool.Name, UID: pool.UID}},
		},
		Spec:   v1.NodeClaimSpec{NodeClassRef: pool.Spec.Template.Spec.NodeClassRef, Requirements: []v1.Requirement{}},
		Status: v1.NodeClaimStatus{ProviderID: id, NodeName: name, Capacity: size, Allocatable: size},
	}
	for _, c := range []string{v1.ConditionLaunched, v1.ConditionRegistered, v1.ConditionInitialized} {
		v1.SetCondition(claim, c, metav1.ConditionTrue, "", "", created)
	}
	nodeLabels := map[string]string{v1.RegisteredLabelKey: "true", v1.InitializedLabelKey: "true", corev1.LabelHostname: name}
	for key, value := range labels {
		nodeLabels[key] = value
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID("node-" + name), CreationTimestamp: metav1.NewTime(created), Labels: nodeLabels,
			Finalizers: []string{v1.TerminationFinalizer},
		},
		Spec: corev1.NodeSpec{ProviderID: id},
		Status: corev1.NodeStatus{
			Capacity: size, Allocatable: size,
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(created)}},
		},
	}
	return claim, node
}

package clusterapi_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"tenon.sh/api/clusterapiv1alpha1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider"
	"tenon.sh/provider/clusterapi"
	"tenon.sh/provider/clusterapi/contract"
)

// world is a provider over two API servers in memory, and a Cluster API that acts like its MachineSets: it makes Machines and deletes them in
// its own order.
type world struct {
	workload, management client.Client
	provider             *clusterapi.Provider
	class                *clusterapiv1alpha1.ClusterAPINodeClass
	clock                clock.Clock
	wait, grace, settled time.Duration

	mu        sync.Mutex
	writes    map[string]int // number of writes of replicas, by MachineDeployment
	made      int
	without   bool        // Machines get no provider ID
	makesNone bool        // Cluster API makes no Machines for now
	starting  atomic.Bool // the provider has not connected yet
	lost      atomic.Bool // the management cluster does not answer
	failing   string
	owners    []metav1.ManagedFieldsEntry // of the fields of MachineDeployments
	clashes   int                         // number of writes of replicas that fail with a conflict
}

func newWorld(t testing.TB, deployments ...*contract.MachineDeployment) *world {
	t.Helper()
	w := &world{writes: map[string]int{}, clock: clock.RealClock{}, wait: 3 * time.Second, grace: time.Nanosecond, settled: time.Nanosecond}
	work := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1.AddToScheme, clusterapiv1alpha1.AddToScheme} {
		if err := add(work); err != nil {
			t.Fatal(err)
		}
	}
	w.workload = fake.NewClientBuilder().WithScheme(work).
		WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }).
		WithObjects(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "this-cluster"}}).Build()
	manage := runtime.NewScheme()
	contract.AddToScheme(manage, "v1beta2")
	w.management = fake.NewClientBuilder().WithScheme(manage).WithInterceptorFuncs(interceptor.Funcs{
		SubResourcePatch: w.patchScale, Get: w.get, List: w.list, Patch: w.patch,
	}).Build()
	w.create(t, w.management, &contract.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "prod"}})
	for _, d := range deployments {
		w.create(t, w.management, d)
	}
	w.class = &clusterapiv1alpha1.ClusterAPINodeClass{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	w.create(t, w.workload, w.class)
	w.restart(t)
	return w
}

// restart clears the provider's memory.
func (w *world) restart(t testing.TB) {
	t.Helper()
	p, err := clusterapi.New(clusterapi.Config{
		Client: w.workload, Clock: w.clock, Wait: w.wait, Grace: w.grace, Settle: w.settled,
		Management: func() (*clusterapi.Management, error) {
			if w.starting.Load() {
				return nil, clusterapi.ErrNotConnected
			}
			return &clusterapi.Management{Live: w.management, Cached: w.management}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	w.provider = p
}

func (w *world) create(t testing.TB, c client.Client, object client.Object) {
	t.Helper()
	if err := c.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

func (w *world) reach() error {
	if w.lost.Load() {
		return &url.Error{Op: "Get", URL: "https://management", Err: errors.New("connection refused")}
	}
	return nil
}

func (w *world) get(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if err := w.reach(); err != nil {
		return err
	}
	return c.Get(ctx, key, o, opts...)
}

func (w *world) list(ctx context.Context, c client.WithWatch, o client.ObjectList, opts ...client.ListOption) error {
	if err := w.reach(); err != nil {
		return err
	}
	err := c.List(ctx, o, opts...)
	if list, ok := o.(*contract.MachineDeploymentList); ok && len(w.owners) > 0 {
		for i := range list.Items { // the client in memory does not store them
			list.Items[i].ManagedFields = w.owners
		}
	}
	return err
}

func (w *world) patch(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	if err := w.reach(); err != nil {
		return err
	}
	return c.Patch(ctx, o, p, opts...)
}

// patchScale writes replicas, and lets Cluster API act.
func (w *world) patchScale(ctx context.Context, c client.Client, _ string, o client.Object, p client.Patch, _ ...client.SubResourcePatchOption) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	data, err := p.Data(o)
	if err != nil {
		return err
	}
	scale := &autoscalingv1.Scale{}
	if err := json.Unmarshal(data, scale); err != nil {
		return err
	}
	d := &contract.MachineDeployment{}
	if err := c.Get(ctx, client.ObjectKeyFromObject(o), d); err != nil {
		return err
	}
	if w.clashes--; w.clashes >= 0 || scale.ResourceVersion != d.ResourceVersion {
		return apierrors.NewConflict(schema.GroupResource{Group: contract.Group, Resource: "machinedeployments"}, d.Name, fmt.Errorf("changed"))
	}
	d.Spec.Replicas = ptr.To(scale.Spec.Replicas)
	if err := c.Update(ctx, d); err != nil {
		return err
	}
	w.writes[d.Name]++
	return w.act(ctx, c, d)
}

// act acts like a MachineSet: marked Machines are deleted first, and Machines that are being deleted count until they are gone.
func (w *world) act(ctx context.Context, c client.Client, d *contract.MachineDeployment) (err error) {
	if _, paused := d.Annotations[contract.PausedAnnotation]; paused {
		return nil
	}
	var list contract.MachineList
	if err := c.List(ctx, &list, client.InNamespace(d.Namespace), client.MatchingLabels{contract.DeploymentNameLabel: d.Name}); err != nil {
		return err
	}
	defer func() {
		if err == nil {
			err = w.count(ctx, c, d)
		}
	}()
	for range int(*d.Spec.Replicas) - len(list.Items) {
		if w.makesNone {
			break
		}
		w.made++
		m := &contract.Machine{ObjectMeta: metav1.ObjectMeta{
			Namespace: d.Namespace, Name: fmt.Sprintf("%s-%03d", d.Name, w.made), Finalizers: []string{"machine.cluster.x-k8s.io"},
			CreationTimestamp: metav1.Now(), UID: types.UID(strconv.Itoa(w.made)),
			Labels: map[string]string{contract.DeploymentNameLabel: d.Name, contract.ClusterNameLabel: d.Spec.ClusterName},
		}}
		m.Status.Phase, m.Spec.ProviderID = "Provisioned", "fake://"+m.Name
		if w.without {
			m.Status.Phase, m.Spec.ProviderID = "Provisioning", ""
		}
		if m.Status.FailureMessage = w.failing; w.failing != "" {
			m.Spec.ProviderID = ""
		}
		if err := c.Create(ctx, m); err != nil {
			return err
		}
	}
	shrinks, err := shrinking(ctx, c, d)
	if err != nil {
		return err
	}
	rank := func(m contract.Machine) int {
		_, marked := m.Annotations[contract.DeleteAnnotation]
		switch {
		case m.DeletionTimestamp != nil:
			return 0
		case shrinks != "" && m.Labels[contract.SetNameLabel] != shrinks:
			return 3
		case marked:
			return 1
		}
		return 2
	}
	slices.SortFunc(list.Items, func(a, b contract.Machine) int { return cmp.Or(rank(a)-rank(b), cmp.Compare(a.Name, b.Name)) })
	for i := range max(0, len(list.Items)-int(*d.Spec.Replicas)) {
		if err := c.Delete(ctx, &list.Items[i]); err != nil {
			return err
		}
	}
	return nil
}

// shrinking returns the MachineSet from which Cluster API removes replicas if several MachineSets have replicas. With OnDelete, this is the
// oldest; otherwise, it is the largest. If fewer than two have replicas, shrinking returns "".
func shrinking(ctx context.Context, c client.Client, d *contract.MachineDeployment) (string, error) {
	var sets contract.MachineSetList
	if err := c.List(ctx, &sets, client.InNamespace(d.Namespace), client.MatchingLabels{contract.DeploymentNameLabel: d.Name}); err != nil {
		return "", err
	}
	sets.Items = slices.DeleteFunc(sets.Items, func(s contract.MachineSet) bool { return ptr.Deref(s.Spec.Replicas, 0) == 0 })
	if len(sets.Items) < 2 {
		return "", nil
	}
	slices.SortFunc(sets.Items, func(a, b contract.MachineSet) int {
		if size := cmp.Compare(*b.Spec.Replicas, *a.Spec.Replicas); size != 0 && !d.OnDelete() {
			return size
		}
		return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
	})
	return sets.Items[0].Name, nil
}

// count writes the number of Machines to the status.
func (w *world) count(ctx context.Context, c client.Client, d *contract.MachineDeployment) error {
	var list contract.MachineList
	if err := c.List(ctx, &list, client.InNamespace(d.Namespace), client.MatchingLabels{contract.DeploymentNameLabel: d.Name}); err != nil {
		return err
	}
	now := &contract.MachineDeployment{}
	if err := c.Get(ctx, client.ObjectKeyFromObject(d), now); err != nil {
		return err
	}
	now.Status.Replicas, now.Status.ObservedGeneration = ptr.To(int32(len(list.Items))), now.Generation
	return c.Update(ctx, now)
}

// settle removes Machines that are being deleted, and lets Cluster API act.
func (w *world) settle(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range w.machines(t) {
		if m.DeletionTimestamp != nil {
			m.Finalizers = nil
			if err := w.management.Update(t.Context(), &m); err != nil {
				t.Fatal(err)
			}
		}
	}
	var list contract.MachineDeploymentList
	if err := w.management.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		if list.Items[i].Spec.Replicas == nil {
			continue
		}
		if err := w.act(t.Context(), w.management, &list.Items[i]); err != nil {
			t.Fatal(err)
		}
	}
}

func (w *world) machines(t *testing.T) []contract.Machine {
	t.Helper()
	var list contract.MachineList
	if err := w.management.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

func (w *world) deployment(t *testing.T, name string) *contract.MachineDeployment {
	t.Helper()
	d := &contract.MachineDeployment{}
	if err := w.management.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: name}, d); err != nil {
		t.Fatal(err)
	}
	return d
}

// change edits a MachineDeployment.
func (w *world) change(t *testing.T, name string, edit func(d *contract.MachineDeployment)) {
	t.Helper()
	d := w.deployment(t, name)
	edit(d)
	if err := w.management.Update(t.Context(), d); err != nil {
		t.Fatal(err)
	}
}

func (w *world) classRef() provider.Class {
	return provider.Class{Ref: v1.NodeClassReference{Group: clusterapiv1alpha1.GroupVersion.Group, Kind: "ClusterAPINodeClass", Name: w.class.Name}, Object: w.class}
}

func (w *world) newClaim(t *testing.T, name string, requirements []v1.Requirement, requests corev1.ResourceList) *v1.NodeClaim {
	t.Helper()
	ref := w.classRef().Ref
	claim := &v1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)},
		Spec:       v1.NodeClaimSpec{NodeClassRef: &ref, Requirements: requirements, Resources: v1.ResourceRequirements{Requests: requests}},
	}
	w.create(t, w.workload, claim)
	return claim
}

func (w *world) launch(t *testing.T, claim *v1.NodeClaim) engine.Machine {
	t.Helper()
	m, err := w.provider.Launch(t.Context(), claim, w.classRef())
	if err != nil {
		t.Fatalf("launch %s: %v", claim.Name, err)
	}
	return m
}

// launchNoted launches a claim, and stores the provider's annotations on it.
func (w *world) launchNoted(t *testing.T, claim *v1.NodeClaim) error {
	_, err := w.provider.LaunchNoted(t.Context(), claim, w.classRef(), func(ctx context.Context, annotations map[string]string) error {
		before := client.MergeFrom(claim.DeepCopy())
		claim.Annotations = annotations
		return w.workload.Patch(ctx, claim, before)
	})
	return err
}

// deployment returns a MachineDeployment of a type in a zone, at a price.
func deployment(name, kind, zone, price string, edits ...func(*contract.MachineDeployment)) *contract.MachineDeployment {
	cores, memory := "2", "4Gi"
	if kind == "large" {
		cores, memory = "16", "64Gi"
	}
	d := &contract.MachineDeployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: name, Labels: map[string]string{contract.MemberLabel: ""},
		Annotations: map[string]string{
			contract.CapacityPrefix + "cpu": cores, contract.CapacityPrefix + "memory": memory,
			contract.CapacityPrefix + "labels": "node.kubernetes.io/instance-type=" + kind + ",topology.kubernetes.io/zone=" + zone,
			contract.PriceAnnotation:           price,
		},
	}}
	d.Spec.ClusterName, d.Spec.Replicas = "prod", ptr.To[int32](0)
	d.Spec.Template.Spec.InfrastructureRef = contract.Reference{APIGroup: "infrastructure.cluster.x-k8s.io", Kind: "DevMachineTemplate", Name: name}
	for _, edit := range edits {
		edit(d)
	}
	return d
}

// annotated sets an annotation.
func annotated(key, value string) func(*contract.MachineDeployment) {
	return func(d *contract.MachineDeployment) { d.Annotations[key] = value }
}

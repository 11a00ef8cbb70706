package kwok_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"tenon.sh/api/kwokv1alpha1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider"
	"tenon.sh/provider/catalog"
	"tenon.sh/provider/kwok"
	"tenon.sh/provider/providertest"
	"tenon.sh/provider/simulated"
)

func TestProvider(t *testing.T) {
	for name, delay := range map[string]time.Duration{"instant": 0, "fixed": 30 * time.Second} {
		t.Run(name, func(t *testing.T) {
			providertest.Run(t, func(t *testing.T) providertest.Fixture {
				w := newWorld(t, delay)
				return providertest.Fixture{
					Provider: w.provider,
					Class:    w.class(),
					NotReady: w.notReady(),
					NewClaim: w.newClaim,
					Settle: func(t *testing.T) {
						w.pass(t, time.Minute)
						w.tick(t)
					},
					SellOut: func(t *testing.T, offerings ...engine.OfferingID) {
						for _, o := range offerings {
							s := simulated.Selector{InstanceType: o.InstanceType, Zone: o.Zone, CapacityType: o.CapacityType}
							if err := w.cloud.Inject(simulated.Fault{What: simulated.FaultShort, Selector: s}); err != nil {
								t.Fatal(err)
							}
						}
					},
				}
			})
		})
	}
}

// world is a provider over an API server in memory. It outlives the provider: restart creates a new one.
type world struct {
	client   client.Client
	broken   error         // error of every write of a Node, nil for none
	refused  atomic.Int64  // number of writes that failed with `broken`
	lost     error         // error that the creation of a Node returns although the Node was created
	created  chan<- string // receives the name of every new Node, if it is set
	slow     time.Duration // duration of the creation of a Node
	clock    *testclock.FakeClock
	delay    time.Duration
	catalog  []engine.InstanceType // nil for the default
	cloud    *simulated.Cloud
	provider *kwok.Provider
}

func newWorld(t *testing.T, delay time.Duration) *world {
	t.Helper()
	w := &world{clock: testclock.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)), delay: delay}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1.AddToScheme, kwokv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	w.client = fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1.NodeClaim{}).
		WithInterceptorFuncs(interceptor.Funcs{Create: w.create, Delete: w.remove}).Build()
	class := &kwokv1alpha1.KWOKNodeClass{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	if err := w.client.Create(t.Context(), class); err != nil {
		t.Fatal(err)
	}
	w.restart(t)
	return w
}

// create sets a UID on Nodes, like an API server, and may fail.
func (w *world) create(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
	node, isNode := obj.(*corev1.Node)
	if !isNode {
		return c.Create(ctx, obj, opts...)
	}
	if w.broken != nil {
		w.refused.Add(1)
		return w.broken
	}
	node.UID = types.UID("node-" + node.Name + "-" + w.clock.Now().Format(time.RFC3339))
	node.CreationTimestamp = metav1.NewTime(w.clock.Now())
	if err := c.Create(ctx, obj, opts...); err != nil {
		return err
	}
	w.clock.Step(w.slow)
	if w.created != nil {
		w.created <- node.Name
	}
	return w.lost
}

func (w *world) remove(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
	if _, isNode := obj.(*corev1.Node); isNode && w.broken != nil {
		return w.broken
	}
	return c.Delete(ctx, obj, opts...)
}

// restart clears the memory.
func (w *world) restart(t *testing.T) {
	t.Helper()
	var err error
	types := w.catalog
	if types == nil {
		types = catalog.KWOK()
	}
	w.cloud, err = simulated.NewCloud(simulated.Config{Seed: 1, Clock: w.clock, Catalog: types, IDPrefix: kwok.IDPrefix,
		Profile: simulated.Profile{Boot: simulated.BootModel{Fixed: w.delay}}})
	if err != nil {
		t.Fatal(err)
	}
	w.provider, err = kwok.New(kwok.Config{Client: w.client, Clock: w.clock, Cloud: w.cloud})
	if err != nil {
		t.Fatal(err)
	}
}

func (w *world) pass(t *testing.T, d time.Duration) {
	t.Helper()
	w.clock.SetTime(w.clock.Now().Add(d))
}

func (w *world) tick(t *testing.T) time.Time {
	t.Helper()
	next, err := w.provider.Tick(t.Context())
	if err != nil {
		t.Fatalf("tick: %v", err)
	}
	return next
}

func (w *world) class() provider.Class {
	ref := v1.NodeClassReference{Group: "karpenter.kwok.sh", Kind: "KWOKNodeClass", Name: "default"}
	return provider.Class{Ref: ref, Object: &kwokv1alpha1.KWOKNodeClass{ObjectMeta: metav1.ObjectMeta{Name: "default"}}}
}

func (w *world) notReady() provider.Class {
	class := w.class()
	class.Object.(*kwokv1alpha1.KWOKNodeClass).Status.Conditions = []metav1.Condition{
		{Type: v1.ConditionReady, Status: metav1.ConditionFalse, Reason: "Broken", Message: "it is broken"},
	}
	return class
}

func (w *world) newClaim(t *testing.T, name string, requirements []v1.Requirement, requests corev1.ResourceList) *v1.NodeClaim {
	t.Helper()
	ref := w.class().Ref
	claim := &v1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID("uid-of-" + name + w.clock.Now().Format(time.RFC3339)),
		CreationTimestamp: metav1.NewTime(w.clock.Now()),
		Labels:            map[string]string{"team": "a", v1.NodePoolLabelKey: "general"},
		Annotations:       map[string]string{"note": "b"},
	}}
	claim.Spec.Requirements, claim.Spec.Resources.Requests, claim.Spec.NodeClassRef = requirements, requests, &ref
	if err := w.client.Create(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	return claim
}

package azure_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"tenon.sh/api/azurev1beta1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider"
	"tenon.sh/provider/azure"
	"tenon.sh/provider/azure/azuretest"
	"tenon.sh/provider/azure/cloud"
	"tenon.sh/provider/providertest"
)

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// eager is a clock that advances when a goroutine waits for it. It does not advance for timeouts of answers.
type eager struct{ *clocktesting.FakeClock }

func (c eager) NewTimer(d time.Duration) clock.Timer {
	timer := c.FakeClock.NewTimer(d)
	if d < cloud.Patience {
		c.Step(d)
	}
	return timer
}

// version is the API server's version.
type version string

func (v version) ServerVersion() (*apiversion.Info, error) {
	return &apiversion.Info{GitVersion: string(v)}, nil
}

const clusterName = "demo"

// world is a subscription with a subnet and an image, and a provider for a cluster that is not AKS.
type world struct {
	testing.TB
	*azuretest.Subscription
	clock         eager
	client        client.Client
	config        azure.Config
	provider      *azure.Provider
	subnet, image string
	told          []provider.Event
}

func newWorld(t testing.TB, change func(*azure.Config), objects ...client.Object) *world {
	t.Helper()
	w := &world{TB: t, clock: eager{clocktesting.NewFakeClock(time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC))}}
	w.Subscription = azuretest.New(t, w.clock)
	w.ForbidAKS()
	w.subnet = w.AddSubnet(azuretest.Group, "network", "machines", "10.1.0.0/16")
	w.image = w.AddImage(azuretest.Image{ID: "/subscriptions/" + w.ID + "/resourceGroups/" + azuretest.Group + "/providers/Microsoft.Compute/galleries/own/images/ubuntu",
		Versions: []azuretest.Version{{Name: "1.0.0", Published: w.clock.Now().Add(-time.Hour)}}})
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{azurev1beta1.AddToScheme, v1.AddToScheme, corev1.AddToScheme} {
		w.must(add(scheme))
	}
	w.client = fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&azurev1beta1.AKSNodeClass{}, &v1.NodeClaim{}).WithObjects(objects...).Build()
	w.config = azure.Config{
		ClusterName: clusterName, ClusterEndpoint: "https://api.example.com:6443", ResourceGroup: azuretest.Group, SubnetID: w.subnet, Mode: azure.ModeUserData,
		Client: w.client, Version: version("v1.34.2"), Clock: w.clock, Tell: func(e provider.Event) { w.told = append(w.told, e) },
	}
	if change != nil {
		change(&w.config)
	}
	w.restart()
	return w
}

// restart creates another provider without memory.
func (w *world) restart() {
	w.Helper()
	var err error
	w.config.Cloud, err = cloud.New(cloud.Config{Subscription: w.ID, Location: azuretest.Location, Credential: w.Credential(), Options: *w.Options(), PricesURL: w.PricesURL(), Clock: w.clock})
	w.must(err)
	w.provider, err = azure.New(w.config)
	w.must(err)
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// class stores a class with all fields set, after change.
func (w *world) class(name string, change func(*azurev1beta1.AKSNodeClass)) *azurev1beta1.AKSNodeClass {
	w.Helper()
	c := &azurev1beta1.AKSNodeClass{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name + "-uid"), Generation: 1},
		Spec:       azurev1beta1.AKSNodeClassSpec{ImageFamily: azurev1beta1.FamilyCustom, ImageID: w.image, UserData: "#!/bin/sh\njoin {{.ClusterName}} {{.NodeName}}\n"},
	}
	if change != nil {
		change(c)
	}
	w.must(w.client.Create(w.Context(), c))
	return c
}

// seen returns the class in the form for the provider.
func seen(c *azurev1beta1.AKSNodeClass) provider.Class {
	return provider.Class{Ref: v1.NodeClassReference{Group: azurev1beta1.Group, Kind: "AKSNodeClass", Name: c.Name}, Object: c}
}

// resolve resolves the class.
func (w *world) resolve(c *azurev1beta1.AKSNodeClass) (problem string) {
	w.Helper()
	problem, err := w.provider.Resolve(w.Context(), seen(c))
	w.must(err)
	return problem
}

// resolved returns a new class that is ready.
func (w *world) resolved(name string, change func(*azurev1beta1.AKSNodeClass)) *azurev1beta1.AKSNodeClass {
	w.Helper()
	c := w.class(name, change)
	if problem := w.resolve(c); problem != "" {
		w.Fatal(problem)
	}
	return c
}

// claim stores a claim of the class.
func (w *world) claim(name string, requirements []v1.Requirement, requests corev1.ResourceList) *v1.NodeClaim {
	w.Helper()
	claim := &v1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name + "-uid"), Labels: map[string]string{v1.NodePoolLabelKey: "pool"}},
		Spec: v1.NodeClaimSpec{
			NodeClassRef: &v1.NodeClassReference{Group: azurev1beta1.Group, Kind: "AKSNodeClass", Name: "general"}, Requirements: requirements,
			Resources: v1.ResourceRequirements{Requests: requests},
		},
	}
	w.must(w.client.Create(w.Context(), claim))
	return claim
}

// patient repeats a launch until it has ended.
type patient struct {
	*azure.Provider
	clock eager
}

func (p patient) Launch(ctx context.Context, claim *v1.NodeClaim, class provider.Class) (engine.Machine, error) {
	for {
		m, err := p.Provider.Launch(ctx, claim, class)
		pending := (*provider.PendingError)(nil)
		if !errors.As(err, &pending) {
			return m, err
		}
		p.clock.Step(pending.RetryAfter)
	}
}

// launch launches a claim until the launch has ended.
func (w *world) launch(claim *v1.NodeClaim, c *azurev1beta1.AKSNodeClass) (engine.Machine, error) {
	return patient{w.provider, w.clock}.Launch(w.Context(), claim, seen(c))
}

// names returns the names of all machines in Azure.
func (w *world) names() []string { return w.Names("Microsoft.Compute/virtualMachines") }

// left returns the number of remaining machines and their parts.
func (w *world) left() int {
	return len(w.names()) + len(w.Names("Microsoft.Compute/disks")) + len(w.Names("Microsoft.Network/networkInterfaces"))
}

// keepsBack sets reservations on nodes.
func keepsBack(c *azurev1beta1.AKSNodeClass) {
	c.Spec.Overhead = &v1.Overhead{KubeReserved: map[string]resource.Quantity{"cpu": resource.MustParse("100m")}}
}

func TestProvider(t *testing.T) {
	providertest.Run(t, func(t *testing.T) providertest.Fixture {
		w := newWorld(t, nil)
		ready := w.resolved("general", keepsBack)
		return providertest.Fixture{
			Provider: patient{w.provider, w.clock}, Class: seen(ready),
			NotReady: seen(w.class("broken", func(c *azurev1beta1.AKSNodeClass) { c.Spec.VNETSubnetID = w.subnet + "-none" })),
			NewClaim: func(t *testing.T, name string, requirements []v1.Requirement, requests corev1.ResourceList) *v1.NodeClaim {
				return w.claim(name, requirements, requests)
			},
			Settle: func(*testing.T) { w.clock.Step(time.Minute) },
			SellOut: func(t *testing.T, offerings ...engine.OfferingID) {
				for _, o := range offerings {
					zone := o.Zone[len(o.Zone)-1:]
					w.Limit(azuretest.Offering{Size: o.InstanceType, Zone: zone, CapacityType: o.CapacityType}, 0, "AllocationFailed")
				}
			},
		}
	})
}

func clientKey(name string) client.ObjectKey { return client.ObjectKey{Name: name} }

package aks_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"tenon.sh/provider/azure/aks"
	"tenon.sh/provider/azure/azuretest"
	"tenon.sh/provider/azure/cloud"
)

const group = azuretest.Group

// world is a subscription with the objects of a cluster.
type world struct {
	*azuretest.Subscription
	clock   *clocktesting.FakeClock
	cluster *aks.Cluster
}

func newWorld(t *testing.T, change func(*aks.Config), objects ...client.Object) *world {
	t.Helper()
	w := &world{clock: clocktesting.NewFakeClock(time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC))}
	w.Subscription = azuretest.New(t, w.clock)
	connection, err := cloud.New(cloud.Config{Subscription: w.ID, Location: azuretest.Location, Credential: w.Credential(), Options: *w.Options(), Clock: w.clock})
	if err != nil {
		t.Fatal(err)
	}
	config := aks.Config{Cloud: connection, Clock: w.clock, Reader: fake.NewClientBuilder().WithObjects(objects...).Build(), NodeResourceGroup: group}
	if change != nil {
		change(&config)
	}
	w.cluster = aks.New(config)
	return w
}

// pool returns a backend pool in Azure's form.
func (w *world) pool(balancer, name string, addresses ...any) (id string, shown map[string]any) {
	id = "/subscriptions/" + w.ID + "/resourceGroups/" + group + "/providers/Microsoft.Network/loadBalancers/" + balancer + "/backendAddressPools/" + name
	return id, map[string]any{"id": id, "name": name, "properties": map[string]any{"loadBalancerBackendAddresses": addresses}}
}

// pools returns the sorted names of the found pools, and their generation.
func (w *world) pools(t *testing.T) (names []string, generation int) {
	t.Helper()
	ids, generation, err := w.cluster.Pools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		parts := strings.Split(id, "/")
		names = append(names, parts[len(parts)-3]+"/"+parts[len(parts)-1])
	}
	return names, generation
}

func (w *world) lists() int { return len(w.Calls("LoadBalancers_List")) }

func TestNodesBelongInThePoolsOfAKSsOwnLoadBalancers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.AddGroup("other")
	_, outbound := w.pool("Kubernetes", "aksOutboundBackendPool")
	_, nodes := w.pool("Kubernetes", "kubernetes", map[string]any{"name": "nic", "properties": map[string]any{"networkInterfaceIPConfiguration": map[string]any{"id": "x"}}})
	_, outbound6 := w.pool("Kubernetes", "AKSOutboundBackendPool-IPv6")
	_, nodes6 := w.pool("Kubernetes", "kubernetes-ipv6")
	_, byAddress := w.pool("Kubernetes", "addresses", map[string]any{"name": "a", "properties": map[string]any{"ipAddress": "10.0.0.4"}})
	w.Put(group, "Microsoft.Network/loadBalancers", "Kubernetes", map[string]any{"backendAddressPools": []any{outbound6, nodes, byAddress, nodes6, outbound}})
	w.AddBalancer(group, "KUBERNETES-internal", "kubernetes")
	w.AddBalancer(group, "somebody-elses", "kubernetes")
	w.AddBalancer("other", "kubernetes", "kubernetes")
	got, _ := w.pools(t)
	if want := []string{"KUBERNETES-internal/kubernetes", "Kubernetes/aksOutboundBackendPool", "Kubernetes/kubernetes"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestAClusterWithoutALoadBalancerHasNoPools(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	if got, _ := w.pools(t); len(got) > 0 {
		t.Errorf("got %v", got)
	}
	if w.pools(t); w.lists() != 1 {
		t.Errorf("%d lists: that there are none is known", w.lists())
	}
}

func TestPoolsAreBelievedForTwoHours(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.AddBalancer(group, "kubernetes", "a")
	_, first := w.pools(t)
	w.AddBalancer(group, "kubernetes", "b")
	w.clock.Step(2*time.Hour - time.Second)
	if got, generation := w.pools(t); got[0] != "kubernetes/a" || generation != first || w.lists() != 1 {
		t.Errorf("too early: %v of generation %d, after %d lists", got, generation, w.lists())
	}
	w.clock.Step(time.Second)
	if got, generation := w.pools(t); got[0] != "kubernetes/b" || generation == first || w.lists() != 2 {
		t.Errorf("too late: %v of generation %d, after %d lists", got, generation, w.lists())
	}
}

// A pool is deleted, and all running launches fail for it.
func TestManyLaunchesThatMissAPoolCauseOneList(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.AddBalancer(group, "kubernetes", "a")
	_, old := w.pools(t)
	w.AddBalancer(group, "kubernetes", "b")
	var all sync.WaitGroup
	errs := make(chan error, 40)
	for range 40 {
		all.Go(func() {
			w.cluster.Stale(old)
			ids, generation, err := w.cluster.Pools(context.Background())
			if err != nil || generation == old || len(ids) != 1 || !strings.HasSuffix(ids[0], "/b") {
				errs <- fmt.Errorf("%v of generation %d: %w", ids, generation, err)
			}
		})
	}
	all.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
	if w.lists() != 2 {
		t.Errorf("%d lists", w.lists())
	}
	// A late failure with the old generation is ignored. A failure with the new generation counts.
	_, now := w.pools(t)
	w.cluster.Stale(old)
	if w.pools(t); w.lists() != 2 {
		t.Errorf("%d lists after a late caller", w.lists())
	}
	w.cluster.Stale(now)
	if w.pools(t); w.lists() != 3 {
		t.Errorf("%d lists after the new pool was missed", w.lists())
	}
}

func TestCallersCannotChangeWhatOthersGet(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.AddBalancer(group, "kubernetes", "a")
	ids, _, _ := w.cluster.Pools(t.Context())
	ids[0] = "changed"
	if got, _, _ := w.cluster.Pools(t.Context()); got[0] == "changed" {
		t.Error("they can")
	}
}

func TestAListThatFailsIsSaidAndTriedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.AddBalancer(group, "kubernetes", "a")
	w.Fail("LoadBalancers_List", azuretest.Fault{Status: 403, Code: "AuthorizationFailed", Message: "no"})
	_, _, err := w.cluster.Pools(t.Context())
	if !cloud.Denied(err) || !strings.Contains(err.Error(), "find the backend pools of AKS's load balancers") {
		t.Errorf("got %v", err)
	}
	w.Heal()
	w.clock.Step(time.Minute)
	if got, _ := w.pools(t); len(got) != 1 {
		t.Errorf("got %v", got)
	}
}

func TestASecurityGroupIsAskedForWhereTheSubnetIsNotAKSsOwn(t *testing.T) {
	t.Parallel()
	const kind = "Microsoft.Network/networkSecurityGroups"
	for _, test := range []struct {
		name, group, network, subnet string
		number                       string // in the group's name
		own                          bool
	}{
		{"AKS's own", group, "aks-vnet-87654321", "aks-subnet", "87654321", true},
		{"AKS's own, in other case", strings.ToUpper(group), "AKS-VNET-87654321", "AKS-Subnet", "87654321", true},
		{"another subnet of AKS's network", group, "aks-vnet-87654321", "machines", "12345678", false},
		{"a network of another name", group, "network", "aks-subnet", "12345678", false},
		{"seven digits", group, "aks-vnet-8765432", "aks-subnet", "12345678", false},
		{"nine digits", group, "aks-vnet-876543210", "aks-subnet", "12345678", false},
		{"another group", "other", "aks-vnet-87654321", "aks-subnet", "12345678", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			want := w.Put(group, kind, "AKS-agentpool-12345678-NSG", map[string]any{})
			for _, name := range []string{"aks-agentpool-1234567-nsg", "aks-agentpool-123456789-nsg", "my-aks-agentpool-12345678-nsg", "aks-agentpool-12345678-nsg-old", "other"} {
				w.Put(group, kind, name, map[string]any{})
			}
			subnet := "/subscriptions/" + w.ID + "/resourceGroups/" + test.group + "/providers/Microsoft.Network/virtualNetworks/" + test.network + "/subnets/" + test.subnet
			lists := 1
			if test.own {
				want, lists = "", 0
			}
			for range 2 {
				got, err := w.cluster.SecurityGroup(t.Context(), subnet)
				if err != nil || got != want || w.cluster.Owns(subnet) != test.own {
					t.Errorf("got %q, %v", got, err)
				}
				if number, err := w.cluster.Number(t.Context(), subnet); err != nil || number != test.number {
					t.Errorf("number %q, %v", number, err)
				}
			}
			if n := len(w.Calls("NetworkSecurityGroups_List")); n != lists {
				t.Errorf("%d lists, want %d", n, lists)
			}
		})
	}
}

func TestNoneOrSeveralSecurityGroupsAreSaid(t *testing.T) {
	t.Parallel()
	const kind = "Microsoft.Network/networkSecurityGroups"
	w := newWorld(t, nil)
	subnet := w.AddSubnet(group, "network", "machines", "10.1.0.0/16")
	w.Put(group, kind, "other", map[string]any{})
	_, err := w.cluster.SecurityGroup(t.Context(), subnet)
	for _, want := range []string{"aks-agentpool-<8 digits>-nsg", "resource group nodes has none (of 1)", "AZURE_NODE_RESOURCE_GROUP", "spec.networkSecurityGroupID"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v\nwant %s", err, want)
		}
	}
	if _, err := w.cluster.Number(t.Context(), subnet); err == nil {
		t.Error("a number without a group")
	}
	w.clock.Step(time.Minute)
	w.Put(group, kind, "aks-agentpool-22222222-nsg", map[string]any{})
	w.Put(group, kind, "aks-agentpool-11111111-nsg", map[string]any{})
	_, err = w.cluster.SecurityGroup(t.Context(), subnet)
	if err == nil || !strings.Contains(err.Error(), "has several: aks-agentpool-11111111-nsg, aks-agentpool-22222222-nsg") {
		t.Errorf("got %v", err)
	}
	if _, err := w.cluster.SecurityGroup(t.Context(), "/subscriptions/"+w.ID+"/resourceGroups/"+group+"/providers/Microsoft.Network/virtualNetworks/aks-vnet-11111111/subnets/aks-subnet"); err != nil {
		t.Errorf("AKS's own subnet needs none: %v", err)
	}
}

func TestTheGUIDOfTheNetworkIsLookedUpOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	subnet := w.AddSubnet(group, "network", "machines", "10.1.0.0/16")
	first, err := w.cluster.NetworkGUID(t.Context(), subnet)
	if err != nil || first == "" {
		t.Fatalf("got %q, %v", first, err)
	}
	if again, err := w.cluster.NetworkGUID(t.Context(), strings.ToUpper(subnet[:20])+subnet[20:]); err != nil || again != first || len(w.Calls("VirtualNetworks_Get")) != 1 {
		t.Errorf("got %q, %v, after %d calls", again, err, len(w.Calls("VirtualNetworks_Get")))
	}
	if other, err := w.cluster.NetworkGUID(t.Context(), w.AddSubnet(group, "other", "machines", "10.2.0.0/16")); err != nil || other == first {
		t.Errorf("another network has %q, %v", other, err)
	}
	for _, test := range []struct{ subnet, want string }{
		{w.Put(group, "Microsoft.Network/virtualNetworks", "bare", map[string]any{}) + "/subnets/a", "set VNET_GUID"},
		{strings.Replace(subnet, "/network/", "/gone/", 1), "VirtualNetworks_Get gone: ResourceNotFound"},
		{"/a/b", `"/a/b" is not the ID of one`},
	} {
		if _, err := w.cluster.NetworkGUID(t.Context(), test.subnet); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("got %v, want %s", err, test.want)
		}
	}
}

func TestWhatTheInstallationWasToldIsNotLookedUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *aks.Config) { c.NetworkGUID, c.DNSServiceIP, c.Reader = "guid", "10.9.0.10", nil })
	guid, err := w.cluster.NetworkGUID(t.Context(), "whatever")
	if ip, errIP := w.cluster.DNSServiceIP(t.Context()); guid != "guid" || ip != "10.9.0.10" || err != nil || errIP != nil || len(w.Calls("")) > 0 {
		t.Errorf("got %q, %v and %q, %v after %d calls", guid, err, ip, errIP, len(w.Calls("")))
	}
}

func kubeDNS(ip string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-dns"}, Spec: corev1.ServiceSpec{ClusterIP: ip}}
}

func TestTheClustersDNSIsWhereItsServiceIs(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		want    string
		objects []client.Object
	}{
		{"172.16.0.10", []client.Object{kubeDNS("172.16.0.10")}},
		{"10.0.0.10", nil},
		{"10.0.0.10", []client.Object{kubeDNS("None")}},
	} {
		w := newWorld(t, nil, test.objects...)
		for range 2 {
			if got, err := w.cluster.DNSServiceIP(t.Context()); err != nil || got != test.want {
				t.Errorf("got %q, %v, want %s", got, err, test.want)
			}
		}
	}
}

func TestAnAPIServerThatCannotBeAskedIsNoDefault(t *testing.T) {
	t.Parallel()
	down, asked := true, 0
	reader := fake.NewClientBuilder().WithObjects(kubeDNS("172.16.0.10")).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			asked++
			if down {
				return errors.New("connection refused")
			}
			return c.Get(ctx, key, o, options...)
		},
	}).Build()
	w := newWorld(t, func(c *aks.Config) { c.Reader = reader })
	if got, err := w.cluster.DNSServiceIP(t.Context()); err == nil || got != "" || !strings.Contains(err.Error(), "kube-system/kube-dns") {
		t.Errorf("got %q, %v", got, err)
	}
	down = false
	w.clock.Step(time.Minute)
	for range 3 {
		if got, err := w.cluster.DNSServiceIP(t.Context()); err != nil || got != "172.16.0.10" {
			t.Errorf("got %q, %v", got, err)
		}
	}
	if asked != 2 {
		t.Errorf("asked %d times: a Service is asked for once", asked)
	}
}

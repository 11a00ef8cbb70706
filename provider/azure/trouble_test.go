package azure_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v7"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/api/azurev1beta1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/enginetest"
	"tenon.sh/engine/lifecycle"
	"tenon.sh/provider"
	"tenon.sh/provider/azure"
	"tenon.sh/provider/azure/azuretest"
	"tenon.sh/provider/azure/cloud"
)

// A hundred machines come and go while each kind of fault affects one call in twenty. Each claim gets one machine, and nothing is left.
func TestAHundredMachinesComeAndGoThroughAllTrouble(t *testing.T) {
	enginetest.Long(t)
	t.Parallel()
	const machines, each = 100, 5
	w := newWorld(t, nil)
	w.Take(azuretest.Timing{Create: 20 * time.Second, Delete: 30 * time.Second, Lists: 10 * time.Second})
	reads := []azuretest.Fault{
		{Status: http.StatusInternalServerError, Code: "InternalServerError"}, {Status: http.StatusServiceUnavailable, Code: "ServerTimeout"},
		{Status: http.StatusTooManyRequests, Code: "TooManyRequests"}, {Status: http.StatusOK, Text: "<html>a proxy</html>"}, {Status: -1},
	}
	changes := append(slices.Clone(reads), azuretest.Fault{Status: -1, Done: true}, azuretest.Fault{Status: http.StatusGatewayTimeout, Code: "GatewayTimeout", Done: true})
	puts := append(slices.Clone(changes), azuretest.Fault{Code: "SkuNotAvailable"}, azuretest.Fault{Code: "OperationNotAllowed", Message: "exceeding approved standardDSv5Family Cores quota"},
		azuretest.Fault{Status: http.StatusForbidden, Code: "AuthorizationFailed"}, azuretest.Fault{Code: "OSProvisioningTimedOut", Async: true, Late: true})
	for _, code := range []string{"ZonalAllocationFailed", "AllocationFailed", "OverconstrainedAllocationRequest", "OverconstrainedZonalAllocationRequest", "VMExtensionProvisioningError"} {
		puts = append(puts, azuretest.Fault{Code: code, Message: "no", Async: true})
	}
	random := rand.New(rand.NewPCG(1, 2))
	for operation, faults := range map[string][]azuretest.Fault{
		putVM: puts, putNIC: changes, "VirtualMachines_Delete": append(slices.Clone(changes), azuretest.Fault{Code: "OperationNotAllowed", Message: "no", Async: true}),
		"NetworkInterfaces_Get": reads, "NetworkInterfaces_List": reads, "NetworkInterfaces_Delete": changes, "VirtualMachines_Get": reads, "VirtualMachines_List": reads, "Operations_Get": reads,
	} {
		var order []azuretest.Fault
		for range each {
			order = append(order, faults...)
		}
		random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for _, f := range order {
			f.Times, f.After = 1, random.IntN(machines*each/len(faults))
			w.Subscription.Fail(operation, f)
		}
	}
	o := &owner{world: w, class: w.resolved("general", nil), gone: map[string]bool{}}
	for i := range machines {
		w.claim(fmt.Sprintf("c%02d", i), nil, nil)
	}
	o.untilDone()
	if n := len(w.names()); n != machines {
		t.Errorf("%d machines of %d claims", n, machines)
	}
	for i := range machines {
		o.gone[fmt.Sprintf("c%02d", i)] = true
	}
	o.untilDone()
	for range 20 { // some of these calls fail too
		_ = w.provider.Clean(t.Context())
		w.clock.Step(6 * time.Minute)
	}
	if w.left() != 0 {
		t.Errorf("%d things are left: %v", w.left(), w.names())
	}
}

// untilDone works like the controllers until nothing is left to do.
func (o *owner) untilDone() {
	o.Helper()
	for range 1000 {
		if o.work() {
			return
		}
		o.clock.Step(5 * time.Second)
	}
	o.Error("the work does not end")
}

// lapsing is a credential whose tokens are valid for one call only. It gives none while there is an error.
type lapsing struct{ err error }

func (c *lapsing) GetToken(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
	return azcore.AccessToken{Token: "test", ExpiresOn: time.Now().Add(-time.Minute)}, c.err
}

// If lists or calls fail for a while, no machine counts as gone, and none is requested twice.
func TestAnOutageLosesAndDoublesNothing(t *testing.T) {
	t.Parallel()
	expired := azuretest.Fault{Status: http.StatusUnauthorized, Code: "ExpiredAuthenticationToken", Message: "The access token expiry UTC time is earlier than current UTC time."}
	down := azuretest.Fault{Status: http.StatusServiceUnavailable, Code: "ServiceUnavailable"}
	for name, trouble := range map[string]func(w *world, c *lapsing){
		"no lists": func(w *world, _ *lapsing) {
			w.Subscription.Fail("VirtualMachines_List", down)
			w.Subscription.Fail("NetworkInterfaces_List", down)
		},
		"no tokens": func(_ *world, c *lapsing) { c.err = errors.New("the identity's endpoint does not answer") },
		"tokens that have expired": func(w *world, _ *lapsing) {
			for _, call := range []string{"VirtualMachines_List", "VirtualMachines_Get", "VirtualMachines_Delete", "NetworkInterfaces_List", "NetworkInterfaces_Get", putVM, putNIC} {
				w.Subscription.Fail(call, expired)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			w.Take(azuretest.Timing{Create: time.Minute})
			credential, err := &lapsing{}, error(nil)
			w.config.Cloud, err = cloud.New(cloud.Config{Subscription: w.ID, Location: azuretest.Location, Credential: credential, Options: *w.Options(), PricesURL: w.PricesURL(), Clock: w.clock})
			w.must(err)
			w.provider, err = azure.New(w.config)
			w.must(err)
			c := w.resolved("general", nil)
			a := w.registered("a", c)
			source := w.source("machines")
			_, err = source.Notices(t.Context())
			w.must(err)
			claim := w.claim("b", nil, nil)
			if _, err := w.provider.Launch(t.Context(), claim, seen(c)); err == nil {
				t.Fatal("it runs at once")
			}

			trouble(w, credential)
			w.clock.Step(10 * time.Second) // the last list is too old now
			_, launch := w.provider.Launch(t.Context(), claim, seen(c))
			_, list := w.provider.Machines(t.Context())
			for what, err := range map[string]error{"launch": launch, "list": list, "clean": w.provider.Clean(t.Context()), "end": w.provider.Terminate(t.Context(), engine.MachineID(a.Status.ProviderID))} {
				soldOut, pending := (*provider.SoldOutError)(nil), (*provider.PendingError)(nil)
				if err == nil || errors.Is(err, provider.ErrGone) || errors.As(err, &soldOut) || errors.As(err, &pending) {
					t.Errorf("%s: %v", what, err)
				}
			}
			if notices, _ := source.Notices(t.Context()); len(notices) != 0 {
				t.Errorf("meanwhile told %+v", notices)
			}
			w.clock.Step(time.Hour)
			w.Heal()
			credential.err = nil
			w.must(w.provider.Clean(t.Context()))
			if notices, err := source.Notices(t.Context()); err != nil || len(notices) != 0 {
				t.Errorf("told %+v, %v", notices, err)
			}
			_, err = w.launch(claim, c)
			w.must(err)
			machines, err := w.provider.Machines(t.Context())
			w.must(err)
			if len(machines) != 2 || len(w.names()) != 2 || len(w.Calls(putVM)) != 2 || len(w.Calls("VirtualMachines_Delete")) != 0 {
				t.Errorf("%d machines, asked for %d times", len(machines), len(w.Calls(putVM)))
			}
		})
	}
}

// A class with unknown properties, or whose known properties are outdated, starts nothing.
func TestAClassOfWhichTooLittleIsKnownStartsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	unknown, stale, deleted := w.class("unknown", nil), w.resolved("stale", nil), w.resolved("deleted", nil)
	stale.Generation++
	deleted.DeletionTimestamp = &metav1.Time{Time: w.clock.Now()}
	for c, want := range map[*azurev1beta1.AKSNodeClass]string{unknown: "is not known yet", stale: "is not known yet", deleted: "it is being deleted"} {
		_, err := w.provider.Launch(t.Context(), w.claim(c.Name, nil, nil), seen(c))
		notReady := (*provider.ClassNotReadyError)(nil)
		if !errors.As(err, &notReady) || !strings.Contains(notReady.Problem, want) {
			t.Errorf("%s: %v", c.Name, err)
		}
	}
	if w.left() != 0 {
		t.Error("something was made")
	}
}

func TestADiskEncryptionSetThatMayNotBeReadIsSaid(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *azure.Config) {
		c.DiskEncryptionSetID = "/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/nodes/providers/Microsoft.Compute/diskEncryptionSets/own"
	})
	c := w.class("general", nil)
	refused := func(how string) {
		t.Helper()
		problem := w.resolve(c)
		is := v1.GetCondition(c, azurev1beta1.ConditionValidationSucceeded)
		if is.Status != metav1.ConditionFalse || is.Reason != "DiskEncryptionSetRBACMissing" || !strings.Contains(problem, "grant Reader on it") || !strings.Contains(problem, w.config.DiskEncryptionSetID) {
			t.Errorf("%s: %q, %+v", how, problem, is)
		}
	}
	refused("it is not there")
	w.Put(azuretest.Group, "Microsoft.Compute/diskEncryptionSets", "own", map[string]any{})
	w.Subscription.Fail("DiskEncryptionSets_Get", azuretest.Fault{Status: http.StatusForbidden, Code: "AuthorizationFailed"})
	refused("it may not be read")
	w.Heal()
	if problem := w.resolve(c); problem != "" {
		t.Error(problem)
	}
}

// Outside AKS, machines may be in any network that is peered with theirs.
func TestMachinesMayBeInANetworkOfOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.AddGroup("networks")
	subnet := w.AddSubnet("networks", "peered", "machines", "10.7.0.0/24")
	c := w.resolved("general", func(c *azurev1beta1.AKSNodeClass) { c.Spec.VNETSubnetID = subnet })
	_, err := w.launch(w.claim("a", nil, nil), c)
	w.must(err)
	w.wants(putNIC, map[string]string{"properties.ipConfigurations[0].properties.subnet.id": subnet})
}

func TestAMachineOfWhichNobodyKnowsWhenItWasMadeIsNotForgotten(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.Put(azuretest.Group, "Microsoft.Compute/virtualMachines", "a", map[string]any{"hardwareProfile": map[string]any{"vmSize": "Standard_D4s_v5"}})
	w.must(w.config.Cloud.UpdateVM(t.Context(), azuretest.Group, "a", armcompute.VirtualMachineUpdate{Tags: map[string]*string{
		"karpenter.azure.com_cluster": new(clusterName), "karpenter.azure.com_aksnodeclass": new("general"), "tenon.sh_nodeclaim": new("a"), "tenon.sh_nodeclaim-uid": new("a-uid")}}))
	w.clock.Step(time.Hour)
	machines, err := w.provider.Machines(t.Context())
	w.must(err)
	if orphans := lifecycle.Orphans(nil, nil, machines, azurev1beta1.NodeClassLabelKey, w.clock.Now()); len(machines) != 1 || len(orphans) != 0 {
		t.Errorf("machines %+v, forgotten %+v", machines, orphans)
	}
}

func TestWhatSaysThatAMachineIsBroken(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	want := []engine.RepairPolicy{
		{Condition: "Ready", Status: "False", Toleration: 10 * time.Minute}, {Condition: "Ready", Status: "Unknown", Toleration: 10 * time.Minute},
		{Condition: "kubernetes.azure.com/NodeHealthy", Status: "False"}, // an announced eviction is no fault
	}
	if got := w.provider.Repairs(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
}

// Callers wait for the time that Azure gives, and then call again.
func TestWhoCallsTooOftenComesAgainWhenAzureSays(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	c := w.resolved("general", nil)
	claim := w.claim("a", nil, nil)
	for _, call := range []string{putNIC, putVM} {
		w.Subscription.Fail(call, azuretest.Fault{Status: http.StatusTooManyRequests, Code: "TooManyRequests", RetryAfter: 17 * time.Second, Times: 1})
		_, err := w.provider.Launch(t.Context(), claim, seen(c))
		throttled := (*provider.ThrottledError)(nil)
		if !errors.As(err, &throttled) || throttled.RetryAfter < 17*time.Second || throttled.RetryAfter > 19*time.Second || len(w.names()) != 0 {
			t.Errorf("%s: %v", call, err)
		}
		if n := len(w.Calls(call)); n != 1 {
			t.Errorf("%d calls of %s", n, call)
		}
		w.clock.Step(20 * time.Second)
	}
	_, err := w.launch(claim, c)
	w.must(err)
}

// A machine whose claim belongs to no pool is listed like all others, so that it is missed when its claim is deleted.
func TestAMachineOfNoPoolIsListed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	c := w.resolved("general", nil)
	claim := w.claim("a", nil, nil)
	claim.Labels = nil
	w.must(w.client.Update(t.Context(), claim))
	_, err := w.launch(claim, c)
	w.must(err)
	machines, err := w.provider.Machines(t.Context())
	w.must(err)
	if _, tagged := w.tags("Microsoft.Compute/virtualMachines", "a")["karpenter.sh_nodepool"]; tagged || len(machines) != 1 || machines[0].Claim != "a" || machines[0].Labels[v1.NodePoolLabelKey] != "" {
		t.Errorf("machines %+v", machines)
	}
}

package azure_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"tenon.sh/engine"
	"tenon.sh/provider/azure"
	"tenon.sh/provider/azure/azuretest"
)

const putExtension = "VirtualMachineExtensions_CreateOrUpdate"

// extensions returns the names of the machines' extensions with the names of the machines, and the number of requests for one.
func (w *world) extensions() (names string, calls int) {
	return strings.Join(w.Names("Microsoft.Compute/virtualMachines/extensions"), " "), len(w.Calls(putExtension))
}

// Running machines of AKS get, once, the extension by which AKS counts machines. It does not matter which controller manages them.
func TestAKSCountsItsMachines(t *testing.T) {
	t.Parallel()
	w, c := newAKS(t)
	w.Take(azuretest.Timing{Create: time.Minute})
	w.resolve(c)
	claim := w.claim("early", nil, nil)
	if _, err := w.provider.Launch(t.Context(), claim, seen(c)); err == nil {
		t.Fatal("it runs at once")
	}
	w.must(w.provider.Clean(t.Context()))
	if names, _ := w.extensions(); names != "" {
		t.Errorf("before a machine runs: %s", names)
	}
	claim = w.registered("a", c)
	for range 3 {
		w.must(w.provider.Clean(t.Context()))
		w.clock.Step(time.Hour)
		w.restart()
	}
	if names, calls := w.extensions(); names != "computeAksLinuxBilling" || calls != 1 {
		t.Errorf("extensions %q after %d calls", names, calls)
	}
	w.wants(putExtension, map[string]string{
		"properties.publisher": "Microsoft.AKS", "properties.type": "Compute.AKS.Linux.Billing", "properties.typeHandlerVersion": "1.0",
		"tags.karpenter.azure.com_cluster": clusterName, "tags.compute.aks.billing": "linux",
	})
	// Its tags are those of its machine, also later.
	w.must(w.client.Get(t.Context(), clientKey("general"), c))
	c.Spec.Tags = map[string]string{"team": "b"}
	w.must(w.client.Update(t.Context(), c))
	for range 2 {
		w.must(w.provider.Clean(t.Context()))
	}
	if tags := w.tags("Microsoft.Compute/virtualMachines", "aks-a/extensions/computeAksLinuxBilling"); tags["team"] != "b" || tags["compute.aks.billing"] != "linux" {
		t.Errorf("tags %v", tags)
	}
	w.must(w.provider.Terminate(t.Context(), engine.MachineID(claim.Status.ProviderID)))
	if names, calls := w.extensions(); names != "" || calls != 2 {
		t.Errorf("extensions %q, %d calls", names, calls)
	}
}

// A machine without the extension stays, and Azure is not asked repeatedly.
func TestMachinesThatAKSCannotCountStay(t *testing.T) {
	t.Parallel()
	w, c := newAKS(t)
	w.resolve(c)
	w.registered("a", c)
	w.Subscription.Fail(putExtension, azuretest.Fault{Status: http.StatusForbidden, Code: "AuthorizationFailed", Message: "no"})
	err := w.provider.Clean(t.Context())
	if err == nil || !strings.Contains(err.Error(), "give machine aks-a extension computeAksLinuxBilling") || !strings.Contains(err.Error(), `grant role "Virtual Machine Contributor"`) {
		t.Errorf("got %v", err)
	}
	for range 10 {
		w.clock.Step(30 * time.Second)
		w.must(w.provider.Clean(t.Context()))
	}
	if _, calls := w.extensions(); calls != 1 || len(w.names()) != 1 {
		t.Errorf("%d calls, machines %v", calls, w.names())
	}
	w.Heal()
	w.Subscription.Fail(putExtension, azuretest.Fault{Code: "VMExtensionProvisioningError", Message: "it broke", Async: true, Times: 1})
	for range 2 { // an extension that fails late does not count
		w.clock.Step(11 * time.Minute)
		w.must(w.provider.Clean(t.Context()))
	}
	w.clock.Step(11 * time.Minute)
	w.must(w.provider.Clean(t.Context()))
	if names, calls := w.extensions(); names != "computeAksLinuxBilling" || calls != 3 {
		t.Errorf("extensions %q after %d calls", names, calls)
	}
}

func TestMachinesThatAreNotAKSsAreNotCounted(t *testing.T) {
	t.Parallel()
	self := newWorld(t, nil)
	self.registered("a", self.resolved("general", nil))
	other, c := newAKS(t)
	other.config.OtherCloud = true
	other.restart()
	other.resolve(c)
	other.registered("a", c)
	made := newOfAKSItself(t, func(c *azure.Config) { c.ClusterGroup = "clusters" })
	claim := made.world.claim(made.claim, nil, nil)
	claim.Status.ProviderID = string(made.id)
	made.must(made.client.Status().Update(t.Context(), claim))
	for name, w := range map[string]*world{"not in AKS": self, "in another cloud": other, "made by AKS": made.world} {
		w.must(w.provider.Clean(t.Context()))
		if _, calls := w.extensions(); calls != 0 || len(w.names()) != 1 {
			t.Errorf("%s: %d calls", name, calls)
		}
	}
}

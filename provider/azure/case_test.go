package azure_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"tenon.sh/engine"
	"tenon.sh/provider"
	"tenon.sh/provider/azure/azuretest"
)

// Settings, claims and nodes may spell a machine's ID in upper or lower case. It is the same machine, and its claim gets one spelling.
func TestAMachineIsTheSameWhateverTheCaseOfItsID(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.ID = strings.ToUpper("0000000a-0000-0000-0000-00000000000b") // as in AZURE_SUBSCRIPTION_ID
	w.subnet = w.AddSubnet(azuretest.Group, "network", "machines", "10.1.0.0/16")
	w.image = w.AddImage(azuretest.Image{ID: "/subscriptions/" + w.ID + "/resourceGroups/" + azuretest.Group + "/providers/Microsoft.Compute/galleries/own/images/ubuntu",
		Versions: []azuretest.Version{{Name: "1.0.0", Published: w.clock.Now().Add(-time.Hour)}}})
	w.config.ResourceGroup, w.config.SubnetID = strings.ToUpper(azuretest.Group), w.subnet
	w.restart()
	c := w.resolved("general", nil)
	claim := w.registered("a", c)
	want := "azure:///subscriptions/0000000a-0000-0000-0000-00000000000b/resourceGroups/nodes/providers/Microsoft.Compute/virtualMachines/a"
	if claim.Status.ProviderID != want {
		t.Errorf("the claim's machine is %s", claim.Status.ProviderID)
	}
	for _, id := range []string{want, strings.ToUpper(want[:8]) + want[8:], strings.Replace(want, "0000000a", "0000000A", 1), strings.Replace(want, "virtualMachines/a", "virtualmachines/A", 1)} {
		m, err := w.provider.Machine(t.Context(), engine.MachineID(id))
		if err != nil || string(m.ID) != want {
			t.Errorf("%s is %s: %v", id, m.ID, err)
		}
		claim.Status.ProviderID = id
		w.must(w.client.Status().Update(t.Context(), claim))
		if notices, err := w.source("machines").Notices(t.Context()); err != nil || len(notices) != 0 {
			t.Errorf("%s seems to be gone: %v, %v", id, notices, err)
		}
	}
	w.must(w.provider.Terminate(t.Context(), engine.MachineID(strings.ToUpper(want))))
	w.clock.Step(time.Minute)
	if err := w.provider.Terminate(t.Context(), engine.MachineID(want)); !errors.Is(err, provider.ErrGone) {
		t.Errorf("once it is gone: %v", err)
	}
}

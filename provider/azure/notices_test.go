package azure_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v7"
	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider"
	"tenon.sh/provider/azure/azuretest"
)

// source returns a source of notices by name.
func (w *world) source(name string) provider.Source {
	w.Helper()
	for _, s := range w.provider.Sources() {
		if s.Name == name {
			return s
		}
	}
	w.Fatalf("no source %s", name)
	return provider.Source{}
}

func TestNodesTellWhatAzureIsAboutToDo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	for i, test := range []struct{ condition, reason, want string }{
		{"PreemptionScheduled", "SpotEvictionIncoming", engine.NoticeSpotInterruption},
		{"VMEventScheduled", "PreemptScheduled", engine.NoticeSpotInterruption},
		{"VMEventScheduled", "TerminateScheduled", engine.NoticeTerminating},
		{"VMEventScheduled", "RedeployScheduled", engine.NoticeScheduledChange},
		{"VMEventScheduled", "RebootScheduled", engine.NoticeScheduledChange},
		{"VMEventScheduled", "FreezeScheduled", ""}, // it continues some seconds later
		{"KernelDeadlock", "Preempted", ""},
	} {
		claim := w.claim(fmt.Sprintf("c%d", i), nil, nil)
		claim.Status.ProviderID = "azure:///subscriptions/" + w.ID + "/resourceGroups/nodes/providers/Microsoft.Compute/virtualMachines/" + claim.Name
		n := node(claim, test.condition, test.reason)
		w.must(w.client.Create(t.Context(), n))
		source := w.source("nodes")
		notices, err := source.Notices(t.Context())
		w.must(err)
		if test.want == "" != (len(notices) == 0) || len(notices) == 1 && (notices[0].Kind != test.want || string(notices[0].Machine) != claim.Status.ProviderID) {
			t.Errorf("%s %s: %+v", test.condition, test.reason, notices)
		}
		for _, notice := range notices {
			w.must(source.Acknowledge(t.Context(), notice))
		}
		if again, _ := source.Notices(t.Context()); len(again) != 0 {
			t.Errorf("%s: acted on, and again %+v", test.condition, again)
		}
		n.Status.Conditions[0].Status = corev1.ConditionFalse // cancelled
		w.must(w.client.Update(t.Context(), n))
		if again, _ := source.Notices(t.Context()); len(again) != 0 {
			t.Errorf("%s: called off, and %+v", test.condition, again)
		}
		w.must(w.client.Delete(t.Context(), n))
	}
}

func TestMachinesThatAzureHasTakenAwayAreNoticed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	c := w.resolved("general", nil)
	spot := w.registered("spot", c, in(v1.CapacityTypeLabelKey, "spot"))
	onDemand := w.registered("on-demand", c, in(v1.CapacityTypeLabelKey, "on-demand"))
	w.registered("stays", c, in(v1.CapacityTypeLabelKey, "spot"))
	source := w.source("machines")
	if notices, err := source.Notices(t.Context()); err != nil || len(notices) != 0 {
		t.Errorf("at first %+v, %v", notices, err)
	}
	w.Evict("spot")
	w.Remove("/subscriptions/" + w.ID + "/resourceGroups/nodes/providers/Microsoft.Compute/virtualMachines/on-demand")
	w.clock.Step(30 * time.Second)
	notices, err := source.Notices(t.Context())
	w.must(err)
	got := map[engine.MachineID]string{}
	for _, n := range notices {
		got[n.Machine] = n.Kind
	}
	if len(got) != 2 || got[engine.MachineID(spot.Status.ProviderID)] != engine.NoticeSpotInterruption || got[engine.MachineID(onDemand.Status.ProviderID)] != engine.NoticeTerminating {
		t.Errorf("got %v", got)
	}
}

// An unknown machine hides no others, and a machine of another resource group does not count as gone.
func TestMachinesThatAreNotKnownHideNoOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	c := w.resolved("general", nil)
	w.registered("a-stray", c)
	gone := w.registered("gone", c)
	elsewhere := w.registered("elsewhere", c)
	elsewhere.Status.ProviderID = "azure:///subscriptions/" + w.ID + "/resourceGroups/others/providers/Microsoft.Compute/virtualMachines/elsewhere"
	w.must(w.client.Status().Update(t.Context(), elsewhere))
	w.must(w.config.Cloud.UpdateVM(t.Context(), azuretest.Group, "a-stray", armcompute.VirtualMachineUpdate{Tags: map[string]*string{}}))
	w.Remove("/subscriptions/" + w.ID + "/resourceGroups/nodes/providers/Microsoft.Compute/virtualMachines/gone")
	w.clock.Step(30 * time.Second)
	notices, err := w.source("machines").Notices(t.Context())
	w.must(err)
	if len(notices) != 1 || string(notices[0].Machine) != gone.Status.ProviderID {
		t.Errorf("got %+v", notices)
	}
}

package azure_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"tenon.sh/api/azurev1beta1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/lifecycle"
	"tenon.sh/provider"
	"tenon.sh/provider/azure"
	"tenon.sh/provider/azure/azuretest"
)

// ofAKSItself is an AKS cluster in which AKS itself has made a machine for a claim.
type ofAKSItself struct {
	*world
	class           *azurev1beta1.AKSNodeClass
	resource, vm    string // the machine's ID, and the name of its virtual machine
	id              engine.MachineID
	claim, machine  string // their names
	pool, poolGroup string
}

func newOfAKSItself(t *testing.T, change func(*azure.Config)) *ofAKSItself {
	w, c := newAKS(t)
	if change != nil {
		change(&w.config)
		w.restart()
	}
	o := &ofAKSItself{world: w, class: c, claim: "general-with-a-name-that-is-longer-than-aks-takes-x7k2p", machine: "general-with-a-name-abcdef-x7k2p", pool: "aksmanagedap", poolGroup: "Clusters"}
	w.resolve(c)
	o.resource, o.vm = w.AddAKSMachine(azuretest.AKSMachine{
		Cluster: clusterName, ClusterGroup: o.poolGroup, Pool: o.pool, Name: o.machine, Size: "Standard_D4s_v5", Zone: "1",
		Tags: map[string]string{"karpenter.azure.com_cluster": clusterName, "karpenter.sh_nodepool": "pool", "karpenter.azure.com_aksmachine_nodeclaim": o.claim},
	})
	o.id = engine.MachineID("azure:///subscriptions/" + w.ID + "/resourceGroups/nodes/providers/Microsoft.Compute/virtualMachines/" + o.vm)
	w.clock.Step(time.Hour)
	return o
}

// deleted fails the test unless AKS got this number of requests to delete the machine, and Azure none.
func (o *ofAKSItself) deleted(times int) {
	o.Helper()
	for _, call := range []string{"VirtualMachines_Delete", "VirtualMachines_Update", "NetworkInterfaces_Delete", "VirtualMachines_CreateOrUpdate"} {
		if n := len(o.Calls(call)); n != 0 {
			o.Errorf("%d calls of %s", n, call)
		}
	}
	calls := o.Calls("AgentPools_DeleteMachines")
	if len(calls) != times {
		o.Errorf("AKS was asked %d times to delete machines, not %d", len(calls), times)
	}
	for _, c := range calls {
		var body struct{ MachineNames []string }
		o.must(json.Unmarshal(c.Body, &body))
		if want := "/" + o.pool + "/deleteMachines"; !strings.HasSuffix(c.Path, want) || !slices.Equal(body.MachineNames, []string{o.machine}) {
			o.Errorf("AKS was asked %s %s", c.Path, c.Body)
		}
	}
}

// gone fails the test unless the machine is deleted, once.
func (o *ofAKSItself) gone() {
	o.Helper()
	o.Take(azuretest.Timing{Delete: time.Minute})
	for range 2 {
		o.must(o.provider.Terminate(o.Context(), o.id))
		o.clock.Step(10 * time.Second)
	}
	m, err := o.provider.Machine(o.Context(), o.id)
	if err != nil || !m.Leaving {
		o.Errorf("while it goes: %+v, %v", m, err)
	}
	o.clock.Step(time.Minute)
	if err := o.provider.Terminate(o.Context(), o.id); !errors.Is(err, provider.ErrGone) {
		o.Errorf("once it is gone: %v", err)
	}
	o.deleted(1)
}

func TestMachinesThatAKSHasMadeAreThoseOfTheirClaims(t *testing.T) {
	t.Parallel()
	o := newOfAKSItself(t, nil)
	list, err := o.provider.Machines(t.Context())
	o.must(err)
	if len(list) != 1 || list[0].ID != o.id || list[0].Claim != o.claim || list[0].Labels["topology.kubernetes.io/zone"] != "eastus-1" || list[0].Labels[v1.NodePoolLabelKey] != "pool" {
		t.Errorf("listed: %+v", list)
	}
	claim := o.world.claim(o.claim, nil, nil) // no annotation names its machine
	m, err := o.launch(claim, o.class)
	o.must(err)
	if m.ID != o.id || m.Claim != o.claim || m.Capacity.Cpu().Value() != 4 {
		t.Errorf("launched: %+v", m)
	}
	o.deleted(0)
}

func TestAMachineThatAKSHasMadeIsDeletedByAKS(t *testing.T) {
	t.Parallel()
	t.Run("as its claim says", func(t *testing.T) {
		t.Parallel()
		o := newOfAKSItself(t, nil)
		claim := o.world.claim(o.claim, nil, nil)
		claim.Annotations = map[string]string{azurev1beta1.MachineResourceAnnotationKey: o.resource}
		o.must(o.client.Update(t.Context(), claim))
		o.gone()
	})
	t.Run("as its name and the settings say", func(t *testing.T) {
		t.Parallel()
		o := newOfAKSItself(t, func(c *azure.Config) { c.ClusterGroup = "clusters" })
		claim := o.world.claim(o.claim, nil, nil)
		claim.Annotations = map[string]string{azurev1beta1.MachineResourceAnnotationKey: strings.Replace(o.resource, "abcdef", "another", 1)} // of another machine
		o.must(o.client.Update(t.Context(), claim))
		o.gone()
	})
}

func TestAMachineOfAKSOfWhichNobodyKnowsWhereItIsIsLeftAlone(t *testing.T) {
	t.Parallel()
	o := newOfAKSItself(t, nil)
	o.world.claim(o.claim, nil, nil)
	err := o.provider.Terminate(t.Context(), o.id)
	if err == nil || !strings.Contains(err.Error(), "set ARM_RESOURCE_GROUP") || !strings.Contains(err.Error(), "--name aksmanagedap --machine-names "+o.machine) {
		t.Errorf("got %v", err)
	}
	if len(o.told) != 1 || o.told[0].Object.GetName() != o.claim || o.told[0].Message != err.Error() {
		t.Errorf("told %+v", o.told)
	}
	o.deleted(0)
}

// A missing pool or cluster means that the settings are wrong, not that the machine is gone.
func TestAMachineOfAKSIsNotGoneBecauseItsPoolIsNotFound(t *testing.T) {
	t.Parallel()
	o := newOfAKSItself(t, func(c *azure.Config) { c.ClusterGroup = azuretest.Group })
	err := o.provider.Terminate(t.Context(), o.id)
	if err == nil || errors.Is(err, provider.ErrGone) || !strings.Contains(err.Error(), "CLUSTER_NAME") {
		t.Errorf("got %v", err)
	}
	o.deleted(1)
}

func TestAMachineOfAKSThatNoClaimHasIsLeftAlone(t *testing.T) {
	t.Parallel()
	o := newOfAKSItself(t, func(c *azure.Config) { c.ClusterGroup = "clusters" })
	nic := o.Put(azuretest.Group, "Microsoft.Network/networkInterfaces", "aks-aksmanagedap-next-00000001-vm-nic", map[string]any{}) // of a machine that AKS is about to make
	o.must(o.config.Cloud.TagNIC(t.Context(), azuretest.Group, "aks-aksmanagedap-next-00000001-vm-nic", map[string]*string{
		"karpenter.azure.com_cluster": new(clusterName), "Karpenter.azure.com_AKSMachine_NodeClaim": new("next")}))
	var logged []string
	ctx := log.IntoContext(t.Context(), funcr.New(func(_, line string) { logged = append(logged, line) }, funcr.Options{}))
	for range 3 {
		o.must(o.provider.Clean(ctx))
		machines, err := o.provider.Machines(t.Context())
		o.must(err)
		if orphans := lifecycle.Orphans(nil, nil, machines, azurev1beta1.NodeClassLabelKey, o.clock.Now()); len(machines) != 1 || len(orphans) != 0 {
			t.Errorf("machines %+v, forgotten are %+v", machines, orphans)
		}
		o.clock.Step(time.Hour)
	}
	o.must(o.provider.Release(t.Context(), o.id)) // no later installation would count it as left behind
	if len(logged) != 1 || !strings.Contains(logged[0], "az aks nodepool delete-machines") || !strings.Contains(logged[0], o.vm) {
		t.Errorf("logged %q", logged)
	}
	if len(o.Tags(nic)) != 2 {
		t.Error("the network interface is gone")
	}
	o.deleted(0)
}

// Later tags of the class are not set on machines that AKS has made, because AKS would restore the earlier ones.
func TestTagsOfMachinesThatAKSHasMadeStay(t *testing.T) {
	t.Parallel()
	o := newOfAKSItself(t, nil)
	o.registered(o.claim, o.class)
	o.must(o.client.Get(t.Context(), clientKey("general"), o.class))
	o.class.Spec.Tags = map[string]string{"team": "b"}
	o.must(o.client.Update(t.Context(), o.class))
	o.must(o.provider.Clean(t.Context()))
	o.deleted(0)
}

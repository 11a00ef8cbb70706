package azuretest_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v7"

	"tenon.sh/provider/azure/azuretest"
	"tenon.sh/provider/azure/cloud"
	"tenon.sh/provider/azure/network"
)

func TestAMachineComesIsListedAndGoesWithAllThatItHas(t *testing.T) {
	w := newWorld(t)
	w.Take(azuretest.Timing{Create: 25 * time.Second, Delete: 45 * time.Second})
	w.must(w.cloud.PutNIC(t.Context(), azuretest.Group, "a", w.nic()))
	o, err := w.cloud.BeginVM(t.Context(), azuretest.Group, "a", w.vm("a"))
	w.must(err)
	if provisioning, power := w.state("a"); provisioning != "Creating" || power != "" {
		t.Errorf("at first: %s, %s", provisioning, power)
	}
	began := w.clock.Now()
	w.must(o.Wait(t.Context()))
	if took := w.clock.Since(began); took != 25*time.Second {
		t.Errorf("it took %s", took)
	}
	if provisioning, power := w.state("a"); provisioning != "Succeeded" || power != "running" {
		t.Errorf("then: %s, %s", provisioning, power)
	}
	w.must(w.cloud.BeginExtension(t.Context(), azuretest.Group, "a", "watch", armcompute.VirtualMachineExtension{Location: new(azuretest.Location), Properties: &armcompute.VirtualMachineExtensionProperties{Publisher: new("p"), Type: new("t")}}))
	if w.left() != 4 {
		t.Errorf("%d resources, want a machine, an extension, a disk and an interface", w.left())
	}
	list, err := w.cloud.VMs(t.Context(), azuretest.Group)
	w.must(err)
	if len(list) != 1 || *list[0].Tags["cluster"] != "demo" || *list[0].Zones[0] != "1" || list[0].Properties.TimeCreated == nil || list[0].Properties.OSProfile.CustomData != nil {
		t.Errorf("listed: %+v", list)
	}
	if w.CustomData("a") != "c2VjcmV0" {
		t.Errorf("custom data %q", w.CustomData("a"))
	}
	w.delete("a")
	if w.left() != 0 {
		t.Errorf("%d resources are left", w.left())
	}
	w.delete("a") // a second time is no error
	w.must(w.cloud.DeleteNIC(t.Context(), azuretest.Group, "a"))
}

// The number of calls for a machine determines how many machines an autoscaler can start per minute.
func TestCallsOfAMachinesLifeAreCounted(t *testing.T) {
	w := newWorld(t)
	w.Take(azuretest.Timing{Create: 25 * time.Second})
	w.must(w.launch("a", nil))
	w.must(w.launch("b", nil))
	w.delete("a")
	var got []string
	for _, c := range w.CallsAbout("a") {
		got = append(got, c.Operation)
	}
	want := []string{"NetworkInterfaces_CreateOrUpdate", "VirtualMachines_CreateOrUpdate", "Operations_Get", "Operations_Get", "Operations_Get", "VirtualMachines_Delete", "Operations_Get"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestWhatIsNotToGoWithAMachineStays(t *testing.T) {
	w := newWorld(t)
	w.must(w.launch("a", func(vm *armcompute.VirtualMachine) {
		vm.Properties.StorageProfile.OSDisk.DeleteOption = nil
		vm.Properties.NetworkProfile.NetworkInterfaces[0].Properties.DeleteOption = nil
	}))
	w.fails(w.cloud.DeleteNIC(t.Context(), azuretest.Group, "a"), "NicInUse", "")
	w.delete("a")
	disks, err := w.cloud.Disks(t.Context(), azuretest.Group)
	w.must(err)
	nics, err := w.cloud.NICs(t.Context(), azuretest.Group)
	w.must(err)
	if len(disks) != 1 || disks[0].ManagedBy != nil || len(nics) != 1 || nics[0].Properties.VirtualMachine != nil {
		t.Errorf("left: %v %v", disks, nics)
	}
	w.must(w.cloud.DeleteNIC(t.Context(), azuretest.Group, "a"))
	if w.left() != 1 {
		t.Errorf("%d resources are left, want the disk", w.left())
	}
}

func TestAskingAgainGivesTheSameMachineAndChangesAreRefused(t *testing.T) {
	w := newWorld(t)
	w.must(w.launch("a", nil))
	before, err := w.cloud.VM(t.Context(), azuretest.Group, "a")
	w.must(err)
	w.must(w.launch("a", nil))
	after, err := w.cloud.VM(t.Context(), azuretest.Group, "a")
	w.must(err)
	if *before.Properties.VMID != *after.Properties.VMID || w.left() != 3 {
		t.Errorf("it is another one, or there are more: %s %s, %d", *before.Properties.VMID, *after.Properties.VMID, w.left())
	}
	for property, change := range map[string]func(*armcompute.VirtualMachine){
		"zones":                  func(vm *armcompute.VirtualMachine) { vm.Zones = []*string{new("2")} },
		"hardwareProfile.vmSize": func(vm *armcompute.VirtualMachine) { *vm.Properties.HardwareProfile.VMSize = "Standard_D4s_v5" },
		"osProfile.customData":   func(vm *armcompute.VirtualMachine) { vm.Properties.OSProfile.CustomData = new("b3RoZXI=") },
		"priority":               func(vm *armcompute.VirtualMachine) { *vm = spot(*vm, "Delete") },
	} {
		err := w.launch("a", change)
		w.fails(err, "PropertyChangeNotAllowed", "'"+property+"'")
		if cloud.Accepted(err) {
			t.Errorf("%s: accepted", property)
		}
	}
	update := armcompute.VirtualMachineUpdate{Tags: tags("other", "x"), Identity: &armcompute.VirtualMachineIdentity{
		Type: new(armcompute.ResourceIdentityTypeUserAssigned), UserAssignedIdentities: map[string]*armcompute.UserAssignedIdentitiesValue{"/subscriptions/s/i": {}}}}
	w.must(w.cloud.UpdateVM(t.Context(), azuretest.Group, "a", update))
	w.must(w.cloud.TagNIC(t.Context(), azuretest.Group, "a", tags("other", "y")))
	vm, err := w.cloud.VM(t.Context(), azuretest.Group, "a")
	w.must(err)
	if len(vm.Tags) != 1 || *vm.Tags["other"] != "x" || len(vm.Identity.UserAssignedIdentities) != 1 || w.Tags(w.nicID("a"))["other"] != "y" {
		t.Errorf("tags %v, of the interface %v, identities %v", vm.Tags, w.Tags(w.nicID("a")), vm.Identity)
	}
}

func TestAMachineThatFailsLaterSaysWhyAndKeepsItsInterface(t *testing.T) {
	w := newWorld(t)
	w.Take(azuretest.Timing{Create: 20 * time.Second})
	w.Limit(azuretest.Offering{Zone: "1"}, 1, "ZonalAllocationFailed")
	w.must(w.launch("a", nil))
	err := w.launch("b", nil)
	w.fails(err, "ZonalAllocationFailed", "sufficient capacity")
	if !cloud.Accepted(err) || cloud.Passing(err) {
		t.Errorf("accepted %v, passing %v", cloud.Accepted(err), cloud.Passing(err))
	}
	vm, err := w.cloud.VM(t.Context(), azuretest.Group, "b")
	w.must(err)
	if *vm.Properties.ProvisioningState != "Failed" || *vm.Properties.InstanceView.Statuses[0].Code != "ProvisioningState/failed/ZonalAllocationFailed" {
		t.Errorf("it is %s: %v", *vm.Properties.ProvisioningState, *vm.Properties.InstanceView.Statuses[0].Code)
	}
	w.fails(w.cloud.DeleteNIC(t.Context(), azuretest.Group, "b"), "NicReservedForAnotherVm", "180 seconds")
	w.delete("b")
	if w.left() != 3 {
		t.Errorf("%d resources are left, want those of the first machine", w.left())
	}
	w.must(w.launch("c", func(vm *armcompute.VirtualMachine) { vm.Zones = nil })) // elsewhere
}

func TestAnInterfaceIsKeptForAMachineThatWasRefused(t *testing.T) {
	w := newWorld(t)
	w.Limit(azuretest.Offering{Size: "Standard_D2s_v5"}, 0, "SkuNotAvailable")
	err := w.launch("a", nil)
	w.fails(err, "SkuNotAvailable", "Standard_D2s_v5")
	if cloud.Accepted(err) {
		t.Error("it was accepted")
	}
	w.fails(w.cloud.DeleteNIC(t.Context(), azuretest.Group, "a"), "NicReservedForAnotherVm", "")
	vm := w.vm("b")
	vm.Properties.NetworkProfile.NetworkInterfaces[0].ID = new(w.nicID("a"))
	_, err = w.cloud.BeginVM(t.Context(), azuretest.Group, "b", vm)
	w.fails(err, "NicReservedForAnotherVm", "")
	w.clock.Step(179 * time.Second)
	w.fails(w.cloud.DeleteNIC(t.Context(), azuretest.Group, "a"), "NicReservedForAnotherVm", "")
	w.clock.Step(time.Second)
	w.must(w.cloud.DeleteNIC(t.Context(), azuretest.Group, "a"))
}

func TestAMachineMayComeUpThoughItsCreationFailed(t *testing.T) {
	w := newWorld(t)
	w.Fail("VirtualMachines_CreateOrUpdate", azuretest.Fault{Code: "OSProvisioningTimedOut", Message: "The VM may still finish provisioning successfully.", Async: true, Late: true, Times: 1})
	w.fails(w.launch("a", nil), "OSProvisioningTimedOut", "")
	if provisioning, power := w.state("a"); provisioning != "Succeeded" || power != "running" {
		t.Errorf("it is %s, %s", provisioning, power)
	}
}

func TestADeletionEndsACreation(t *testing.T) {
	w := newWorld(t)
	w.Take(azuretest.Timing{Create: time.Minute, Delete: time.Minute})
	w.must(w.cloud.PutNIC(t.Context(), azuretest.Group, "a", w.nic()))
	creation, err := w.cloud.BeginVM(t.Context(), azuretest.Group, "a", w.vm("a"))
	w.must(err)
	deletion, err := w.cloud.BeginDeleteVM(t.Context(), azuretest.Group, "a")
	w.must(err)
	w.fails(creation.Wait(t.Context()), "OperationPreempted", "")
	_, err = w.cloud.BeginVM(t.Context(), azuretest.Group, "a", w.vm("a"))
	w.fails(err, "OperationNotAllowed", "marked for deletion")
	w.must(deletion.Wait(t.Context()))
	if w.left() != 0 {
		t.Errorf("%d resources are left", w.left())
	}
}

// Azure's immediate refusals, with Azure's texts, because the classification of errors depends on them.
func TestRefusals(t *testing.T) {
	for _, test := range []struct {
		code, text string
		prepare    func(*world)
		change     func(*armcompute.VirtualMachine)
	}{
		{"OperationNotAllowed", "standardDSv5Family Cores quota. Additional details - Deployment Model: Resource Manager, Location: eastus, Current Limit: 1,", func(w *world) { w.SetQuota("standardDSv5Family", 1) }, nil},
		{"OperationNotAllowed", "exceeding approved Total Regional Cores quota", func(w *world) { w.SetQuota(azuretest.RegionalQuota, 1) }, nil},
		{"OperationNotAllowed", "LowPriorityCores", func(w *world) { w.SetQuota(azuretest.SpotQuota, 1) }, func(vm *armcompute.VirtualMachine) { *vm = spot(*vm, "Delete") }},
		{"", "", func(w *world) { w.SetQuota("standardDSv5Family", 1) }, func(vm *armcompute.VirtualMachine) { *vm = spot(*vm, "Delete") }},
		{"SkuNotAvailable", "", func(w *world) { w.Restrict("Standard_D2s_v5", "1") }, nil},
		{"", "", func(w *world) { w.Restrict("Standard_D2s_v5", "2") }, nil},
		{"SkuNotAvailable", "", func(w *world) { w.Restrict("Standard_D2s_v5", "*") }, func(vm *armcompute.VirtualMachine) { vm.Zones = nil }},
		{"OverconstrainedAllocationRequest", "Constraints", func(w *world) {
			w.Limit(azuretest.Offering{CapacityType: "spot", Zone: "0"}, 0, "OverconstrainedAllocationRequest")
		}, func(vm *armcompute.VirtualMachine) { *vm = spot(*vm, "Delete"); vm.Zones = nil }},
		{"InvalidParameter", "Arm64", nil, func(vm *armcompute.VirtualMachine) { *vm.Properties.HardwareProfile.VMSize = "Standard_D2ps_v5" }},
		{"BadRequest", "Hypervisor Generation '2'", nil, func(vm *armcompute.VirtualMachine) { *vm.Properties.HardwareProfile.VMSize = "Standard_D2_v2" }},
		{"InvalidParameter", "Standard_X", nil, func(vm *armcompute.VirtualMachine) { *vm.Properties.HardwareProfile.VMSize = "Standard_X" }},
		{"ImageNotFound", "2.0.0", nil, func(vm *armcompute.VirtualMachine) {
			*vm.Properties.StorageProfile.ImageReference.ID = strings.Replace(*vm.Properties.StorageProfile.ImageReference.ID, "1.0.0", "2.0.0", 1)
		}},
		{"VMMarketplaceInvalidInput", "Plan", func(w *world) { w.AddImage(azuretest.Image{ID: "p:o:s", Plan: true}) }, marketplace},
		{"MarketplacePurchaseEligibilityFailed", "terms", func(w *world) { w.AddImage(azuretest.Image{ID: "p:o:s", Unaccepted: true}) }, marketplace},
		{"", "", func(w *world) { w.AddImage(azuretest.Image{ID: "p:o:s"}) }, marketplace},
		{"NotFound", "networkInterfaces/none", nil, func(vm *armcompute.VirtualMachine) {
			id := *vm.Properties.NetworkProfile.NetworkInterfaces[0].ID
			*vm.Properties.NetworkProfile.NetworkInterfaces[0].ID = id[:strings.LastIndex(id, "/")+1] + "none"
		}},
		{"InvalidTagNameCharacters", "a/b", nil, func(vm *armcompute.VirtualMachine) { vm.Tags = tags("a/b", "c") }},
	} {
		t.Run(test.code+" "+test.text, func(t *testing.T) {
			w := newWorld(t)
			if test.prepare != nil {
				test.prepare(w)
			}
			err := w.launch("a", test.change)
			if test.code == "" {
				w.must(err)
			} else {
				w.fails(err, test.code, test.text)
			}
		})
	}
}

func marketplace(vm *armcompute.VirtualMachine) {
	vm.Properties.StorageProfile.ImageReference = &armcompute.ImageReference{Publisher: new("p"), Offer: new("o"), SKU: new("s"), Version: new("latest")}
}

func TestNetworkInterfacesNeedWhatTheyNameAndAddresses(t *testing.T) {
	w := newWorld(t)
	small := w.AddSubnet(azuretest.Group, "network", "small", "10.2.0.0/29") // three addresses are free
	nic := w.nic()
	nic.Properties.IPConfigurations[0].Properties.Subnet.ID = small
	for _, name := range []string{"a", "b", "c", "c"} {
		w.must(w.cloud.PutNIC(t.Context(), azuretest.Group, name, nic))
	}
	w.fails(w.cloud.PutNIC(t.Context(), azuretest.Group, "d", nic), "SubnetIsFull", "10.2.0.0/29")
	subnet, err := w.cloud.Subnet(t.Context(), small)
	w.must(err)
	if len(subnet.Properties.IPConfigurations) != 3 || subnet.Properties.AddressPrefix != "10.2.0.0/29" {
		t.Errorf("subnet: %+v", subnet.Properties)
	}
	if _, err := w.cloud.Subnet(t.Context(), small+"-not"); !cloud.NotFound(err) {
		t.Errorf("no subnet: %v", err)
	}
	nic = w.nic()
	nic.Properties.IPConfigurations[0].Properties.LoadBalancerBackendAddressPools = []network.Reference{{ID: w.nicID("x")}}
	w.fails(w.cloud.PutNIC(t.Context(), azuretest.Group, "e", nic), "InvalidResourceReference", "")
	pools := w.AddBalancer(azuretest.Group, "kubernetes", "kubernetes", "outbound")
	nic.Properties.IPConfigurations[0].Properties.LoadBalancerBackendAddressPools[0].ID = pools[1]
	group := w.Put(azuretest.Group, "Microsoft.Network/networkSecurityGroups", "nodes", map[string]any{})
	nic.Properties.NetworkSecurityGroup = &network.Reference{ID: group}
	w.must(w.cloud.PutNIC(t.Context(), azuretest.Group, "e", nic))
	balancers, err := w.cloud.LoadBalancers(t.Context(), azuretest.Group)
	w.must(err)
	groups, err := w.cloud.SecurityGroups(t.Context(), azuretest.Group)
	w.must(err)
	if len(balancers) != 1 || len(balancers[0].Properties.BackendAddressPools) != 2 || len(groups) != 1 || groups[0].ID != group {
		t.Errorf("balancers %v, groups %v", balancers, groups)
	}
}

func TestSpotMachinesAreEvicted(t *testing.T) {
	w := newWorld(t)
	for name, policy := range map[string]armcompute.VirtualMachineEvictionPolicyTypes{"gone": "Delete", "off": "Deallocate", "simulated": "Delete"} {
		w.must(w.launch(name, func(vm *armcompute.VirtualMachine) { *vm = spot(*vm, policy) }))
	}
	w.must(w.launch("safe", nil))
	w.Evict("gone")
	w.Evict("off")
	client, err := armcompute.NewVirtualMachinesClient(w.ID, w.Credential(), w.Options())
	w.must(err)
	_, err = client.SimulateEviction(t.Context(), azuretest.Group, "simulated", nil)
	w.must(err)
	if _, err = client.SimulateEviction(t.Context(), azuretest.Group, "safe", nil); err == nil {
		t.Error("a machine that is no spot machine is evicted")
	}
	if got := w.Names("Microsoft.Compute/virtualMachines"); !slices.Equal(got, []string{"off", "safe", "simulated"}) {
		t.Errorf("there are %v", got)
	}
	w.clock.Step(31 * time.Second)
	if got := w.Names("Microsoft.Network/networkInterfaces"); !slices.Equal(got, []string{"off", "safe"}) {
		t.Errorf("there are %v", got)
	}
	if provisioning, power := w.state("off"); provisioning != "Succeeded" || power != "deallocated" {
		t.Errorf("it is %s, %s", provisioning, power)
	}
	w.Power("safe", "stopped")
	if _, power := w.state("safe"); power != "stopped" {
		t.Errorf("it is %s", power)
	}
}

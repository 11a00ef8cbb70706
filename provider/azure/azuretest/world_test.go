package azuretest_test

import (
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v7"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"tenon.sh/provider/azure/azuretest"
	"tenon.sh/provider/azure/cloud"
	"tenon.sh/provider/azure/network"
)

// eager is a clock that advances when a goroutine waits for it. It does not advance for timeouts of answers.
type eager struct{ *clocktesting.FakeClock }

func (c eager) NewTimer(d time.Duration) clock.Timer {
	timer := c.FakeClock.NewTimer(d)
	if d < cloud.Patience {
		c.Step(d)
	}
	return timer
}

// world is a subscription with a subnet and an image, and the SDK connected to it.
type world struct {
	*azuretest.Subscription
	t      *testing.T
	clock  eager
	cloud  *cloud.Cloud
	subnet string
	image  string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	t.Parallel()
	w := &world{t: t, clock: eager{clocktesting.NewFakeClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))}}
	w.Subscription = azuretest.New(t, w.clock)
	w.subnet = w.AddSubnet(azuretest.Group, "network", "machines", "10.1.0.0/16")
	w.image = w.AddImage(azuretest.Image{ID: "/subscriptions/" + w.ID + "/resourceGroups/" + azuretest.Group + "/providers/Microsoft.Compute/galleries/own/images/ubuntu",
		Versions: []azuretest.Version{{Name: "1.0.0", Published: w.clock.Now()}}})
	var err error
	w.cloud, err = cloud.New(w.config())
	w.must(err)
	return w
}

func (w *world) config() cloud.Config {
	return cloud.Config{Subscription: w.ID, Location: azuretest.Location, Credential: w.Credential(), Options: *w.Options(), PricesURL: w.PricesURL(), Clock: w.clock}
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// fails fails the test unless an error has a code.
func (w *world) fails(err error, code, text string) {
	w.t.Helper()
	if !cloud.Says(err, code, text) {
		w.t.Errorf("got %v, want %s with %q", err, code, text)
	}
}

func (w *world) nicID(name string) string {
	return "/subscriptions/" + w.ID + "/resourceGroups/" + azuretest.Group + "/providers/Microsoft.Network/networkInterfaces/" + name
}

func (w *world) nic() network.Interface {
	return network.Interface{
		Location: azuretest.Location, Tags: map[string]string{"cluster": "demo"},
		Properties: network.InterfaceProperties{IPConfigurations: []network.IPConfiguration{{
			Name: "main", Properties: network.IPConfigurationProperties{Primary: true, Subnet: network.Reference{ID: w.subnet}},
		}}},
	}
}

// vm returns a machine whose parts are deleted with it.
func (w *world) vm(name string) armcompute.VirtualMachine {
	return armcompute.VirtualMachine{
		Location: new(azuretest.Location), Zones: []*string{new("1")}, Tags: tags("cluster", "demo"),
		Properties: &armcompute.VirtualMachineProperties{
			HardwareProfile: &armcompute.HardwareProfile{VMSize: new(armcompute.VirtualMachineSizeTypes("Standard_D2s_v5"))},
			OSProfile:       &armcompute.OSProfile{ComputerName: &name, AdminUsername: new("azureuser"), CustomData: new("c2VjcmV0")},
			StorageProfile: &armcompute.StorageProfile{
				ImageReference: &armcompute.ImageReference{ID: new(w.image + "/versions/1.0.0")},
				OSDisk: &armcompute.OSDisk{Name: &name, CreateOption: new(armcompute.DiskCreateOptionTypesFromImage), DiskSizeGB: new(int32(64)),
					DeleteOption: new(armcompute.DiskDeleteOptionTypesDelete)},
			},
			NetworkProfile: &armcompute.NetworkProfile{NetworkInterfaces: []*armcompute.NetworkInterfaceReference{{
				ID: new(w.nicID(name)), Properties: &armcompute.NetworkInterfaceReferenceProperties{Primary: new(true), DeleteOption: new(armcompute.DeleteOptionsDelete)},
			}}},
		},
	}
}

func spot(vm armcompute.VirtualMachine, policy armcompute.VirtualMachineEvictionPolicyTypes) armcompute.VirtualMachine {
	vm.Properties.Priority, vm.Properties.EvictionPolicy = new(armcompute.VirtualMachinePriorityTypesSpot), &policy
	vm.Properties.BillingProfile = &armcompute.BillingProfile{MaxPrice: new(-1.0)}
	return vm
}

func tags(key, value string) map[string]*string { return map[string]*string{key: &value} }

// launch makes a machine with a network interface, and waits for it.
func (w *world) launch(name string, change func(*armcompute.VirtualMachine)) error {
	w.t.Helper()
	w.must(w.cloud.PutNIC(w.t.Context(), azuretest.Group, name, w.nic()))
	vm := w.vm(name)
	if change != nil {
		change(&vm)
	}
	o, err := w.cloud.BeginVM(w.t.Context(), azuretest.Group, name, vm)
	if err != nil {
		return err
	}
	return o.Wait(w.t.Context())
}

func (w *world) delete(name string) {
	w.t.Helper()
	o, err := w.cloud.BeginDeleteVM(w.t.Context(), azuretest.Group, name)
	w.must(err)
	w.must(o.Wait(w.t.Context()))
}

func (w *world) state(name string) (provisioning, power string) {
	w.t.Helper()
	vm, err := w.cloud.VM(w.t.Context(), azuretest.Group, name)
	if cloud.NotFound(err) {
		return "", ""
	}
	w.must(err)
	for _, s := range vm.Properties.InstanceView.Statuses {
		if code := *s.Code; len(code) > 11 && code[:11] == "PowerState/" {
			power = code[11:]
		}
	}
	return *vm.Properties.ProvisioningState, power
}

func (w *world) left() int {
	return len(w.Names("Microsoft.Compute/virtualMachines")) + len(w.Names("Microsoft.Compute/virtualMachines/extensions")) +
		len(w.Names("Microsoft.Compute/disks")) + len(w.Names("Microsoft.Network/networkInterfaces"))
}

package cloud

import (
	"context"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v7"
)

// BeginVM asks for a machine. If the machine exists already, the answer is that machine.
func (c *Cloud) BeginVM(ctx context.Context, group, name string, vm armcompute.VirtualMachine) (*Operation, error) {
	return begin(ctx, c, "VirtualMachines_CreateOrUpdate", name, func(ctx context.Context) (*runtime.Poller[armcompute.VirtualMachinesClientCreateOrUpdateResponse], error) {
		return c.machines.BeginCreateOrUpdate(ctx, group, name, vm, nil)
	})
}

// VM returns a machine with its state.
func (c *Cloud) VM(ctx context.Context, group, name string) (*armcompute.VirtualMachine, error) {
	view := armcompute.InstanceViewTypesInstanceView
	answer, err := c.machines.Get(ctx, group, name, &armcompute.VirtualMachinesClientGetOptions{Expand: &view})
	if err != nil {
		return nil, decode("VirtualMachines_Get", name, false, err)
	}
	return &answer.VirtualMachine, nil
}

// VMs returns all machines of a group, without their states.
func (c *Cloud) VMs(ctx context.Context, group string) ([]*armcompute.VirtualMachine, error) {
	return all(ctx, "VirtualMachines_List", group, c.machines.NewListPager(group, nil), func(page armcompute.VirtualMachinesClientListResponse) []*armcompute.VirtualMachine {
		return page.Value
	})
}

// UpdateVM replaces all tags, or adds identities.
func (c *Cloud) UpdateVM(ctx context.Context, group, name string, update armcompute.VirtualMachineUpdate) error {
	return done(ctx, c, "VirtualMachines_Update", name, func(ctx context.Context) (*runtime.Poller[armcompute.VirtualMachinesClientUpdateResponse], error) {
		return c.machines.BeginUpdate(ctx, group, name, update, nil)
	})
}

// BeginDeleteVM starts the deletion of a machine, by force. It returns no error if there is none.
func (c *Cloud) BeginDeleteVM(ctx context.Context, group, name string) (*Operation, error) {
	force := true
	return begin(ctx, c, "VirtualMachines_Delete", name, func(ctx context.Context) (*runtime.Poller[armcompute.VirtualMachinesClientDeleteResponse], error) {
		return c.machines.BeginDelete(ctx, group, name, &armcompute.VirtualMachinesClientBeginDeleteOptions{ForceDeletion: &force})
	})
}

// BeginExtension starts to add or change an extension of a machine. It does not wait for the result, which the machine shows.
func (c *Cloud) BeginExtension(ctx context.Context, group, vm, name string, extension armcompute.VirtualMachineExtension) error {
	_, err := begin(ctx, c, "VirtualMachineExtensions_CreateOrUpdate", vm, func(ctx context.Context) (*runtime.Poller[armcompute.VirtualMachineExtensionsClientCreateOrUpdateResponse], error) {
		return c.extensions.BeginCreateOrUpdate(ctx, group, vm, name, extension, nil)
	})
	return err
}

// DiskEncryptionSet returns an error if there is no disk encryption set with this ID.
func (c *Cloud) DiskEncryptionSet(ctx context.Context, id string) error {
	parsed, factory, err := c.compute(id, "Microsoft.Compute/diskEncryptionSets")
	if err != nil {
		return err
	}
	_, err = factory.NewDiskEncryptionSetsClient().Get(ctx, parsed.ResourceGroupName, parsed.Name, nil)
	return decode("DiskEncryptionSets_Get", parsed.Name, false, err)
}

// Disks returns the disks of a group.
func (c *Cloud) Disks(ctx context.Context, group string) ([]*armcompute.Disk, error) {
	return all(ctx, "Disks_ListByResourceGroup", group, c.disks.NewListByResourceGroupPager(group, nil), func(page armcompute.DisksClientListByResourceGroupResponse) []*armcompute.Disk { return page.Value })
}

package machine

import (
	"fmt"
	"path"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v7"

	"tenon.sh/provider/azure/network"

	"tenon.sh/api/azurev1beta1"
)

// Order describes a wanted machine.
type Order struct {
	// Name is the name of the machine and of its parts.
	Name, Location string
	Tags           map[string]string

	// Size is the VM size. Zone is a number, "" for none.
	Size, Zone string
	Spot       bool
	Image      *armcompute.ImageReference
	Plan       *armcompute.Plan
	// CustomData is in base64.
	CustomData string
	// AdminUsername may log in with SSHPublicKey. Azure demands a user even without a key.
	AdminUsername, SSHPublicKey string
	Identities                  []string

	OSDiskGB int32
	// Placement is the place of the system disk on the machine's own disks, "" for a managed disk.
	Placement         string
	OSDiskStorage     string
	DiskEncryptionSet string
	DataDisks         []azurev1beta1.DataDisk

	EncryptionAtHost, VTPM, SecureBoot bool
	UltraSSD                           bool

	Network Network
}

// Network describes a machine's network interface.
type Network struct {
	Subnet            string
	Accelerated       bool
	SecurityGroup     string
	ApplicationGroups []string
	BackendPools      []string
	// Addresses is the number of the machine's addresses for pods, beside its own.
	Addresses int
}

// NIC returns the machine's network interface.
func (o *Order) NIC() network.Interface {
	n := &o.Network
	groups := references(n.ApplicationGroups)
	address := func(name string, primary bool) network.IPConfiguration {
		return network.IPConfiguration{Name: name, Properties: network.IPConfigurationProperties{
			Primary: primary, PrivateIPAllocationMethod: network.Dynamic, Subnet: network.Reference{ID: n.Subnet},
			ApplicationSecurityGroups: groups, // Azure demands the same on all
		}}
	}
	out := network.Interface{Location: o.Location, Tags: o.Tags, Properties: network.InterfaceProperties{EnableAcceleratedNetworking: n.Accelerated}}
	first := address(o.Name, true)
	first.Properties.LoadBalancerBackendAddressPools = references(n.BackendPools)
	out.Properties.IPConfigurations = append(out.Properties.IPConfigurations, first)
	for i := range n.Addresses {
		out.Properties.IPConfigurations = append(out.Properties.IPConfigurations, address(fmt.Sprintf("ipconfig%d", i+1), false))
	}
	if n.SecurityGroup != "" {
		out.Properties.NetworkSecurityGroup = &network.Reference{ID: n.SecurityGroup}
	}
	return out
}

func references(ids []string) (out []network.Reference) {
	for _, id := range ids {
		out = append(out, network.Reference{ID: id})
	}
	return out
}

// VM returns the machine itself. Its interface and disks are deleted with it.
func (o *Order) VM(nic string) armcompute.VirtualMachine {
	vm := armcompute.VirtualMachine{Location: &o.Location, Tags: pointers(o.Tags), Plan: o.Plan, Identity: identity(o.Identities)}
	if o.Zone != "" {
		vm.Zones = []*string{&o.Zone}
	}
	vm.Properties = &armcompute.VirtualMachineProperties{
		HardwareProfile: &armcompute.HardwareProfile{VMSize: new(armcompute.VirtualMachineSizeTypes(o.Size))},
		StorageProfile:  &armcompute.StorageProfile{ImageReference: o.Image, OSDisk: o.osDisk(), DataDisks: o.dataDisks()},
		NetworkProfile: &armcompute.NetworkProfile{NetworkInterfaces: []*armcompute.NetworkInterfaceReference{{
			ID: &nic, Properties: &armcompute.NetworkInterfaceReferenceProperties{Primary: new(true), DeleteOption: new(armcompute.DeleteOptionsDelete)},
		}}},
		OSProfile: o.osProfile(), SecurityProfile: o.security(), Priority: new(armcompute.VirtualMachinePriorityTypesRegular),
	}
	if o.Spot {
		vm.Properties.Priority = new(armcompute.VirtualMachinePriorityTypesSpot)
		vm.Properties.EvictionPolicy = new(armcompute.VirtualMachineEvictionPolicyTypesDelete)
		vm.Properties.BillingProfile = &armcompute.BillingProfile{MaxPrice: new(-1.0)} // up to the on-demand price
	}
	if o.UltraSSD {
		vm.Properties.AdditionalCapabilities = &armcompute.AdditionalCapabilities{UltraSSDEnabled: new(true)}
	}
	return vm
}

func (o *Order) osDisk() *armcompute.OSDisk {
	disk := &armcompute.OSDisk{
		Name: &o.Name, DiskSizeGB: &o.OSDiskGB, CreateOption: new(armcompute.DiskCreateOptionTypesFromImage), DeleteOption: new(armcompute.DiskDeleteOptionTypesDelete),
	}
	if o.Placement != "" {
		disk.DiffDiskSettings = &armcompute.DiffDiskSettings{
			Option: new(armcompute.DiffDiskOptionsLocal), Placement: new(armcompute.DiffDiskPlacement(o.Placement)),
		}
		disk.Caching = new(armcompute.CachingTypesReadOnly) // ephemeral disks need this
	}
	if o.OSDiskStorage != "" || o.DiskEncryptionSet != "" {
		disk.ManagedDisk = &armcompute.ManagedDiskParameters{}
	}
	if o.OSDiskStorage != "" {
		disk.ManagedDisk.StorageAccountType = new(armcompute.StorageAccountTypes(o.OSDiskStorage))
	}
	if o.DiskEncryptionSet != "" {
		disk.ManagedDisk.DiskEncryptionSet = &armcompute.DiskEncryptionSetParameters{ID: &o.DiskEncryptionSet}
	}
	return disk
}

func (o *Order) dataDisks() (out []*armcompute.DataDisk) {
	for _, d := range o.DataDisks {
		disk := &armcompute.DataDisk{
			Lun: new(d.LUN), DiskSizeGB: new(d.SizeGB), CreateOption: new(armcompute.DiskCreateOptionTypesEmpty), DeleteOption: new(armcompute.DiskDeleteOptionTypesDelete),
		}
		if d.StorageAccountType != "" || o.DiskEncryptionSet != "" {
			disk.ManagedDisk = &armcompute.ManagedDiskParameters{}
		}
		if d.StorageAccountType != "" {
			disk.ManagedDisk.StorageAccountType = new(armcompute.StorageAccountTypes(d.StorageAccountType))
		}
		if o.DiskEncryptionSet != "" {
			disk.ManagedDisk.DiskEncryptionSet = &armcompute.DiskEncryptionSetParameters{ID: &o.DiskEncryptionSet}
		}
		if d.Caching != "" {
			disk.Caching = new(armcompute.CachingTypes(d.Caching))
		}
		out = append(out, disk)
	}
	return out
}

func (o *Order) osProfile() *armcompute.OSProfile {
	linux := &armcompute.LinuxConfiguration{DisablePasswordAuthentication: new(true)}
	if o.SSHPublicKey != "" {
		linux.SSH = &armcompute.SSHConfiguration{PublicKeys: []*armcompute.SSHPublicKey{{
			KeyData: &o.SSHPublicKey, Path: new(path.Join("/home", o.AdminUsername, ".ssh", "authorized_keys")),
		}}}
	}
	out := &armcompute.OSProfile{ComputerName: &o.Name, AdminUsername: &o.AdminUsername, LinuxConfiguration: linux}
	if o.CustomData != "" {
		out.CustomData = &o.CustomData
	}
	return out
}

func (o *Order) security() *armcompute.SecurityProfile {
	trusted := o.VTPM || o.SecureBoot
	if !o.EncryptionAtHost && !trusted {
		return nil
	}
	out := &armcompute.SecurityProfile{}
	if o.EncryptionAtHost {
		out.EncryptionAtHost = new(true)
	}
	if trusted {
		out.SecurityType = new(armcompute.SecurityTypesTrustedLaunch)
		out.UefiSettings = &armcompute.UefiSettings{VTpmEnabled: &o.VTPM, SecureBootEnabled: &o.SecureBoot}
	}
	return out
}

// Assign returns the identity change that adds user-assigned identities by their IDs, nil for none. A system-assigned identity stays.
func (m *Machine) Assign(ids []string) *armcompute.VirtualMachineIdentity {
	out := identity(ids)
	if out != nil && m.OwnIdentity {
		out.Type = new(armcompute.ResourceIdentityTypeSystemAssignedUserAssigned)
	}
	return out
}

func identity(ids []string) *armcompute.VirtualMachineIdentity {
	if len(ids) == 0 {
		return nil
	}
	out := &armcompute.VirtualMachineIdentity{
		Type: new(armcompute.ResourceIdentityTypeUserAssigned), UserAssignedIdentities: map[string]*armcompute.UserAssignedIdentitiesValue{},
	}
	for _, id := range ids {
		out.UserAssignedIdentities[id] = &armcompute.UserAssignedIdentitiesValue{}
	}
	return out
}

func pointers(m map[string]string) map[string]*string {
	out := make(map[string]*string, len(m))
	for key, value := range m {
		out[key] = &value
	}
	return out
}

// Package machine describes a machine of Azure: the requests for the machine, its network interface and its disks, and the reading of an existing
// machine. It also keeps the list of the machines of a cluster for callers that ask at about the same time.
package machine

import (
	"cmp"
	"regexp"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v7"
	"k8s.io/utils/ptr"

	"tenon.sh/api/azurev1beta1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
)

// Phase is how far a machine is.
type Phase int

// The phases. A machine that fails may be there nonetheless: Azure gives up what a machine may still get done.
const (
	Creating Phase = iota
	Running
	Failed
	Leaving
)

// Machine is a machine as Azure describes it.
type Machine struct {
	// Name is that of the resource, of the computer and so of the node, in lower case: Azure heeds none.
	Name  string
	Phase Phase
	// Size is that of VMs, "Standard_D4s_v5"; Zone a number, "" for none; CapacityType on-demand or spot.
	Size, Zone, CapacityType string
	// Image is how Tenon writes the image that it was started from, see package image.
	Image *armcompute.ImageReference
	// Tags with their keys as written. Azure heeds no case in them: see Tag.
	Tags    map[string]string
	Created time.Time
	// Identities are the IDs of those that were assigned, as written.
	Identities []string
	// Extensions are the names of those that it has, but for such as have failed.
	Extensions []string
	// OwnIdentity means that Azure has made one for it, a system-assigned one.
	OwnIdentity bool
	// Code and Message say why it has failed. A list does not tell them.
	Code, Message string
	// Powered means that it runs, whatever its state is. A list does not tell it.
	Powered bool
}

// Read makes a Machine of what Azure says.
func Read(vm *armcompute.VirtualMachine) Machine {
	m := Machine{Name: strings.ToLower(ptr.Deref(vm.Name, "")), CapacityType: v1.CapacityTypeOnDemand, Tags: map[string]string{}}
	for key, value := range vm.Tags {
		m.Tags[key] = ptr.Deref(value, "")
	}
	if len(vm.Zones) > 0 {
		m.Zone = ptr.Deref(vm.Zones[0], "")
	}
	if vm.Identity != nil {
		m.OwnIdentity = strings.Contains(string(ptr.Deref(vm.Identity.Type, "")), string(armcompute.ResourceIdentityTypeSystemAssigned))
		for id := range vm.Identity.UserAssignedIdentities {
			m.Identities = append(m.Identities, id)
		}
	}
	for _, e := range vm.Resources {
		if e != nil && e.Name != nil && (e.Properties == nil || !strings.EqualFold(ptr.Deref(e.Properties.ProvisioningState, ""), "Failed")) {
			m.Extensions = append(m.Extensions, *e.Name)
		}
	}
	p := vm.Properties
	if p == nil {
		return m
	}
	m.Phase = phaseOf(ptr.Deref(p.ProvisioningState, ""))
	if p.HardwareProfile != nil {
		m.Size = string(ptr.Deref(p.HardwareProfile.VMSize, ""))
	}
	if ptr.Deref(p.Priority, "") == armcompute.VirtualMachinePriorityTypesSpot {
		m.CapacityType = v1.CapacityTypeSpot
	}
	if p.StorageProfile != nil {
		m.Image = p.StorageProfile.ImageReference
	}
	m.Created = ptr.Deref(p.TimeCreated, time.Time{})
	m.readView(p.InstanceView)
	return m
}

func phaseOf(provisioning string) Phase {
	switch strings.ToLower(provisioning) {
	case "deleting":
		return Leaving
	case "failed", "canceled":
		return Failed
	case "succeeded", "updating": // tags and extensions are put on what is there
		return Running
	}
	return Creating
}

// readView reads what Azure says of the machine's running. The code of a failure stands at the end of that of its status,
// "ProvisioningState/failed/AllocationFailed".
func (m *Machine) readView(view *armcompute.VirtualMachineInstanceView) {
	if view == nil {
		return
	}
	for _, s := range view.Statuses {
		code := ptr.Deref(s.Code, "")
		if code == "PowerState/running" {
			m.Powered = true
		}
		if rest, ok := strings.CutPrefix(code, "ProvisioningState/failed/"); ok {
			m.Code, m.Message = rest, cmp.Or(ptr.Deref(s.Message, ""), ptr.Deref(s.DisplayStatus, ""))
		}
	}
}

// Tag is the value of a tag, whose key is written as labels are.
func (m *Machine) Tag(key string) string {
	value, _ := m.tag(key)
	return value
}

func (m *Machine) tag(key string) (value string, has bool) {
	key = TagKey(key)
	for k, value := range m.Tags {
		if strings.EqualFold(k, key) {
			return value, true
		}
	}
	return "", false
}

// MadeByAKS reports whether a machine, or what has tags, is one that AKS itself has made for a claim: AKS alone may delete it.
func (m *Machine) MadeByAKS() bool {
	_, has := m.tag(azurev1beta1.AKSMachineClaimTagKey)
	return has
}

// inAgentPool is how AKS names the virtual machines of its machines: names of pools have no hyphen.
var inAgentPool = regexp.MustCompile(`^aks-([a-z0-9]+)-(.+)-[0-9]{8}-vm$`)

// InAgentPool is what a machine that AKS has made is called there, and in which of its agent pools; false if its name does not tell.
func (m *Machine) InAgentPool() (pool, name string, ok bool) {
	parts := inAgentPool.FindStringSubmatch(m.Name)
	if parts == nil {
		return "", "", false
	}
	return parts[1], parts[2], true
}

// TagKey is how a tag's key is written: Azure takes no slash.
func TagKey(key string) string { return strings.ReplaceAll(key, "/", "_") }

// idPrefix begins provider IDs.
const idPrefix = "azure://"

// ID is the provider ID of a machine, as Azure's cloud controller writes it on nodes, but in one case.
func ID(subscription, group, name string) engine.MachineID {
	return engine.MachineID(azurev1beta1.OneCase(idPrefix + "/subscriptions/" + subscription + "/resourceGroups/" + group +
		"/providers/Microsoft.Compute/virtualMachines/" + name))
}

// ParseID reads a provider ID, whatever its case; its parts are in lower case. It is false for what is not the ID of a machine of Azure's, those of scale sets
// among it.
func ParseID(id engine.MachineID) (subscription, group, name string, ok bool) {
	rest, ok := strings.CutPrefix(azurev1beta1.OneCase(string(id)), idPrefix)
	if !ok {
		return "", "", "", false
	}
	parsed, err := arm.ParseResourceID(rest)
	if err != nil || !strings.EqualFold(parsed.ResourceType.String(), "Microsoft.Compute/virtualMachines") {
		return "", "", "", false
	}
	return parsed.SubscriptionID, parsed.ResourceGroupName, parsed.Name, true
}

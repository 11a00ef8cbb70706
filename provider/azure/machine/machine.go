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

// Phase is the state of a machine.
type Phase int

// The phases. A failed machine may exist nonetheless, because it may become ready after Azure has given up.
const (
	Creating Phase = iota
	Running
	Failed
	Leaving
)

// Machine is a machine as Azure describes it.
type Machine struct {
	// Name is the name of the resource, of the computer and of the node, in lower case, because Azure ignores case.
	Name  string
	Phase Phase
	// Size is the VM size, "Standard_D4s_v5". Zone is a number, "" for none. CapacityType is on-demand or spot.
	Size, Zone, CapacityType string
	// Image is the image from which the machine was started; package image converts it to an ID.
	Image *armcompute.ImageReference
	// Tags are the tags with their keys as written. Azure ignores the keys' case: see Tag.
	Tags    map[string]string
	Created time.Time
	// Identities are the IDs of the assigned identities, as written.
	Identities []string
	// Extensions are the names of its extensions, without failed ones.
	Extensions []string
	// OwnIdentity means that the machine has a system-assigned identity.
	OwnIdentity bool
	// Code and Message are the reason of a failure. A list does not have them.
	Code, Message string
	// Powered means that the machine runs, whatever its state. A list does not have it.
	Powered bool
}

// Read converts Azure's description of a machine.
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
	case "succeeded", "updating": // tags and extensions are added to an existing machine
		return Running
	}
	return Creating
}

// readView reads the machine's running state. The code of a failure is at the end of its status code,
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

// Tag returns the value of a tag, whose key is given as a label key.
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

// MadeByAKS reports whether AKS itself has made a machine, or another object with tags, for a claim. Only AKS can delete it.
func (m *Machine) MadeByAKS() bool {
	_, has := m.tag(azurev1beta1.AKSMachineClaimTagKey)
	return has
}

// inAgentPool matches the names of virtual machines that AKS makes; names of pools have no hyphen.
var inAgentPool = regexp.MustCompile(`^aks-([a-z0-9]+)-(.+)-[0-9]{8}-vm$`)

// InAgentPool returns the agent pool and AKS's name of a machine that AKS has made, from the machine's name; false if the name has another
// form.
func (m *Machine) InAgentPool() (pool, name string, ok bool) {
	parts := inAgentPool.FindStringSubmatch(m.Name)
	if parts == nil {
		return "", "", false
	}
	return parts[1], parts[2], true
}

// TagKey converts a label key to a tag's key, because Azure does not allow a slash.
func TagKey(key string) string { return strings.ReplaceAll(key, "/", "_") }

// idPrefix begins provider IDs.
const idPrefix = "azure://"

// ID returns the provider ID of a machine in the form that Azure's cloud controller writes on nodes, with a uniform case.
func ID(subscription, group, name string) engine.MachineID {
	return engine.MachineID(azurev1beta1.OneCase(idPrefix + "/subscriptions/" + subscription + "/resourceGroups/" + group +
		"/providers/Microsoft.Compute/virtualMachines/" + name))
}

// ParseID parses a provider ID in any case; the parts are in lower case. It returns false for IDs that are not those of virtual machines of
// Azure, such as machines of scale sets.
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

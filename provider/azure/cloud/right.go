package cloud

import (
	"maps"
	"slices"
	"strings"
)

// Place is the scope in which a right has to be granted.
type Place string

// The places.
const (
	// InGroup is the resource group of machines.
	InGroup Place = "the resource group of machines"
	// InSubscription is the whole subscription: its sizes and images belong to no group.
	InSubscription Place = "the subscription"
	// OnWhatIsNamed is a resource that settings or classes name, such as a subnet or an image, wherever it is.
	OnWhatIsNamed Place = "what is named"
)

// Right is an action that Azure has to allow.
type Right struct {
	// Action is Azure's name for it, "Microsoft.Compute/virtualMachines/write".
	Action string
	Place  Place
	// Because is the reason for a right that Azure demands in addition to the right for the call itself. For the latter, it is "".
	Because string
}

// RightOf returns the right that a call needs; false if it is not known.
func RightOf(call string) (Right, bool) {
	action, known := actions()[call]
	if !known {
		return Right{}, false
	}
	return Right{Action: action, Place: placeOf(action)}, true
}

// RoleOf returns a built-in role of Azure that allows a call.
func RoleOf(call string) string {
	switch service, _, _ := strings.Cut(call, "_"); service {
	case "NetworkInterfaces", "LoadBalancers", "NetworkSecurityGroups", "Subnets", "VirtualNetworks":
		return "Network Contributor"
	case "VirtualMachines", "VirtualMachineExtensions", "Disks":
		return "Virtual Machine Contributor"
	case "AgentPools":
		return "Azure Kubernetes Service Contributor Role"
	}
	return "Reader"
}

// actions returns the actions of calls, by the call.
func actions() map[string]string {
	const compute, network = "Microsoft.Compute/", "Microsoft.Network/"
	return map[string]string{
		"VirtualMachines_CreateOrUpdate":          compute + "virtualMachines/write",
		"VirtualMachines_Update":                  compute + "virtualMachines/write",
		"VirtualMachines_Get":                     compute + "virtualMachines/read",
		"VirtualMachines_List":                    compute + "virtualMachines/read",
		"VirtualMachines_Delete":                  compute + "virtualMachines/delete",
		"AgentPools_DeleteMachines":               "Microsoft.ContainerService/managedClusters/agentPools/deleteMachines/action",
		"VirtualMachineExtensions_CreateOrUpdate": compute + "virtualMachines/extensions/write",
		"Disks_ListByResourceGroup":               compute + "disks/read",
		"DiskEncryptionSets_Get":                  compute + "diskEncryptionSets/read",
		"Images_Get":                              compute + "images/read",
		"GalleryImages_Get":                       compute + "galleries/images/read",
		"GalleryImageVersions_ListByGalleryImage": compute + "galleries/images/versions/read",
		"CommunityGalleryImages_Get":              compute + "locations/communityGalleries/images/read",
		"CommunityGalleryImageVersions_List":      compute + "locations/communityGalleries/images/versions/read",
		"VirtualMachineImages_Get":                compute + "locations/publishers/artifacttypes/offers/skus/versions/read",
		"VirtualMachineImages_List":               compute + "locations/publishers/artifacttypes/offers/skus/versions/read",
		"ResourceSkus_List":                       compute + "skus/read",
		"Usage_List":                              compute + "locations/usages/read",
		"NetworkInterfaces_CreateOrUpdate":        network + "networkInterfaces/write",
		"NetworkInterfaces_UpdateTags":            network + "networkInterfaces/write",
		"NetworkInterfaces_Get":                   network + "networkInterfaces/read",
		"VirtualNetworks_Get":                     network + "virtualNetworks/read",
		"NetworkInterfaces_List":                  network + "networkInterfaces/read",
		"NetworkInterfaces_Delete":                network + "networkInterfaces/delete",
		"Subnets_Get":                             network + "virtualNetworks/subnets/read",
		"LoadBalancers_Get":                       network + "loadBalancers/read",
		"LoadBalancers_List":                      network + "loadBalancers/read",
		"NetworkSecurityGroups_Get":               network + "networkSecurityGroups/read",
		"NetworkSecurityGroups_List":              network + "networkSecurityGroups/read",
		"Permissions_List":                        "Microsoft.Authorization/permissions/read",
		"Resources":                               "Microsoft.ResourceGraph/resources/read",
	}
}

// Implied returns the rights that Azure demands beyond those of the calls themselves, by call.
func Implied() map[string][]Right {
	out := map[string][]Right{}
	add := func(call, because string, list ...string) {
		for _, action := range list {
			out[call] = append(out[call], Right{action, placeOf(action), because})
		}
	}
	add("NetworkInterfaces_CreateOrUpdate", "an interface is put into them",
		"Microsoft.Network/virtualNetworks/subnets/join/action", "Microsoft.Network/networkSecurityGroups/join/action",
		"Microsoft.Network/applicationSecurityGroups/joinIpConfiguration/action", "Microsoft.Network/loadBalancers/backendAddressPools/join/action")
	add("NetworkInterfaces_CreateOrUpdate", "what becomes of a call is asked", "Microsoft.Network/locations/operations/read", "Microsoft.Network/locations/operationResults/read")
	add("VirtualMachines_CreateOrUpdate", "a machine gets its interface, its disk and its identities",
		"Microsoft.Network/networkInterfaces/join/action", "Microsoft.Compute/disks/write", "Microsoft.ManagedIdentity/userAssignedIdentities/assign/action")
	add("VirtualMachines_CreateOrUpdate", "what becomes of a call is asked", "Microsoft.Compute/locations/operations/read")
	add("VirtualMachines_Delete", "a machine takes its disk with it", "Microsoft.Compute/disks/delete")
	return out
}

func placeOf(action string) Place {
	kind := action[:strings.LastIndex(action, "/")]
	switch {
	case strings.Contains(kind, "/locations/"), kind == "Microsoft.Compute/skus", kind == "Microsoft.ResourceGraph/resources":
		return InSubscription
	case slices.Contains([]string{"Microsoft.Compute/virtualMachines", "Microsoft.Compute/virtualMachines/extensions", "Microsoft.Compute/disks", "Microsoft.Network/networkInterfaces",
		"Microsoft.Network/networkInterfaces/join"}, kind):
		return InGroup
	}
	return OnWhatIsNamed
}

// ActionsOn returns the actions that calls need in a place on resources of a kind, "" for all kinds; in order.
func ActionsOn(place Place, kind string, calls ...string) []string {
	found := map[string]bool{}
	add := func(r Right) {
		if r.Place == place && strings.HasPrefix(strings.ToLower(r.Action), strings.ToLower(kind)) {
			found[r.Action] = true
		}
	}
	implied := Implied()
	for _, call := range calls {
		if r, known := RightOf(call); known {
			add(r)
		}
		for _, r := range implied[call] {
			add(r)
		}
	}
	return slices.Sorted(maps.Keys(found))
}

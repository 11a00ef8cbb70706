// Package network holds the used resources of Azure's resource provider Microsoft.Network: the fields of its REST API, by their names there.
// Azure's SDK has them too, in a package that takes 100 seconds to compile, and Tenon makes only eleven of its calls.
package network

import (
	"net/netip"
	"slices"
)

// APIVersion is the version of the REST API that has these fields.
const APIVersion = "2025-05-01"

// Reference names another resource.
type Reference struct {
	ID string `json:"id,omitempty"`
}

// An Interface is a network interface.
type Interface struct {
	ID         string              `json:"id,omitempty"`
	Name       string              `json:"name,omitempty"`
	Location   string              `json:"location,omitempty"`
	Tags       map[string]string   `json:"tags,omitempty"`
	Properties InterfaceProperties `json:"properties"`
}

// InterfaceProperties are the connections of an Interface.
type InterfaceProperties struct {
	IPConfigurations            []IPConfiguration `json:"ipConfigurations,omitempty"`
	EnableAcceleratedNetworking bool              `json:"enableAcceleratedNetworking"`
	EnableIPForwarding          bool              `json:"enableIPForwarding"`
	NetworkSecurityGroup        *Reference        `json:"networkSecurityGroup,omitempty"`
	// Azure sets VirtualMachine once a machine has the interface.
	VirtualMachine *Reference `json:"virtualMachine,omitempty"`
}

// An IPConfiguration is an address of an Interface.
type IPConfiguration struct {
	Name       string                    `json:"name,omitempty"`
	Properties IPConfigurationProperties `json:"properties"`
}

// Dynamic is the PrivateIPAllocationMethod with which Azure chooses the address.
const Dynamic = "Dynamic"

// IPConfigurationProperties name the subnet of an address, and its backend pools and application security groups.
type IPConfigurationProperties struct {
	Primary                         bool        `json:"primary"`
	PrivateIPAllocationMethod       string      `json:"privateIPAllocationMethod,omitempty"`
	Subnet                          Reference   `json:"subnet"`
	LoadBalancerBackendAddressPools []Reference `json:"loadBalancerBackendAddressPools,omitempty"`
	ApplicationSecurityGroups       []Reference `json:"applicationSecurityGroups,omitempty"`
}

// A Subnet has one or several ranges of addresses.
type Subnet struct {
	ID         string `json:"id"`
	Name       string `json:"name"`
	Properties struct {
		AddressPrefix    string      `json:"addressPrefix"`
		AddressPrefixes  []string    `json:"addressPrefixes"`
		IPConfigurations []Reference `json:"ipConfigurations"` // the users of its addresses
	} `json:"properties"`
}

// Addresses returns the number of usable addresses of the subnet's IPv4 ranges, and how many are in use. Azure keeps five addresses of each
// range. If all is 0, the subnet has no IPv4 range.
func (s *Subnet) Addresses() (all, used int) {
	for _, text := range append(slices.Clip(s.Properties.AddressPrefixes), s.Properties.AddressPrefix) {
		if prefix, err := netip.ParsePrefix(text); err == nil && prefix.Addr().Is4() {
			all += max(0, 1<<(32-prefix.Bits())-5)
		}
	}
	return all, len(s.Properties.IPConfigurations)
}

// A LoadBalancer distributes connections over the addresses in its pools.
type LoadBalancer struct {
	ID         string `json:"id"`
	Name       string `json:"name"`
	Properties struct {
		BackendAddressPools []BackendAddressPool `json:"backendAddressPools"`
	} `json:"properties"`
}

// A BackendAddressPool is a target of a LoadBalancer: addresses that it holds, or network interfaces that name it.
type BackendAddressPool struct {
	ID         string `json:"id"`
	Name       string `json:"name"`
	Properties struct {
		LoadBalancerBackendAddresses []struct {
			Properties struct {
				IPAddress string `json:"ipAddress"`
			} `json:"properties"`
		} `json:"loadBalancerBackendAddresses"`
	} `json:"properties"`
}

// A SecurityGroup is a network security group.
type SecurityGroup struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// A VirtualNetwork holds subnets.
type VirtualNetwork struct {
	ID         string `json:"id"`
	Properties struct {
		ResourceGUID string `json:"resourceGuid"`
	} `json:"properties"`
}

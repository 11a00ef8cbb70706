package size

import (
	"slices"
	"strings"

	"tenon.sh/api/awsv1"
	v1 "tenon.sh/api/v1"
)

// Demands are a class's demands that not every instance type meets.
type Demands struct {
	Family               string
	Interfaces           []awsv1.NetworkInterface
	NestedVirtualization bool
	ConnectionTracking   bool
	Enclaves             bool
	// PlacementStrategy is the strategy of the class's placement group, "" without one.
	PlacementStrategy string
}

// DemandsOf returns the demands of a class; strategy is that of its placement group.
func DemandsOf(class *awsv1.EC2NodeClass, strategy string) Demands {
	cpu := class.Spec.CPUOptions
	return Demands{
		Family:               class.Family(),
		Interfaces:           class.Spec.NetworkInterfaces,
		NestedVirtualization: cpu != nil && cpu.NestedVirtualization != nil && *cpu.NestedVirtualization == "enabled",
		ConnectionTracking:   class.Spec.ConnectionTracking != nil,
		Enclaves:             class.Spec.Enclaves(),
		PlacementStrategy:    strategy,
	}
}

// Meets reports whether machines of the type meet the demands.
func (f *Figures) Meets(d *Demands) bool {
	switch {
	case !f.takes(d.Interfaces):
		return false
	case d.Family == awsv1.FamilyAL2023 && strings.HasPrefix(f.Name, "a1."): // its processors are too old for the image
		return false
	case d.NestedVirtualization && !f.Untold && !f.NestedVirtualization:
		return false
	case d.Enclaves && !f.hasEnclaves():
		return false
	case d.PlacementStrategy != "" && !f.Untold && !slices.Contains(f.Strategies, d.PlacementStrategy):
		return false
	case d.ConnectionTracking && f.Hypervisor != "nitro":
		return false
	}
	return true
}

// hasEnclaves reports whether the type supports Nitro Enclaves. If EC2 was asked, its answer counts. Otherwise AWS's rule counts: the type needs
// the Nitro hypervisor, which metal types lack, and at least 4 vCPU, or 2 vCPU with Graviton. Burstable types are excluded.
// https://docs.aws.amazon.com/enclaves/latest/user/nitro-enclave.html
func (f *Figures) hasEnclaves() bool {
	if !f.Untold {
		return f.Enclaves
	}
	least := 4
	if f.Architecture == v1.ArchitectureARM64 {
		least = 2
	}
	burstable := len(f.Name) > 1 && f.Name[0] == 't' && f.Name[1] >= '0' && f.Name[1] <= '9'
	return f.Hypervisor == "nitro" && f.VCPUs >= least && !burstable && !strings.HasPrefix(f.Name, "a1.")
}

// takes reports whether the type has a place for every interface.
func (f *Figures) takes(interfaces []awsv1.NetworkInterface) bool {
	if len(interfaces) == 0 {
		return true
	}
	if len(f.Cards) == 0 || !f.ENA {
		return false
	}
	efa := 0
	for _, n := range interfaces {
		if int(n.NetworkCardIndex) >= len(f.Cards) || int(n.DeviceIndex) >= f.Cards[n.NetworkCardIndex] {
			return false
		}
		if n.InterfaceType == awsv1.InterfaceTypeEFAOnly {
			efa++
		}
	}
	return efa <= f.EFA
}

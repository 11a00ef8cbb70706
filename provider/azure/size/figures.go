// Package size computes the properties of nodes from Azure's data about a VM size and the settings of a node class: labels, capacity and
// overhead, and the reason why a size is not used. It calls no service and has no prices.
package size

import (
	"cmp"
	"slices"
	"strings"
)

// Figures holds the used part of Azure's description of a VM size, about a tenth of it.
type Figures struct {
	// Name is Azure's, "Standard_D4ads_v5".
	Name string
	// QuotaFamily is the name of the quota of its cores, "standardDADSv5Family"; "" if it is not known.
	QuotaFamily string
	// Architecture is amd64 or arm64.
	Architecture string
	// VCPUs is the number that counts against quotas. AvailableVCPUs is the number of usable cores of a constrained size, 0 if it is the
	// same.
	VCPUs, AvailableVCPUs int
	MemoryMiB             int64
	GPUs                  int
	DataDisks             int
	// Generations are the Hyper-V generations that can run on it, "1" and "2".
	Generations []string
	// DiskControllers are the ways in which its disks may be attached. It is empty if they are not known.
	DiskControllers []string

	AcceleratedNetworking, PremiumStorage, EncryptionAtHost bool
	TrustedLaunchDisabled                                   bool
	Spot                                                    bool

	// EphemeralOSDisk means that the system disk may be on one of the machine's own disks, if Placements and the sizes of these allow it.
	EphemeralOSDisk              bool
	Placements                   []string
	CachedDiskBytes              int64
	ResourceDiskMiB, NVMeDiskMiB int64

	// UltraSSD means that machines without a zone can have ultra disks.
	UltraSSD bool
	// Zones are the zones in which the size is sold.
	Zones []Zone
	// Restricted means that the subscription may not use the size in the region.
	Restricted bool

	// Untold means that the sizes of the machine's own disks are unknown, and whether it can have ultra disks and trusted launch. There are
	// then no labels for them, and a class that needs them may use the size.
	Untold bool
}

// Zone is a zone of a region, "1".
type Zone struct {
	Number     string
	UltraSSD   bool
	Restricted bool // the subscription may not use the size there
}

// Usable returns the zones in which the subscription may use the size.
func (f *Figures) Usable() []Zone {
	return slices.DeleteFunc(slices.Clone(f.Zones), func(z Zone) bool { return z.Restricted })
}

// cores returns the number of cores of a machine.
func (f *Figures) cores() int { return cmp.Or(f.AvailableVCPUs, f.VCPUs) }

// How disks are attached, in Azure's words. A system that does not support the size's way does not start on it.
const (
	ControllerSCSI = "SCSI"
	ControllerNVMe = "NVMe"
)

// The kinds of a machine's own disk for the system, in Azure's words.
const (
	PlacementNVMe     = "NvmeDisk"
	PlacementCache    = "CacheDisk"
	PlacementResource = "ResourceDisk"
)

// EphemeralDisk returns the size of the largest possible system disk on the machine's own disks, in decimal GB, and its placement. The size is 0
// if the system disk cannot be there. Azure uses the first kind of disk that exists, even if it is too small and another kind is large enough.
func (f *Figures) EphemeralDisk() (sizeGB int64, placement string) {
	const gb = 1_000_000_000
	nvme := slices.ContainsFunc(f.Placements, func(p string) bool { return strings.EqualFold(p, PlacementNVMe) })
	switch {
	case !f.EphemeralOSDisk:
		return 0, ""
	case f.NVMeDiskMiB > 0 && nvme:
		return f.NVMeDiskMiB << 20 / gb, PlacementNVMe
	case f.CachedDiskBytes > 0:
		return f.CachedDiskBytes / gb, PlacementCache
	case f.ResourceDiskMiB > 0:
		return f.ResourceDiskMiB << 20 / gb, PlacementResource
	}
	return 0, ""
}

// OSDisk returns the placement of a machine's system disk, "" for a managed disk.
func (f *Figures) OSDisk(s *Settings) (placement string) {
	if largest, placement := f.EphemeralDisk(); largest > 0 && s.diskGB() <= largest {
		return placement
	}
	return ""
}

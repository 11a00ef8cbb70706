// Package size computes a node's properties from Azure's data about a VM size and from a node class: the labels, the capacity, the reserved
// resources, and the reason for which a size is not used. It calls nothing and knows no prices.
package size

import (
	"cmp"
	"slices"
	"strings"
)

// Figures is what matters here of what Azure says of a VM size: a tenth of what it sends.
type Figures struct {
	// Name is Azure's, "Standard_D4ads_v5".
	Name string
	// QuotaFamily is under which name its cores are counted, "standardDADSv5Family"; "" if nobody said.
	QuotaFamily string
	// Architecture is amd64 or arm64.
	Architecture string
	// VCPUs is what quota counts. AvailableVCPUs is what a machine of a constrained size has, 0 where that is the same.
	VCPUs, AvailableVCPUs int
	MemoryMiB             int64
	GPUs                  int
	DataDisks             int
	// Generations are those of Hyper-V that start it, "1" and "2".
	Generations []string
	// DiskControllers are the ways in which its disks may be attached; none if nobody said.
	DiskControllers []string

	AcceleratedNetworking, PremiumStorage, EncryptionAtHost bool
	TrustedLaunchDisabled                                   bool
	Spot                                                    bool

	// EphemeralOSDisk means that the system's disk may be one of the machine's own, where Placements and the sizes of these say so.
	EphemeralOSDisk              bool
	Placements                   []string
	CachedDiskBytes              int64
	ResourceDiskMiB, NVMeDiskMiB int64

	// UltraSSD means that machines that are in no zone in particular can have such disks.
	UltraSSD bool
	// Zones are those that the size is sold in.
	Zones []Zone
	// Restricted means that the subscription may not have the size in the region.
	Restricted bool

	// Untold means that nobody said how large the machine's own disks are, and whether it can have ultra disks and trusted launch:
	// no label tells then, and a class that needs it may use the size.
	Untold bool
}

// Zone is a zone of a region, "1".
type Zone struct {
	Number     string
	UltraSSD   bool
	Restricted bool // the subscription may not have the size there
}

// Usable are the zones that the subscription may have the size in.
func (f *Figures) Usable() []Zone {
	return slices.DeleteFunc(slices.Clone(f.Zones), func(z Zone) bool { return z.Restricted })
}

// cores are those that a machine has.
func (f *Figures) cores() int { return cmp.Or(f.AvailableVCPUs, f.VCPUs) }

// How disks are attached, in Azure's words. Systems that cannot do what a size asks for do not start on it.
const (
	ControllerSCSI = "SCSI"
	ControllerNVMe = "NVMe"
)

// What a machine's own disk for the system is made of, in Azure's words.
const (
	PlacementNVMe     = "NvmeDisk"
	PlacementCache    = "CacheDisk"
	PlacementResource = "ResourceDisk"
)

// EphemeralDisk is the largest disk for the system that the machine has itself, in decimal GB, and where it would be; 0 if it has
// none. Azure takes the first place that there is: one that is too small is not made up for by the next.
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

// OSDisk is where the disk of a machine's system is, "" for a managed disk.
func (f *Figures) OSDisk(s *Settings) (placement string) {
	if largest, placement := f.EphemeralDisk(); largest > 0 && s.diskGB() <= largest {
		return placement
	}
	return ""
}

package size

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"tenon.sh/api/awsv1"
	"tenon.sh/engine/accelerator"
	"tenon.sh/provider/aws/kubelet"
	"tenon.sh/provider/aws/userdata"
)

// DefaultMemoryOverhead is the largest share of a machine's nominal memory that its hypervisor takes.
const DefaultMemoryOverhead = 0.075

// Settings holds the settings of a class that the size of its nodes depends on. Classes with equal settings have nodes of equal sizes.
type Settings struct {
	Family  string
	Kubelet kubelet.Managed
	// Disk is the size of the volume that the kubelet uses for pods.
	Disk resource.Quantity
	// Volumes is the number of EBS volumes with which a machine starts.
	Volumes int
	// RAID0 means that pods use the machine's own disks instead.
	RAID0 bool
	// Interfaces are the network interfaces in the class's spec; nil means the default ones.
	Interfaces []awsv1.NetworkInterface
	// MemoryOverhead is the share of the nominal memory that the hypervisor takes.
	MemoryOverhead float64
	// ReservedENIs is the number of interfaces that are not used for pods.
	ReservedENIs int
	// Sharing describes how NVIDIA's GPUs are shared.
	Sharing accelerator.Sharing
	// Claims holds the devices for resource claims.
	Claims Claims
}

// Claims selects the devices for which the table of expected devices is used.
type Claims struct {
	// NVIDIA selects GPUs, EFA selects interfaces that are attached to machines whose pods claim one.
	NVIDIA, EFA bool
	// Sharing is the class's annotation about how claims share a GPU.
	Sharing string
}

// SettingsOf returns the settings of a class.
func SettingsOf(class *awsv1.EC2NodeClass, managed kubelet.Managed, memoryOverhead float64, reservedENIs int) Settings {
	family := class.Family()
	return Settings{
		Family:         family,
		Kubelet:        managed,
		Disk:           disk(family, class.Spec.BlockDeviceMappings),
		Volumes:        volumes(family, class.Spec.BlockDeviceMappings),
		RAID0:          class.Spec.InstanceStorePolicy != nil && *class.Spec.InstanceStorePolicy == "RAID0",
		Interfaces:     class.Spec.NetworkInterfaces,
		MemoryOverhead: memoryOverhead,
		ReservedENIs:   reservedENIs,
		Sharing:        sharing(family, class.Spec.UserData),
	}
}

// sharing reads the GPU sharing from a class's user data. It ignores errors, because the class's condition reports them.
func sharing(family string, text *string) accelerator.Sharing {
	if family != awsv1.FamilyBottlerocket || text == nil {
		return accelerator.Sharing{}
	}
	s, err := userdata.GPUSharing(*text)
	if err != nil {
		return accelerator.Sharing{}
	}
	return s
}

// family holds the properties of an image family that decide the size of nodes.
type family struct {
	// devices are the volumes of the image. The kubelet uses the last of them, whose default size is diskGiB.
	devices []string
	diskGiB int64
	// perInterface means that pods get addresses of the machine's interfaces, so that these limit the number of pods.
	perInterface bool
	// reservesByInterface means that the kubelet's reserved memory follows from that limit, whatever maxPods is.
	reservesByInterface bool
	podsPerCore         bool
}

func familyOf(name string) family {
	switch name {
	case awsv1.FamilyAL2, awsv1.FamilyAL2023:
		return family{[]string{"/dev/xvda"}, 20, true, true, true}
	case awsv1.FamilyBottlerocket:
		return family{[]string{"/dev/xvda", "/dev/xvdb"}, 20, true, false, false}
	case awsv1.FamilyCustom:
		return family{nil, 20, true, true, true}
	}
	return family{[]string{"/dev/sda1"}, 50, false, false, true}
}

// disk returns the size of the volume that the kubelet uses. This is the volume that is marked as root. If none is marked, it is the last volume
// for a Custom image, and the volume with the family's usual name for any other image. Without a size for it, disk returns the family's default.
func disk(name string, mappings []awsv1.BlockDeviceMapping) resource.Quantity {
	own := familyOf(name)
	sizeOf := func(m awsv1.BlockDeviceMapping) *resource.Quantity {
		if m.EBS == nil {
			return nil
		}
		return m.EBS.VolumeSize
	}
	for _, m := range mappings {
		if q := sizeOf(m); m.RootVolume && q != nil {
			return *q
		}
	}
	if name == awsv1.FamilyCustom && len(mappings) > 0 {
		if q := sizeOf(mappings[len(mappings)-1]); q != nil {
			return *q
		}
	}
	for _, m := range mappings {
		if q := sizeOf(m); q != nil && m.DeviceName != nil && len(own.devices) > 0 && *m.DeviceName == own.devices[len(own.devices)-1] {
			return *q
		}
	}
	return *resource.NewQuantity(own.diskGiB<<30, resource.BinarySI)
}

// volumes counts the EBS volumes with which a machine starts: the image's volumes, the first of which is the boot volume, and the volumes that the
// class adds. For a Custom image, the boot volume is the one with a usual name; without that name, one more volume is counted.
func volumes(name string, mappings []awsv1.BlockDeviceMapping) int {
	all := map[string]bool{}
	for _, device := range familyOf(name).devices {
		all[device] = true
	}
	for _, m := range mappings {
		if m.EBS != nil && m.DeviceName != nil {
			all[*m.DeviceName] = true
		}
	}
	if name == awsv1.FamilyCustom && !all["/dev/xvda"] && !all["/dev/sda1"] {
		return len(all) + 1
	}
	return len(all)
}

// efaOnly counts the interfaces without IP traffic: all of them, and those on the first card.
func (s *Settings) efaOnly() (all, first int) {
	for _, n := range s.Interfaces {
		if n.InterfaceType == awsv1.InterfaceTypeEFAOnly {
			all++
			if n.NetworkCardIndex == 0 {
				first++
			}
		}
	}
	return all, first
}

// reserved adds the quantities of the kubelet's reservation settings to a list.
func reserved(into corev1.ResourceList, told map[string]string) {
	for name, text := range told {
		if q, err := resource.ParseQuantity(text); err == nil && q.Sign() >= 0 {
			into[corev1.ResourceName(name)] = q
		}
	}
}

package size

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"tenon.sh/api/awsv1"
	"tenon.sh/engine/accelerator"
	"tenon.sh/provider/aws/kubelet"
	"tenon.sh/provider/aws/userdata"
)

// DefaultMemoryOverhead is the part of a machine's nominal memory that its hypervisor takes, at most.
const DefaultMemoryOverhead = 0.075

// Settings is what a class asks for, as far as the size of its nodes depends on it. Classes that differ in other things
// only have nodes of the same sizes.
type Settings struct {
	Family  string
	Kubelet kubelet.Managed
	// Disk is what pods have on the volume that the kubelet works on.
	Disk resource.Quantity
	// Volumes is how many volumes of EBS a machine is started with.
	Volumes int
	// RAID0 gives pods the machine's own disks instead.
	RAID0 bool
	// Interfaces are the network interfaces that the class asks for; nil leaves them to us.
	Interfaces []awsv1.NetworkInterface
	// MemoryOverhead is the part of the nominal memory that the hypervisor takes.
	MemoryOverhead float64
	// ReservedENIs are not used for pods.
	ReservedENIs int
	// Sharing is how NVIDIA's GPUs are shared.
	Sharing accelerator.Sharing
	// Claims says what claims for devices can have.
	Claims Claims
}

// Claims says of which devices it is taken to be known what their drivers will publish.
type Claims struct {
	// NVIDIA are GPUs, EFA interfaces that are attached to machines whose pods claim one.
	NVIDIA, EFA bool
	// Sharing is the class's annotation on how claims share a GPU.
	Sharing string
}

// SettingsOf reads a class.
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

// sharing reads user data that says how a node shares its GPUs. What cannot be read says nothing here: the class says that it is wrong.
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

// What an image of a family understands.
type family struct {
	// devices are the volumes of the image; the kubelet works on the last of them, whose size is diskGiB by default.
	devices []string
	diskGiB int64
	// perInterface means that pods get addresses of the machine's interfaces, which bounds their number.
	perInterface bool
	// reservesByInterface means that the kubelet's memory follows from that bound, whatever maxPods says.
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

// disk is the size of the volume that the kubelet works on: the one that is marked, or else the family's own. With images
// of unknown make the last one is meant.
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

// volumes counts those that a machine is started with: the image's, the first of which it boots from, and those that the class
// adds. With images of unknown make one of the usual names, or else none of the class's, is what the machine boots from.
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

// efaOnly counts the interfaces that carry no IP traffic: all, and those on the first card.
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

// reserved is a list of what is kept back, from what the kubelet is told.
func reserved(into corev1.ResourceList, told map[string]string) {
	for name, text := range told {
		if q, err := resource.ParseQuantity(text); err == nil && q.Sign() >= 0 {
			into[corev1.ResourceName(name)] = q
		}
	}
}

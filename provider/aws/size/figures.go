// Package size turns what EC2 says of an instance type, and what a node class asks for, into what a node of that type is:
// its labels, what it has and what it keeps back. It calls nothing and knows no prices.
package size

import (
	"cmp"
	"math"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	v1 "tenon.sh/api/v1"
)

// Figures is what matters here of what EC2 says of an instance type: a tenth of what it sends.
type Figures struct {
	Name string
	// Architecture is amd64 or arm64.
	Architecture string
	VCPUs        int
	MemoryMiB    int64
	// Manufacturer makes the processors and ClockMHz is their speed; "" and 0 if EC2 does not say.
	Manufacturer string
	ClockMHz     int
	// Hypervisor is nitro, xen, or "" for a machine without one.
	Hypervisor           string
	Encrypts             bool // traffic between machines
	Enclaves             bool
	NestedVirtualization bool
	OnDemand, Spot       bool
	// Strategies are those of the placement groups that take the type.
	Strategies []string

	// StoreGB is the size of the disks that are in the machine, NVMeGB the same unless they are older than NVMe.
	StoreGB, NVMeGB int64
	EBSMbps         int
	NetworkMbps     int64
	BranchENIs      int

	// Cards holds the number of interfaces that each network card takes.
	Cards       []int
	DefaultCard int
	IPv4PerENI  int
	ENA         bool
	EFA         int

	GPUs         []Device
	Accelerators []Device // for inference, as EC2 lists some of them
	Neurons      []Device
}

// Device is one model of accelerator in a machine.
type Device struct {
	Name, Manufacturer string
	Count              int
	MemoryMiB          int64
	Cores              int // of each, of Neuron devices
}

// Static is what EC2's API does not say of a type.
type Static struct {
	NetworkMbps int64
	BranchENIs  int
}

// FiguresOf reads what EC2 sends. Of a type that static does not know the network's speed is that of its cards.
func FiguresOf(info *ec2types.InstanceTypeInfo, static map[string]Static) Figures {
	f := Figures{
		Name:       string(info.InstanceType),
		VCPUs:      int(aws.ToInt32(value(info.VCpuInfo).DefaultVCpus)),
		MemoryMiB:  aws.ToInt64(value(info.MemoryInfo).SizeInMiB),
		Hypervisor: string(info.Hypervisor),
		Enclaves:   info.NitroEnclavesSupport == ec2types.NitroEnclavesSupportSupported,
		OnDemand:   slices.Contains(info.SupportedUsageClasses, ec2types.UsageClassTypeOnDemand),
		Spot:       slices.Contains(info.SupportedUsageClasses, ec2types.UsageClassTypeSpot),
	}
	for _, s := range value(info.PlacementGroupInfo).SupportedStrategies {
		f.Strategies = append(f.Strategies, string(s))
	}
	f.readProcessor(value(info.ProcessorInfo))
	f.readDisks(value(info.InstanceStorageInfo), value(info.EbsInfo))
	f.readNetwork(value(info.NetworkInfo))
	f.readDevices(info)
	if s, known := static[f.Name]; known {
		f.NetworkMbps, f.BranchENIs = s.NetworkMbps, s.BranchENIs
	}
	return f
}

// value is what a pointer points to, or the zero value.
func value[T any](p *T) T {
	if p == nil {
		return *new(T)
	}
	return *p
}

func (f *Figures) readProcessor(p ec2types.ProcessorInfo) {
	for _, a := range p.SupportedArchitectures {
		switch a {
		case ec2types.ArchitectureTypeX8664:
			f.Architecture = cmp.Or(f.Architecture, v1.ArchitectureAMD64)
		case ec2types.ArchitectureTypeArm64:
			f.Architecture = cmp.Or(f.Architecture, v1.ArchitectureARM64)
		}
	}
	f.Manufacturer = aws.ToString(p.Manufacturer)
	f.ClockMHz = int(math.Round(aws.ToFloat64(p.SustainedClockSpeedInGhz) * 1000))
	f.NestedVirtualization = slices.Contains(p.SupportedFeatures, "nested-virtualization")
}

func (f *Figures) readDisks(store ec2types.InstanceStorageInfo, ebs ec2types.EbsInfo) {
	f.StoreGB = aws.ToInt64(store.TotalSizeInGB)
	if store.NvmeSupport != ec2types.EphemeralNvmeSupportUnsupported {
		f.NVMeGB = f.StoreGB
	}
	if ebs.EbsOptimizedSupport == ec2types.EbsOptimizedSupportDefault && ebs.EbsOptimizedInfo != nil {
		f.EBSMbps = int(aws.ToInt32(ebs.EbsOptimizedInfo.MaximumBandwidthInMbps))
	}
}

func (f *Figures) readNetwork(n ec2types.NetworkInfo) {
	gbps := 0.0
	for _, card := range n.NetworkCards {
		f.Cards = append(f.Cards, int(aws.ToInt32(card.MaximumNetworkInterfaces)))
		gbps += aws.ToFloat64(card.BaselineBandwidthInGbps)
	}
	f.NetworkMbps = int64(math.Round(gbps * 1000))
	f.DefaultCard = int(aws.ToInt32(n.DefaultNetworkCardIndex))
	f.IPv4PerENI = int(aws.ToInt32(n.Ipv4AddressesPerInterface))
	f.ENA = n.EnaSupport != "" && n.EnaSupport != ec2types.EnaSupportUnsupported
	f.Encrypts = aws.ToBool(n.EncryptionInTransitSupported)
	f.EFA = int(aws.ToInt32(value(n.EfaInfo).MaximumEfaInterfaces))
}

func (f *Figures) readDevices(info *ec2types.InstanceTypeInfo) {
	for _, g := range value(info.GpuInfo).Gpus {
		f.GPUs = append(f.GPUs, Device{
			Name: aws.ToString(g.Name), Manufacturer: aws.ToString(g.Manufacturer), Count: int(aws.ToInt32(g.Count)),
			MemoryMiB: int64(aws.ToInt32(value(g.MemoryInfo).SizeInMiB)),
		})
	}
	for _, a := range value(info.InferenceAcceleratorInfo).Accelerators {
		f.Accelerators = append(f.Accelerators, Device{Name: aws.ToString(a.Name), Manufacturer: aws.ToString(a.Manufacturer), Count: int(aws.ToInt32(a.Count))})
	}
	for _, n := range value(info.NeuronInfo).NeuronDevices {
		f.Neurons = append(f.Neurons, Device{
			Name: aws.ToString(n.Name), Manufacturer: "aws", Count: int(aws.ToInt32(n.Count)), Cores: int(aws.ToInt32(value(n.CoreInfo).Count)),
		})
	}
}

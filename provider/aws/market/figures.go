package market

import (
	"cmp"
	"math"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	v1 "tenon.sh/api/v1"
	"tenon.sh/provider/aws/size"
)

// FiguresOf converts EC2's description of a type. If the map `static` lacks the type, the network's speed is that of the type's network cards.
func FiguresOf(info *ec2types.InstanceTypeInfo, static map[string]size.Static) size.Figures {
	f := size.Figures{
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
	readProcessor(&f, value(info.ProcessorInfo))
	readDisks(&f, value(info.InstanceStorageInfo), value(info.EbsInfo))
	readNetwork(&f, value(info.NetworkInfo))
	readDevices(&f, info)
	if s, known := static[f.Name]; known {
		f.NetworkMbps, f.BranchENIs = s.NetworkMbps, s.BranchENIs
	}
	return f
}

// value returns the value of a pointer, or the zero value for nil.
func value[T any](p *T) T {
	if p == nil {
		return *new(T)
	}
	return *p
}

func readProcessor(f *size.Figures, p ec2types.ProcessorInfo) {
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

func readDisks(f *size.Figures, store ec2types.InstanceStorageInfo, ebs ec2types.EbsInfo) {
	f.StoreGB = aws.ToInt64(store.TotalSizeInGB)
	if store.NvmeSupport != ec2types.EphemeralNvmeSupportUnsupported {
		f.NVMeGB = f.StoreGB
	}
	if ebs.EbsOptimizedSupport == ec2types.EbsOptimizedSupportDefault && ebs.EbsOptimizedInfo != nil {
		f.EBSMbps = int(aws.ToInt32(ebs.EbsOptimizedInfo.MaximumBandwidthInMbps))
	}
	f.SetVolumes(int(aws.ToInt32(ebs.MaximumEbsAttachments)), ebs.AttachmentLimitType == ec2types.AttachmentLimitTypeDedicated)
}

func readNetwork(f *size.Figures, n ec2types.NetworkInfo) {
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

func readDevices(f *size.Figures, info *ec2types.InstanceTypeInfo) {
	for _, g := range value(info.GpuInfo).Gpus {
		f.GPUs = append(f.GPUs, size.Device{
			Name: aws.ToString(g.Name), Manufacturer: aws.ToString(g.Manufacturer), Count: int(aws.ToInt32(g.Count)),
			MemoryMiB: int64(aws.ToInt32(value(g.MemoryInfo).SizeInMiB)),
		})
	}
	for _, a := range value(info.InferenceAcceleratorInfo).Accelerators {
		f.Accelerators = append(f.Accelerators, size.Device{Name: aws.ToString(a.Name), Manufacturer: aws.ToString(a.Manufacturer), Count: int(aws.ToInt32(a.Count))})
	}
	for _, n := range value(info.NeuronInfo).NeuronDevices {
		f.Neurons = append(f.Neurons, size.Device{
			Name: aws.ToString(n.Name), Manufacturer: "aws", Count: int(aws.ToInt32(n.Count)), Cores: int(aws.ToInt32(value(n.CoreInfo).Count)),
		})
	}
}

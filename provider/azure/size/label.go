package size

import (
	"cmp"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// The labels of machines of Azure.
const (
	LabelName                  = "karpenter.azure.com/sku-name"
	LabelFamily                = "karpenter.azure.com/sku-family"
	LabelSeries                = "karpenter.azure.com/sku-series"
	LabelVersion               = "karpenter.azure.com/sku-version"
	LabelCPU                   = "karpenter.azure.com/sku-cpu"
	LabelMemory                = "karpenter.azure.com/sku-memory"
	LabelAcceleratedNetworking = "karpenter.azure.com/sku-networking-accelerated"
	LabelPremiumStorage        = "karpenter.azure.com/sku-storage-premium-capable"
	LabelEphemeralOSDisk       = "karpenter.azure.com/sku-storage-ephemeralos-maxsize"
	LabelUltraSSD              = "karpenter.azure.com/sku-storage-ultra-ssd"
	LabelGPUName               = "karpenter.azure.com/sku-gpu-name"
	LabelGPUManufacturer       = "karpenter.azure.com/sku-gpu-manufacturer"
	LabelGPUCount              = "karpenter.azure.com/sku-gpu-count"
	LabelHyperVGeneration      = "karpenter.azure.com/sku-hyperv-generation"
	LabelDiskController        = "karpenter.azure.com/sku-disk-controller"
	LabelPlacementScope        = "karpenter.azure.com/placement-scope"

	LabelAKSCPU           = "kubernetes.azure.com/sku-cpu"
	LabelAKSMemory        = "kubernetes.azure.com/sku-memory"
	LabelAKSCluster       = "kubernetes.azure.com/cluster"
	LabelAKSMode          = "kubernetes.azure.com/mode"
	LabelAKSOSSKU         = "kubernetes.azure.com/os-sku"
	LabelAKSFIPS          = "kubernetes.azure.com/fips_enabled"
	LabelAKSPriority      = "kubernetes.azure.com/priority"
	LabelScaleSetPriority = "kubernetes.azure.com/scalesetpriority"
)

// Labels lists every label that a machine of the size can have. A label that the size lacks is listed without values. Labels that differ
// between offerings are not included, except that of ultra disks, because an offering without them has a label for that.
func (f *Figures) Labels(s *Settings) map[string][]string {
	name, _ := ParseName(f.Name)
	cores, memory := one(strconv.Itoa(f.cores())), one(strconv.FormatInt(f.MemoryMiB, 10))
	osSKU := s.ImageFamily
	if osSKU != AzureLinux {
		osSKU = Ubuntu
	}
	labels := map[string][]string{
		corev1.LabelArchStable:     one(f.Architecture),
		corev1.LabelOSStable:       {string(corev1.Linux)},
		corev1.LabelTopologyRegion: one(s.Region),
		LabelName:                  one(f.Name),
		LabelFamily:                one(name.Family),
		LabelSeries:                one(name.Series),
		LabelVersion:               one(name.Version),
		LabelCPU:                   cores,
		LabelAKSCPU:                cores,
		LabelMemory:                memory,
		LabelAKSMemory:             memory,
		LabelAcceleratedNetworking: one(strconv.FormatBool(f.AcceleratedNetworking)),
		LabelPremiumStorage:        one(strconv.FormatBool(f.PremiumStorage)),
		LabelGPUManufacturer:       one(name.GPUMaker()),
		LabelGPUCount:              one(strconv.Itoa(f.GPUs)),
		LabelGPUName:               nil,
		LabelHyperVGeneration:      f.generations(s),
		LabelDiskController:        f.controllers(),
		LabelAKSCluster:            one(s.Cluster),
		LabelAKSMode:               {"user", "system"},
		LabelAKSOSSKU:              {osSKU},
		LabelAKSFIPS:               nil,
		corev1.LabelWindowsBuild:   nil,
	}
	if name.GPUMaker() != "" {
		labels[LabelGPUName] = one(name.Accelerator)
	}
	if s.FIPS {
		labels[LabelAKSFIPS] = one("true")
	}
	if !f.Untold {
		labels[LabelUltraSSD] = one("false")
		if f.UltraSSD || slices.ContainsFunc(f.Usable(), func(z Zone) bool { return z.UltraSSD }) {
			labels[LabelUltraSSD] = []string{"false", "true"} // only claims that ask for ultra disks get them
		}
		labels[LabelEphemeralOSDisk] = nil
		if largest, _ := f.EphemeralDisk(); largest > 0 {
			labels[LabelEphemeralOSDisk] = one(strconv.FormatInt(largest, 10))
		}
	}
	return labels
}

// generations returns the Hyper-V generations that a machine may have, the newer one first, as in the choice of images.
func (f *Figures) generations(s *Settings) []string {
	if s.TrustedLaunch {
		return one("2")
	}
	return slices.SortedFunc(slices.Values(f.Generations), func(a, b string) int { return cmp.Compare(b, a) })
}

// controllers returns the ways in which disks may be attached. A size whose ways are unknown may have both.
func (f *Figures) controllers() []string {
	if len(f.DiskControllers) == 0 {
		return []string{ControllerSCSI, ControllerNVMe}
	}
	return f.DiskControllers
}

// one returns a list with the value, or nil for "".
func one(value string) []string {
	if value == "" {
		return nil
	}
	return []string{value}
}

// ClusterLabel returns the value of label kubernetes.azure.com/cluster for a cluster whose machines are in this resource group.
func ClusterLabel(group string) string {
	const most = 63
	out := []byte(group)
	for i, c := range out {
		if c == '(' || c == ')' {
			out[i] = '-'
		}
	}
	out = out[:min(len(out), most)]
	if len(out) == 0 {
		return ""
	}
	if last := out[len(out)-1]; last == '-' || last == '_' || last == '.' {
		if len(out) == most {
			out = out[:most-1]
		}
		out = append(out, 'z')
	}
	return string(out)
}

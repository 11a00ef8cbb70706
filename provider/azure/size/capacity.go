package size

import (
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"tenon.sh/engine/kube"
)

// The resources of GPUs.
const (
	ResourceNVIDIAGPU corev1.ResourceName = "nvidia.com/gpu"
	ResourceAMDGPU    corev1.ResourceName = "amd.com/gpu"
)

// DiskDriver is the name of the CSI driver that attaches Azure's disks.
const DiskDriver = "disk.csi.azure.com"

// Capacity returns the capacity of a node. learned is the memory in bytes that nodes of this size and image were seen to have; if it is 0,
// the memory is estimated.
func (f *Figures) Capacity(s *Settings, learned int64) corev1.ResourceList {
	memory := f.memory(s)
	if learned > 0 {
		memory = learned
	}
	capacity := corev1.ResourceList{
		corev1.ResourceCPU:              *resource.NewQuantity(int64(f.cores()), resource.DecimalSI),
		corev1.ResourceMemory:           *resource.NewQuantity(memory, resource.BinarySI),
		corev1.ResourceEphemeralStorage: f.storage(s),
		corev1.ResourcePods:             *resource.NewQuantity(s.pods(), resource.DecimalSI),
	}
	if name, _ := ParseName(f.Name); f.GPUs > 0 {
		switch name.GPUMaker() {
		case NVIDIA:
			capacity[ResourceNVIDIAGPU] = *resource.NewQuantity(int64(f.GPUs), resource.DecimalSI)
		case AMD:
			capacity[ResourceAMDGPU] = *resource.NewQuantity(int64(f.GPUs), resource.DecimalSI)
		}
	}
	return capacity
}

// memory returns the nominal memory in whole GiB minus the hypervisor's part, in bytes.
func (f *Figures) memory(s *Settings) int64 {
	whole := f.MemoryMiB >> 10 << 30
	return whole - int64(math.Ceil(float64(whole)*s.MemoryOverhead))
}

func (f *Figures) storage(s *Settings) resource.Quantity {
	return *resource.NewScaledQuantity(s.diskGB(), resource.Giga)
}

// diskThreshold is the eviction threshold of the disk: the kubelet's default, and AKS's setting.
const diskThreshold = "10%"

// Overhead returns the resources that a node reserves for the kubelet and the system, and the eviction thresholds.
func (f *Figures) Overhead(s *Settings) corev1.ResourceList {
	memoryThreshold := "100Mi"
	if s.Kubelet.Reserves == ByMachine {
		memoryThreshold = "750Mi"
	}
	system := map[corev1.ResourceName]resource.Quantity{}
	told(system, s.Kubelet.SystemReserved)
	storage := f.storage(s)
	eviction := map[corev1.ResourceName]resource.Quantity{
		corev1.ResourceMemory:           kube.EvictionThreshold(s.Kubelet.EvictionHard["memory.available"], memoryThreshold, f.memory(s)),
		corev1.ResourceEphemeralStorage: kube.EvictionThreshold(s.Kubelet.EvictionHard["nodefs.available"], diskThreshold, storage.Value()),
	}
	total := corev1.ResourceList{}
	for _, part := range []map[corev1.ResourceName]resource.Quantity{f.KubeReserved(s), system, eviction} {
		for name, q := range part {
			if q.IsZero() {
				continue
			}
			sum := total[name]
			sum.Add(q)
			total[name] = sum
		}
	}
	return total
}

// KubeReserved returns the kubelet's own reservation, as it is passed to the kubelet.
func (f *Figures) KubeReserved(s *Settings) corev1.ResourceList {
	kept := map[corev1.ResourceName]resource.Quantity{}
	switch s.Kubelet.Reserves {
	case ByMachine:
		kept[corev1.ResourceCPU], kept[corev1.ResourceMemory] = f.cpuPart(), mebibytes(f.memoryPart())
	case ByPods:
		kept[corev1.ResourceCPU], kept[corev1.ResourceMemory] = f.cpuPart(), mebibytes(min(20*s.pods()+50, f.MemoryMiB/4))
	}
	told(kept, s.Kubelet.KubeReserved)
	return kept
}

// memoryPart returns the memory that AKS's table reserves, in MiB: 25 % of the first 4 GiB, 20 % of the next 4, 10 % of the next 8, 6 % of
// the next 112 and 2 % of all others.
func (f *Figures) memoryPart() int64 {
	return steps(f.MemoryMiB, []step{{4 << 10, 25}, {8 << 10, 20}, {16 << 10, 10}, {128 << 10, 6}, {math.MaxInt64, 2}}) / 100
}

// cpuPart returns 6 % of the first core, 4 % of the second, 2 % of the next two and 1 % of all others.
func (f *Figures) cpuPart() resource.Quantity {
	milli := steps(int64(f.cores())*1000, []step{{1000, 6}, {2000, 4}, {4000, 2}, {math.MaxInt64, 1}}) / 100
	return *resource.NewMilliQuantity(milli, resource.DecimalSI)
}

// step is the reserved percentage up to a bound.
type step struct{ to, percent int64 }

// steps returns the sum of all parts of n, times 100.
func steps(n int64, table []step) (sum int64) {
	from := int64(0)
	for _, s := range table {
		if n > from {
			sum += (min(n, s.to) - from) * s.percent
		}
		from = s.to
	}
	return sum
}

// told adds the quantities of the kubelet's reservation settings.
func told(into map[corev1.ResourceName]resource.Quantity, list map[string]string) {
	for name, text := range list {
		if q, err := resource.ParseQuantity(text); err == nil && q.Sign() >= 0 {
			into[corev1.ResourceName(name)] = q
		}
	}
}

func mebibytes(n int64) resource.Quantity { return *resource.NewQuantity(n<<20, resource.BinarySI) }

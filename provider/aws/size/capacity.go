package size

import (
	"maps"
	"math"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"tenon.sh/api/awsv1"
	"tenon.sh/engine"
	"tenon.sh/engine/accelerator"
	"tenon.sh/engine/kube"
)

// Capacity returns the capacity of a node. learnedMemory is the memory in bytes that nodes of this type and image were seen to have; if it is
// 0, the memory is estimated.
func (f *Figures) Capacity(s *Settings, learnedMemory int64) corev1.ResourceList {
	memory := f.memory(s)
	if learnedMemory > 0 {
		memory = learnedMemory
	}
	capacity := corev1.ResourceList{
		corev1.ResourceCPU:              *resource.NewQuantity(int64(f.VCPUs), resource.DecimalSI),
		corev1.ResourceMemory:           *resource.NewQuantity(memory, resource.BinarySI),
		corev1.ResourceEphemeralStorage: f.storage(s),
	}
	set := func(name corev1.ResourceName, n int) {
		if n > 0 {
			capacity[name] = *resource.NewQuantity(int64(n), resource.DecimalSI)
		}
	}
	capacity[corev1.ResourcePods] = *resource.NewQuantity(int64(f.Pods(s)), resource.DecimalSI)
	set(awsv1.ResourcePodENI, f.BranchENIs)
	set(awsv1.ResourceNVIDIAGPU, f.gpus("NVIDIA"))
	if shows := f.shared(s); shows != nil {
		capacity[awsv1.ResourceNVIDIAGPU] = resource.Quantity{Format: resource.DecimalSI}
		maps.Copy(capacity, shows)
	}
	set(awsv1.ResourceAMDGPU, f.gpus("AMD"))
	set(awsv1.ResourceGaudi, f.gpus("Habana"))
	neurons := 0
	for _, n := range f.Neurons {
		neurons += n.Count
	}
	set(awsv1.ResourceNeuron, neurons)
	if neurons > 0 {
		set(awsv1.ResourceNeuronCore, f.Neurons[0].Count*f.Neurons[0].Cores)
	}
	if all, _ := s.efaOnly(); s.Interfaces != nil {
		set(awsv1.ResourceEFA, all)
	} else {
		set(awsv1.ResourceEFA, f.EFA)
	}
	if awsv1.IsWindows(s.Family) {
		set(awsv1.ResourcePrivateIPv4, f.IPv4PerENI-1)
	}
	return capacity
}

// memory returns the nominal memory minus the hypervisor's part, in bytes. On arm64, the firmware takes some too.
func (f *Figures) memory(s *Settings) int64 {
	mib := f.MemoryMiB
	if f.Architecture == "arm64" {
		mib -= 64
	}
	return (mib - int64(math.Ceil(float64(mib<<20)*s.MemoryOverhead/1024/1024))) << 20
}

func (f *Figures) storage(s *Settings) resource.Quantity {
	if s.RAID0 && f.StoreGB > 0 {
		return *resource.NewScaledQuantity(f.StoreGB, resource.Giga)
	}
	return s.Disk
}

// shared returns the resources that a node shows for NVIDIA's GPUs if the class lets them be shared; nil if it does not.
func (f *Figures) shared(s *Settings) corev1.ResourceList {
	if len(f.GPUs) != 1 {
		return nil
	}
	return s.Sharing.Shows(f.model(), f.gpus("NVIDIA"))
}

// Devices returns the source of a node's accelerators; nil if the node shows them as they are.
func (f *Figures) Devices(s *Settings) *engine.DeviceSource {
	gpus := f.gpus("NVIDIA")
	out := &engine.DeviceSource{
		Slices:   s.Sharing.Strategy == "",
		Source:   "the node class's user data (" + s.Sharing.Words() + ")",
		Physical: corev1.ResourceList{awsv1.ResourceNVIDIAGPU: *resource.NewQuantity(int64(gpus), resource.DecimalSI)},
	}
	if f.shared(s) != nil {
		return out
	}
	if len(f.GPUs) == 1 {
		out.Problem = s.Sharing.ProblemOf(f.model(), gpus)
	}
	if out.Problem == "" {
		return nil
	}
	out.Slices, out.Source = false, "the catalog, because the node class's user data asks for what cannot be ("+out.Problem+")"
	return out
}

// model returns the model of the machine's only kind of GPU.
func (f *Figures) model() accelerator.Model {
	return accelerator.Model{Name: kebab(f.GPUs[0].Name), MemoryMiB: int(f.GPUs[0].MemoryMiB)}
}

func (f *Figures) gpus(manufacturer string) (n int) {
	for _, g := range f.GPUs {
		if strings.EqualFold(g.Manufacturer, manufacturer) {
			n += g.number()
		}
	}
	return n
}

// podsByInterface returns the number of pods for which the default network card has addresses. One address of each interface is the machine's
// own, and two pods need none because they use the machine's network. Other cards are not used for pods.
func (f *Figures) podsByInterface(s *Settings, reserved int) int {
	if f.DefaultCard >= len(f.Cards) {
		return 0
	}
	_, efaOnly := s.efaOnly()
	usable := f.Cards[f.DefaultCard] - max(reserved, 0) - efaOnly
	if usable <= 0 {
		return 0
	}
	return usable*(f.IPv4PerENI-1) + 2
}

// Pods returns the number of pods that a node can run.
func (f *Figures) Pods(s *Settings) int {
	own := familyOf(s.Family)
	pods := 110
	if n, set := s.Kubelet.MaxPodsNumber(); set {
		pods = n
	} else if own.perInterface {
		pods = f.podsByInterface(s, s.ReservedENIs)
	}
	if n := s.Kubelet.PodsPerCore; n > 0 && own.podsPerCore {
		pods = min(pods, n*f.VCPUs)
	}
	return pods
}

// Overhead returns the resources that a node reserves for the kubelet and the system, and the eviction thresholds.
func (f *Figures) Overhead(s *Settings) corev1.ResourceList {
	own := familyOf(s.Family)
	pods := f.Pods(s)
	if own.reservesByInterface {
		pods = f.podsByInterface(s, 0)
	}
	kubelet := corev1.ResourceList{
		corev1.ResourceCPU:              *resource.NewMilliQuantity(reservedMilliCPU(f.VCPUs), resource.DecimalSI),
		corev1.ResourceMemory:           mebibytes(int64(11*pods + 255)),
		corev1.ResourceEphemeralStorage: *resource.NewQuantity(1<<30, resource.BinarySI),
	}
	reserved(kubelet, s.Kubelet.KubeReserved)
	system := corev1.ResourceList{}
	reserved(system, s.Kubelet.SystemReserved)
	storage := f.storage(s)
	eviction := corev1.ResourceList{
		corev1.ResourceMemory:           kube.EvictionThreshold(s.Kubelet.EvictionHard["memory.available"], "100Mi", f.memory(s)),
		corev1.ResourceEphemeralStorage: kube.EvictionThreshold(s.Kubelet.EvictionHard["nodefs.available"], "10%", storage.Value()),
	}
	total := corev1.ResourceList{}
	for _, part := range []corev1.ResourceList{kubelet, system, eviction} {
		for name, q := range part {
			sum := total[name]
			sum.Add(q)
			total[name] = sum
		}
	}
	return total
}

// reservedMilliCPU returns 6 % of the first core, 1 % of the second, 0.5 % of the next two and 0.25 % of all others.
func reservedMilliCPU(cores int) int64 {
	n := 0
	for _, step := range []struct {
		from, to  int // in thousandths of a core
		per10000s int
	}{{0, 1000, 600}, {1000, 2000, 100}, {2000, 4000, 50}, {4000, math.MaxInt, 25}} {
		if cores*1000 > step.from {
			n += (min(cores*1000, step.to) - step.from) * step.per10000s / 10000
		}
	}
	return int64(n)
}

func mebibytes(n int64) resource.Quantity { return *resource.NewQuantity(n<<20, resource.BinarySI) }

package catalog

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
)

// awsFigures is the output of the program in folder gen.
//
//go:embed data/aws.txt
var awsFigures string

// AWS returns the built-in "aws" catalog: the instance types of EC2 with their on-demand prices in us-east-1, as nodes
// running Amazon Linux 2023 with default settings would report them. Every type is sold in three zones, on demand and
// spot. The spot prices are not EC2's: see spotPrice.
//
// Types without a price are left out, and those that Amazon Linux 2023 does not run on.
func AWS() []engine.InstanceType {
	types := []engine.InstanceType{}
	for line := range strings.Lines(awsFigures) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		m, err := parseAWSModel(strings.Fields(line))
		if err != nil {
			panic(fmt.Sprintf("data/aws.txt is damaged: %v: %s", err, line))
		}
		types = append(types, m.instanceType())
	}
	Sort(types)
	return types
}

// awsModel is one line of data/aws.txt. Figures that EC2 does not give are "" or 0.
type awsModel struct {
	name, arch, cpuManufacturer, hypervisor, encryption string
	price                                               float64
	vcpus, memoryMiB                                    int64
	clock, nvmeGB, ebsMbps, networkMbps                 string
	enis, ipsPerENI, branchENIs                         int64
	gpu, accelerator, neuron, efa                       []string
}

func parseAWSModel(words []string) (awsModel, error) {
	if len(words) < 15 {
		return awsModel{}, fmt.Errorf("%d words", len(words))
	}
	for i, w := range words {
		if w == "-" {
			words[i] = ""
		}
	}
	m := awsModel{name: words[0], arch: words[2], cpuManufacturer: words[3], clock: words[6], hypervisor: words[7],
		encryption: words[8], nvmeGB: words[9], ebsMbps: words[10], networkMbps: words[11]}
	var err error
	if m.price, err = strconv.ParseFloat(words[1], 64); err != nil {
		return m, err
	}
	numbers := map[int]*int64{4: &m.vcpus, 5: &m.memoryMiB, 12: &m.enis, 13: &m.ipsPerENI, 14: &m.branchENIs}
	for i, to := range numbers {
		if *to, err = strconv.ParseInt(words[i], 10, 64); err != nil {
			return m, err
		}
	}
	for _, extra := range words[15:] {
		kind, values, _ := strings.Cut(extra, "=")
		switch kind {
		case "gpu":
			m.gpu = strings.Split(values, "/")
		case "accelerator":
			m.accelerator = strings.Split(values, "/")
		case "neuron":
			m.neuron = strings.Split(values, "/")
		case "efa":
			m.efa = []string{values}
		default:
			return m, fmt.Errorf("unknown word %q", extra)
		}
	}
	return m, nil
}

func (m awsModel) instanceType() engine.InstanceType {
	capacity := m.capacity()
	t := engine.InstanceType{Name: m.name, Labels: m.labels(), Capacity: capacity, Overhead: m.overhead(capacity)}
	for _, zone := range []string{"us-east-1a", "us-east-1b", "us-east-1c"} {
		t.Offerings = append(t.Offerings,
			engine.Offering{Zone: zone, CapacityType: v1.CapacityTypeOnDemand, Price: m.price},
			engine.Offering{Zone: zone, CapacityType: v1.CapacityTypeSpot, Price: spotPrice(m.name, zone, m.price)})
	}
	return t
}

// capacity is what a node of this type has. The hypervisor takes 7.5 % of the nominal memory, an estimate that no real
// node falls below.
func (m awsModel) capacity() corev1.ResourceList {
	memory := m.memoryMiB
	if m.arch == "arm64" {
		memory -= 64
	}
	memory -= (memory*75 + 999) / 1000
	capacity := corev1.ResourceList{
		corev1.ResourceCPU:              *resource.NewQuantity(m.vcpus, resource.DecimalSI),
		corev1.ResourceMemory:           mebibytes(memory),
		corev1.ResourcePods:             *resource.NewQuantity(m.pods(), resource.DecimalSI),
		corev1.ResourceEphemeralStorage: resource.MustParse("20Gi"),
	}
	set := func(name corev1.ResourceName, count string) {
		if q, err := resource.ParseQuantity(count); err == nil && !q.IsZero() {
			capacity[name] = q
		}
	}
	set("vpc.amazonaws.com/pod-eni", strconv.FormatInt(m.branchENIs, 10))
	if m.gpu != nil {
		set(corev1.ResourceName(m.gpu[2]+".com/gpu"), m.gpu[0])
	}
	if m.neuron != nil {
		set("aws.amazon.com/neuron", m.neuron[0])
		set("aws.amazon.com/neuroncore", m.neuron[1])
	}
	if m.efa != nil {
		set("vpc.amazonaws.com/efa", m.efa[0])
	}
	return capacity
}

// pods is the number of pods for which the network interfaces of a node have addresses: one address of each interface
// is the node's own, and two pods need none because they use the node's network.
func (m awsModel) pods() int64 {
	if m.enis == 0 {
		return 0
	}
	return m.enis*(m.ipsPerENI-1) + 2
}

// overhead is what the kubelet reserves with the defaults of the image, and its hard eviction thresholds: 100Mi of
// memory and a tenth of the disk.
func (m awsModel) overhead(capacity corev1.ResourceList) corev1.ResourceList {
	disk := capacity[corev1.ResourceEphemeralStorage]
	return corev1.ResourceList{
		corev1.ResourceCPU:              *resource.NewMilliQuantity(reservedMilliCPU(m.vcpus), resource.DecimalSI),
		corev1.ResourceMemory:           mebibytes(11*m.pods() + 255 + 100),
		corev1.ResourceEphemeralStorage: *resource.NewQuantity(1<<30+(disk.Value()+9)/10, resource.BinarySI),
	}
}

// reservedMilliCPU is 6 % of the first core, 1 % of the second, 0.5 % of the next two and 0.25 % of all others.
func reservedMilliCPU(cores int64) int64 {
	reserved := int64(60)
	if cores > 1 {
		reserved += 10
	}
	if cores > 2 {
		reserved += 5 * min(cores-2, 2)
	}
	if cores > 4 {
		reserved += (cores - 4) * 5 / 2
	}
	return reserved
}

func mebibytes(n int64) resource.Quantity { return *resource.NewQuantity(n<<20, resource.BinarySI) }

package size_test

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"

	"tenon.sh/api/awsv1"
	"tenon.sh/engine"
	"tenon.sh/provider/aws/awstest"
	"tenon.sh/provider/aws/images"
	"tenon.sh/provider/aws/kubelet"
	"tenon.sh/provider/aws/market"
	"tenon.sh/provider/aws/size"
	"tenon.sh/provider/catalog"
)

func TestMain(m *testing.M) { os.Exit(awstest.Run(m)) }

// figures returns the figures of real types, with the speeds and branch interfaces of the built-in catalog.
func figures(t *testing.T, names ...string) map[string]size.Figures {
	t.Helper()
	in := &ec2.DescribeInstanceTypesInput{}
	for _, name := range names {
		in.InstanceTypes = append(in.InstanceTypes, ec2types.InstanceType(name))
	}
	answer, err := ec2.NewFromConfig(awstest.New(t).Config()).DescribeInstanceTypes(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]size.Figures{}
	for i := range answer.InstanceTypes {
		f := market.FiguresOf(&answer.InstanceTypes[i], nil)
		out[f.Name] = f
	}
	for _, name := range names {
		if out[name].Name == "" {
			t.Fatalf("the server knows no type %s", name)
		}
	}
	return out
}

// settings returns the settings of a class of a family. overhead is the hypervisor's share of the memory.
func settings(t *testing.T, family, kubeletJSON string, change func(*awsv1.EC2NodeClass), overhead float64, enis int) *size.Settings {
	t.Helper()
	class := &awsv1.EC2NodeClass{Spec: awsv1.EC2NodeClassSpec{AMIFamily: aws.String(family)}}
	if kubeletJSON != "" {
		class.Spec.Kubelet = &runtime.RawExtension{Raw: []byte(kubeletJSON)}
	}
	if change != nil {
		change(class)
	}
	managed, err := kubelet.Read(class.Spec.Kubelet)
	if err != nil {
		t.Fatal(err)
	}
	s := size.SettingsOf(class, managed, overhead, enis)
	return &s
}

func is(t *testing.T, what string, list corev1.ResourceList, name corev1.ResourceName, want string) {
	t.Helper()
	got, has := list[name]
	if want == "" && has || want != "" && got.Cmp(resource.MustParse(want)) != 0 {
		t.Errorf("%s: %s is %q, want %q", what, name, got.String(), want)
	}
}

func TestWhatANodeKeepsBack(t *testing.T) {
	t.Parallel()
	types := figures(t, "m5.xlarge", "t3.large")
	for _, test := range []struct {
		kind, family, kubelet string
		enis                  int
		pods, memory, cpu     string
	}{
		// The memory is the kubelet's reservation plus 100Mi for early eviction.
		{"m5.xlarge", "AL2023", "", 0, "58", "993Mi", "80m"},
		{"m5.xlarge", "Bottlerocket", `{"maxPods":110}`, 0, "110", "1565Mi", "80m"},
		{"t3.large", "AL2", "", 0, "35", "740Mi", "70m"},
		{"t3.large", "AL2", `{"maxPods":10}`, 0, "10", "740Mi", "70m"},
		{"t3.large", "AL2023", `{"maxPods":10}`, 0, "10", "740Mi", "70m"},
		{"t3.large", "Custom", `{"maxPods":10}`, 0, "10", "740Mi", "70m"},
		{"t3.large", "Bottlerocket", `{"maxPods":10}`, 0, "10", "465Mi", "70m"},
		{"t3.large", "Windows2019", `{"maxPods":10}`, 0, "10", "465Mi", "70m"},
		{"t3.large", "Windows2022", `{"maxPods":10}`, 0, "10", "465Mi", "70m"},
		{"t3.large", "Windows2025", `{"maxPods":10}`, 0, "10", "465Mi", "70m"},
		{"t3.large", "AL2", "", 1, "24", "740Mi", "70m"},
		{"t3.large", "AL2023", "", 1, "24", "740Mi", "70m"},
		{"t3.large", "Bottlerocket", "", 1, "24", "619Mi", "70m"},
		{"t3.large", "Windows2022", "", 1, "110", "1565Mi", "70m"},
		{"t3.large", "AL2023", "", 1000000, "0", "740Mi", "70m"},
		{"t3.large", "AL2023", `{"podsPerCore":3}`, 0, "6", "740Mi", "70m"},
		{"t3.large", "AL2023", `{"podsPerCore":30,"maxPods":20}`, 0, "20", "740Mi", "70m"},
		{"t3.large", "AL2023", `{"podsPerCore":0}`, 0, "35", "740Mi", "70m"},
		{"t3.large", "Bottlerocket", `{"podsPerCore":3}`, 0, "35", "740Mi", "70m"},
		{"t3.large", "AL2023", `{"kubeReserved":{"memory":"1Gi"}}`, 0, "35", "1124Mi", "70m"},
		{"t3.large", "AL2023", `{"systemReserved":{"memory":"1Gi","cpu":"1"}}`, 0, "35", "1764Mi", "1070m"},
		{"t3.large", "AL2023", `{"evictionHard":{"memory.available":"5%"}}`, 0, "35", "1101004800m", "70m"},
		{"t3.large", "AL2023", `{"evictionHard":{"memory.available":"500Mi"}}`, 0, "35", "1140Mi", "70m"},
		{"t3.large", "AL2023", `{"evictionHard":{"memory.available":"100%"}}`, 0, "35", "640Mi", "70m"},
		{"t3.large", "AL2023", `{"evictionHard":{"nodefs.available":"5%"}}`, 0, "35", "740Mi", "70m"},
		{"t3.large", "AL2023", `{"evictionSoft":{"memory.available":"50%"}}`, 0, "35", "740Mi", "70m"},
		{"t3.large", "AL2023", `{"maxPods":"1 + 1","kubeReserved":{"memory":"2 * 3 + x"}}`, 0, "35", "740Mi", "70m"},
	} {
		f := types[test.kind]
		s := settings(t, test.family, test.kubelet, nil, 0, test.enis)
		what := strings.Join([]string{test.kind, test.family, test.kubelet}, " ")
		if strings.Contains(test.kubelet, "5%") && strings.Contains(test.kubelet, "memory") {
			test.memory = resource.NewQuantity(640<<20+(8192<<20)/20+1, resource.BinarySI).String() // rounded up
		}
		is(t, what, f.Capacity(s, 0), corev1.ResourcePods, test.pods)
		is(t, what, f.Overhead(s), corev1.ResourceMemory, test.memory)
		is(t, what, f.Overhead(s), corev1.ResourceCPU, test.cpu)
	}
}

// The figures of real nodes of these types. Less than that is safe, more would leave pods without a node.
func TestNodesNeverHaveLessThanIsPredicted(t *testing.T) {
	t.Parallel()
	types := figures(t, "t4g.small", "t4g.medium", "t4g.xlarge", "m5.large")
	for _, test := range []struct{ kind, memory, cpu string }{
		{"t4g.small", "1408312Ki", "1930m"},
		{"t4g.medium", "3377496Ki", ""},
		{"t4g.xlarge", "15136012Ki", "3920m"},
		{"m5.large", "7220184Ki", "1930m"},
	} {
		f := types[test.kind]
		s := settings(t, "AL2023", "", nil, 0.075, 0)
		capacity, overhead := f.Capacity(s, 0), f.Overhead(s)
		memory := capacity[corev1.ResourceMemory]
		memory.Sub(overhead[corev1.ResourceMemory])
		if limit := resource.MustParse(test.memory); memory.Cmp(limit) > 0 || float64(memory.Value()) < 0.9*float64(limit.Value()) {
			t.Errorf("%s: %s allocatable is predicted, a real node has %s", test.kind, memory.String(), test.memory)
		}
		cpu := capacity[corev1.ResourceCPU]
		cpu.Sub(overhead[corev1.ResourceCPU])
		if test.cpu != "" && cpu.Cmp(resource.MustParse(test.cpu)) != 0 {
			t.Errorf("%s: %s cores, want %s", test.kind, cpu.String(), test.cpu)
		}
	}
}

func TestMemoryThatWasSeenTakesThePlaceOfTheEstimate(t *testing.T) {
	t.Parallel()
	f, s := figures(t, "m5.large")["m5.large"], settings(t, "AL2023", `{"evictionHard":{"memory.available":"50%"}}`, nil, 0.075, 0)
	before, after := f.Capacity(s, 0), f.Capacity(s, 7<<30)
	is(t, "estimated", before, corev1.ResourceMemory, "7577Mi")
	is(t, "seen", after, corev1.ResourceMemory, "7Gi")
}

func TestWhatANodeHas(t *testing.T) {
	t.Parallel()
	types := figures(t, "m5.xlarge", "m6idn.32xlarge", "g4dn.8xlarge", "g4ad.16xlarge", "inf2.xlarge", "trn1.2xlarge", "p5.48xlarge", "t3.large")
	raid := func(c *awsv1.EC2NodeClass) { c.Spec.InstanceStorePolicy = aws.String("RAID0") }
	efaOnly := func(c *awsv1.EC2NodeClass) {
		c.Spec.NetworkInterfaces = []awsv1.NetworkInterface{{InterfaceType: "interface"}, {DeviceIndex: 1, InterfaceType: "efa-only"}}
	}
	volume := func(device string, root bool, gib int64) awsv1.BlockDeviceMapping {
		return awsv1.BlockDeviceMapping{DeviceName: &device, RootVolume: root, EBS: &awsv1.BlockDevice{VolumeSize: resource.NewQuantity(gib<<30, resource.BinarySI)}}
	}
	volumes := func(list ...awsv1.BlockDeviceMapping) func(*awsv1.EC2NodeClass) {
		return func(c *awsv1.EC2NodeClass) { c.Spec.BlockDeviceMappings = list }
	}
	for _, test := range []struct {
		kind, family string
		change       func(*awsv1.EC2NodeClass)
		resource     corev1.ResourceName
		want         string
	}{
		{"m5.xlarge", "AL2023", nil, corev1.ResourceCPU, "4"},
		{"m5.xlarge", "AL2023", nil, corev1.ResourceEphemeralStorage, "20Gi"},
		{"m5.xlarge", "Windows2022", nil, corev1.ResourceEphemeralStorage, "50Gi"},
		{"m5.xlarge", "Bottlerocket", volumes(volume("/dev/xvda", false, 4), volume("/dev/xvdb", false, 30)), corev1.ResourceEphemeralStorage, "30Gi"},
		{"m5.xlarge", "AL2023", volumes(volume("/dev/xvda", false, 40)), corev1.ResourceEphemeralStorage, "40Gi"},
		{"m5.xlarge", "AL2023", volumes(volume("/dev/xvda", false, 40), volume("/dev/sdf", true, 60)), corev1.ResourceEphemeralStorage, "60Gi"},
		{"m5.xlarge", "AL2023", volumes(volume("/dev/sdf", false, 60)), corev1.ResourceEphemeralStorage, "20Gi"},
		{"m5.xlarge", "Custom", volumes(volume("/dev/a", false, 40), volume("/dev/b", false, 60)), corev1.ResourceEphemeralStorage, "60Gi"},
		{"m6idn.32xlarge", "AL2023", nil, corev1.ResourcePods, "394"},
		{"m6idn.32xlarge", "AL2023", efaOnly, corev1.ResourcePods, "345"},
		{"m6idn.32xlarge", "AL2023", raid, corev1.ResourceEphemeralStorage, "7600G"},
		{"m5.xlarge", "AL2023", raid, corev1.ResourceEphemeralStorage, "20Gi"},
		{"m6idn.32xlarge", "AL2023", nil, awsv1.ResourceEFA, "2"},
		{"m6idn.32xlarge", "AL2023", efaOnly, awsv1.ResourceEFA, "1"},
		{"t3.large", "AL2023", nil, awsv1.ResourceEFA, ""},
		{"g4dn.8xlarge", "AL2023", nil, awsv1.ResourceNVIDIAGPU, "1"},
		{"p5.48xlarge", "AL2023", nil, awsv1.ResourceNVIDIAGPU, "8"},
		{"g4ad.16xlarge", "AL2023", nil, awsv1.ResourceAMDGPU, "4"},
		{"m5.xlarge", "AL2023", nil, awsv1.ResourceNVIDIAGPU, ""},
		{"inf2.xlarge", "AL2023", nil, awsv1.ResourceNeuron, "1"},
		{"inf2.xlarge", "AL2023", nil, awsv1.ResourceNeuronCore, "2"},
		{"trn1.2xlarge", "AL2023", nil, awsv1.ResourceNeuron, "1"},
		{"t3.large", "Windows2022", nil, awsv1.ResourcePrivateIPv4, "11"},
		{"t3.large", "AL2023", nil, awsv1.ResourcePrivateIPv4, ""},
	} {
		f := types[test.kind]
		is(t, test.kind+" "+test.family, f.Capacity(settings(t, test.family, "", test.change, 0, 0), 0), test.resource, test.want)
	}
}

func TestHowManyVolumesANodeTakes(t *testing.T) {
	t.Parallel()
	types := figures(t, "m5.large", "m7i.large", "c4.large", "c5d.24xlarge", "d3.8xlarge", "c5.metal", "c8gb.metal-24xl")
	types["new.large"] = size.Figures{Name: "new.large", Hypervisor: "nitro", Cards: []int{4}}
	disks := func(devices ...string) func(*awsv1.EC2NodeClass) {
		return func(c *awsv1.EC2NodeClass) {
			for _, d := range devices {
				c.Spec.BlockDeviceMappings = append(c.Spec.BlockDeviceMappings, awsv1.BlockDeviceMapping{DeviceName: &d, EBS: &awsv1.BlockDevice{}})
			}
		}
	}
	interfaces := func(n int) func(*awsv1.EC2NodeClass) {
		return func(c *awsv1.EC2NodeClass) { c.Spec.NetworkInterfaces = make([]awsv1.NetworkInterface, n) }
	}
	store := func(c *awsv1.EC2NodeClass) {
		c.Spec.BlockDeviceMappings = []awsv1.BlockDeviceMapping{{DeviceName: aws.String("/dev/xvdz")}}
	}
	for _, test := range []struct {
		rule, kind, family string
		change             func(*awsv1.EC2NodeClass)
		limit, shared      int
	}{
		{"what the machine boots from is one; two more interfaces can come", "m5.large", "AL2023", nil, 26, 2},
		{"places of its own are not shared", "m7i.large", "AL2023", nil, 31, 0},
		{"Bottlerocket has two volumes", "m5.large", "Bottlerocket", nil, 25, 2},
		{"it has both if the class names one", "m5.large", "Bottlerocket", disks("/dev/xvdb"), 25, 2},
		{"a volume of the class", "m5.large", "AL2023", disks("/dev/xvda", "/dev/sdf", "/dev/sdg"), 24, 2},
		{"what the machine boots from need not be named", "m5.large", "AL2023", disks("/dev/sdf"), 25, 2},
		{"a disk of the machine is no volume", "m5.large", "AL2023", store, 26, 2},
		{"Windows", "m5.large", "Windows2022", disks("/dev/sda1"), 26, 2},
		{"an image of unknown make boots from one too", "m5.large", "Custom", nil, 26, 2},
		{"and from a volume of the usual name", "m5.large", "Custom", disks("/dev/sda1", "/dev/sdf"), 25, 2},
		{"or from another", "m5.large", "Custom", disks("/dev/sdf"), 25, 2},
		{"further interfaces of the class take places", "m5.large", "AL2023", interfaces(3), 24, 0},
		{"where they are shared", "m7i.large", "AL2023", interfaces(3), 31, 0},
		{"disks of the machine are counted by EC2", "c5d.24xlarge", "AL2023", nil, 22, 14},
		{"as few as EC2 says", "d3.8xlarge", "AL2023", nil, 2, 1},
		{"one at least", "d3.8xlarge", "AL2023", disks("/dev/sdf", "/dev/sdg", "/dev/sdh"), 1, 0},
		{"Xen", "c4.large", "AL2023", nil, 38, 0},
		{"no hypervisor", "c5.metal", "AL2023", nil, 30, 14},
		{"no hypervisor, and places of its own", "c8gb.metal-24xl", "AL2023", nil, 38, 0},
		{"nothing is known", "new.large", "AL2023", nil, 26, 3},
	} {
		f := types[test.kind]
		if limit, shared := f.AttachLimit(settings(t, test.family, "", test.change, 0, 0)); limit != test.limit || shared != test.shared {
			t.Errorf("%s: %s takes %d and shares %d, want %d and %d", test.rule, test.kind, limit, shared, test.limit, test.shared)
		}
	}
}

// EC2 wrongly reports some types' volume slots as shared. The built-in figures are corrected.
func TestWhatEC2SaysOfVolumesIsWhatIsBuiltIn(t *testing.T) {
	t.Parallel()
	pages := ec2.NewDescribeInstanceTypesPaginator(ec2.NewFromConfig(awstest.New(t).Config()), &ec2.DescribeInstanceTypesInput{})
	live, called := map[string]size.Figures{}, map[string]ec2types.AttachmentLimitType{}
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i := range page.InstanceTypes {
			f := market.FiguresOf(&page.InstanceTypes[i], nil)
			live[f.Name], called[f.Name] = f, page.InstanceTypes[i].EbsInfo.AttachmentLimitType
		}
	}
	compared, corrected := 0, 0
	builtIn, _ := catalog.BuiltIn()
	for _, f := range builtIn {
		if f.Volumes == 0 {
			t.Errorf("%s: nothing is built in", f.Name)
		}
		of, known := live[f.Name]
		if !known {
			continue
		}
		compared++
		if of.Volumes != f.Volumes || of.Dedicated != f.Dedicated {
			t.Errorf("%s: EC2 says %d, dedicated: %v; built in are %d and %v", f.Name, of.Volumes, of.Dedicated, f.Volumes, f.Dedicated)
		}
		if f.Dedicated && called[f.Name] == ec2types.AttachmentLimitTypeShared {
			corrected++
		}
	}
	if compared < 1200 || corrected == 0 {
		t.Errorf("%d types compared, %d of them called shared that are not", compared, corrected)
	}
}

func TestLabelsOfATypeAreThoseOfTheReference(t *testing.T) {
	t.Parallel()
	types := figures(t, "g4dn.8xlarge", "inf2.xlarge", "m5.metal", "m7i-flex.large", "c6g.large", "m5.large", "u-6tb1.112xlarge")
	const domain = "karpenter.k8s.aws/"
	for _, test := range []struct{ kind, key, want string }{
		{"g4dn.8xlarge", "instance-cpu", "32"},
		{"g4dn.8xlarge", "instance-memory", "131072"},
		{"g4dn.8xlarge", "instance-ebs-bandwidth", "9500"},
		{"g4dn.8xlarge", "instance-network-bandwidth", "50000"},
		{"g4dn.8xlarge", "instance-gpu-name", "t4"},
		{"g4dn.8xlarge", "instance-gpu-manufacturer", "nvidia"},
		{"g4dn.8xlarge", "instance-gpu-count", "1"},
		{"g4dn.8xlarge", "instance-gpu-memory", "16384"},
		{"g4dn.8xlarge", "instance-local-nvme", "900"},
		{"g4dn.8xlarge", "instance-cpu-sustained-clock-speed-mhz", "2500"},
		{"g4dn.8xlarge", "instance-accelerator-name", ""},
		{"g4dn.8xlarge", "instance-category", "g"},
		{"g4dn.8xlarge", "instance-generation", "4"},
		{"g4dn.8xlarge", "instance-family", "g4dn"},
		{"g4dn.8xlarge", "instance-size", "8xlarge"},
		{"inf2.xlarge", "instance-network-bandwidth", "2083"},
		{"inf2.xlarge", "instance-ebs-bandwidth", "10000"},
		{"inf2.xlarge", "instance-cpu-sustained-clock-speed-mhz", "3600"},
		{"inf2.xlarge", "instance-accelerator-name", "inferentia2"},
		{"inf2.xlarge", "instance-accelerator-manufacturer", "aws"},
		{"inf2.xlarge", "instance-accelerator-count", "1"},
		{"inf2.xlarge", "instance-gpu-count", ""},
		{"m5.large", "instance-cpu-manufacturer", "intel"},
		{"m5.large", "instance-hypervisor", "nitro"},
		{"m5.large", "nitro-sandbox", "false"},
		{"m5.large", "instance-encryption-in-transit-supported", "false"},
		{"m5.large", "instance-capability-flex", "false"},
		{"m5.large", "instance-local-nvme", ""},
		{"m7i-flex.large", "instance-capability-flex", "true"},
		{"c6g.large", "instance-encryption-in-transit-supported", "false"},
		{"u-6tb1.112xlarge", "instance-category", "u"},
		{"u-6tb1.112xlarge", "instance-generation", "1"},
	} {
		f := types[test.kind]
		values, listed := f.Labels("us-west-2", "AL2023", "")[domain+test.key]
		if got := strings.Join(values, ","); got != test.want || !listed {
			t.Errorf("%s: %s is %q, want %q", test.kind, test.key, got, test.want)
		}
	}
	metal := types["m5.metal"]
	if got := metal.Labels("us-west-2", "AL2023", "")[domain+"instance-hypervisor"]; !slices.Equal(got, []string{""}) {
		t.Errorf("the hypervisor of m5.metal is %q", got)
	}
	arm, amd := types["c6g.large"], types["m5.large"]
	if got := arm.Labels("us-west-2", "Windows2022", "10.0.20348"); len(got[corev1.LabelOSStable]) != 0 || got[corev1.LabelArchStable][0] != "arm64" {
		t.Errorf("Windows on arm64: %v", got[corev1.LabelOSStable])
	}
	if got := amd.Labels("us-west-2", "Windows2022", "10.0.20348"); got[corev1.LabelOSStable][0] != "windows" || got[corev1.LabelWindowsBuild][0] != "10.0.20348" {
		t.Errorf("Windows: %v %v", got[corev1.LabelOSStable], got[corev1.LabelWindowsBuild])
	}
}

func TestWhichTypesAClassCanUse(t *testing.T) {
	t.Parallel()
	types := figures(t, "a1.large", "t3.large", "t2.large", "m5.metal", "m6idn.32xlarge", "m5.large", "m5.xlarge", "p5.48xlarge", "c1.medium")
	efa := func(card, device int32) awsv1.NetworkInterface {
		return awsv1.NetworkInterface{NetworkCardIndex: card, DeviceIndex: device, InterfaceType: "efa-only"}
	}
	first := awsv1.NetworkInterface{InterfaceType: "interface"}
	for _, test := range []struct {
		rule, kind string
		demands    size.Demands
		want       bool
	}{
		{"a1 does not run AL2023", "a1.large", size.Demands{Family: "AL2023"}, false},
		{"a1 runs Bottlerocket", "a1.large", size.Demands{Family: "Bottlerocket"}, true},
		{"a1 runs what users make", "a1.large", size.Demands{Family: "Custom"}, true},
		{"t3 runs everything", "t3.large", size.Demands{Family: "AL2023"}, true},
		{"one EFA", "m6idn.32xlarge", size.Demands{Interfaces: []awsv1.NetworkInterface{first, efa(0, 1)}}, true},
		{"EFAs on two cards", "m6idn.32xlarge", size.Demands{Interfaces: []awsv1.NetworkInterface{first, efa(0, 1), efa(1, 1)}}, true},
		{"more EFAs than there are", "m6idn.32xlarge", size.Demands{Interfaces: []awsv1.NetworkInterface{first, efa(0, 1), efa(0, 2), efa(1, 1)}}, false},
		{"no EFA at all", "m5.large", size.Demands{Interfaces: []awsv1.NetworkInterface{first, efa(0, 1)}}, false},
		{"no card of that number", "m5.large", size.Demands{Interfaces: []awsv1.NetworkInterface{first, {NetworkCardIndex: 1, InterfaceType: "interface"}}}, false},
		{"no room on the card", "m5.large", size.Demands{Interfaces: []awsv1.NetworkInterface{first, {DeviceIndex: 3, InterfaceType: "interface"}}}, false},
		{"no ENA", "c1.medium", size.Demands{Interfaces: []awsv1.NetworkInterface{first}}, false},
		{"tracking on nitro", "m5.large", size.Demands{ConnectionTracking: true}, true},
		{"tracking on xen", "t2.large", size.Demands{ConnectionTracking: true}, false},
		{"tracking on bare metal", "m5.metal", size.Demands{ConnectionTracking: true}, false},
		{"a cluster group", "m5.large", size.Demands{PlacementStrategy: "cluster"}, true},
		{"a cluster group for a small type", "t3.large", size.Demands{PlacementStrategy: "cluster"}, false},
		{"a spread group", "t3.large", size.Demands{PlacementStrategy: "spread"}, true},
		{"enclaves", "m5.xlarge", size.Demands{Enclaves: true}, true},
		{"enclaves on 2 vCPU", "m5.large", size.Demands{Enclaves: true}, false},
		{"enclaves on bare metal", "m5.metal", size.Demands{Enclaves: true}, false},
		{"enclaves on a burstable type", "t3.large", size.Demands{Enclaves: true}, false},
		{"enclaves on xen", "t2.large", size.Demands{Enclaves: true}, false},
		{"nested virtualization", "t2.large", size.Demands{NestedVirtualization: true}, false},
	} {
		f := types[test.kind]
		if got := f.Meets(&test.demands); got != test.want {
			t.Errorf("%s: %s, got %v", test.rule, test.kind, got)
		}
	}
}

// If EC2 was not asked for the types that support enclaves, AWS's rule applies.
func TestEnclavesOfTypesThatNobodyHasAskedAbout(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		figures size.Figures
		want    bool
	}{
		{size.Figures{Name: "m5.xlarge", Architecture: "amd64", VCPUs: 4, Hypervisor: "nitro"}, true},
		{size.Figures{Name: "m5.large", Architecture: "amd64", VCPUs: 2, Hypervisor: "nitro"}, false},
		{size.Figures{Name: "m6g.large", Architecture: "arm64", VCPUs: 2, Hypervisor: "nitro"}, true},
		{size.Figures{Name: "m6g.medium", Architecture: "arm64", VCPUs: 1, Hypervisor: "nitro"}, false},
		{size.Figures{Name: "t3.2xlarge", Architecture: "amd64", VCPUs: 8, Hypervisor: "nitro"}, false},
		{size.Figures{Name: "t4g.2xlarge", Architecture: "arm64", VCPUs: 8, Hypervisor: "nitro"}, false},
		{size.Figures{Name: "trn1.2xlarge", Architecture: "amd64", VCPUs: 8, Hypervisor: "nitro"}, true},
		{size.Figures{Name: "a1.xlarge", Architecture: "arm64", VCPUs: 4, Hypervisor: "nitro"}, false},
		{size.Figures{Name: "m5.metal", Architecture: "amd64", VCPUs: 96}, false},
		{size.Figures{Name: "m4.2xlarge", Architecture: "amd64", VCPUs: 8, Hypervisor: "xen"}, false},
	} {
		test.figures.Untold = true
		if got := test.figures.Meets(&size.Demands{Enclaves: true}); got != test.want {
			t.Errorf("%s: %v", test.figures.Name, got)
		}
		test.figures.Untold, test.figures.Enclaves = false, !test.want
		if got := test.figures.Meets(&size.Demands{Enclaves: true}); got == test.want {
			t.Errorf("%s: what EC2 says does not count", test.figures.Name)
		}
		if !test.figures.Meets(&size.Demands{}) {
			t.Errorf("%s: excluded though nobody asks for enclaves", test.figures.Name)
		}
	}
}

func TestWhatHasAcceleratorsOrNoHypervisorIsExotic(t *testing.T) {
	t.Parallel()
	s := settings(t, "AL2023", "", nil, 0, 0)
	for name, f := range figures(t, "p5.48xlarge", "g4ad.16xlarge", "inf2.xlarge", "m5.metal", "m5.large") {
		if got := size.Exotic(&engine.InstanceType{Name: name, Capacity: f.Capacity(s, 0)}); got != (name != "m5.large") {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// EC2 counts no GPU if a machine gets a part of one.
func TestAPartOfAGPUIsOneGPU(t *testing.T) {
	t.Parallel()
	info := &ec2types.InstanceTypeInfo{
		InstanceType:  "g6f.large",
		VCpuInfo:      &ec2types.VCpuInfo{DefaultVCpus: aws.Int32(2)},
		MemoryInfo:    &ec2types.MemoryInfo{SizeInMiB: aws.Int64(8192)},
		ProcessorInfo: &ec2types.ProcessorInfo{SupportedArchitectures: []ec2types.ArchitectureType{"x86_64"}},
		GpuInfo: &ec2types.GpuInfo{Gpus: []ec2types.GpuDeviceInfo{{
			Name: aws.String("L4"), Manufacturer: aws.String("NVIDIA"), Count: aws.Int32(0), MemoryInfo: &ec2types.GpuDeviceMemoryInfo{SizeInMiB: aws.Int32(2861)},
		}}},
	}
	f := market.FiguresOf(info, nil)
	is(t, "g6f.large", f.Capacity(settings(t, "AL2023", "", nil, 0, 0), 0), awsv1.ResourceNVIDIAGPU, "1")
	labels := f.Labels("us-west-2", "AL2023", "")
	if got := labels[awsv1.GPUCountLabelKey]; !slices.Equal(got, []string{"1"}) {
		t.Errorf("its label says %q GPUs", got)
	}
	image := images.For([]awsv1.AMI{
		{ID: "standard", Requirements: images.Kinds(awsv1.Alias{Family: "AL2023"})[0]},
		{ID: "nvidia", Requirements: images.Kinds(awsv1.Alias{Family: "AL2023"})[2]},
	}, &engine.InstanceType{Labels: labels})
	if image == nil || image.ID != "nvidia" {
		t.Errorf("it is started from %v, without a driver", image)
	}
}

// The GPU sharing in Bottlerocket's user data is known before the first node exists.
func TestBottlerocketSaysHowGPUsAreShared(t *testing.T) {
	t.Parallel()
	t4, a100 := market.FiguresOf(gpuInfo("g4dn.12xlarge", "T4", 4, 16384), nil), market.FiguresOf(gpuInfo("p4d.24xlarge", "A100", 8, 40960), nil)
	const cannotBe = "the catalog, because the node class's user data asks for what cannot be ("
	const slicing = "[settings.kubelet-device-plugins.nvidia]\ndevice-sharing-strategy = \"time-slicing\"\n[settings.kubelet-device-plugins.nvidia.time-slicing]\nreplicas = 4\n"
	for _, c := range []struct {
		what, family, text string
		figures            *size.Figures
		whole, shared      string
		source             string
	}{
		{"renamed unless said", "Bottlerocket", slicing, &t4, "0", "16", "the node class's user data (time-slicing, 4 replicas, renamed)"},
		{"not renamed", "Bottlerocket", slicing + "rename-by-default = false\n", &t4, "16", "", "the node class's user data (time-slicing, 4 replicas)"},
		{"by MPS", "Bottlerocket", "[settings.kubelet-device-plugins.nvidia]\ndevice-sharing-strategy = \"mps\"\n[settings.kubelet-device-plugins.nvidia.mps]\nreplicas = 2\n", &t4, "8", "", "the node class's user data (mps, 2 replicas)"},
		{"MIG", "Bottlerocket", "[settings.kubelet-device-plugins.nvidia]\ndevice-partitioning-strategy = \"MIG\"\n[settings.kubelet-device-plugins.nvidia.mig.profile]\n\"a100.40gb\" = \"1g.5gb\"\n", &a100, "56", "", "the node class's user data (MIG)"},
		{"MIG of another model", "Bottlerocket", "[settings.kubelet-device-plugins.nvidia]\ndevice-partitioning-strategy = \"MIG\"\n[settings.kubelet-device-plugins.nvidia.mig.profile]\n\"a100.40gb\" = \"1g.5gb\"\n", &t4, "4", "", ""},
		{"replicas without a strategy", "Bottlerocket", "[settings.kubelet-device-plugins.nvidia.time-slicing]\nreplicas = 4\n", &t4, "4", "", ""},
		{"a text that is no TOML", "Bottlerocket", "#!/bin/sh\nexit 0\n", &t4, "4", "", ""},
		{"replicas of another type", "Bottlerocket", "[settings.kubelet-device-plugins.nvidia]\ndevice-sharing-strategy = \"time-slicing\"\n[settings.kubelet-device-plugins.nvidia.time-slicing]\nreplicas = \"4\"\n", &t4, "4", "", ""},
		{"replicas below 0", "Bottlerocket", strings.Replace(slicing, "4", "-4", 1), &t4, "4", "", cannotBe + "settings.kubelet-device-plugins.nvidia.time-slicing.replicas is -4: it must be from 1 to 10000)"},
		{"a strategy that there is not", "Bottlerocket", strings.Replace(slicing, "time-slicing", "timeslicing", 1), &t4, "4", "", cannotBe + "settings.kubelet-device-plugins.nvidia.device-sharing-strategy is \"timeslicing\": it can be none, time-slicing or mps)"},
		{"no strategy, in words", "Bottlerocket", "[settings.kubelet-device-plugins.nvidia]\ndevice-sharing-strategy = \"none\"\n", &t4, "4", "", ""},
		{"MPS of slices", "Bottlerocket", "[settings.kubelet-device-plugins.nvidia]\ndevice-partitioning-strategy = \"MIG\"\ndevice-sharing-strategy = \"mps\"\n[settings.kubelet-device-plugins.nvidia.mps]\nreplicas = 2\n[settings.kubelet-device-plugins.nvidia.mig.profile]\n\"a100.40gb\" = \"1g.5gb\"\n", &a100, "8", "", cannotBe + "settings.kubelet-device-plugins.nvidia.device-sharing-strategy is mps, and slices of MIG cannot be shared by it: use time-slicing, or one of the two)"},
		{"a profile of another model", "Bottlerocket", "[settings.kubelet-device-plugins.nvidia]\ndevice-partitioning-strategy = \"MIG\"\n[settings.kubelet-device-plugins.nvidia.mig.profile]\n\"a100.40gb\" = \"1g.18gb\"\n", &a100, "8", "", cannotBe + "it is not known that a GPU \"a100\" can be cut into \"1g.18gb\")"},
		{"another family", "AL2023", slicing, &t4, "4", "", ""},
	} {
		s := settings(t, c.family, "", func(class *awsv1.EC2NodeClass) { class.Spec.UserData = &c.text }, 0, 0)
		capacity := c.figures.Capacity(s, 0)
		is(t, c.what, capacity, awsv1.ResourceNVIDIAGPU, c.whole)
		is(t, c.what, capacity, "nvidia.com/gpu.shared", c.shared)
		source := ""
		if d := c.figures.Devices(s); d != nil {
			source = d.Source
			is(t, c.what, d.Physical, awsv1.ResourceNVIDIAGPU, strconv.Itoa(c.figures.GPUs[0].Count))
		}
		if source != c.source {
			t.Errorf("%s: got source %q, want %q", c.what, source, c.source)
		}
	}
}

func gpuInfo(name, gpu string, n int32, memory int32) *ec2types.InstanceTypeInfo {
	return &ec2types.InstanceTypeInfo{
		InstanceType:  ec2types.InstanceType(name),
		VCpuInfo:      &ec2types.VCpuInfo{DefaultVCpus: aws.Int32(48)},
		MemoryInfo:    &ec2types.MemoryInfo{SizeInMiB: aws.Int64(196608)},
		ProcessorInfo: &ec2types.ProcessorInfo{SupportedArchitectures: []ec2types.ArchitectureType{"x86_64"}},
		GpuInfo: &ec2types.GpuInfo{Gpus: []ec2types.GpuDeviceInfo{{
			Name: aws.String(gpu), Manufacturer: aws.String("NVIDIA"), Count: aws.Int32(n), MemoryInfo: &ec2types.GpuDeviceMemoryInfo{SizeInMiB: aws.Int32(memory)},
		}}},
	}
}

package catalog

import (
	"bytes"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/api/awsv1"
	"tenon.sh/engine"
)

func TestEveryBuiltInCatalogIsWellFormed(t *testing.T) {
	for _, name := range Names() {
		types, err := ByName(name)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.IsSortedFunc(types, func(a, b engine.InstanceType) int { return strings.Compare(a.Name, b.Name) }) {
			t.Errorf("%s: not ordered by name", name)
		}
		for i, it := range types {
			if i > 0 && types[i-1].Name == it.Name {
				t.Errorf("%s: %s is there twice", name, it.Name)
			}
			for resource, kept := range it.Overhead {
				has := it.Capacity[resource]
				if has.Cmp(kept) <= 0 {
					t.Errorf("%s: %s keeps back %s of %s %s", name, it.Name, kept.String(), has.String(), resource)
				}
			}
			for _, o := range it.Offerings {
				if o.Price <= 0 || o.Zone == "" || o.CapacityType == "" || o.SoldOut {
					t.Errorf("%s: %s: bad offering %+v", name, it.Name, o)
				}
			}
			if len(it.Offerings) == 0 {
				t.Errorf("%s: %s has no offering", name, it.Name)
			}
		}
	}
	if _, err := ByName("gcp"); err == nil || !strings.Contains(err.Error(), `["kwok" "aws" "azure"]`) {
		t.Errorf("an unknown catalog: %v", err)
	}
}

func TestKWOKCatalogHasTheFiguresOfItsFormula(t *testing.T) {
	types := KWOK()
	if len(types) != 144 {
		t.Fatalf("%d types, want 144", len(types))
	}
	for _, c := range []struct {
		name           string
		onDemand, spot float64
		cpu, mem, pods string
		size, memLabel string
	}{
		{"c-1x-amd64-linux", 0.027147483648, 0.0190032385536, "1", "2Gi", "16", "1", "2Gi"},
		{"s-4x-arm64-windows", 0.117179869184, 0.0820259084288, "4", "16Gi", "64", "4", "16Gi"},
		{"m-256x-amd64-linux", 8.599023255552, 6.0193162788864, "256", "2Ti", "1024", "256", "2Ti"},
		{"c-64x-amd64-linux", 1.737438953472, 1.2162072674304, "64", "128Gi", "1024", "64", "128Gi"},
	} {
		it := find(t, types, c.name)
		if len(it.Offerings) != 8 || it.Offerings[0].Zone != "test-zone-a" || it.Offerings[7].Zone != "test-zone-d" {
			t.Errorf("%s: offerings %v", c.name, it.Offerings)
		}
		for i, o := range it.Offerings {
			want, capacityType := c.spot, "spot"
			if i%2 == 1 {
				want, capacityType = c.onDemand, "on-demand"
			}
			if o.Price != want || o.CapacityType != capacityType {
				t.Errorf("%s: offering %d is %+v, want %s at %v", c.name, i, o, capacityType, want)
			}
		}
		wantQuantities(t, it, it.Capacity, map[corev1.ResourceName]string{"cpu": c.cpu, "memory": c.mem, "pods": c.pods, "ephemeral-storage": "20Gi"})
		wantQuantities(t, it, it.Overhead, map[corev1.ResourceName]string{"cpu": "100m", "memory": "10Mi"})
		wantLabels(t, it, map[string]string{
			"karpenter.kwok.sh/instance-size": c.size, "karpenter.kwok.sh/instance-cpu": c.cpu,
			"karpenter.kwok.sh/instance-memory": c.memLabel, "karpenter.kwok.sh/instance-family": c.name[:1],
			"kubernetes.io/arch": strings.Split(c.name, "-")[2], "kubernetes.io/os": strings.Split(c.name, "-")[3],
		})
	}
}

func TestSizeAndFamilyAreReadFromTheName(t *testing.T) {
	for _, c := range []struct{ name, size, family string }{
		{"m5.large", "large", "m5"},
		{"m5.12xlarge", "12xlarge", "m5"},
		{"m5.metal", "metal", "m5"},
		{"m7i-flex.large", "8", "m7i"}, // the dash is not part of the form
		{"m5.metal-24xl", "8", "m5"},
		{"c-8x-amd64-linux", "8", "c"},
		{"big", "8", "b"},
		{"", "8", ""},
	} {
		if size, family := kwokSize(c.name, "8"), kwokFamily(c.name); size != c.size || family != c.family {
			t.Errorf("%q: size %q, family %q", c.name, size, family)
		}
	}
}

func TestAWSCatalogHasTheFiguresOfItsNodes(t *testing.T) {
	types := AWS()
	if len(types) < 1204 {
		t.Fatalf("%d types", len(types))
	}
	gpu := find(t, types, "g4dn.8xlarge")
	wantLabels(t, gpu, map[string]string{
		"karpenter.k8s.aws/instance-cpu": "32", "karpenter.k8s.aws/instance-memory": "131072",
		"karpenter.k8s.aws/instance-ebs-bandwidth": "9500", "karpenter.k8s.aws/instance-network-bandwidth": "50000",
		"karpenter.k8s.aws/instance-gpu-name": "t4", "karpenter.k8s.aws/instance-gpu-manufacturer": "nvidia",
		"karpenter.k8s.aws/instance-gpu-count": "1", "karpenter.k8s.aws/instance-gpu-memory": "16384",
		"karpenter.k8s.aws/instance-local-nvme": "900", "karpenter.k8s.aws/instance-cpu-sustained-clock-speed-mhz": "2500",
		"karpenter.k8s.aws/instance-category": "g", "karpenter.k8s.aws/instance-generation": "4",
		"karpenter.k8s.aws/instance-family": "g4dn", "karpenter.k8s.aws/instance-size": "8xlarge",
		"karpenter.k8s.aws/instance-hypervisor": "nitro", "karpenter.k8s.aws/instance-encryption-in-transit-supported": "true",
		"karpenter.k8s.aws/instance-cpu-manufacturer": "intel", "karpenter.k8s.aws/instance-capability-flex": "false",
		"topology.kubernetes.io/region": "us-east-1", "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
	})
	wantQuantities(t, gpu, gpu.Capacity, map[corev1.ResourceName]string{"nvidia.com/gpu": "1", "vpc.amazonaws.com/efa": "1", "cpu": "32"})
	if values, listed := gpu.Labels["karpenter.k8s.aws/instance-accelerator-name"]; !listed || len(values) != 0 {
		t.Errorf("a type without accelerators lists %v, want the key without values", values)
	}

	m5 := find(t, types, "m5.xlarge")
	wantQuantities(t, m5, m5.Overhead, map[corev1.ResourceName]string{"cpu": "80m", "memory": "993Mi", "ephemeral-storage": "3Gi"})
	wantQuantities(t, m5, m5.Capacity, map[corev1.ResourceName]string{"pods": "58", "memory": "15155Mi", "ephemeral-storage": "20Gi", "vpc.amazonaws.com/pod-eni": "18"})

	inf2 := find(t, types, "inf2.xlarge")
	wantLabels(t, inf2, map[string]string{"karpenter.k8s.aws/instance-accelerator-name": "inferentia2",
		"karpenter.k8s.aws/instance-accelerator-manufacturer": "aws", "karpenter.k8s.aws/instance-accelerator-count": "1"})
	wantQuantities(t, inf2, inf2.Capacity, map[corev1.ResourceName]string{"aws.amazon.com/neuron": "1", "aws.amazon.com/neuroncore": "2"})

	if got := m5.AttachLimits; !reflect.DeepEqual(got, map[string]int{"ebs.csi.aws.com": 26}) {
		t.Errorf("m5.xlarge takes volumes %v", got)
	}
	if got := find(t, types, "m7i.24xlarge"); got.AttachLimits["ebs.csi.aws.com"] != 63 || got.AttachShared != nil {
		t.Errorf("m7i.24xlarge takes volumes %v, shared %v", got.AttachLimits, got.AttachShared)
	}
	if got := find(t, types, "m5.metal").Labels["karpenter.k8s.aws/instance-hypervisor"]; !slices.Equal(got, []string{""}) {
		t.Errorf("the hypervisor of bare metal is %q", got)
	}
	wantQuantities(t, m5, find(t, types, "t3.large").Capacity, map[corev1.ResourceName]string{"pods": "35"})
	wantQuantities(t, m5, find(t, types, "m6idn.32xlarge").Capacity, map[corev1.ResourceName]string{"pods": "394"})
}

func TestAWSTypesPromiseNoMoreThanRealNodesHave(t *testing.T) {
	types := AWS()
	for _, c := range []struct {
		name       string
		kibibytes  int64
		milliCores int64
	}{{"t4g.small", 1408312, 1930}, {"t4g.medium", 3377496, 1930}, {"t4g.xlarge", 15136012, 3920}, {"m5.large", 7220184, 1930}} {
		it := find(t, types, c.name)
		memory, cpu := it.Capacity["memory"], it.Capacity["cpu"]
		memory.Sub(it.Overhead["memory"])
		cpu.Sub(it.Overhead["cpu"])
		if memory.Value() > c.kibibytes<<10 || cpu.MilliValue() > c.milliCores {
			t.Errorf("%s: allocatable %s and %s", c.name, memory.String(), cpu.String())
		}
	}
}

func TestSpotPricesLieAroundTheUsualDiscount(t *testing.T) {
	sum, n := 0.0, 0
	families := map[string]float64{}
	for _, it := range AWS() {
		onDemand := it.Offerings[0].Price
		for _, o := range it.Offerings {
			if o.CapacityType != "spot" {
				continue
			}
			if o.Price > onDemand {
				t.Errorf("%s in %s: spot %v is dearer than on-demand %v", it.Name, o.Zone, o.Price, onDemand)
			}
			families[kwokFamily(it.Name)+o.Zone] = o.Price / onDemand
			sum, n = sum+1-o.Price/onDemand, n+1
		}
	}
	if mean := sum / float64(n); math.Abs(mean-0.63) > 0.03 {
		t.Errorf("the mean discount is %.3f, want about 0.63", mean)
	}
	if families["m5us-east-1a"] == families["m5us-east-1b"] || families["m5us-east-1a"] == families["c5us-east-1a"] {
		t.Error("zones and families should differ")
	}
}

func TestWhatIsWrittenIsReadBack(t *testing.T) {
	for _, name := range Names() {
		want, _ := ByName(name)
		want[0].Offerings[0].SoldOut = true
		want[1].Offerings[0].Labels = map[string]string{"example.com/rack": "7"}
		var file bytes.Buffer
		if err := Write(&file, want); err != nil {
			t.Fatal(err)
		}
		got, err := Read(&file, name)
		if err != nil {
			t.Fatal(err)
		}
		for i := range want {
			a, b := want[i], got[i]
			if !equalQuantities(a.Capacity, b.Capacity) || !equalQuantities(a.Overhead, b.Overhead) ||
				!reflect.DeepEqual(a.Labels, b.Labels) || !reflect.DeepEqual(a.Offerings, b.Offerings) || a.Name != b.Name {
				t.Fatalf("%s: wrote\n%+v\nread\n%+v", name, a, b)
			}
		}
	}
}

func find(t *testing.T, types []engine.InstanceType, name string) engine.InstanceType {
	t.Helper()
	for _, it := range types {
		if it.Name == name {
			return it
		}
	}
	t.Fatalf("there is no type %s", name)
	return engine.InstanceType{}
}

func wantQuantities(t *testing.T, it engine.InstanceType, got corev1.ResourceList, want map[corev1.ResourceName]string) {
	t.Helper()
	for name, text := range want {
		if q := got[name]; q.String() != text {
			t.Errorf("%s: %s is %s, want %s", it.Name, name, q.String(), text)
		}
	}
}

func wantLabels(t *testing.T, it engine.InstanceType, want map[string]string) {
	t.Helper()
	for key, value := range want {
		if !slices.Equal(it.Labels[key], []string{value}) {
			t.Errorf("%s: label %s is %v, want %s", it.Name, key, it.Labels[key], value)
		}
	}
}

func TestEveryTypeOfTheTableIsOfferedOrItIsSaidWhyNot(t *testing.T) {
	offered := map[string]bool{}
	custom, err := EC2(&awsv1.EC2NodeClass{}, UsualZones("us-east-1"))
	if err != nil {
		t.Fatal(err)
	}
	for _, it := range custom {
		offered[it.Name] = true
	}
	figures, _ := BuiltIn()
	if len(figures) < 1363 {
		t.Errorf("%d types, the table has 1363", len(figures))
	}
	for _, f := range figures {
		if why := Unoffered(f.Name); offered[f.Name] == (why != "") {
			t.Errorf("%s: offered is %v, and why not is %q", f.Name, offered[f.Name], why)
		}
	}
	for name, want := range map[string]string{"a1.large": "", "p5e.48xlarge": "no price", "dl1.24xlarge": "no figures", "m5": "", "p5e": "no price", "dl1": "no figures"} {
		if why := Unoffered(name); !strings.HasPrefix(why, want) || want == "" && why != "" {
			t.Errorf("%s: %q, want %q", name, why, want)
		}
	}
}

func TestWhoeverHasAGPUsNameHasAGPU(t *testing.T) {
	for _, it := range AWS() {
		if len(it.Labels[awsv1.GPUNameLabelKey]) == 0 {
			continue
		}
		nvidia, amd := it.Capacity["nvidia.com/gpu"], it.Capacity["amd.com/gpu"]
		if nvidia.Value()+amd.Value() == 0 || len(it.Labels[awsv1.GPUCountLabelKey]) != 1 {
			t.Errorf("%s has %v and no GPU", it.Name, it.Labels[awsv1.GPUNameLabelKey])
		}
	}
	part := find(t, AWS(), "g6f.large")
	wantQuantities(t, part, part.Capacity, map[corev1.ResourceName]string{"nvidia.com/gpu": "1"})
	wantLabels(t, part, map[string]string{"karpenter.k8s.aws/instance-gpu-count": "1", "karpenter.k8s.aws/instance-gpu-memory": "2861"})
}

func TestZonesAndTheirIDsBelongTogether(t *testing.T) {
	for zone, want := range map[string][2]string{
		"us-east-1a": {"us-east-1", "use1-az1"}, "ap-northeast-2c": {"ap-northeast-2", "apne2-az3"}, "ap-southeast-3b": {"ap-southeast-3", "apse3-az2"},
		"cn-north-1a": {"cn-north-1", "cnn1-az1"}, "cn-northwest-1b": {"cn-northwest-1", "cnnw1-az2"}, "us-gov-west-1c": {"us-gov-west-1", "usgw1-az3"},
		"us-west-2-lax-1a": {"us-west-2", "usw2-lax1-az1"}, "us-east-1-wl1-bos-wlz-1": {"us-east-1", "use1-wl1-bos-wlz1"},
	} {
		if got := RegionOf(zone); got != want[0] {
			t.Errorf("%s is in %q, want %q", zone, got, want[0])
		}
		if got := IDOf(zone); got != want[1] {
			t.Errorf("%s has ID %q, want %q", zone, got, want[1])
		}
		if got := ZoneOfID(want[1]); got != zone || RegionOfID(want[1]) != want[0] {
			t.Errorf("%s is %q in %q, want %s", want[1], got, RegionOfID(want[1]), zone)
		}
	}
	for _, other := range []string{"", "a", "us-central1-a", "test-zone-a", "westeurope-1", "us-east-1", "zone-1a"} {
		if got := RegionOf(other); got != "" {
			t.Errorf("%s is taken for a zone in %s", other, got)
		}
	}
	seen := map[string]bool{}
	for _, r := range regions() {
		if s := short(r); s == "" || seen[s] {
			t.Errorf("%s in short is %q, as another", r, s)
		} else {
			seen[s] = true
		}
	}
}

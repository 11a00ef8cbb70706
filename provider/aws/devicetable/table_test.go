package devicetable_test

import (
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/deviceselector"
	"tenon.sh/engine/device"
	"tenon.sh/engine/dra"
	"tenon.sh/provider/aws/devicetable"
	"tenon.sh/provider/aws/size"
	"tenon.sh/provider/catalog"
)

func figuresOf(t *testing.T, name string) *size.Figures {
	t.Helper()
	all, _ := catalog.BuiltIn()
	for i := range all {
		if all[i].Name == name {
			return &all[i]
		}
	}
	t.Fatalf("the catalog has no %s", name)
	return nil
}

// classes are the DeviceClasses of the drivers.
var classes = dra.Classes([]*resourcev1.DeviceClass{class("gpu.nvidia.com", `device.driver == "gpu.nvidia.com" && device.attributes["gpu.nvidia.com"].type == "gpu"`),
	class("efa", `device.driver == "dra.net" && device.attributes["dra.net"].rdma`)})

func class(name, expression string) *resourcev1.DeviceClass {
	return &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.DeviceClassSpec{Selectors: selectors(expression)}}
}

func selectors(expressions ...string) []resourcev1.DeviceSelector {
	var out []resourcev1.DeviceSelector
	for _, e := range expressions {
		out = append(out, resourcev1.DeviceSelector{CEL: &resourcev1.CELDeviceSelector{Expression: e}})
	}
	return out
}

func request(name, class string, count int64, expressions ...string) resourcev1.DeviceRequest {
	return resourcev1.DeviceRequest{Name: name, Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: class, Count: count,
		AllocationMode: resourcev1.DeviceAllocationModeExactCount, Selectors: selectors(expressions...)}}
}

func claim(match string, requests ...resourcev1.DeviceRequest) *resourcev1.ResourceClaim {
	c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "claim"}}
	c.Spec.Devices.Requests = requests
	if match != "" {
		c.Spec.Devices.Constraints = []resourcev1.DeviceConstraint{{MatchAttribute: new(resourcev1.FullyQualifiedName(match))}}
	}
	return c
}

// fitting returns the number of equal claims that a machine of the type serves, and the reason why it serves no more.
func fitting(t *testing.T, name, sharing string, c *resourcev1.ResourceClaim) (int, *device.Reason) {
	t.Helper()
	s, err := devicetable.SharingOf(sharing)
	if err != nil {
		t.Fatal(err)
	}
	m := dra.NewModel()
	var pools []device.Pool
	for _, template := range devicetable.Pools(figuresOf(t, name), s) {
		pools = append(pools, m.Expect(&template))
	}
	asked, reason := m.Claim(c, classes)
	if reason != nil {
		t.Fatalf("%+v", *reason)
	}
	facts, usage := m.Facts(deviceselector.New().Ask), device.NewUsage()
	for n := 0; ; n++ {
		picks, reason := device.Allocate(facts, pools, usage, []device.Claim{asked}, 0)
		if reason != nil {
			return n, reason
		}
		if n > 1000 {
			return n, nil
		}
		usage.Add(picks[0])
	}
}

func TestTypesHaveTheDevicesThatTheirDriversPublish(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, product string
		gpus, efas    int
	}{
		{"g4dn.xlarge", "Tesla T4", 1, 0}, {"g4dn.12xlarge", "Tesla T4", 4, 1}, {"g4dn.metal", "Tesla T4", 8, 1},
		{"g5.xlarge", "NVIDIA A10G", 1, 0}, {"g5.24xlarge", "NVIDIA A10G", 4, 1}, {"g5.48xlarge", "NVIDIA A10G", 8, 1},
		{"g5g.16xlarge", "NVIDIA T4G", 2, 0}, {"g6.4xlarge", "NVIDIA L4", 1, 0}, {"g6.48xlarge", "NVIDIA L4", 8, 1}, {"gr6.8xlarge", "NVIDIA L4", 1, 1},
		{"g6e.24xlarge", "NVIDIA L40S", 4, 2}, {"g6e.48xlarge", "NVIDIA L40S", 8, 4}, {"g6f.large", "NVIDIA L4-3Q", 1, 0}, {"g6f.2xlarge", "NVIDIA L4-6Q", 1, 0},
		{"gr6f.4xlarge", "NVIDIA L4-12Q", 1, 0}, {"p3dn.24xlarge", "Tesla V100-SXM2-32GB", 8, 1}, {"p4d.24xlarge", "NVIDIA A100-SXM4-40GB", 8, 4},
		{"p4de.24xlarge", "NVIDIA A100-SXM4-80GB", 8, 4}, {"p5.4xlarge", "NVIDIA H100 80GB HBM3", 1, 1}, {"p5.48xlarge", "NVIDIA H100 80GB HBM3", 8, 32},
		{"p5e.48xlarge", "NVIDIA H200", 8, 32}, {"p5en.48xlarge", "NVIDIA H200", 8, 16}, {"p6-b200.48xlarge", "NVIDIA B200", 8, 8},
		{"p6-b300.48xlarge", "NVIDIA B300 SXM6 AC", 8, 16}, {"m5.large", "", 0, 0}, {"inf2.xlarge", "", 0, 0}, {"g4ad.xlarge", "", 0, 0},
	} {
		var product []string // types that are not in the table have no devices, whatever their names
		if c.product != "" {
			product = append(product, `device.attributes["gpu.nvidia.com"].productName == "`+c.product+`"`)
		}
		if n, reason := fitting(t, c.name, "", claim("", request("gpu", "gpu.nvidia.com", 1, product...))); n != c.gpus {
			t.Errorf("%s: %d GPUs named %q, want %d: %+v", c.name, n, c.product, c.gpus, *reason)
		}
		if n, reason := fitting(t, c.name, "", claim("", request("nic", "efa", 1))); n != c.efas {
			t.Errorf("%s: %d EFA interfaces, want %d: %+v", c.name, n, c.efas, *reason)
		}
	}
}

func TestDevicesBehindOneRootAreFoundWhereThatHasBeenSeen(t *testing.T) {
	t.Parallel()
	const root = "resource.kubernetes.io/pcieRoot"
	pair := claim(root, request("gpu", "gpu.nvidia.com", 1), request("nic", "efa", 1))
	two := claim(root, request("gpu", "gpu.nvidia.com", 2))
	for _, c := range []struct {
		name        string
		pairs, twos int
	}{{"p5.48xlarge", 8, 0}, {"g6.8xlarge", 0, 0}, {"p4d.24xlarge", 0, 4}, {"p5en.48xlarge", 0, 4}, {"g5.48xlarge", 0, 4}, {"g6e.48xlarge", 0, 0}, {"p5e.48xlarge", 0, 0}} {
		if n, _ := fitting(t, c.name, "", pair); n != c.pairs {
			t.Errorf("%s: %d times a GPU and an EFA interface of one root, want %d", c.name, n, c.pairs)
		}
		if n, _ := fitting(t, c.name, "", two); n != c.twos {
			t.Errorf("%s: %d times two GPUs of one root, want %d", c.name, n, c.twos)
		}
	}
	// All GPUs of a machine have one driver. Its version is unknown, so no selector can require it.
	if n, reason := fitting(t, "p5.48xlarge", "", claim("gpu.nvidia.com/driverVersion", request("gpu", "gpu.nvidia.com", 8))); n != 1 {
		t.Errorf("8 GPUs of one driver fit %d times: %+v", n, *reason)
	}
	version := `device.attributes["gpu.nvidia.com"].driverVersion.compareTo(semver("1.0.0")) > 0`
	if n, reason := fitting(t, "p5.48xlarge", "", claim("", request("gpu", "gpu.nvidia.com", 1, version))); n != 0 || reason.Code != device.SelectorFailed {
		t.Errorf("a driver's version is known: %d fit, %+v", n, *reason)
	}
}

func TestTheReasonNamesTheSelectorThatATypeFailsBy(t *testing.T) {
	t.Parallel()
	large := `device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("100Gi")) >= 0`
	_, reason := fitting(t, "p5.48xlarge", "", claim("", request("gpu", "gpu.nvidia.com", 1, large)))
	want := device.Reason{Code: device.SelectorsLeaveTooFew, Claim: "claim", Request: "gpu", Selector: 1, Passed: 8, Have: 0, Need: 1}
	if *reason != want {
		t.Errorf("got %+v, want %+v", *reason, want)
	}
	if n, reason := fitting(t, "p5en.48xlarge", "", claim("", request("gpu", "gpu.nvidia.com", 8, large))); n != 1 {
		t.Errorf("p5en.48xlarge has 8 GPUs of 140Gi: %+v", *reason)
	}
	if n, _ := fitting(t, "p5en.48xlarge", "", claim("", request("gpu", "gpu.nvidia.com", 9))); n != 0 {
		t.Errorf("p5en.48xlarge has 9 GPUs")
	}
}

// A compiled program needs GPUs with at least a certain compute capability. It is 8.9 for an L4 and 9.0 for an H100.
func TestClaimsSelectByComputeCapability(t *testing.T) {
	t.Parallel()
	at := func(least string) string {
		return `device.attributes["gpu.nvidia.com"].cudaComputeCapability.compareTo(semver("` + least + `")) >= 0`
	}
	for _, c := range []struct {
		kind, least string
		want        int
	}{{"g6.xlarge", "8.9.0", 1}, {"g6.xlarge", "9.0.0", 0}, {"p5.48xlarge", "9.0.0", 8}, {"p5.48xlarge", "9.1.0", 0}} {
		if n, _ := fitting(t, c.kind, "", claim("", request("gpu", "gpu.nvidia.com", 1, at(c.least)))); n != c.want {
			t.Errorf("on %s %d claims for at least %s fit, want %d", c.kind, n, c.least, c.want)
		}
	}
}

func TestGPUsAreSharedAsTheClassSays(t *testing.T) {
	t.Parallel()
	asking := func(name, amount string) *resourcev1.ResourceClaim {
		c := claim("", request("gpu", "gpu.nvidia.com", 1))
		if name != "" {
			c.Spec.Devices.Requests[0].Exactly.Capacity = &resourcev1.CapacityRequirements{
				Requests: map[resourcev1.QualifiedName]resource.Quantity{resourcev1.QualifiedName(name): resource.MustParse(amount)}}
		}
		return c
	}
	for _, c := range []struct {
		sharing, name, amount string
		want                  int // for the 4 GPUs of g6.12xlarge, which have 23034Mi each
	}{
		{"", "", "", 4}, {"disabled", "", "", 4},
		{"4", "", "", 16}, {"4", "shares", "2", 8}, {"4", "shares", "5", 0}, {"4", "memory", "10Gi", 8},
		{"memory", "", "", 4}, {"memory", "memory", "10Gi", 8}, {"memory", "memory", "30Gi", 0},
		{"unlimited", "", "", 1001}, {"unlimited", "memory", "10Gi", 8}, {"unlimited", "shares", "1", 0},
	} {
		if n, reason := fitting(t, "g6.12xlarge", c.sharing, asking(c.name, c.amount)); n != c.want {
			t.Errorf("sharing %q, %s=%s: %d claims fit, want %d: %+v", c.sharing, c.name, c.amount, n, c.want, reason)
		}
	}
	for _, wrong := range []string{"0", "-1", "many", "1.5", "99999999999"} {
		if _, err := devicetable.SharingOf(wrong); err == nil {
			t.Errorf("annotation %q is taken", wrong)
		}
	}
}

package device_test

import (
	"fmt"
	"strings"
	"testing"

	"tenon.sh/engine/device"
)

// Shapes of the machines below, and the answers of selectors for them.
const (
	h100 = iota
	l4
	nic
	shared
)

const (
	isGPU = iota
	isLarge
	fails
)

func facts() *device.Facts {
	attributes := func(model, root string) map[string]device.Value {
		return map[string]device.Value{"model": {Kind: device.Text, Text: model}, "pcie.example.com/root": {Kind: device.Alike, Text: root}}
	}
	gi := int64(1000)
	return &device.Facts{
		Shapes: []device.Shape{
			{Driver: "gpu", Attributes: attributes("H100", "r0"), Capacities: map[string]device.Capacity{"memory": {Amount: 80 * gi}}},
			{Driver: "gpu", Attributes: attributes("L4", "r1"), Capacities: map[string]device.Capacity{"memory": {Amount: 24 * gi}}},
			{Driver: "nic", Attributes: attributes("EFA", "r0")},
			{Driver: "gpu", Shared: true, Attributes: attributes("L4", "r1"), Capacities: map[string]device.Capacity{"memory": {Amount: 24 * gi, Policy: &device.Policy{Default: &gi}}}},
		},
		Answers: [][]device.Answer{
			isGPU:   {device.Yes, device.Yes, device.No, device.Yes},
			isLarge: {device.Yes, device.No, device.No, device.No},
			fails:   {device.Failed, device.Failed, device.Failed, device.Failed},
		},
	}
}

// pool returns a pool with devices of these shapes, named by their index.
func pool(driver string, shapes ...int) device.Pool {
	p := device.Pool{Driver: driver, Name: "p"}
	for i, s := range shapes {
		p.Devices = append(p.Devices, device.Device{Name: fmt.Sprint(i), Shape: s})
	}
	return p
}

func exactly(count int, selectors ...int) device.Request {
	return device.Request{Name: "r", Choices: []device.Choice{{Count: count, Selectors: selectors}}}
}

func claim(requests ...device.Request) []device.Claim {
	for i := range requests {
		if i > 0 {
			requests[i].Name = fmt.Sprintf("r%d", i)
		}
	}
	return []device.Claim{{Name: "c", Requests: requests}}
}

func written(picks [][]device.Pick) string {
	var out []string
	for _, p := range picks[0] {
		out = append(out, p.Request+"="+p.Driver+p.Device)
	}
	return strings.Join(out, " ")
}

func TestTheReasonSaysWhatCameNearest(t *testing.T) {
	t.Parallel()
	taken := device.NewUsage()
	taken.Take(device.ID{Driver: "gpu", Pool: "p", Device: "0"})
	broken := pool("gpu", h100, h100)
	broken.Devices[1].Taints = []device.Taint{{Key: "broken", Effect: "NoExecute"}}
	choices := device.Request{Name: "r", Choices: []device.Choice{
		{Name: "large", Count: 2, Selectors: []int{isGPU, isLarge}}, {Name: "any", Count: 9, Selectors: []int{isGPU}}}}
	mixed := []device.Pool{pool("gpu", h100, l4, l4), pool("nic", nic)}
	for _, c := range []struct {
		name   string
		pools  []device.Pool
		state  *device.Usage
		claims []device.Claim
		want   device.Reason
	}{
		{"the second selector leaves too few", mixed, device.NewUsage(), claim(exactly(2, isGPU, isLarge)),
			device.Reason{Code: device.SelectorsLeaveTooFew, Claim: "c", Request: "r", Selector: 1, Passed: 3, Have: 1, Need: 2}},
		{"the first one does", mixed, device.NewUsage(), claim(exactly(9, isGPU, isLarge)),
			device.Reason{Code: device.SelectorsLeaveTooFew, Claim: "c", Request: "r", Selector: 0, Passed: 4, Have: 3, Need: 9}},
		{"one is taken", mixed, taken, claim(exactly(1, isGPU, isLarge)),
			device.Reason{Code: device.DevicesTaken, Claim: "c", Request: "r", Selector: -1, Passed: 1, Have: 0, Need: 1}},
		{"one is broken", []device.Pool{broken}, device.NewUsage(), claim(exactly(2, isGPU)),
			device.Reason{Code: device.DevicesTainted, Claim: "c", Request: "r", Selector: -1, Passed: 2, Have: 1, Need: 2}},
		{"of choices the one that came furthest", mixed, device.NewUsage(), claim(choices),
			device.Reason{Code: device.SelectorsLeaveTooFew, Claim: "c", Request: "r/large", Selector: 1, Passed: 3, Have: 1, Need: 2}},
		{"two requests want the same", mixed, device.NewUsage(), claim(exactly(1, isLarge), exactly(1, isLarge)),
			device.Reason{Code: device.NotTogether, Claim: "c", Request: "r1", Selector: -1}},
		{"a selector fails before anything else is looked at", mixed, device.NewUsage(), claim(exactly(9, fails)),
			device.Reason{Code: device.SelectorFailed, Claim: "c", Request: "r", Selector: 0, What: "gpu/p/0"}},
	} {
		_, got := device.Allocate(facts(), c.pools, c.state, c.claims, 0)
		if got == nil || *got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestValuesThatNobodyKnowsAreAlikeWithinTheirGroup(t *testing.T) {
	t.Parallel()
	pools := []device.Pool{pool("gpu", l4, h100), pool("nic", nic)}
	claims := claim(exactly(1, isGPU), exactly(1))
	claims[0].Constraints = []device.Constraint{{Attribute: "pcie.example.com/root"}}
	// The L4 comes first and its root is another than the NIC's; the second request takes the first device that is free and alike.
	picks, reason := device.Allocate(facts(), pools, device.NewUsage(), claims, 0)
	if reason != nil || written(picks) != "r=gpu1 r1=nic0" {
		t.Errorf("got %v, %+v; want the GPU and the NIC of one root", picks, reason)
	}
	// The values of two groups may turn out to be equal.
	claims[0].Constraints[0].Distinct = true
	if picks, reason := device.Allocate(facts(), pools, device.NewUsage(), claims, 0); reason == nil {
		t.Errorf("got %v: two groups may turn out to be equal", picks)
	}
}

func TestADeviceThatNeedsWhatIsNotModelledEndsTheAttempt(t *testing.T) {
	t.Parallel()
	p := pool("gpu", l4, h100)
	p.Devices[0].NotModelled = "devices that take cpu of their node"
	_, reason := device.Allocate(facts(), []device.Pool{p}, device.NewUsage(), claim(exactly(1, isGPU)), 0)
	if reason == nil || reason.Code != device.NotModelled || reason.What != p.Devices[0].NotModelled {
		t.Errorf("got %+v, want %s: kube-scheduler might choose that device", reason, device.NotModelled)
	}
	if picks, reason := device.Allocate(facts(), []device.Pool{p}, device.NewUsage(), claim(exactly(1, isGPU, isLarge)), 0); reason != nil || written(picks) != "r=gpu1" {
		t.Errorf("got %v, %+v: the claim does not match that device", picks, reason)
	}
}

func TestWhatIsAllocatedCanBeGivenBack(t *testing.T) {
	t.Parallel()
	pools := []device.Pool{pool("gpu", shared, l4)}
	state := device.NewUsage()
	var all [][]device.Pick
	for {
		picks, reason := device.Allocate(facts(), pools, state, claim(exactly(1, isGPU)), 0)
		if reason != nil {
			break
		}
		all = append(all, picks[0])
		state.Add(picks[0])
	}
	if len(all) != 25 { // 24 shares of 1, then the whole device
		t.Fatalf("%d claims fit, want 25", len(all))
	}
	for _, picks := range all {
		state.Remove(picks)
	}
	if picks, reason := device.Allocate(facts(), pools, state, claim(exactly(2, isGPU)), 0); reason != nil || written(picks) != "r=gpu0 r=gpu1" {
		t.Errorf("got %v, %+v after everything was given back", picks, reason)
	}
}

func TestACloneIsApart(t *testing.T) {
	t.Parallel()
	state := device.NewUsage()
	id := device.ID{Driver: "gpu", Pool: "p", Device: "0"}
	state.Share(id, map[string]int64{"memory": 5000})
	clone := state.Clone()
	clone.Share(id, map[string]int64{"memory": 19000})
	pools := []device.Pool{pool("gpu", shared)}
	if _, reason := device.Allocate(facts(), pools, state, claim(exactly(1)), 0); reason != nil {
		t.Errorf("the original lacks room: %+v", *reason)
	}
	if _, reason := device.Allocate(facts(), pools, clone, claim(exactly(1)), 0); reason == nil || reason.Code != device.CapacityTooSmall {
		t.Errorf("the clone has room: %+v", reason)
	}
}

func TestAClaimHoldsNoMoreDevicesThanItMay(t *testing.T) {
	t.Parallel()
	pools := []device.Pool{pool("gpu", make([]int, 48)...)}
	either := func() device.Request {
		return device.Request{Name: "r", Choices: []device.Choice{{Name: "many", Count: 20}, {Name: "one", Count: 1}}}
	}
	picks, reason := device.Allocate(facts(), pools, device.NewUsage(), claim(either(), either()), 0)
	if reason != nil || len(picks[0]) != 21 || picks[0][20].Request != "r1/one" {
		t.Errorf("got %v, %+v; want 20 devices and 1", picks, reason)
	}
	if _, reason := device.Allocate(facts(), pools, device.NewUsage(), claim(exactly(20), exactly(13)), 0); reason == nil || reason.Code != device.TooManyDevices {
		t.Errorf("33 devices: %+v", reason)
	}
}

func TestDevicesOfOtherMachinesTakeTheirPoolsCounters(t *testing.T) {
	t.Parallel()
	p := pool("gpu", l4, l4)
	p.Counters = []device.Counter{{Set: "s", Name: "memory", Amount: 3}}
	takes := []device.Counter{{Set: "s", Name: "memory", Amount: 1}}
	p.Devices[0].Consumes, p.Devices[1].Consumes = takes, takes
	p.Others = []device.Device{{Name: "far", Consumes: []device.Counter{{Set: "s", Name: "memory", Amount: 2}}}}
	usage := device.NewUsage()
	if _, reason := device.Allocate(facts(), []device.Pool{p}, usage, claim(exactly(2)), 0); reason != nil {
		t.Errorf("nobody has the other device: %+v", *reason)
	}
	usage.Take(device.ID{Driver: "gpu", Pool: "p", Device: "far"})
	if _, reason := device.Allocate(facts(), []device.Pool{p}, usage, claim(exactly(2)), 0); reason == nil || reason.Code != device.NotTogether {
		t.Errorf("the other device leaves one: %+v", reason)
	}
}

// With many equal devices and many requests, the choice between equal devices must cost no effort.
func TestEqualDevicesAreTriedOnce(t *testing.T) {
	t.Parallel()
	pools := []device.Pool{pool("gpu", l4, l4, l4, l4, l4, l4, l4, l4, l4, l4, l4, l4, l4, l4, l4, l4), pool("nic", nic)}
	// Both requests could be served alone; the constraint says no, for every choice of 12 of 16.
	claims := claim(exactly(12, isGPU), exactly(5))
	if _, reason := device.Allocate(facts(), pools, device.NewUsage(), claims, 2000); reason != nil {
		t.Fatalf("%+v", *reason)
	}
	claims[0].Constraints = []device.Constraint{{Attribute: "gpu/model"}}
	if _, reason := device.Allocate(facts(), pools, device.NewUsage(), claims, 2000); reason == nil || reason.Code != device.NotTogether {
		t.Errorf("got %+v, want %s with little effort", reason, device.NotTogether)
	}
	if _, reason := device.Allocate(facts(), pools, device.NewUsage(), claims, 10); reason == nil || reason.Code != device.GaveUp {
		t.Errorf("got %+v, want %s", reason, device.GaveUp)
	}
}

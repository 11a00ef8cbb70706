package deviceplan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/deviceplan"
	"tenon.sh/engine/inventory"
	"tenon.sh/scenario/scenariotest"
)

// planOf returns the plan of the snapshot's claims.
func planOf(s *engine.Snapshot) *deviceplan.Plan {
	return deviceplan.Of(s, (*inventory.Cache)(nil).Take(s, 1).Cache)
}

// holds returns the number of pods with the need that the room serves if there are no other pods.
func holds(room map[corev1.ResourceName]int64, need deviceplan.Need) int64 {
	most := int64(1000)
	for name, each := range need.Requests {
		most = min(most, room[name]/each.Value())
	}
	return most
}

// A machine of a type serves as many pods of a kind as its devices do, whether the devices are counted or the allocator is used.
func TestATypeServesAsManyPodsAsItsDevicesDo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ devices, claim, want string }{
		{"driver=gpu.example.com count=4", "class=gpu", "4"},
		{"driver=gpu.example.com count=5", "class=gpu count=2", "2"},
		{"driver=gpu.example.com count=1", "class=gpu count=2", "0"},
		{"driver=nic.example.com count=4", "class=gpu", "0"},
		{"driver=gpu.example.com count=4 memory=24Gi", "class=gpu memory=24Gi", "4"},
		{"driver=gpu.example.com count=4 memory=24Gi", "class=gpu memory=40Gi", "0"},
		{"driver=gpu.example.com count=2 model=L4) devices=(driver=gpu.example.com count=3 model=A100", "class=gpu model=A100", "3"},
		{"driver=gpu.example.com count=2 memory=24Gi) devices=(driver=gpu.example.com count=3 memory=80Gi", "class=gpu memory=40Gi", "3"},
		{"driver=gpu.example.com count=2 shares=4", "class=gpu", "8"},
	} {
		s := scenariotest.Cluster(t, "pool general", "type one cpu=8 mem=16Gi price=1 devices=("+c.devices+")", "deviceclass gpu driver=gpu.example.com", "pod p cpu=1 devices=("+c.claim+")")
		plan := planOf(s)
		if got := fmt.Sprint(holds(plan.OnType("general", &s.Classes[0].InstanceTypes[0]), plan.Of(s.Pods[0]))); got != c.want {
			t.Errorf("%s for %s: %s pods, want %s", c.devices, c.claim, got, c.want)
		}
	}
}

// A node has the published devices that no pod has. While it starts, it has the expected devices too.
func TestANodeHasWhatNobodyTook(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		node string
		pods []string
		want int64
	}{
		{"published=(driver=gpu.example.com count=4)", nil, 4},
		{"published=(driver=gpu.example.com count=4)", []string{"pod a cpu=1 node=n devices=(class=gpu)"}, 3},
		{"published=(driver=gpu.example.com count=4)", []string{"pods a x4 cpu=1 node=n devices=(class=gpu)"}, 0},
		{"", nil, 0},
		{"uninitialized drivers=gpu.example.com", nil, 2},
		{"uninitialized drivers=gpu.example.com published=(driver=gpu.example.com count=4)", nil, 4},
	} {
		s := scenariotest.Cluster(t, append(c.pods, "pool general", "type one cpu=8 mem=16Gi price=1 devices=(driver=gpu.example.com count=2)", "deviceclass gpu driver=gpu.example.com",
			"node n pool=general type=one zone=a "+c.node, "pod p cpu=1 devices=(class=gpu)")...)
		for i, claim := range s.ResourceClaims {
			if i < len(s.ResourceClaims)-1 { // the claims of running pods
				slice := s.ResourceSlices[0].Spec
				claim.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{
					{Driver: slice.Driver, Pool: slice.Pool.Name, Device: slice.Devices[i].Name}}}}
			}
		}
		plan := planOf(s)
		room := plan.OnNode(s.Nodes[0], !strings.Contains(c.node, "uninitialized"), &s.Classes[0].InstanceTypes[0])
		if got := holds(room, plan.Of(s.Pods[len(s.Pods)-1])); got != c.want {
			t.Errorf("node %q with %v: %d pods, want %d", c.node, c.pods, got, c.want)
		}
	}
}

// Pods that claim the same devices are of one kind. Kinds that only count devices share a machine. A pod of a kind that needs the allocator
// shares no driver's devices with pods of other kinds.
func TestKindsThatTheAllocatorIsAskedForShareNoDevices(t *testing.T) {
	t.Parallel()
	s := scenariotest.Cluster(t, "pool general", "type one cpu=8 mem=16Gi price=1 devices=(driver=gpu.example.com count=4)", "deviceclass gpu driver=gpu.example.com", "deviceclass nic driver=nic.example.com",
		"pods web x2 cpu=1 devices=(class=gpu)", "pod pair cpu=1 devices=(class=gpu count=2)", "pod other cpu=1 devices=(class=nic)", "pod plain cpu=1", "pod all cpu=1 devices=(class=gpu count=All)")
	plan := planOf(s)
	kind := map[string]int{}
	for _, pod := range s.Pods {
		need := plan.Of(pod)
		kind[pod.Name] = need.Kind()
	}
	if kind["web-1"] != kind["web-2"] || kind["web-1"] == kind["pair"] || kind["plain"] != -1 || plan.Kinds() != 4 {
		t.Errorf("%d kinds: %v", plan.Kinds(), kind)
	}
	if got := plan.Rivals(kind["web-1"]); !slices.Equal(got, []int{kind["all"]}) {
		t.Errorf("rivals of web are %v, want all of %v", got, kind)
	}
	if got := plan.Rivals(kind["all"]); len(got) != 2 || slices.Contains(got, kind["other"]) {
		t.Errorf("rivals of all are %v, want web and pair of %v", got, kind)
	}
}

// A claim for which nothing can be planned has a reason.
func TestAClaimThatCannotBeServedSaysWhy(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(s *engine.Snapshot)
		want   string
	}{
		"as it is": {func(*engine.Snapshot) {}, ""},
		"no class": {func(s *engine.Snapshot) { s.DeviceClasses = nil }, "ClaimNotReady DeviceClass gpu does not exist"},
		"no claim": {func(s *engine.Snapshot) { s.ResourceClaims = nil }, "ClaimNotReady it does not exist yet"},
		"it goes": {func(s *engine.Snapshot) {
			s.ResourceClaims[0].DeletionTimestamp = &s.ResourceClaims[0].CreationTimestamp
		}, "ClaimNotReady it is being deleted"},
	} {
		s := scenariotest.Cluster(t, "pool general", "type one cpu=8 mem=16Gi price=1 devices=(driver=gpu.example.com)", "deviceclass gpu driver=gpu.example.com", "pod p cpu=1 devices=(class=gpu)")
		c.change(s)
		need := planOf(s).Of(s.Pods[0])
		if got := strings.TrimSpace(string(need.Problem.Code) + " " + need.Problem.Have); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

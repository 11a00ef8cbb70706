package deviceplan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/device"
	"tenon.sh/engine/dra"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/lifecycle"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario/scenariotest"
)

// silentNode returns a cluster with a machine that was started for claimed devices. Its node has been ready for the given time, and its driver
// has published nothing.
func silentNode(t *testing.T, ready string, more ...string) *engine.Snapshot {
	return scenariotest.Cluster(t, append([]string{
		"pool general",
		"type one cpu=8 mem=16Gi price=1 devices=(driver=gpu.example.com)",
		"deviceclass gpu driver=gpu.example.com",
		"node n pool=general type=one zone=a drivers=gpu.example.com uninitialized planned=a age=40m registered=" + ready + " ready=" + ready,
		"pod a cpu=1 devices=(class=gpu)",
	}, more...)...)
}

// If the claims of a namespace have hundreds of selectors, one hundred of them are compiled. The namespace's other claims are refused, and pods
// of other namespaces get their devices.
func TestSelectorsOfOneNamespaceDoNotKeepOthersWaiting(t *testing.T) {
	t.Parallel()
	s := scenariotest.Cluster(t, "pool general", "type one cpu=8 mem=16Gi price=1 devices=(driver=gpu.example.com)", "deviceclass gpu driver=gpu.example.com", "pod a cpu=1 devices=(class=gpu)")
	other := s.Pods[0]
	for i := range 30 {
		claim, pod := &resourcev1.ResourceClaim{}, other.DeepCopy()
		claim.Namespace, claim.Name, claim.UID = "greedy", fmt.Sprintf("c-%02d", i), types.UID(fmt.Sprintf("c-%02d", i))
		request := &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu"}
		for j := range 16 {
			expression := fmt.Sprintf("device.driver != 'driver-%d-%d.example.com'", i, j)
			request.Selectors = append(request.Selectors, resourcev1.DeviceSelector{CEL: &resourcev1.CELDeviceSelector{Expression: expression}})
		}
		claim.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "r", Exactly: request}}
		s.ResourceClaims = append(s.ResourceClaims, claim)
		pod.Namespace, pod.Name, pod.UID = "greedy", fmt.Sprintf("p-%02d", i), types.UID(fmt.Sprintf("p-%02d", i))
		pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "g", ResourceClaimName: &claim.Name}}
		s.Pods = append(s.Pods, pod)
	}
	asked := map[string]bool{}
	ask := s.Selectors
	s.Selectors = func(expressions []string, shape *device.Shape) []device.Answer {
		for _, e := range expressions {
			asked[e] = true
		}
		return ask(expressions, shape)
	}
	plan := provisioning.Plan(s, engine.Options{}, nil)
	if len(asked) > 110 {
		t.Errorf("%d selectors were read", len(asked))
	}
	for _, u := range plan.Unplaced {
		if u.Pod.Namespace != "greedy" || u.Reasons[0].Code != engine.TooComplex || u.Reasons[0].Have != "480" {
			t.Errorf("pod %s has no place: %s", u.Pod, engine.Sentence(u.Reasons))
		}
	}
	if len(plan.Unplaced) != 24 { // there is room for 6 claims with 16 selectors each
		t.Errorf("%d pods have no place", len(plan.Unplaced))
	}
}

func TestAMachineForClaimsSaysWhoseDevicesItWaitsFor(t *testing.T) {
	t.Parallel()
	s := scenariotest.Cluster(t,
		"pool general",
		"type one cpu=8 mem=16Gi price=1 devices=(driver=gpu.example.com) devices=(driver=nic.example.com)",
		"deviceclass gpu driver=gpu.example.com",
		"pod a cpu=1 devices=(class=gpu)")
	plan := provisioning.Plan(s, engine.Options{}, nil)
	if len(plan.Launches) != 1 {
		t.Fatalf("launches %v", plan.Launches)
	}
	claim := kube.NewClaim(s.NodePools[0], plan.Launches[0])
	if got := kube.DriversAskedFor(claim); !slices.Equal(got, []string{"gpu.example.com"}) {
		t.Errorf("the claim waits for drivers %v", got)
	}
}

// The same machine is not bought again, however late a driver publishes. At first its devices are expected, and later the pool's record of
// failures prevents it, even after the machine is gone.
func TestALateDriverNeverHasTheSameMachineBoughtAgain(t *testing.T) {
	t.Parallel()
	for ready, late := range map[string]bool{"0s": false, "1m": false, "14m59s": false, "15m": true, "20m": true, "29m": true} {
		s := silentNode(t, ready)
		plan := provisioning.Plan(s, engine.Options{}, nil)
		if len(plan.Launches) > 0 {
			t.Errorf("ready for %s: launches %v", ready, plan.Launches)
		}
		if late != (len(plan.Backoffs) == 1) {
			t.Errorf("ready for %s: written down: %+v", ready, plan.Backoffs)
		}
	}
}

func TestWhereADriverPublishesNothingIsRememberedForAllWhoClaimItsDevices(t *testing.T) {
	t.Parallel()
	s := silentNode(t, "16m", "pod other cpu=2 mem=1Gi devices=(class=gpu)", "pod plain cpu=1")
	scenariotest.WriteBackoffs(s, provisioning.Plan(s, engine.Options{}, nil))
	s.Nodes, s.NodeClaims = nil, nil
	plan := provisioning.Plan(s, engine.Options{}, nil)
	if len(plan.Launches) != 1 || len(plan.Launches[0].Pods) != 1 || plan.Launches[0].Pods[0].Name != "plain" || len(plan.Unplaced) != 2 {
		t.Fatalf("launches %v, unplaced %v", plan.Launches, plan.Unplaced)
	}
	for _, u := range plan.Unplaced {
		if r := u.Reasons[0]; r.Code != engine.LaunchesBackedOff || !strings.Contains(r.Message(), "driver gpu.example.com has published no ResourceSlices") {
			t.Errorf("%s says: %v", u.Pod.Name, r)
		}
	}
	s.Now = s.Now.Add(31 * time.Minute) // the first back-off has ended
	if plan = provisioning.Plan(s, engine.Options{}, nil); len(plan.Unplaced) > 0 {
		t.Errorf("once the wait is over: unplaced %v", plan.Unplaced)
	}
}

func TestADriverThatPublishesAfterAllIsBelievedAgain(t *testing.T) {
	t.Parallel()
	s := silentNode(t, "16m")
	scenariotest.WriteBackoffs(s, provisioning.Plan(s, engine.Options{}, nil))
	annotations := s.NodePools[0].Annotations
	s = silentNode(t, "17m", "patch node n published=(driver=gpu.example.com)", "pod next cpu=1 devices=(class=gpu)")
	s.NodePools[0].Annotations = annotations
	plan := provisioning.Plan(s, engine.Options{}, nil)
	if len(plan.Launches) != 1 || len(plan.Placements) != 1 || len(plan.Backoffs) != 1 || plan.Backoffs[0].Text != "" {
		t.Errorf("launches %v, placements %v, written down %+v", plan.Launches, plan.Placements, plan.Backoffs)
	}
}

// If two classes have the same name, the later one counts. The devices that a node will publish are no resource of the node, so plans do not
// wait for that resource.
func TestAResourceThatStandsForDevicesIsPlannedAsAClaim(t *testing.T) {
	t.Parallel()
	lines := []string{
		"pool general",
		"type none cpu=8 mem=16Gi price=0.5",
		"type old cpu=8 mem=16Gi price=1 devices=(driver=old.example.com count=2)",
		"type new cpu=8 mem=16Gi price=2 devices=(driver=gpu.example.com count=2)",
		"pods web x3 cpu=1 example.com/gpu=1",
	}
	before, after := "deviceclass a-old driver=old.example.com resource=example.com/gpu age=2h", "deviceclass b-new driver=gpu.example.com resource=example.com/gpu age=1h"
	for driver, classes := range map[string][]string{"old.example.com": {before}, "gpu.example.com": {before, after}} {
		s := scenariotest.Cluster(t, append(classes, lines...)...)
		plan := provisioning.Plan(s, engine.Options{}, nil)
		if len(plan.Launches) != 2 || len(plan.Unplaced) > 0 {
			t.Fatalf("%s: launches %v, unplaced %v", driver, plan.Launches, plan.Unplaced)
		}
		claim := kube.NewClaim(s.NodePools[0], plan.Launches[0])
		if got := kube.DriversAskedFor(claim); !slices.Equal(got, []string{driver}) {
			t.Errorf("%s: the claim waits for drivers %v", driver, got)
		}
		if q, asked := claim.Spec.Resources.Requests["example.com/gpu"]; asked {
			t.Errorf("%s: the claim waits for %s example.com/gpu", driver, q.String())
		}
	}
	s := scenariotest.Cluster(t, append([]string{before, "pod large cpu=1 example.com/gpu=3"}, lines[:4]...)...)
	plan := provisioning.Plan(s, engine.Options{}, nil)
	if len(plan.Unplaced) != 1 || plan.Unplaced[0].Reasons[0].Code != engine.NoDevices || !strings.HasPrefix(plan.Unplaced[0].Reasons[0].Message(), "resource claim for example.com/gpu needs 3 devices") {
		t.Errorf("unplaced %v", plan.Unplaced)
	}
}

// Later passes notice new and deleted classes, and nodes that have the resource themselves.
func TestWhatStandsForDevicesMayChangeFromPassToPass(t *testing.T) {
	t.Parallel()
	s := scenariotest.Cluster(t,
		"pool general",
		"type one cpu=8 mem=16Gi price=1 devices=(driver=gpu.example.com)",
		"deviceclass gpu driver=gpu.example.com resource=example.com/gpu",
		"pod a cpu=1 example.com/gpu=1")
	classes, cache := s.DeviceClasses, &inventory.Cache{}
	for i, launches := range []int{0, 1, 0, 1} {
		if s.DeviceClasses = nil; launches > 0 {
			s.DeviceClasses = classes
		}
		plan := provisioning.Plan(s, engine.Options{}, cache)
		if len(plan.Launches) != launches {
			t.Errorf("pass %d: launches %v, unplaced %v", i, plan.Launches, plan.Unplaced)
		}
	}
	kind := &s.Classes[0].InstanceTypes[0]
	kind.Capacity["example.com/gpu"] = resource.MustParse("1") // as with a device plugin; in this cluster there is a driver
	if plan := provisioning.Plan(s, engine.Options{}, cache); len(plan.Launches) != 1 || len(plan.Launches[0].DeviceDrivers) != 1 {
		t.Errorf("of a type with known devices: launches %+v, unplaced %v", plan.Launches, plan.Unplaced)
	}
	kind.Claimable = nil
	if plan := provisioning.Plan(s, engine.Options{}, cache); len(plan.Launches) != 1 || len(plan.Launches[0].DeviceDrivers) > 0 {
		t.Errorf("once the type has the resource: launches %+v, unplaced %v", plan.Launches, plan.Unplaced)
	}
}

// If the catalog has no devices of a type, the devices that nodes of the pool have published are expected, even after the nodes are gone. They
// are not expected in other pools, nor after the pool's template has changed.
func TestWhatNodesHavePublishedIsExpectedOfMachinesOfTheirPoolAndType(t *testing.T) {
	t.Parallel()
	world := func(more ...string) *engine.Snapshot {
		return scenariotest.Cluster(t, append([]string{
			"pool general",
			"pool other",
			"type one cpu=8 mem=16Gi price=1",
			"deviceclass gpu driver=gpu.example.com",
		}, more...)...)
	}
	waiting := "pods web x3 cpu=1 devices=(class=gpu memory=40Gi)"
	s := world(waiting, "node n pool=general type=one zone=a published=(driver=gpu.example.com count=2 memory=80Gi uuid=each)",
		"node broken pool=general type=one zone=a age=1m published=(driver=gpu.example.com count=1 memory=80Gi uuid=x)")
	plan := provisioning.Plan(s, engine.Options{}, nil)
	if len(plan.Placements) != 3 || len(plan.LearnedDevices) != 1 || plan.LearnedDevices[0].NodePool != "general" {
		t.Fatalf("placements %v, learned %v, unplaced %v", plan.Placements, plan.LearnedDevices, plan.Unplaced)
	}
	annotation := map[string]string{v1.LearnedDevicesAnnotationKey: plan.LearnedDevices[0].Text}
	s.NodePools[0].Annotations = annotation
	if again := provisioning.Plan(s, engine.Options{}, nil); len(again.LearnedDevices) > 0 {
		t.Errorf("what is written is to be written again: %v", again.LearnedDevices)
	}
	for _, c := range []struct {
		what     string
		change   func(*engine.Snapshot)
		launches int
		refused  int
	}{
		{"nothing is known", func(s *engine.Snapshot) { s.NodePools[0].Annotations = nil }, 0, 3},
		{"it is written", func(*engine.Snapshot) {}, 2, 0},
		{"of another pool", func(s *engine.Snapshot) {
			s.NodePools[1].Annotations, s.NodePools[0].Annotations = annotation, nil
			s.NodePools = s.NodePools[1:]
		}, 2, 0},
		{"the pool starts others now", func(s *engine.Snapshot) { s.NodePools[0].Spec.Template.Labels = map[string]string{"team": "b"} }, 0, 3},
		{"what is written is longer than anything that is written here", func(s *engine.Snapshot) {
			s.NodePools[0].Annotations = map[string]string{v1.LearnedDevicesAnnotationKey: annotation[v1.LearnedDevicesAnnotationKey] + strings.Repeat(" ", 64<<10)}
		}, 0, 3},
		{"what is written is no JSON", func(s *engine.Snapshot) {
			s.NodePools[0].Annotations = map[string]string{v1.LearnedDevicesAnnotationKey: "{"}
		}, 0, 3},
	} {
		s := world(waiting)
		s.NodePools[0].Annotations = annotation
		c.change(s)
		plan := provisioning.Plan(s, engine.Options{}, nil)
		if len(plan.Launches) != c.launches || len(plan.Unplaced) != c.refused {
			t.Errorf("%s: launches %v, unplaced %v", c.what, plan.Launches, plan.Unplaced)
		}
		for _, l := range plan.Launches {
			if l.NodePool != s.NodePools[0].Name || !slices.Equal(l.DeviceDrivers, []string{"gpu.example.com"}) {
				t.Errorf("%s: launch %+v", c.what, l)
			}
		}
	}
	s = world("node n pool=general type=one zone=a published=(driver=gpu.example.com count=2 memory=80Gi)")
	s.Nodes[0].Annotations = map[string]string{v1.NodePoolHashAnnotationKey: "1", v1.NodePoolHashVersionAnnotationKey: v1.HashVersion}
	if plan := provisioning.Plan(s, engine.Options{}, nil); len(plan.LearnedDevices) > 0 {
		t.Errorf("a machine of an earlier template teaches: %v", plan.LearnedDevices)
	}
	s = world("pod unlucky cpu=1 devices=(class=gpu uuid=0)") // it is unknown before the start which device has it
	s.NodePools[0].Annotations = annotation
	if plan := provisioning.Plan(s, engine.Options{}, nil); len(plan.Launches) > 0 {
		t.Errorf("a machine is started for a single device: %v", plan.Launches)
	}
}

// If a pool has no room to record devices, each pass reports the types, the consequence and the remedy. Devices of other types and of other
// pools are recorded.
func TestWhatIsTooMuchToRememberIsTold(t *testing.T) {
	t.Parallel()
	lines := []string{"pool general", "pool other", "type few cpu=8 mem=16Gi price=1", "type many cpu=8 mem=16Gi price=2", "deviceclass gpu driver=gpu.example.com",
		"pod p cpu=1 devices=(class=gpu) node=few-general"}
	for _, pool := range []string{"general", "other"} {
		lines = append(lines, "node few-"+pool+" pool="+pool+" type=few zone=a published=(driver=gpu.example.com count=2)")
	}
	s := scenariotest.Cluster(t, append(lines, "node many pool=general type=many zone=a published=(driver=gpu.example.com count=128 serial=each note="+strings.Repeat("x", 600)+")")...)
	for pass := range 2 {
		plan := provisioning.Plan(s, engine.Options{}, nil)
		if len(plan.Notes) != 1 || plan.Notes[0].Object != "NodePool general" || plan.Notes[0].Reason.Code != engine.DevicesForgotten {
			t.Fatalf("pass %d: notes %v", pass, plan.Notes)
		}
		said := plan.Notes[0].Reason.Message()
		for _, part := range []string{"nodes of many ", v1.LearnedDevicesAnnotationKey, "64 KiB", "only while", "a NodePool of their own"} {
			if !strings.Contains(said, part) {
				t.Errorf("%q does not say %q", said, part)
			}
		}
		if want := 2 - 2*pass; len(plan.LearnedDevices) != want {
			t.Errorf("pass %d: learned of %d pools, want %d", pass, len(plan.LearnedDevices), want)
		}
		for i, l := range plan.LearnedDevices {
			s.NodePools[i].Annotations = map[string]string{v1.LearnedDevicesAnnotationKey: l.Text}
			if !strings.Contains(l.Text, `"few"`) || strings.Contains(l.Text, `"many"`) {
				t.Errorf("on pool %s is written %.200q", l.NodePool, l.Text)
			}
		}
	}
}

// The next machine is expected to have all pools of a driver, with their shared counters. While it starts, the missing pools are still expected.
// Nothing is learned from a node that is not initialized, because it may publish more.
func TestSeveralPoolsAndSharedCountersAreLearned(t *testing.T) {
	t.Parallel()
	world := func(more ...string) *engine.Snapshot {
		return scenariotest.Cluster(t, append([]string{"pool general", "type one cpu=8 mem=16Gi price=1", "deviceclass gpu driver=gpu.example.com"}, more...)...)
	}
	const pools = " published=(driver=gpu.example.com pool=a count=2) published=(driver=gpu.example.com pool=b count=1)"
	learn := func(s *engine.Snapshot) map[string]string {
		plan := provisioning.Plan(s, engine.Options{}, nil)
		if len(plan.LearnedDevices) != 1 {
			t.Fatalf("learned %v", plan.LearnedDevices)
		}
		return map[string]string{v1.LearnedDevicesAnnotationKey: plan.LearnedDevices[0].Text}
	}
	several := learn(world("node n pool=general type=one zone=a" + pools))
	s := world("node n pool=general type=one zone=a published=(driver=gpu.example.com count=3)")
	of := func(gib string) map[string]resourcev1.Counter {
		return map[string]resourcev1.Counter{"memory": {Value: resource.MustParse(gib)}}
	}
	parts := s.ResourceSlices[0]
	for i, memory := range []string{"80Gi", "40Gi", "40Gi"} { // a whole device, and its halves
		parts.Spec.Devices[i].ConsumesCounters = []resourcev1.DeviceCounterConsumption{{CounterSet: "gpu", Counters: of(memory)}}
	}
	parts.Spec.Pool.ResourceSliceCount = 2
	counters := parts.DeepCopy()
	counters.Name, counters.Spec.Devices, counters.Spec.SharedCounters = "counters", nil, []resourcev1.CounterSet{{Name: "gpu", Counters: of("80Gi")}}
	s.ResourceSlices = append(s.ResourceSlices, counters)
	shared := learn(s)
	starting := "node m pool=general type=one zone=a uninitialized drivers=gpu.example.com planned=web-1,web-2,web-3"
	for _, c := range []struct {
		what     string
		known    map[string]string
		lines    []string
		launches int
	}{
		{"three devices in two pools", several, []string{"pods web x4 cpu=1 devices=(class=gpu)"}, 2},
		{"one, or two halves of it", shared, []string{"pods web x3 cpu=1 devices=(class=gpu)"}, 3},
		{"the second pool is still to come", several, []string{"pods web x3 cpu=1 devices=(class=gpu)", starting + " published=(driver=gpu.example.com pool=x count=2)"}, 0},
		{"the first pool is still to come", several, []string{"pods web x3 cpu=1 devices=(class=gpu)", starting + " published=(driver=gpu.example.com pool=x count=1)"}, 0},
		{"the second pool never came", several, []string{"pods web x3 cpu=1 devices=(class=gpu)", "node m pool=general type=one zone=a published=(driver=gpu.example.com pool=x count=2)"}, 1},
	} {
		s := world(c.lines...)
		s.NodePools[0].Annotations = c.known
		if plan := provisioning.Plan(s, engine.Options{}, nil); len(plan.Launches) != c.launches || len(plan.Unplaced) > 0 {
			t.Errorf("%s: launches %v, unplaced %v", c.what, plan.Launches, plan.Unplaced)
		}
	}
	begun := world(starting + " published=(driver=gpu.example.com pool=x count=2)")
	begun.NodePools[0].Annotations = several
	step := lifecycle.Next(lifecycle.Life{Now: begun.Now, Claim: begun.NodeClaims[0], Nodes: begun.Nodes, Pool: begun.NodePools[0], Published: dra.Publish(begun.ResourceSlices)})
	if c := v1.GetCondition(step.Claim, v1.ConditionInitialized); c == nil || c.Reason != "DevicesIncomplete" || c.Message != "driver gpu.example.com has published 1 of 2 pools of devices so far" {
		t.Errorf("with one pool of two Initialized is %+v", c)
	}
	other := world("pod late cpu=1 devices=(class=gpu)", "node n pool=general type=one zone=a cordoned", starting) // its pool with counters is not one of m's
	other.ResourceSlices, other.NodePools[0].Annotations = s.ResourceSlices, shared
	if plan := provisioning.Plan(other, engine.Options{}, nil); len(plan.Launches) > 0 {
		t.Errorf("beside a node with counters: launches %v", plan.Launches)
	}
	if plan := provisioning.Plan(world("node n pool=general type=one zone=a uninitialized"+pools), engine.Options{}, nil); len(plan.LearnedDevices) > 0 {
		t.Errorf("a node that is not initialized teaches %v", plan.LearnedDevices)
	}
}

// An allocated claim limits its pod to the nodes that reach its devices. A pod that may not run there is refused with a reason.
func TestPodsWhoseDevicesAreElsewhereAreRefused(t *testing.T) {
	t.Parallel()
	for zone, code := range map[string]engine.Code{"a": "", "b": engine.ClaimNotReady} {
		s := scenariotest.Cluster(t,
			"pool general",
			"type one cpu=8 mem=16Gi price=1 zones=a,b",
			"deviceclass gpu driver=gpu.example.com",
			"pod p cpu=1 select=topology.kubernetes.io/zone:"+zone+" devices=(class=gpu)")
		s.ResourceClaims[0].Status.Allocation = &resourcev1.AllocationResult{NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{"a"}}},
		}}}}
		plan := provisioning.Plan(s, engine.Options{}, nil)
		switch {
		case code == "" && len(plan.Launches) != 1:
			t.Errorf("for zone %s: %+v, %+v", zone, plan.Launches, plan.Unplaced)
		case code != "" && (len(plan.Launches) > 0 || len(plan.Unplaced) != 1 || plan.Unplaced[0].Reasons[0].Code != code):
			t.Errorf("for zone %s: launches %+v, unplaced %+v", zone, plan.Launches, plan.Unplaced)
		}
	}
}

package oracle

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"tenon.sh/deviceselector"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/scheduler"
)

// An extended cluster has extended resources that are backed by devices.
type extended struct {
	*rand.Rand
	s *engine.Snapshot
}

func (x *extended) oneIn(n int) bool { return x.IntN(n) == 0 }

// class adds a DeviceClass of the devices of a driver.
func (x *extended) class(name, driver, resource string) {
	c := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(time.Unix(1e9+int64(x.IntN(3)), 0))}}
	c.Spec.ExtendedResourceName = &resource
	c.Spec.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: fmt.Sprintf("device.driver == %q", driver)}}}
	x.s.DeviceClasses = append(x.s.DeviceClasses, c)
}

// node adds a node with devices of both drivers. Another pod has some of them. The node may have the extended resource itself.
func (x *extended) node(name string) {
	n := nodeIn(name, "zone-a")
	if x.oneIn(3) {
		n.Status.Allocatable["example.com/gpu"] = count(x.IntN(4))
	}
	x.s.Nodes = append(x.s.Nodes, n)
	for _, driver := range []string{"gpu.example.com", "card.example.com"} {
		s := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name + "-" + driver, UID: types.UID(name + driver)}}
		s.Spec = resourcev1.ResourceSliceSpec{Driver: driver, NodeName: &name, Pool: resourcev1.ResourcePool{Name: name, Generation: 1, ResourceSliceCount: 1}}
		for i := range x.IntN(6) {
			device := fmt.Sprintf("device-%d", i)
			s.Spec.Devices = append(s.Spec.Devices, resourcev1.Device{Name: device})
			if !x.oneIn(4) {
				continue
			}
			c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: s.Name + "-" + device, UID: types.UID(s.Name + device)}}
			c.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{
				{Request: "container-0-request-0", Driver: driver, Pool: name, Device: device}}}}
			x.s.ResourceClaims = append(x.s.ResourceClaims, c)
		}
		x.s.ResourceSlices = append(x.s.ResourceSlices, s)
	}
}

// pod requests devices as extended resources, in containers of all kinds.
func (x *extended) pod(name string) *corev1.Pod {
	p := podOf(name)
	const ofClass = corev1.ResourceName(resourcev1.ResourceDeviceClassPrefix)
	names := []corev1.ResourceName{"example.com/gpu", ofClass + "gpu", ofClass + "card"}
	container := func(name string) corev1.Container {
		c := corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: milli(10)}}}
		for _, resource := range names {
			if x.oneIn(2 + len(name)) {
				c.Resources.Requests[resource] = count(x.IntN(4))
			}
		}
		return c
	}
	p.Spec.Containers = []corev1.Container{container("m")}
	for i := range x.IntN(2) {
		p.Spec.Containers = append(p.Spec.Containers, container(fmt.Sprintf("m%d", i)))
	}
	for i := range x.IntN(4) {
		c := container(fmt.Sprintf("i%d", i))
		if x.oneIn(3) {
			c.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
		}
		p.Spec.InitContainers = append(p.Spec.InitContainers, c)
	}
	return p
}

// unsure reports whether the pod requests devices by the name of a class that has lost its other name. kube-scheduler knows that resource only
// if it has seen that class first.
func (x *extended) unsure(pod *corev1.Pod) bool {
	return kube.NewDeviceResources(x.s).ProblemOf(kube.PodRequests(pod), true).Code != ""
}

// If two classes have the same extended resource, kube-scheduler takes the later one. Of containers that run one after another, it counts the
// one with the largest request. If a node has the resource itself, the request counts against that. A replay gives the same answers on all
// nodes.
func TestResourcesThatStandForDevicesAreReplayedAsKubeSchedulerAllocatesThem(t *testing.T) {
	t.Parallel()
	s := open(t)
	seen := map[bool]int{}
	for seed := range uint64(150) {
		x := &extended{rand.New(rand.NewPCG(seed, 5)), &engine.Snapshot{Now: time.Unix(2e9, 0), Selectors: deviceselector.New().Ask}}
		x.class("gpu", "gpu.example.com", "example.com/gpu")
		x.class("card", "card.example.com", "example.com/gpu")
		if x.oneIn(2) {
			x.s.DeviceClasses[0], x.s.DeviceClasses[1] = x.s.DeviceClasses[1], x.s.DeviceClasses[0]
		}
		names := []string{"a", "b", "c"}
		for _, name := range names {
			x.node(name)
		}
		if err := s.Reset(x.s, nil); err != nil {
			t.Fatal(err)
		}
		for range 4 {
			pod := x.pod("p")
			verdicts, err := s.Ask(pod, names...)
			if err != nil {
				t.Fatal(err)
			}
			for i, v := range verdicts {
				alone := *x.s
				alone.Nodes, alone.Pods = x.s.Nodes[i:i+1], []*corev1.Pod{pod}
				landing := (&scheduler.Replay{Snapshot: &alone, Pods: alone.Pods}).Land()
				if v.OK && len(landing.Placements) == 0 && x.unsure(pod) {
					continue
				}
				seen[v.OK]++
				if v.OK != (len(landing.Placements) == 1) {
					t.Errorf("seed %d: kube-scheduler says of node %s: %t %s %s; the replay places %v", seed, v.Node, v.OK, v.Plugin, v.Message, landing.Placements)
				}
			}
		}
	}
	t.Log(seen)
	if seen[true] < 300 || seen[false] < 300 {
		t.Errorf("%v: this tests little", seen)
	}
}

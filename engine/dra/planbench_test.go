package dra_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/deviceselector"
	"tenon.sh/engine"
	"tenon.sh/engine/device"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario"
)

// crowded returns a cluster of n waiting pods and 60 types with devices. Each tenth pod requests a device in one of ten ways: by a claim, or by
// a resource of a device plugin. Either all types with such devices have the resource, or none has it.
func crowded(b *testing.B, n int, asks string) *claimedCluster {
	b.Helper()
	text := "pool general\n"
	for i := range 60 {
		text += fmt.Sprintf("type d%02d cpu=%d mem=%dGi price=%d", i, 8+4*(i%12), 32+16*(i%12), 2+i)
		for way := range 10 {
			if asks == "resources" && (way < 5 && i%10 == way || way >= 5 && 16+8*(i%10) >= 8*way) {
				text += fmt.Sprintf(" example.com/gpu-%d=%d", way, 1+i%8)
			}
		}
		text += "\n"
		text += fmt.Sprintf("type c%02d cpu=%d mem=%dGi price=%g\n", i, 4+4*(i%12), 8+16*(i%12), 0.2+0.1*float64(i))
	}
	file, err := scenario.Parse(text)
	if err != nil {
		b.Fatal(err)
	}
	c := &claimedCluster{Snapshot: file.Snapshot, claims: map[string]*resourcev1.ResourceClaim{}}
	list := c.Classes[0].InstanceTypes
	for i := range list {
		if list[i].Name[0] != 'd' {
			continue
		}
		shape := device.Shape{Driver: "gpu.example.com", Attributes: map[string]device.Value{"model": {Kind: device.Text, Text: fmt.Sprintf("m%d", i%10)}},
			Capacities: map[string]device.Capacity{"memory": {Amount: int64(16+8*(i%10)) << 30 * 1000}}}
		template := device.Template{Driver: shape.Driver, Pool: "gpus"}
		for g := range 1 + i%8 {
			template.Devices = append(template.Devices, device.Expected{Name: fmt.Sprintf("gpu-%d", g), Shape: shape})
		}
		list[i].Claimable = []device.Template{template}
	}
	c.DeviceClasses = []*resourcev1.DeviceClass{{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}, Spec: resourcev1.DeviceClassSpec{
		Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: `device.driver == "gpu.example.com"`}}}}}}
	c.Selectors = deviceselector.New().Ask
	var specs []*resourcev1.ResourceClaim
	for i := range 10 {
		expression := fmt.Sprintf(`device.attributes["gpu.example.com"].model == "m%d"`, i)
		if i >= 5 {
			expression = fmt.Sprintf(`device.capacity["gpu.example.com"].memory.compareTo(quantity("%dGi")) >= 0`, 8*i)
		}
		specs = append(specs, &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default"}, Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{
			Requests: []resourcev1.DeviceRequest{{Name: "gpu", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount,
				Count: 1, Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: expression}}}}}}}}})
	}
	for i := range n {
		c.addPod(fmt.Sprintf("pod-%d", i), specs[i/10%10])
		pod := c.Pods[i]
		pod.Spec.Containers[0].Resources.Requests[corev1.ResourceMemory] = resource.MustParse(fmt.Sprintf("%dGi", 1+i/10%7))
		if i%10 == 0 && asks == "resources" {
			pod.Spec.Containers[0].Resources.Requests[corev1.ResourceName(fmt.Sprintf("example.com/gpu-%d", i/10%10))] = resource.MustParse("1")
		}
		if i%10 != 0 || asks != "claims" {
			pod.Spec.ResourceClaims, pod.Status.ResourceClaimStatuses = nil, nil
		}
	}
	return c
}

// BenchmarkPlan plans for 10,000 pods of 7 kinds. In a second case, 1,000 of them request devices, by claims and by resources of device plugins,
// so that there are 77 kinds.
func BenchmarkPlan(b *testing.B) {
	for _, asks := range []string{"nothing", "resources", "claims"} {
		b.Run("asks-for="+asks, func(b *testing.B) {
			c := crowded(b, 10_000, asks)
			for b.Loop() {
				plan := provisioning.Plan(c.Snapshot, engine.Options{Threads: 1}, nil)
				if len(plan.Unplaced) > 0 {
					b.Fatal(plan.Unplaced[0])
				}
				b.ReportMetric(float64(len(plan.Launches)), "launches")
			}
		})
	}
}

package assortment

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "tenon.sh/api/v1"
)

// template is what an infrastructure template tells.
type template struct {
	machineType, capacityType, arch, os string
	capacity                            corev1.ResourceList
}

// machineTypeFields are where templates of clouds name the machine type, below spec.template.spec.
var machineTypeFields = map[string]string{
	"AWSMachineTemplate": "instanceType", "AzureMachineTemplate": "vmSize", "GCPMachineTemplate": "instanceType", "OpenStackMachineTemplate": "flavor",
}

// capacityOf reads an infrastructure template: what any may say in its status, and what those of some clouds say in their spec.
func capacityOf(object *unstructured.Unstructured) (out template) {
	if object == nil {
		return out
	}
	text := func(path ...string) string {
		value, _, _ := unstructured.NestedString(object.Object, path...)
		return value
	}
	spec := func(field string) any {
		value, _, _ := unstructured.NestedFieldNoCopy(object.Object, "spec", "template", "spec", field)
		return value
	}
	out.machineType = text("spec", "template", "spec", machineTypeFields[object.GetKind()])
	out.arch, out.os = text("status", "nodeInfo", "architecture"), text("status", "nodeInfo", "operatingSystem")
	interruptible, _, _ := unstructured.NestedBool(object.Object, "status", "interruptible")
	preemptible, _ := spec("preemptible").(bool)
	if interruptible || preemptible || spec("spotMarketOptions") != nil || spec("spotVMOptions") != nil || spec("provisioningModel") == "Spot" {
		out.capacityType = v1.CapacityTypeSpot
	}
	stated, _, _ := unstructured.NestedMap(object.Object, "status", "capacity")
	for name, value := range stated {
		out.set(corev1.ResourceName(name), fmt.Sprint(value))
	}
	if object.GetKind() == "VSphereMachineTemplate" && out.capacity.Cpu().IsZero() {
		for name, from := range map[corev1.ResourceName]struct{ field, unit string }{
			corev1.ResourceCPU: {"numCPUs", ""}, corev1.ResourceMemory: {"memoryMiB", "Mi"}, corev1.ResourceEphemeralStorage: {"diskGiB", "Gi"},
		} {
			if value := spec(from.field); value != nil {
				out.set(name, fmt.Sprint(value)+from.unit)
			}
		}
	}
	if out.machineType == "" && object.GetKind() == "VSphereMachineTemplate" && !out.capacity.Cpu().IsZero() {
		out.machineType = fmt.Sprintf("vsphere-%dx%d", out.capacity.Cpu().Value(), out.capacity.Memory().Value()>>30)
	}
	return out
}

// set writes down a quantity, if it is one.
func (t *template) set(name corev1.ResourceName, text string) {
	q, err := resource.ParseQuantity(text)
	if err != nil || q.Sign() <= 0 {
		return
	}
	if t.capacity == nil {
		t.capacity = corev1.ResourceList{}
	}
	t.capacity[name] = q
}

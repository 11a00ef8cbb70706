package assortment

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "tenon.sh/api/v1"
)

// template holds the known fields of an infrastructure template.
type template struct {
	machineType, capacityType, arch, os string
	capacity                            corev1.ResourceList
}

// machineTypeFields are the fields with the machine type in templates of clouds, below spec.template.spec.
var machineTypeFields = map[string]string{
	"AWSMachineTemplate": "instanceType", "AzureMachineTemplate": "vmSize", "GCPMachineTemplate": "instanceType", "OpenStackMachineTemplate": "flavor",
}

// capacityOf reads an infrastructure template: its status, which any kind may have, and the spec of some clouds' kinds.
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

// set stores a quantity, if the text is one above 0.
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

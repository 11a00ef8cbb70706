package scenario

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/engine/device"
)

// This file reads what pods claim of devices, and what drivers publish on nodes.

// claimsName is that of the only claim of a pod, and of the template that it was made from.
const claimsName = "devices"

// claimedDevices reads devices=(class=gpu count=2 memory=40Gi model=L4) of a pod: what its claim asks for. count may be All; memory is the
// least, other words are attributes.
func (w word) claimedDevices() (*resourcev1.ResourceClaimSpec, error) {
	r, err := w.group("devices")
	if err != nil {
		return nil, err
	}
	ask := &resourcev1.ExactDeviceRequest{AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1}
	for r.more() {
		w := r.next()
		where := ""
		switch key, value := w.cut(); {
		case key == "class":
			ask.DeviceClassName = value
		case key == "count" && value == "All":
			ask.AllocationMode, ask.Count = resourcev1.DeviceAllocationModeAll, 0
		case key == "count":
			n, err := w.number()
			if err != nil || n < 1 {
				return nil, w.errorf("write how many devices are claimed: count=2, or count=All")
			}
			ask.Count = int64(n)
		case key == "memory":
			if _, err := resource.ParseQuantity(value); err != nil {
				return nil, w.errorf("%q is no quantity", value)
			}
			where = fmt.Sprintf("device.capacity[device.driver].memory.compareTo(quantity(%q)) >= 0", value)
		case value != "":
			where = fmt.Sprintf("device.attributes[device.driver].%s == %q", key, value)
		default:
			return nil, r.unknown(w, "class= count= memory=, and attributes")
		}
		if where != "" {
			ask.Selectors = append(ask.Selectors, resourcev1.DeviceSelector{CEL: &resourcev1.CELDeviceSelector{Expression: where}})
		}
	}
	if ask.DeviceClassName == "" {
		return nil, w.errorf("a claim names the DeviceClass: devices=(class=gpu)")
	}
	out := &resourcev1.ResourceClaimSpec{}
	out.Devices.Requests = []resourcev1.DeviceRequest{{Name: claimsName, Exactly: ask}}
	return out, nil
}

// claimDevices makes the pod's claim, as if from a template of the line's name.
func (b *builder) claimDevices(pod *corev1.Pod, p *podLine) {
	if p.devices == nil {
		return
	}
	name := pod.Name + "-" + claimsName
	meta := b.meta(pod.Namespace, name)
	meta.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: new(true), BlockOwnerDeletion: new(true)}}
	b.snapshot.ResourceClaims = append(b.snapshot.ResourceClaims, &resourcev1.ResourceClaim{
		TypeMeta: metav1.TypeMeta{APIVersion: "resource.k8s.io/v1", Kind: "ResourceClaim"}, ObjectMeta: meta, Spec: *p.devices.DeepCopy(),
	})
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: claimsName, ResourceClaimTemplateName: new(p.name)}}
	pod.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: claimsName}}
	pod.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: claimsName, ResourceClaimName: &name}}
}

// published is a pool that a driver has published on a node, or the first slice of as many.
type published struct {
	pool device.Template
	of   int
}

// published reads published=(driver=gpu.example.com count=4 model=L4 of=2): the words of a type's devices, and of how many slices this is
// the first.
func (w word) published() (published, error) {
	r, err := w.group("published")
	if err != nil {
		return published{}, err
	}
	out := published{of: 1}
	r.words = slices.DeleteFunc(r.words, func(w word) bool {
		if key, _ := w.cut(); key != "of" || err != nil {
			return false
		}
		out.of, err = w.number()
		return true
	})
	if err != nil || out.of < 1 || out.of > 100 {
		return published{}, w.errorf("write of how many slices the pool consists: of=2")
	}
	out.pool, err = r.devices(w)
	return out, err
}

// publish puts the ResourceSlice of a driver on the node in the place of the one before.
func (b *builder) publish(node string, p published) {
	meta := b.meta("", node+"-"+p.pool.Driver)
	s := &resourcev1.ResourceSlice{
		TypeMeta: metav1.TypeMeta{APIVersion: "resource.k8s.io/v1", Kind: "ResourceSlice"}, ObjectMeta: meta,
		Spec: resourcev1.ResourceSliceSpec{Driver: p.pool.Driver, NodeName: &node,
			Pool: resourcev1.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: int64(p.of)}, Devices: PublishedDevices(p.pool.Devices)},
	}
	others := slices.DeleteFunc(slices.Clone(b.snapshot.ResourceSlices), func(o *resourcev1.ResourceSlice) bool { return o.Name == s.Name })
	b.snapshot.ResourceSlices = append(others, s)
}

// PublishedDevices are devices as a driver publishes them of which that is expected. What is not known of them before is left out.
func PublishedDevices(list []device.Expected) []resourcev1.Device {
	var out []resourcev1.Device
	for i := range list {
		shape := &list[i].Shape
		d := resourcev1.Device{Name: list[i].Name, Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{}, Capacity: map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{}}
		if shape.Shared {
			d.AllowMultipleAllocations = new(true)
		}
		for _, name := range slices.Sorted(maps.Keys(shape.Attributes)) {
			switch v := shape.Attributes[name]; v.Kind {
			case device.Text:
				d.Attributes[resourcev1.QualifiedName(name)] = resourcev1.DeviceAttribute{StringValue: &v.Text}
			case device.Version:
				d.Attributes[resourcev1.QualifiedName(name)] = resourcev1.DeviceAttribute{VersionValue: &v.Text}
			case device.Truth:
				d.Attributes[resourcev1.QualifiedName(name)] = resourcev1.DeviceAttribute{BoolValue: new(v.Text == "true")}
			}
		}
		for name, c := range shape.Capacities {
			capacity := resourcev1.DeviceCapacity{Value: *resource.NewMilliQuantity(c.Amount, resource.BinarySI)}
			if c.Policy != nil && c.Policy.Default != nil {
				capacity.RequestPolicy = &resourcev1.CapacityRequestPolicy{Default: resource.NewMilliQuantity(*c.Policy.Default, resource.BinarySI)}
			}
			d.Capacity[resourcev1.QualifiedName(name)] = capacity
		}
		out = append(out, d)
	}
	return out
}

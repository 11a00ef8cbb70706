package scenario

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/engine/device"
	"tenon.sh/engine/dra"
)

// This file reads the claims of pods for devices, and the slices that drivers publish on nodes.

// claimsName is the name of a pod's only claim and of its template.
const claimsName = "devices"

// claimedDevices reads devices=(class=gpu count=2 memory=40Gi model=L4) of a pod: the content of its claim. count may be All; memory is the
// minimum; other words are attributes.
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

// claimDevices makes the pod's claim, as from a template with the line's name.
func (b *builder) claimDevices(pod *corev1.Pod, p *podLine) {
	if p.devices == nil {
		return
	}
	claimInSpec(&pod.Spec, p.name)
	b.snapshot.ResourceClaims = append(b.snapshot.ResourceClaims, ClaimFor(pod, claimsName, p.devices))
	b.claimTemplate(pod.Namespace, p.name, p.devices)
}

// claimTemplate adds the ResourceClaimTemplate with the line's name, unless it exists.
func (b *builder) claimTemplate(namespace, name string, spec *resourcev1.ResourceClaimSpec) {
	there := func(t *resourcev1.ResourceClaimTemplate) bool { return t.Namespace == namespace && t.Name == name }
	if slices.ContainsFunc(b.snapshot.ResourceClaimTemplates, there) {
		return
	}
	t := &resourcev1.ResourceClaimTemplate{
		TypeMeta: metav1.TypeMeta{APIVersion: "resource.k8s.io/v1", Kind: "ResourceClaimTemplate"}, ObjectMeta: b.meta(namespace, name),
		Spec: resourcev1.ResourceClaimTemplateSpec{Spec: *spec.DeepCopy()},
	}
	b.snapshot.ResourceClaimTemplates = append(b.snapshot.ResourceClaimTemplates, t)
}

// claimInSpec adds a claim by the template to the spec.
func claimInSpec(spec *corev1.PodSpec, template string) {
	spec.ResourceClaims = []corev1.PodResourceClaim{{Name: claimsName, ResourceClaimTemplateName: &template}}
	spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: claimsName}}
}

// ClaimFor returns the claim of a pod whose spec names a template under ref, and adds it to the pod's status, like kube-controller-manager.
func ClaimFor(pod *corev1.Pod, ref string, spec *resourcev1.ResourceClaimSpec) *resourcev1.ResourceClaim {
	name := pod.Name + "-" + ref
	pod.Status.ResourceClaimStatuses = append(pod.Status.ResourceClaimStatuses, corev1.PodResourceClaimStatus{Name: ref, ResourceClaimName: &name})
	return &resourcev1.ResourceClaim{
		TypeMeta: metav1.TypeMeta{APIVersion: "resource.k8s.io/v1", Kind: "ResourceClaim"},
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: name, UID: uidOf(pod.Namespace, name), ResourceVersion: "1", OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: new(true), BlockOwnerDeletion: new(true)}}},
		Spec: *spec.DeepCopy(),
	}
}

// published is a pool that a driver has published on a node, or only the first of several slices of it.
type published struct {
	pool device.Template
	of   int
}

// published reads published=(driver=gpu.example.com count=4 model=L4 of=2): the words of a type's devices, and the number of slices, of which
// this is the first. With pool=b it is another pool of the driver on the node.
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

// publish sets the ResourceSlice of a driver's pool on the node.
func (b *builder) publish(node string, p published) {
	meta, name := b.meta("", node+"-"+p.pool.Driver), node
	if p.pool.Pool != defaultPool {
		meta, name = b.meta("", node+"-"+p.pool.Driver+"-"+p.pool.Pool), node+"-"+p.pool.Pool
	}
	s := &resourcev1.ResourceSlice{
		TypeMeta: metav1.TypeMeta{APIVersion: "resource.k8s.io/v1", Kind: "ResourceSlice"}, ObjectMeta: meta,
		Spec: resourcev1.ResourceSliceSpec{Driver: p.pool.Driver, NodeName: &node,
			Pool: resourcev1.ResourcePool{Name: name, Generation: 1, ResourceSliceCount: int64(p.of)}, Devices: dra.PublishedDevices(p.pool.Devices)},
	}
	others := slices.DeleteFunc(slices.Clone(b.snapshot.ResourceSlices), func(o *resourcev1.ResourceSlice) bool { return o.Name == s.Name })
	b.snapshot.ResourceSlices = append(others, s)
}

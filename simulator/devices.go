package simulator

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/device"
	"tenon.sh/engine/dra"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
	"tenon.sh/provider/simulated"
	"tenon.sh/scenario"
)

// devices holds the ResourceClaims of the pods, and the devices that drivers publish.
type devices struct {
	claims    shelf[*resourcev1.ResourceClaim]
	published *dra.Published // nil if ResourceSlices have changed since it was read
	standIns  *kube.DeviceResources
}

// readDevices reads the ResourceClaims of the snapshot.
func (w *World) readDevices() {
	w.devices.claims = newShelf[*resourcev1.ResourceClaim]()
	for _, c := range w.base.ResourceClaims {
		w.devices.claims.put(claimKey(c), c)
	}
	if w.actsOnClaims() {
		w.devices.standIns = kube.NewDeviceResources(w.base)
	}
}

func claimKey(c *resourcev1.ResourceClaim) string { return c.Namespace + "/" + c.Name }

func (w *World) actsOnClaims() bool { return w.base.Selectors != nil }

// requestsOf returns the pod's requests of the node, and separately its requests of devices that drivers serve.
func (w *World) requestsOf(pod *corev1.Pod) (requests, devices corev1.ResourceList) {
	requests = kube.PodRequests(pod)
	return requests, w.devices.standIns.TakeFrom(requests)
}

// published returns the devices that drivers have published. It returns nil if the world does not act on ResourceClaims.
func (w *World) published() *dra.Published {
	if w.devices.published == nil && w.actsOnClaims() {
		w.devices.published = dra.Publish(w.base.ResourceSlices)
	}
	return w.devices.published
}

// expectedDevices returns the pools of devices that drivers publish on a claim's machine without a fault.
func (w *World) expectedDevices(claim string, t *engine.InstanceType) []device.Template {
	c, _ := w.claims.get(claim)
	if c == nil {
		return t.Claimable
	}
	return inventory.ExpectedDevices(kube.FindPool(w.base, c.Labels[v1.NodePoolLabelKey]), t.Name, t)
}

// publish adds the ResourceSlice of a node to the world, unless one of this name exists.
func (w *World) publish(s *seat, x simulated.NodeFault) {
	slice := x.Slice(s.node)
	if slices.ContainsFunc(w.base.ResourceSlices, func(o *resourcev1.ResourceSlice) bool { return o.Name == slice.Name }) {
		return
	}
	w.base.ResourceSlices = append(slices.Clone(w.base.ResourceSlices), slice)
	w.devices.published = nil
	w.setNode(s, s.node.DeepCopy())
}

// unpublish removes the ResourceSlices of a node that is gone.
func (w *World) unpublish(node string) {
	left := slices.DeleteFunc(slices.Clone(w.base.ResourceSlices), func(s *resourcev1.ResourceSlice) bool { return s.Spec.NodeName != nil && *s.Spec.NodeName == node })
	if len(left) < len(w.base.ResourceSlices) {
		w.base.ResourceSlices, w.devices.published = left, nil
	}
}

// claimDevices creates the ResourceClaims of a new pod from its ResourceClaimTemplates.
func (w *World) claimDevices(pod *corev1.Pod) {
	for _, ref := range pod.Spec.ResourceClaims {
		for _, t := range w.base.ResourceClaimTemplates {
			if t.Namespace == pod.Namespace && ref.ResourceClaimTemplateName != nil && t.Name == *ref.ResourceClaimTemplateName {
				c := scenario.ClaimFor(pod, ref.Name, &t.Spec.Spec)
				w.devices.claims.put(claimKey(c), c)
			}
		}
	}
}

// allocate gives the pod the devices that it claims on the node to which it is about to be bound.
func (w *World) allocate(u *unit, s *seat) {
	if !w.actsOnClaims() {
		return
	}
	_, asked := w.requestsOf(u.pod)
	if len(u.pod.Spec.ResourceClaims)+len(asked) == 0 {
		return
	}
	has, reason := dra.ClaimsOf(u.pod, dra.Claims(w.devices.claims.list, nil))
	open := has.Open
	if c := dra.ExtendedClaim(u.pod, asked, w.devices.standIns.ClassOf); c != nil {
		c.Name = u.pod.Name + "-extended-resources"
		open = append(open, c)
	}
	c := dra.Cluster{Claims: w.devices.claims.list, Classes: w.base.DeviceClasses, Published: w.published(), Selectors: w.base.Selectors}
	var allocated []*resourcev1.ResourceClaim
	if reason == nil {
		allocated, reason = c.Allocate(s.node, open)
	}
	if reason != nil {
		w.laws.violate("pod %s is bound to node %s, which has no devices for it: %+v", kube.PodID(u.pod), s.node.Name, *reason)
		return
	}
	for _, c := range allocated {
		w.devices.claims.put(claimKey(c), c)
	}
	reserved := resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: u.pod.Name, UID: u.pod.UID}
	for _, key := range w.claimsOf(u) {
		c, _ := w.devices.claims.get(key)
		c = c.DeepCopy()
		c.Status.ReservedFor = append(c.Status.ReservedFor, reserved)
		w.devices.claims.put(key, c)
	}
}

// claimsOf returns the keys of the pod's ResourceClaims.
func (w *World) claimsOf(u *unit) (keys []string) {
	add := func(name string) {
		key := u.pod.Namespace + "/" + name
		if _, found := w.devices.claims.get(key); found && !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	for i := range u.pod.Spec.ResourceClaims {
		if name := u.pod.Spec.ResourceClaims[i].ResourceClaimName; name != nil {
			add(*name)
		}
	}
	for _, s := range u.pod.Status.ResourceClaimStatuses {
		if s.ResourceClaimName != nil {
			add(*s.ResourceClaimName)
		}
	}
	add(u.pod.Name + "-extended-resources")
	return keys
}

// dropClaims frees the devices of a pod that is gone: it deletes the claims made for the pod, and removes the pod from shared claims.
func (w *World) dropClaims(u *unit) {
	if !w.actsOnClaims() {
		return
	}
	for _, key := range w.claimsOf(u) {
		c, _ := w.devices.claims.get(key)
		byName := func(r corev1.PodResourceClaim) bool {
			return r.ResourceClaimName != nil && *r.ResourceClaimName == c.Name
		}
		if !slices.ContainsFunc(u.pod.Spec.ResourceClaims, byName) {
			w.devices.claims.remove(key)
			continue
		}
		c = c.DeepCopy()
		c.Status.ReservedFor = slices.DeleteFunc(c.Status.ReservedFor, func(r resourcev1.ResourceClaimConsumerReference) bool { return r.UID == u.pod.UID })
		if len(c.Status.ReservedFor) == 0 {
			c.Status.Allocation = nil
		}
		w.devices.claims.put(key, c)
	}
}

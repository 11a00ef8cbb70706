package simulator

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/dra"
	"tenon.sh/engine/kube"
	"tenon.sh/scenario"
)

// devices holds the ResourceClaims of the pods, and the devices that drivers publish.
type devices struct {
	base     *engine.Snapshot
	laws     *laws
	claims   shelf[*resourcev1.ResourceClaim]
	read     *dra.Published // nil if ResourceSlices have changed since
	standIns *kube.DeviceResources
}

// newDevices reads the ResourceClaims of the snapshot.
func newDevices(base *engine.Snapshot, l *laws) *devices {
	d := &devices{base: base, laws: l, claims: newShelf[*resourcev1.ResourceClaim]()}
	for _, c := range base.ResourceClaims {
		d.claims.put(claimKey(c), c)
	}
	if d.acts() {
		d.standIns = kube.NewDeviceResources(base)
	}
	return d
}

func claimKey(c *resourcev1.ResourceClaim) string { return c.Namespace + "/" + c.Name }

// acts reports whether the world acts on ResourceClaims.
func (d *devices) acts() bool { return d.base.Selectors != nil }

// requestsOf returns the pod's requests of the node, and separately its requests of devices that drivers serve.
func (d *devices) requestsOf(pod *corev1.Pod) (requests, devices corev1.ResourceList) {
	requests = kube.PodRequests(pod)
	return requests, d.standIns.TakeFrom(requests)
}

// published returns the devices that drivers have published. It returns nil if the world does not act on ResourceClaims.
func (d *devices) published() *dra.Published {
	if d.read == nil && d.acts() {
		d.read = dra.Publish(d.base.ResourceSlices)
	}
	return d.read
}

// publish adds a ResourceSlice. It reports false if one of this name exists already.
func (d *devices) publish(slice *resourcev1.ResourceSlice) bool {
	if slices.ContainsFunc(d.base.ResourceSlices, func(o *resourcev1.ResourceSlice) bool { return o.Name == slice.Name }) {
		return false
	}
	d.base.ResourceSlices = append(slices.Clone(d.base.ResourceSlices), slice)
	d.read = nil
	return true
}

// unpublish removes the ResourceSlices of a node that is gone.
func (d *devices) unpublish(node string) {
	left := slices.DeleteFunc(slices.Clone(d.base.ResourceSlices), func(s *resourcev1.ResourceSlice) bool { return s.Spec.NodeName != nil && *s.Spec.NodeName == node })
	if len(left) < len(d.base.ResourceSlices) {
		d.base.ResourceSlices, d.read = left, nil
	}
}

// claim creates the ResourceClaims of a new pod from its ResourceClaimTemplates.
func (d *devices) claim(pod *corev1.Pod) {
	for _, ref := range pod.Spec.ResourceClaims {
		for _, t := range d.base.ResourceClaimTemplates {
			if t.Namespace == pod.Namespace && ref.ResourceClaimTemplateName != nil && t.Name == *ref.ResourceClaimTemplateName {
				c := scenario.ClaimFor(pod, ref.Name, &t.Spec.Spec)
				d.claims.put(claimKey(c), c)
			}
		}
	}
}

// allocate gives the pod the devices that it claims on the node to which it is about to be bound.
func (d *devices) allocate(u *unit, s *seat) {
	if !d.acts() {
		return
	}
	_, asked := d.requestsOf(u.pod)
	if len(u.pod.Spec.ResourceClaims)+len(asked) == 0 {
		return
	}
	has, reason := dra.ClaimsOf(u.pod, dra.Claims(d.claims.list, nil))
	open := has.Open
	if c := dra.ExtendedClaim(u.pod, asked, d.standIns.ClassOf); c != nil {
		c.Name = u.pod.Name + "-extended-resources"
		open = append(open, c)
	}
	c := dra.Cluster{Claims: d.claims.list, Classes: d.base.DeviceClasses, Published: d.published(), Selectors: d.base.Selectors}
	var allocated []*resourcev1.ResourceClaim
	if reason == nil {
		allocated, reason = c.Allocate(s.node, open)
	}
	if reason != nil {
		d.laws.violate("pod %s is bound to node %s, which has no devices for it: %+v", kube.PodID(u.pod), s.node.Name, *reason)
		return
	}
	for _, c := range allocated {
		d.claims.put(claimKey(c), c)
	}
	reserved := resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: u.pod.Name, UID: u.pod.UID}
	for _, key := range d.claimsOf(u) {
		c, _ := d.claims.get(key)
		c = c.DeepCopy()
		c.Status.ReservedFor = append(c.Status.ReservedFor, reserved)
		d.claims.put(key, c)
	}
}

// claimsOf returns the keys of the pod's ResourceClaims.
func (d *devices) claimsOf(u *unit) (keys []string) {
	add := func(name string) {
		key := u.pod.Namespace + "/" + name
		if _, found := d.claims.get(key); found && !slices.Contains(keys, key) {
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

// drop frees the devices of a pod that is gone: it deletes the claims made for the pod, and removes the pod from shared claims.
func (d *devices) drop(u *unit) {
	if !d.acts() {
		return
	}
	for _, key := range d.claimsOf(u) {
		c, _ := d.claims.get(key)
		byName := func(r corev1.PodResourceClaim) bool {
			return r.ResourceClaimName != nil && *r.ResourceClaimName == c.Name
		}
		if !slices.ContainsFunc(u.pod.Spec.ResourceClaims, byName) {
			d.claims.remove(key)
			continue
		}
		c = c.DeepCopy()
		c.Status.ReservedFor = slices.DeleteFunc(c.Status.ReservedFor, func(r resourcev1.ResourceClaimConsumerReference) bool { return r.UID == u.pod.UID })
		if len(c.Status.ReservedFor) == 0 {
			c.Status.Allocation = nil
		}
		d.claims.put(key, c)
	}
}

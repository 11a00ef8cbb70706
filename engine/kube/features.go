package kube

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"tenon.sh/engine"
)

// DeviceResources knows the extended resources that no machine has by itself: a DeviceClass stands behind them, and
// kube-scheduler allocates devices for them.
type DeviceResources struct {
	class map[corev1.ResourceName]*resourcev1.DeviceClass // the one behind the resource
	// unsure are classes by the names that are made of theirs, of which another has the extended resource: whether kube-scheduler knows
	// such a name hangs on which of the two it heard of first.
	unsure map[corev1.ResourceName]*resourcev1.DeviceClass
}

// NewDeviceResources leaves out what a node lists as ordinary capacity, or an instance type of which nobody knows devices to claim: there it
// is counted like any other resource.
func NewDeviceResources(s *engine.Snapshot) *DeviceResources {
	d := &DeviceResources{class: map[corev1.ResourceName]*resourcev1.DeviceClass{}, unsure: map[corev1.ResourceName]*resourcev1.DeviceClass{}}
	for _, c := range s.DeviceClasses {
		d.add(c, corev1.ResourceName(resourcev1.ResourceDeviceClassPrefix+c.Name))
		if c.Spec.ExtendedResourceName != nil {
			d.add(c, corev1.ResourceName(*c.Spec.ExtendedResourceName))
		}
	}
	if len(d.class) == 0 {
		return d
	}
	for _, c := range s.DeviceClasses {
		if name := c.Spec.ExtendedResourceName; name != nil && d.class[corev1.ResourceName(*name)].Name != c.Name {
			d.unsure[corev1.ResourceName(resourcev1.ResourceDeviceClassPrefix+c.Name)] = c
		}
	}
	for made := range d.unsure {
		delete(d.class, made)
	}
	for _, n := range s.Nodes {
		d.remove(n.Status.Allocatable)
	}
	for i := range s.Classes {
		for j := range s.Classes[i].InstanceTypes {
			if t := &s.Classes[i].InstanceTypes[j]; len(t.Claimable) == 0 {
				d.remove(t.Capacity)
			}
		}
	}
	return d
}

// add keeps of several classes the one that was created last, and of those created in the same second the first by name, as
// kube-scheduler does.
func (d *DeviceResources) add(class *resourcev1.DeviceClass, name corev1.ResourceName) {
	other := d.class[name]
	if other == nil || cmp.Or(class.CreationTimestamp.Compare(other.CreationTimestamp.Time), cmp.Compare(other.Name, class.Name)) > 0 {
		d.class[name] = class
	}
}

// ClassOf is the DeviceClass behind the resource, nil for one that is like any other.
func (d *DeviceResources) ClassOf(name corev1.ResourceName) *resourcev1.DeviceClass {
	if d == nil {
		return nil
	}
	return d.class[name]
}

// TakeFrom takes what stands for devices out of the requests, and returns it; nil for nothing.
func (d *DeviceResources) TakeFrom(requests corev1.ResourceList) (out corev1.ResourceList) {
	for name, q := range requests {
		if d.ClassOf(name) != nil && q.Sign() > 0 {
			out = WithMissing(out, corev1.ResourceList{name: q})
			delete(requests, name)
		}
	}
	return out
}

// Any reports whether there are such resources.
func (d *DeviceResources) Any() bool { return d != nil && len(d.class) > 0 }

// SameNames reports whether the others are the same resources, whatever their classes.
func (d *DeviceResources) SameNames(others *DeviceResources) bool {
	if !d.Any() || !others.Any() {
		return d.Any() == others.Any()
	}
	return maps.EqualFunc(d.class, others.class, func(_, _ *resourcev1.DeviceClass) bool { return true })
}

func (d *DeviceResources) remove(ordinary corev1.ResourceList) {
	for name, q := range ordinary {
		if q.Sign() > 0 {
			delete(d.class, name)
		}
	}
}

// ProblemOf says why a pod with these requests cannot be planned for: it asks for devices under the name of a resource, and either nobody
// acts on claims or it is not sure that kube-scheduler does.
func (d *DeviceResources) ProblemOf(requests corev1.ResourceList, acts bool) engine.Reason {
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		q := requests[name]
		switch {
		case q.Sign() <= 0:
		case d.unsure[name] != nil:
			return notSupported("dynamic resource allocation: " + string(name) + " stands for devices of DeviceClass " + d.unsure[name].Name +
				" only as long as kube-scheduler knows no later class with its extendedResourceName " + *d.unsure[name].Spec.ExtendedResourceName)
		case d.class[name] != nil && !acts:
			return notSupported("dynamic resource allocation: " + string(name) + " stands for devices of DeviceClass " + d.class[name].Name)
		}
	}
	return engine.Reason{}
}

// UnsupportedOf says what the pod uses that takes more than looking at one pod and one node: devices that are claimed.
func UnsupportedOf(spec *corev1.PodSpec) engine.Reason {
	if len(spec.ResourceClaims) > 0 {
		names := make([]string, 0, len(spec.ResourceClaims))
		for i := range spec.ResourceClaims {
			names = append(names, spec.ResourceClaims[i].Name)
		}
		return notSupported("dynamic resource allocation: resource claims " + strings.Join(names, ", "))
	}
	return engine.Reason{}
}

// Features that nodes declare in their status and that kube-scheduler asks of a node for some pods.
const (
	restartAllFeature = "RestartAllContainersOnContainerExits"
	hostUsersFeature  = "UserNamespacesHostNetworkSupport"
)

// DeclaredFeatures lists every feature that RequiredFeatures may name: what a new node is taken to declare.
func DeclaredFeatures() []string { return []string{restartAllFeature, hostUsersFeature} }

// RequiredFeatures lists, by name, what a node must declare for the pod to run there.
func RequiredFeatures(spec *corev1.PodSpec) []string {
	var out []string
	if restartsAll(spec.Containers) || restartsAll(spec.InitContainers) {
		out = append(out, restartAllFeature)
	}
	if spec.HostNetwork && spec.HostUsers != nil && !*spec.HostUsers {
		out = append(out, hostUsersFeature)
	}
	return out
}

func restartsAll(containers []corev1.Container) bool {
	for i := range containers {
		for _, rule := range containers[i].RestartPolicyRules {
			if rule.Action == corev1.ContainerRestartRuleActionRestartAllContainers {
				return true
			}
		}
	}
	return false
}

func notSupported(what string) engine.Reason {
	return engine.Reason{Code: engine.FeatureNotSupported, Key: what}
}

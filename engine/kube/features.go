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

// DeviceResources holds the extended resources for which kube-scheduler allocates devices of a DeviceClass.
type DeviceResources struct {
	class map[corev1.ResourceName]*resourcev1.DeviceClass // the class of each resource
	// unsure are classes by the resource name made from the class's name, if a newer class has the class's own extendedResourceName:
	// kube-scheduler knows the made name only if it saw this class first.
	unsure map[corev1.ResourceName]*resourcev1.DeviceClass
}

// NewDeviceResources returns the snapshot's DeviceResources. It leaves out resources that a node lists as ordinary capacity, or an instance type
// without known devices: there they are requested like any other resource.
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

// add keeps the newest of several classes. Of equally old ones it keeps the first by name, like kube-scheduler.
func (d *DeviceResources) add(class *resourcev1.DeviceClass, name corev1.ResourceName) {
	other := d.class[name]
	if other == nil || cmp.Or(class.CreationTimestamp.Compare(other.CreationTimestamp.Time), cmp.Compare(other.Name, class.Name)) > 0 {
		d.class[name] = class
	}
}

// ClassOf returns the DeviceClass of the resource. It returns nil for an ordinary resource.
func (d *DeviceResources) ClassOf(name corev1.ResourceName) *resourcev1.DeviceClass {
	if d == nil {
		return nil
	}
	return d.class[name]
}

// TakeFrom removes the resources of devices from the requests and returns these resources, nil for none.
func (d *DeviceResources) TakeFrom(requests corev1.ResourceList) (out corev1.ResourceList) {
	for name, q := range requests {
		if d.ClassOf(name) != nil && q.Sign() > 0 {
			out = WithMissing(out, corev1.ResourceList{name: q})
			delete(requests, name)
		}
	}
	return out
}

// Any reports whether d has any resources.
func (d *DeviceResources) Any() bool { return d != nil && len(d.class) > 0 }

// SameNames reports whether d and others have the same names of resources. The classes of these resources may differ.
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

// ProblemOf returns the reason why a pod with these requests cannot be planned: it requests devices by a resource name, and either the planner
// does not act on claims or kube-scheduler may not know the name.
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

// UnsupportedOf returns the reason that the pod uses ResourceClaims, which need more than a look at one pod and one node.
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

// Features that nodes declare in their status and that kube-scheduler requires for some pods.
const (
	restartAllFeature = "RestartAllContainersOnContainerExits"
	hostUsersFeature  = "UserNamespacesHostNetworkSupport"
)

// DeclaredFeatures lists every feature that RequiredFeatures may return: a new node is assumed to declare them.
func DeclaredFeatures() []string { return []string{restartAllFeature, hostUsersFeature} }

// RequiredFeatures lists, by name, the features that a node must declare to run the pod.
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

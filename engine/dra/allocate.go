package dra

import (
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"tenon.sh/engine/device"
	"tenon.sh/engine/kube"
)

// A Cluster is the data of a cluster for allocations.
type Cluster struct {
	Claims    []*resourcev1.ResourceClaim
	Classes   []*resourcev1.DeviceClass
	Published *Published
	Selectors func(expressions []string, shape *device.Shape) []device.Answer
}

// Allocate allocates devices to the claims of a pod, as kube-scheduler does when it binds the pod to the node, and returns the claims with their
// devices. It fails if the node does not have these devices.
func (c *Cluster) Allocate(node *corev1.Node, open []*resourcev1.ResourceClaim) ([]*resourcev1.ResourceClaim, *device.Reason) {
	m := NewModel()
	pools, classes := c.Published.Pools(m, node.Name, node.Labels), Classes(c.Classes)
	asked := make([]device.Claim, len(open))
	for i, claim := range open {
		var reason *device.Reason
		if asked[i], reason = m.Claim(claim, classes); reason != nil {
			return nil, reason
		}
	}
	picks, reason := device.Allocate(m.Facts(c.Selectors), pools, Allocated(c.Claims, nil), asked, 0)
	if reason != nil {
		return nil, reason
	}
	out := make([]*resourcev1.ResourceClaim, len(open))
	for i, claim := range open {
		out[i] = claim.DeepCopy()
		out[i].Status.Allocation = allocation(node.Name, picks[i])
	}
	return out, nil
}

// allocation returns the allocation of devices that only the node reaches.
func allocation(node string, picks []device.Pick) *resourcev1.AllocationResult {
	out := &resourcev1.AllocationResult{NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
		{MatchFields: []corev1.NodeSelectorRequirement{{Key: kube.NodeNameKey, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}}}}}}
	for i, p := range picks {
		r := resourcev1.DeviceRequestAllocationResult{Request: p.Request, Driver: p.Driver, Pool: p.Pool, Device: p.Device}
		if p.Admin {
			r.AdminAccess = new(true)
		}
		if p.Shared {
			r.ShareID = new(types.UID("share-" + strconv.Itoa(i)))
			r.ConsumedCapacity = map[resourcev1.QualifiedName]resource.Quantity{}
			for _, name := range slices.Sorted(maps.Keys(p.Consumed)) {
				r.ConsumedCapacity[resourcev1.QualifiedName(name)] = *resource.NewMilliQuantity(p.Consumed[name], resource.BinarySI)
			}
		}
		out.Devices.Results = append(out.Devices.Results, r)
	}
	return out
}

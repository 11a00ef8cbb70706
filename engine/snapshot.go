package engine

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"tenon.sh/api/autoscalingv1"
	"tenon.sh/api/autoscalingv1beta1"
	"tenon.sh/api/schedulingv1alpha3"
	v1 "tenon.sh/api/v1"
	"tenon.sh/api/v1alpha1"
	"tenon.sh/engine/device"
)

// Snapshot is the cluster at one instant. The engine never changes a snapshot or its objects, so callers may share the objects. The order of the
// lists does not matter.
type Snapshot struct {
	// Now is the instant that the snapshot shows. The engine uses no other clock.
	Now time.Time

	Pods                 []*corev1.Pod
	Nodes                []*corev1.Node
	DaemonSets           []*appsv1.DaemonSet
	PodDisruptionBudgets []*policyv1.PodDisruptionBudget
	LimitRanges          []*corev1.LimitRange
	RuntimeClasses       []*nodev1.RuntimeClass
	NodePools            []*v1.NodePool
	NodeClaims           []*v1.NodeClaim

	// The objects that decide on which nodes volumes can be used: the claims and their volumes, the classes, the attach limits of nodes, the free
	// capacity of drivers, and the attachments.
	PersistentVolumes      []*corev1.PersistentVolume
	PersistentVolumeClaims []*corev1.PersistentVolumeClaim
	StorageClasses         []*storagev1.StorageClass
	CSINodes               []*storagev1.CSINode
	CSIDrivers             []*storagev1.CSIDriver
	CSIStorageCapacities   []*storagev1.CSIStorageCapacity
	VolumeAttachments      []*storagev1.VolumeAttachment

	// Namespaces are read for their labels, because affinity terms select namespaces by labels.
	Namespaces []*corev1.Namespace
	// The owners and Services of pods. Only their selectors matter, because default spread constraints count the pods that they select.
	Services               []*corev1.Service
	ReplicaSets            []*appsv1.ReplicaSet
	StatefulSets           []*appsv1.StatefulSet
	ReplicationControllers []*corev1.ReplicationController

	// DeviceClasses name the extended resources that are backed by devices.
	DeviceClasses []*resourcev1.DeviceClass
	// ResourceClaims request devices, ResourceClaimTemplates hold the requests of claims that will be made for pods, and ResourceSlices list the
	// devices of nodes. All are empty if the engine is to ignore claims.
	ResourceClaims         []*resourcev1.ResourceClaim
	ResourceClaimTemplates []*resourcev1.ResourceClaimTemplate
	ResourceSlices         []*resourcev1.ResourceSlice
	// Selectors evaluates the expressions by which DeviceClasses and ResourceClaims select devices, for one shape of device. The caller provides it,
	// because the engine evaluates no CEL. Its answers never change. It is nil if the engine is to ignore claims.
	Selectors func(expressions []string, shape *device.Shape) []device.Answer `json:"-"`

	// NodeOverlays change prices and resources of instance types. Classes has these changes already.
	NodeOverlays []*v1alpha1.NodeOverlay

	// CapacityBuffers keep room for pods that do not exist yet. PodTemplates, Deployments, ReplicaSets and StatefulSets hold the templates of these
	// pods, and ResourceQuotas limit their number. All are empty if the engine is to ignore buffers.
	CapacityBuffers []*autoscalingv1beta1.CapacityBuffer
	PodTemplates    []*corev1.PodTemplate
	Deployments     []*appsv1.Deployment
	ResourceQuotas  []*corev1.ResourceQuota

	// ProvisioningRequests ask for room for pods that will be created once there is room. PodTemplates hold the templates of these pods. The list is
	// empty if the engine is to ignore requests.
	ProvisioningRequests []*autoscalingv1.ProvisioningRequest

	// PodGroups name the pods that start together.
	PodGroups []*schedulingv1alpha3.PodGroup

	// Classes holds each node class to which a pool refers, as its provider describes it. A class is there again for pools whose instance types
	// NodeOverlays change.
	Classes []Class

	// NodeOverheadPrice is the cost of every node beside its machine, in USD per hour: its root volume, a public address, licences per node. The whole
	// cost of a node is Offering.NodePrice.
	NodeOverheadPrice float64

	// Commitments are on-demand machines that are paid for whether they run or not. All pools share them. Their names differ.
	Commitments []Commitment

	// ScaleUps name the pods for which another autoscaler is starting nodes.
	ScaleUps []ScaleUp

	// EarlierPasses is the state that earlier passes of disruption left for the next pass. It is empty before the first pass. If it is nil, each pass
	// looks at all nodes.
	EarlierPasses *EarlierPasses

	// ExpectedPods holds the pods that the last plan expected on existing nodes, by UID. It is nil if the caller does not keep them.
	ExpectedPods map[string]ExpectedPod

	// Zones holds the time zones that TimeZones names and that exist, by name. The caller loads them, because the engine reads no files.
	Zones map[string]*time.Location `json:"-"`
}

// Class is one node class as its provider describes it.
type Class struct {
	Ref v1.NodeClassReference `json:"ref"`
	// Pools names, in order, the pools for which NodeOverlays have changed InstanceTypes. It is empty for the class as its provider describes it, from
	// which all other pools buy. It follows from the overlays and is not written into files.
	Pools []string `json:"-"`
	// Problem says why no machine can be started with this class now ("not found", or the message of its Ready condition). It is empty if the class is
	// ready.
	Problem string `json:"problem,omitempty"`
	// InstanceTypes lists all types that the class could use, sold out or not.
	InstanceTypes []InstanceType `json:"instanceTypes"`
	// Assumed says that InstanceTypes is a guess from similar classes. If a machine's type is not in the list, that means nothing.
	Assumed bool `json:"assumed,omitempty"`
	// Traits are the properties that the class wants its machines to have. A machine with another property has drifted.
	Traits []Trait `json:"traits,omitempty"`
	// Repairs name the conditions of a Node that mean that its machine is broken. If there are none, nodes are not repaired.
	Repairs []RepairPolicy `json:"repairs,omitempty"`
	// Quotas limit the resources of all machines together, including machines of other classes. Several classes may list the same quota.
	Quotas []Quota `json:"quotas,omitempty"`
	// Tended names, in order, the NodeClaims whose broken machines the cloud's own health checks repair. Tenon does not repair these machines.
	Tended []string `json:"tended,omitempty"`
}

// Trait is a property that a node class wants its machines to have: an image, a subnet, or the fingerprint of the class itself.
type Trait struct {
	// Key is the annotation or label of the NodeClaim that holds the machine's value. ImageTrait means status.imageID. A claim without a value
	// has not drifted.
	Key string `json:"key"`
	// Accepts lists the values that the class would choose from now.
	Accepts []string `json:"accepts"`
	// Types are the instance types of the machines that have the trait, in order. If there are none, all machines have it.
	Types []string `json:"types,omitempty"`
	// Reason is the reason of the condition Drifted on machines that have another value, "ImageDrift" for example.
	Reason string `json:"reason"`
	// Replacing lists the values of machines that the cloud's own controllers are replacing now. Consolidation does not remove these machines.
	Replacing []string `json:"replacing,omitempty"`
	// Observed says that Tenon does not replace drifted machines, because another controller does.
	Observed bool `json:"observed,omitempty"`
}

// ImageTrait is the key of the trait that is a claim's status.imageID.
const ImageTrait = "imageID"

// RepairPolicy is a condition of a Node that means that its machine is broken.
type RepairPolicy struct {
	Condition string `json:"condition"`
	Status    string `json:"status"`
	// Reason is a regular expression that matches anywhere in the condition's reason. If it is empty, the policy is the fallback: it applies to each
	// condition whose type and status some policy names, if no reason matches.
	Reason string `json:"reason,omitempty"`
	// Toleration is how long the condition may last before the machine is replaced.
	Toleration time.Duration `json:"toleration"`
	// Grace limits the drain, and the wait for the replacement before the drain; 0 means no time for either.
	Grace time.Duration `json:"grace,omitempty"`
	// Priority is 0 to 100; a higher number is more urgent.
	Priority int `json:"priority,omitempty"`
}

// InstanceType is a size of machine that a cloud offers.
type InstanceType struct {
	Name string `json:"name"`
	// Labels lists, for each label key, the values that a machine of this type can have. The first value is the default. If the list
	// of a key is empty, no machine of the type has that label. Zone and capacity type are not here, because they belong to the offerings. The label
	// node.kubernetes.io/instance-type is the name of the type and need not be listed.
	Labels map[string][]string `json:"labels,omitempty"`
	// Capacity is the machine's capacity. Overhead is the part that the kubelet, the system and eviction thresholds reserve.
	Capacity corev1.ResourceList `json:"capacity"`
	Overhead corev1.ResourceList `json:"overhead,omitempty"`
	// AttachLimits is the number of volumes that a machine of this type takes, by CSI driver. A driver that is not named has no known limit.
	AttachLimits map[string]int `json:"attachLimits,omitempty"`
	// AttachShared is the number of these places that other devices, network interfaces for example, may take on a running machine, by CSI driver. If a
	// driver reports a limit that is lower by at most this number, such devices explain it. If it reports less, the driver was configured so.
	AttachShared map[string]int `json:"attachShared,omitempty"`
	// Added names, for each resource whose amount in Capacity comes from a NodeOverlay, the overlay.
	Added map[corev1.ResourceName]string `json:"added,omitempty"`
	// Devices says where the accelerators in Capacity come from; it is nil if they are the machine's hardware.
	Devices *DeviceSource `json:"devices,omitempty"`
	// Claimable lists the devices that drivers are expected to publish on a machine of the type, for claims (Dynamic Resource Allocation).
	Claimable []device.Template `json:"claimable,omitempty"`
	// Offerings lists the zones and capacity types in which the type is sold.
	Offerings []Offering `json:"offerings"`
}

// DeviceSource is where an instance type's accelerators come from, as its nodes will show them: shared ones, or slices.
type DeviceSource struct {
	// Source names the source as sentences do: "NodeOverlay shared".
	Source string `json:"source"`
	// Physical is the hardware of a machine, Said the amounts that Source declares.
	Physical corev1.ResourceList `json:"physical,omitempty"`
	Said     corev1.ResourceList `json:"said,omitempty"`
	// Slices says that a device is divided into slices with memory of their own.
	Slices bool `json:"slices,omitempty"`
	// Node names a node that shows other amounts than Source declares; Capacity has the node's amounts. It is empty if there is no such node.
	Node string `json:"node,omitempty"`
	// Problem says why the declaration of Source is impossible. Capacity has the hardware's amounts then. It is empty if there is no problem.
	Problem string `json:"problem,omitempty"`
}

// Offering is an instance type in a zone with a capacity type, at a price.
type Offering struct {
	Zone         string `json:"zone"`
	CapacityType string `json:"capacityType"`
	// Labels holds further labels of machines of this offering, a reservation's for example.
	Labels map[string]string `json:"labels,omitempty"`
	// Taints are the taints with which nodes of the offering register and which they keep. Only pools with the same taints can use the offering.
	Taints []corev1.Taint `json:"taints,omitempty"`
	// Price is in USD per hour.
	Price float64 `json:"price"`
	// PriceUnknown says that the price is not known. Price is a substitute then: it orders the offerings and is in no sum.
	PriceUnknown bool `json:"priceUnknown,omitempty"`
	// Overlay names the NodeOverlay that sets Price, and ListPrice is the cloud's price then. It is empty if no NodeOverlay sets Price.
	Overlay   string  `json:"overlay,omitempty"`
	ListPrice float64 `json:"listPrice,omitempty"`
	// InterruptionLoss is the expected cost of interruptions of a machine, in USD per hour: the rate at which the cloud takes machines of the offering
	// away times the cost of an interruption. It follows from overlays and is not billed.
	InterruptionLoss float64 `json:"interruptionLoss,omitempty"`
	// SoldOut says that the cloud had no capacity at the last launch of the offering.
	SoldOut bool `json:"soldOut,omitempty"`
	// Unpriced says that the unknown price is the only cause of SoldOut.
	Unpriced bool `json:"unpriced,omitempty"`
	// Reservation names the capacity reservation of the offering, empty for none. Slots is the number of machines that still fit into the reservation.
	// Offerings with the same reservation share its slots.
	Reservation string `json:"reservation,omitempty"`
	Slots       int    `json:"slots,omitempty"`
	// Bound is set if Reservation is no capacity reservation but another limited supply. It is the phrase that sentences put before the names of such
	// supplies, "the largest sizes of groups by annotation max-size" for example.
	Bound string `json:"bound,omitempty"`
	// Quotas lists the units that one machine uses of each quota. A quota that no class lists is no limit.
	Quotas []QuotaUse `json:"quotas,omitempty"`
}

// NodePrice returns the cost of a node on a machine of the offering, in USD per hour. It includes the expected cost of interruptions, and the overhead
// of every node (Snapshot.NodeOverheadPrice).
func (o *Offering) NodePrice(overhead float64) float64 {
	return o.Price + o.InterruptionLoss + overhead
}

// KnownPrice returns Price, or 0 if the price is not known.
func (o *Offering) KnownPrice() float64 {
	if o.PriceUnknown {
		return 0
	}
	return o.Price
}

// mostNodeOverheadPrice is more than anybody pays for a node beside its machine, in USD per hour.
const mostNodeOverheadPrice = 1000

// CheckNodeOverheadPrice returns an error if the price cannot be the cost of a node beside its machine.
func CheckNodeOverheadPrice(usd float64) error {
	if usd >= 0 && usd <= mostNodeOverheadPrice {
		return nil
	}
	return fmt.Errorf("it must be USD per hour and node, from 0 to %d", mostNodeOverheadPrice)
}

// Quota is a cloud's limit on the machines of certain kinds together: the number of vCPUs of a family in a region, for example. Its name is unique.
type Quota struct {
	Name string `json:"name"`
	// Left is the number of unused units of Limit. It is below zero if more units are used than Limit.
	Left  int64 `json:"left"`
	Limit int64 `json:"limit"`
	// Unit, Scope and More are words for sentences: the unit ("vCPUs"), the place where the quota holds ("westeurope"), and the way to raise it. Each may
	// be empty.
	Unit  string `json:"unit,omitempty"`
	Scope string `json:"scope,omitempty"`
	More  string `json:"more,omitempty"`
	// Read is the time at which the cloud was asked for Left. Left does not count machines that were launched later. If Read is zero, Left counts all
	// launched machines.
	Read time.Time `json:"read,omitzero"`
}

// QuotaUse is the number of units that one machine uses of the quota with that name.
type QuotaUse struct {
	Quota string `json:"quota"`
	Units int64  `json:"units"`
}

// ListedClasses returns the classes as their providers describe them, without the changes of NodeOverlays.
func (s *Snapshot) ListedClasses() []Class {
	return slices.DeleteFunc(slices.Clone(s.Classes), func(c Class) bool { return len(c.Pools) > 0 })
}

// OfferingID names one offering of one instance type.
type OfferingID struct {
	InstanceType string `json:"instanceType"`
	Zone         string `json:"zone"`
	CapacityType string `json:"capacityType"`
	// Reservation names the capacity reservation, empty for none.
	Reservation string `json:"reservation,omitempty"`
}

func (id OfferingID) String() string {
	text := id.InstanceType + "/" + id.Zone + "/" + id.CapacityType
	if id.Reservation != "" {
		text += "/" + id.Reservation
	}
	return text
}

// Find returns the type's offering with that ID, or nil if there is none.
func (t *InstanceType) Find(id OfferingID) *Offering {
	for i := range t.Offerings {
		if o := &t.Offerings[i]; o.Zone == id.Zone && o.CapacityType == id.CapacityType && o.Reservation == id.Reservation {
			return o
		}
	}
	return nil
}

// MachineID is a cloud's name for one machine: the provider ID that its Node carries in spec.providerID.
type MachineID string

// Machine is the instance that a cloud runs and bills for one NodeClaim.
type Machine struct {
	ID MachineID
	// Claim is the name of the NodeClaim for which the machine was started, and ClaimUID is its UID. Both are empty if the cloud does not know the
	// claim.
	Claim    string
	ClaimUID string
	// Labels are the labels that follow from the chosen offering: instance type, zone, capacity type, architecture and so on.
	Labels      map[string]string
	Annotations map[string]string
	ImageID     string
	// Capacity and Allocatable are the amounts that the cloud expects the Node to report.
	Capacity    corev1.ResourceList
	Allocatable corev1.ResourceList
	Created     time.Time
	// Leaving is true once the machine has been told to stop. The cloud may list and bill it for a while after that.
	Leaving bool
}

// Allocatable returns the resources of a machine of this type that pods can use: the capacity less the overhead and, for memory, less the huge pages.
// No amount is below zero.
func (t *InstanceType) Allocatable() corev1.ResourceList {
	out := corev1.ResourceList{}
	for name, q := range t.Capacity {
		q = q.DeepCopy()
		if kept, ok := t.Overhead[name]; ok {
			q.Sub(kept)
		}
		out[name] = q
	}
	if memory, ok := out[corev1.ResourceMemory]; ok {
		for name, q := range t.Capacity {
			if strings.HasPrefix(string(name), "hugepages-") {
				memory.Sub(q)
			}
		}
		out[corev1.ResourceMemory] = memory
	}
	for name, q := range out {
		if q.Sign() < 0 {
			out[name] = resource.Quantity{Format: q.Format}
		}
	}
	return out
}

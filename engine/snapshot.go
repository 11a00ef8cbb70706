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

// Snapshot is the cluster at one instant. It never changes: the engine reads it, and whoever made it may share the
// objects in it with others. The order of its lists never matters.
type Snapshot struct {
	// Now is the instant that the snapshot shows; the engine knows no other clock.
	Now time.Time

	Pods                 []*corev1.Pod
	Nodes                []*corev1.Node
	DaemonSets           []*appsv1.DaemonSet
	PodDisruptionBudgets []*policyv1.PodDisruptionBudget
	LimitRanges          []*corev1.LimitRange
	RuntimeClasses       []*nodev1.RuntimeClass
	NodePools            []*v1.NodePool
	NodeClaims           []*v1.NodeClaim

	// What volumes need of a node: claims, the volumes behind them, what classes allow, how many a node takes, how much drivers have
	// left where, and which are attached or attaching now.
	PersistentVolumes      []*corev1.PersistentVolume
	PersistentVolumeClaims []*corev1.PersistentVolumeClaim
	StorageClasses         []*storagev1.StorageClass
	CSINodes               []*storagev1.CSINode
	CSIDrivers             []*storagev1.CSIDriver
	CSIStorageCapacities   []*storagev1.CSIStorageCapacity
	VolumeAttachments      []*storagev1.VolumeAttachment

	// Namespaces are there for their labels: affinity terms select namespaces by them.
	Namespaces []*corev1.Namespace
	// Who owns or serves pods says what default spread constraints count: only selectors matter.
	Services               []*corev1.Service
	ReplicaSets            []*appsv1.ReplicaSet
	StatefulSets           []*appsv1.StatefulSet
	ReplicationControllers []*corev1.ReplicationController

	// DeviceClasses say which extended resources stand for devices.
	DeviceClasses []*resourcev1.DeviceClass
	// ResourceClaims ask for devices, ResourceClaimTemplates say what the claims of pods to come will ask for, ResourceSlices say which
	// devices there are. All are empty where claims are not acted on.
	ResourceClaims         []*resourcev1.ResourceClaim
	ResourceClaimTemplates []*resourcev1.ResourceClaimTemplate
	ResourceSlices         []*resourcev1.ResourceSlice
	// Selectors says what each of the expressions, by which DeviceClasses and ResourceClaims select devices, says of a shape; nil where
	// claims are not acted on. It is handed in: the engine knows no language of expressions. Its answers never change.
	Selectors func(expressions []string, shape *device.Shape) []device.Answer `json:"-"`

	// NodeOverlays correct what is known of instance types. What has come of them is in Classes already.
	NodeOverlays []*v1alpha1.NodeOverlay

	// CapacityBuffers keep room for pods that do not exist yet. PodTemplates and Deployments, beside ReplicaSets and StatefulSets, say of
	// what shape, ResourceQuotas how many of them could be made at most. All are empty where buffers are not acted on.
	CapacityBuffers []*autoscalingv1beta1.CapacityBuffer
	PodTemplates    []*corev1.PodTemplate
	Deployments     []*appsv1.Deployment
	ResourceQuotas  []*corev1.ResourceQuota

	// ProvisioningRequests ask for room for pods that will be made once there is; PodTemplates say of what shape. Empty where they are
	// not acted on.
	ProvisioningRequests []*autoscalingv1.ProvisioningRequest

	// PodGroups say which pods start together.
	PodGroups []*schedulingv1alpha3.PodGroup

	// Classes holds, for every node class that a pool refers to, what its provider says of it, and once more for pools whose instance
	// types NodeOverlays correct.
	Classes []Class

	// NodeOverheadPrice is what every node costs beside its machine, in USD per hour: its root volume, a public address, licences that
	// are paid by the node. What a node costs is the offering's NodePrice.
	NodeOverheadPrice float64

	// Commitments are machines on demand that are paid for whether they run or not, shared by all pools. Their names differ.
	Commitments []Commitment

	// ScaleUps say for which pods another autoscaler is starting nodes.
	ScaleUps []ScaleUp

	// EarlierPasses is what passes of disruption have left for the next one, empty before the first; nil makes each pass look at
	// everything.
	EarlierPasses *EarlierPasses

	// ExpectedPods are the pods that the last plan expected on existing nodes, by UID. It is nil if the caller does not keep them.
	ExpectedPods map[string]ExpectedPod

	// Zones are the time zones of TimeZones, by name, as far as there are such. They are loaded outside: the engine reads no
	// files.
	Zones map[string]*time.Location `json:"-"`
}

// Class is one node class as its provider sees it.
type Class struct {
	Ref v1.NodeClassReference `json:"ref"`
	// Pools names, in order, the pools for which NodeOverlays have corrected InstanceTypes; none for the class as its provider sees it,
	// which all other pools buy from. It follows from the overlays and is not written into files.
	Pools []string `json:"-"`
	// Problem says why no machine can be started with this class now ("not found", the message of its Ready
	// condition); empty means it is ready.
	Problem string `json:"problem,omitempty"`
	// InstanceTypes lists everything that the class could ever use, sold out or not.
	InstanceTypes []InstanceType `json:"instanceTypes"`
	// Assumed says that InstanceTypes are those that such classes usually have: that a machine's type is not among them means
	// nothing.
	Assumed bool `json:"assumed,omitempty"`
	// Traits are what the class wants its machines to be. One that is not has drifted.
	Traits []Trait `json:"traits,omitempty"`
	// Repairs say which conditions of a Node mean that its machine is broken; none means that nodes are not repaired.
	Repairs []RepairPolicy `json:"repairs,omitempty"`
	// Quotas bound what the cloud lets all machines take together, those of other classes too: several classes may list the same one.
	Quotas []Quota `json:"quotas,omitempty"`
	// Tended names NodeClaims, in order, whose broken machines are for the cloud's own health checks: they are not repaired beside.
	Tended []string `json:"tended,omitempty"`
}

// Trait is something that a node class wants its machines to be: their image, their subnet, the fingerprint of the class
// itself.
type Trait struct {
	// Key is the annotation or label of the NodeClaim that says what the machine is; ImageTrait is its status.imageID. A claim
	// that does not say it has not drifted.
	Key string `json:"key"`
	// Accepts lists the values that the class would choose from now.
	Accepts []string `json:"accepts"`
	// Types are the instance types of the machines that the trait is about, in order; none means all.
	Types []string `json:"types,omitempty"`
	// Reason is the reason of the condition Drifted on machines that have another value, "ImageDrift" for example.
	Reason string `json:"reason"`
	// Replacing lists the values of machines that the cloud's own controllers are replacing now: none of them goes to save money.
	Replacing []string `json:"replacing,omitempty"`
	// Observed says that it is not acted on: somebody else replaces these machines.
	Observed bool `json:"observed,omitempty"`
}

// ImageTrait is the key of the trait that is a claim's status.imageID.
const ImageTrait = "imageID"

// RepairPolicy is a condition of a Node that means that its machine is broken.
type RepairPolicy struct {
	Condition string `json:"condition"`
	Status    string `json:"status"`
	// Reason is a regular expression for the condition's reason, to be found anywhere in it; empty makes the policy the one
	// for all conditions of this type and status that no other policy is about.
	Reason string `json:"reason,omitempty"`
	// Toleration is how long the condition may last before the machine is replaced.
	Toleration time.Duration `json:"toleration"`
	// Grace is how long the drain may take, and what replaces the machine may be waited for before it; 0 means not at all.
	Grace time.Duration `json:"grace,omitempty"`
	// Priority is 0 to 100, the most urgent last.
	Priority int `json:"priority,omitempty"`
}

// InstanceType is a size of machine that a cloud offers.
type InstanceType struct {
	Name string `json:"name"`
	// Labels lists, for each label key, the values that a machine of this type can carry, the one to take where nothing
	// asks for another first. A key without values is one that no such machine carries. Zone and capacity type are not here: they belong to the offerings. The name of
	// the type is the value of node.kubernetes.io/instance-type and need not be listed.
	Labels map[string][]string `json:"labels,omitempty"`
	// Capacity is what the machine has, Overhead what the kubelet, the system and eviction thresholds keep back.
	Capacity corev1.ResourceList `json:"capacity"`
	Overhead corev1.ResourceList `json:"overhead,omitempty"`
	// AttachLimits says, by CSI driver, how many volumes a machine of this type takes; a driver that is not named has no
	// known limit.
	AttachLimits map[string]int `json:"attachLimits,omitempty"`
	// AttachShared says, by CSI driver, how many of these places other things may take on a running machine: network interfaces,
	// for example. A driver that reports so many less was not told to.
	AttachShared map[string]int `json:"attachShared,omitempty"`
	// Added names, for each resource whose amount in Capacity comes from a NodeOverlay, the overlay.
	Added map[corev1.ResourceName]string `json:"added,omitempty"`
	// Devices says where the accelerators in Capacity come from; nil if they are those that the machine has in hardware.
	Devices *DeviceSource `json:"devices,omitempty"`
	// Claimable lists the devices that drivers are expected to publish on a machine of the type, for claims (Dynamic Resource Allocation).
	Claimable []device.Template `json:"claimable,omitempty"`
	// Offerings lists where and how the type is sold.
	Offerings []Offering `json:"offerings"`
}

// DeviceSource is where an instance type's accelerators come from, as its nodes will show them: shared ones, or slices.
type DeviceSource struct {
	// Source is who says so, as sentences name it: "NodeOverlay shared".
	Source string `json:"source"`
	// Physical is what a machine has in hardware, Said what Source says.
	Physical corev1.ResourceList `json:"physical,omitempty"`
	Said     corev1.ResourceList `json:"said,omitempty"`
	// Slices says that the parts of a device are slices of their own, with memory of their own.
	Slices bool `json:"slices,omitempty"`
	// Node shows something else than Source says, and Capacity follows it; empty if none does.
	Node string `json:"node,omitempty"`
	// Problem says that Source asks for what cannot be, and why: Capacity is what the machine has in hardware; empty for none.
	Problem string `json:"problem,omitempty"`
}

// Offering is an instance type in a zone with a capacity type, at a price.
type Offering struct {
	Zone         string `json:"zone"`
	CapacityType string `json:"capacityType"`
	// Labels holds further labels that machines of this offering carry, a reservation's for example.
	Labels map[string]string `json:"labels,omitempty"`
	// Taints are those that nodes of it register with and keep: only pools that have them too can use the offering.
	Taints []corev1.Taint `json:"taints,omitempty"`
	// Price is in USD per hour.
	Price float64 `json:"price"`
	// PriceUnknown says that Price stands in for one that nobody knows: it says what else is bought first, and is in no sum.
	PriceUnknown bool `json:"priceUnknown,omitempty"`
	// Overlay names the NodeOverlay that Price comes from, empty for none; ListPrice is then what the cloud's list says.
	Overlay   string  `json:"overlay,omitempty"`
	ListPrice float64 `json:"listPrice,omitempty"`
	// InterruptionLoss is what interruptions of a machine of it are expected to cost, in USD per hour: how often the cloud takes such
	// machines away times what that costs. It follows from overlays, and is billed by nobody.
	InterruptionLoss float64 `json:"interruptionLoss,omitempty"`
	// SoldOut marks an offering that had no capacity when it was last asked for.
	SoldOut bool `json:"soldOut,omitempty"`
	// Unpriced says that SoldOut has no other cause than that nobody knows the price.
	Unpriced bool `json:"unpriced,omitempty"`
	// Reservation names the capacity reservation that the offering draws from, empty for none. Slots says how many more
	// machines it holds; offerings with the same reservation share them.
	Reservation string `json:"reservation,omitempty"`
	Slots       int    `json:"slots,omitempty"`
	// Bound says what Reservation is if it is no capacity reservation but another supply with an end: what a sentence calls such
	// supplies, before their names; "the largest sizes of groups by annotation max-size" for example.
	Bound string `json:"bound,omitempty"`
	// Quotas lists what one machine takes of quotas, of each once. One that no class has an amount of is no bound.
	Quotas []QuotaUse `json:"quotas,omitempty"`
}

// NodePrice is what a node on a machine of the offering costs, in USD per hour, with what its interruptions are expected to cost and what
// every node costs beside; see Snapshot.NodeOverheadPrice.
func (o *Offering) NodePrice(overhead float64) float64 {
	return o.Price + o.InterruptionLoss + overhead
}

// KnownPrice is Price, 0 where nobody knows it.
func (o *Offering) KnownPrice() float64 {
	if o.PriceUnknown {
		return 0
	}
	return o.Price
}

// mostNodeOverheadPrice is beyond what anybody pays for a node beside its machine, in USD per hour.
const mostNodeOverheadPrice = 1000

// CheckNodeOverheadPrice says what is wrong with a price that every node is to cost beside its machine; nil if nothing is.
func CheckNodeOverheadPrice(usd float64) error {
	if usd >= 0 && usd <= mostNodeOverheadPrice {
		return nil
	}
	return fmt.Errorf("it must be USD per hour and node, from 0 to %d", mostNodeOverheadPrice)
}

// Quota is a bound that a cloud sets to machines of certain kinds together: how many vCPUs of a family there may be in a region, for
// example. Its name tells it from all others.
type Quota struct {
	Name string `json:"name"`
	// Left is how many units are left of Limit; below zero where more are used than there may be.
	Left  int64 `json:"left"`
	Limit int64 `json:"limit"`
	// Unit, Scope and More are words for sentences: what is counted, "vCPUs", where the quota holds, "westeurope", and how to have more
	// of it. Each may be empty.
	Unit  string `json:"unit,omitempty"`
	Scope string `json:"scope,omitempty"`
	More  string `json:"more,omitempty"`
	// Read is when the cloud was asked for Left: machines that were launched since then are not counted in it. Zero means that all are
	// counted that have been launched.
	Read time.Time `json:"read,omitzero"`
}

// QuotaUse is what one machine takes of the quota with that name.
type QuotaUse struct {
	Quota string `json:"quota"`
	Units int64  `json:"units"`
}

// ListedClasses are the classes as their providers see them, without what NodeOverlays make of them.
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

// Find is the offering of the type with that name; nil if there is none.
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

// Machine is what a cloud runs and bills for one NodeClaim.
type Machine struct {
	ID MachineID
	// Claim is the name of the NodeClaim that the machine was started for, ClaimUID its UID; empty if the cloud does
	// not know.
	Claim    string
	ClaimUID string
	// Labels are those that the machine's choice settles: instance type, zone, capacity type, architecture and so on.
	Labels      map[string]string
	Annotations map[string]string
	ImageID     string
	// Capacity and Allocatable are what the cloud expects the Node to report.
	Capacity    corev1.ResourceList
	Allocatable corev1.ResourceList
	Created     time.Time
	// Leaving is true once the machine has been told to stop; it may be listed, and billed, for a while after.
	Leaving bool
}

// Allocatable is what pods can use of a machine of this type: its capacity less the overhead, and of memory less the
// huge pages as well, never below zero.
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

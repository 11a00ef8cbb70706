package engine

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"tenon.sh/api/autoscalingv1"
	v1 "tenon.sh/api/v1"
)

// Plan is everything the engine wants done, and everything it refused, with reasons. Its lists are in a fixed order:
// the same snapshot gives the same plan, byte for byte, whatever the order of the objects in it.
//
// Its parts are carried out in this order. A part that fails keeps none of the others from being carried out: the next plan meets it
// again, as it does what a crash cut short.
//
//  1. Backoffs, because a machine that was asked for before a failure was found out counts as part of that failure. Were it found out
//     anew after the launches, new machines that fail as well would not make the wait any longer.
//  2. Launches, each provided that it is still right in the newest snapshot with those before it counted against the limits. Their
//     pods are not nominated here: the claim keeps whom it is for, and lifecycle.Step names its node when that can open.
//  3. Placements, as advice to kube-scheduler. Machines take longer to come than pods to be bound, so they are not kept waiting.
//  4. Disruptions, in any order among themselves, once it has been taken back what earlier plans began and this one does not want.
//     Each has an order of its own.
//  5. Next, a preference that nothing else depends on.
//
// Nothing is to be done about the others; people are told.
type Plan struct {
	Launches    []Launch
	Placements  []Placement
	Unplaced    []Unplaced
	Disruptions []Disruption
	Cost        Cost
	// Kept says of every node that could be looked at for disruption and stays why it stays. Only disruption.Plan fills it.
	Kept []Kept
	// Judgements are the moves that consolidation has looked at. Only disruption.Plan fills it.
	Judgements []Judgement `json:"-"`
	// Commitments says what becomes of each commitment, in order of their names, once the launches run. Only provisioning.Plan fills it.
	Commitments []CommitmentUse `json:",omitempty"`
	// ExpectedPods is Snapshot.ExpectedPods of the next plan. Only provisioning.Plan sets it, and only if its own Snapshot has them.
	ExpectedPods map[string]ExpectedPod `json:"-"`
	// Passes is what to give the next pass, as Snapshot.EarlierPasses. Only disruption.Plan fills it, and only if it was given one.
	Passes *EarlierPasses `json:"-"`
	// Next names some of the nodes that go next, by pods: new pods had better not be put on them. Only disruption.Plan fills it.
	Next []string `json:",omitempty"`
	// Notes says what the engine left out of account: a pool that cannot be used, an object that it cannot read.
	Notes []Note
	// Sequence lists every pod that the plan places, in an order in which kube-scheduler can bind them: each meets its
	// constraints when those before it run and all planned machines are there.
	Sequence []PodID
	// Buffers says of each CapacityBuffer what has become of it, by namespace and name. Only provisioning.Plan fills it.
	Buffers []BufferRoom `json:",omitempty"`
	// ProvisioningRequests says of each ProvisioningRequest what has become of it, in the order in which they are served. Only
	// provisioning.Plan fills it.
	ProvisioningRequests []RequestRoom `json:",omitempty"`
	// Gangs says of each PodGroup whose pods start together what becomes of it, in the order in which they are served. Only
	// provisioning.Plan fills it.
	Gangs []GangRoom `json:",omitempty"`
	// Backoffs says what to write on pools about machines that did not take their pods, in order of the pools' names. Only
	// provisioning.Plan fills it.
	Backoffs []BackoffChange `json:"-"`
	// LearnedDevices says what to write on pools about the devices that their machines publish, in order of the pools' names. Only
	// provisioning.Plan fills it.
	LearnedDevices []LearnedDevices `json:"-"`
}

// PodID names a pod. The UID keeps a pod apart from a later one of the same name.
type PodID struct {
	Namespace string
	Name      string
	UID       types.UID
}

func (p PodID) String() string { return p.Namespace + "/" + p.Name }

// Launch is one machine that the plan wants started: any of the offerings fits all the pods.
type Launch struct {
	// Name is the launch's name within the plan, "general-1"; the NodeClaim that is written for it gets its own.
	Name     string
	NodePool string
	// Price is that of the cheapest listed offering, in USD per hour; 0 where nobody knows it.
	Price float64
	// Commitment names the one that pays for the machine, whichever is started of those that are listed; empty for none. Their prices are
	// then what they cost beside it.
	Commitment string `json:",omitempty"`
	// InstanceTypes lists the instance types that may be started, cheapest first.
	InstanceTypes []string
	// Offerings is the whole product of the launch's types, zones and capacity types, cheapest first.
	Offerings []LaunchOffering
	// Requirements pins the labels that the machine may carry, in the form of a NodeClaim's spec.requirements.
	Requirements []v1.Requirement
	// Labels are the labels that the pods need and that neither the machine nor the pool's template settles.
	Labels map[string]string
	// Requests is what the pods and the DaemonSets ask for.
	Requests corev1.ResourceList
	Pods     []PodID
	// Buffers lists the CapacityBuffers for which the machine has room, beside Pods: a launch may be for them alone.
	Buffers []BufferShare `json:",omitempty"`
	// ProvisioningRequests lists those for which the machine has room, beside Pods and Buffers.
	ProvisioningRequests []BufferShare `json:",omitempty"`
	// Gangs names the PodGroups, with their namespaces, of which some of the pods are that start together or not at all.
	Gangs []string `json:",omitempty"`
	// Instead names the machines, by claim or node, that some of the pods were expected on and cannot run on after all.
	Instead []string `json:",omitempty"`
	Why     Choice
	// MinValuesRelaxed is true where the offerings could not keep the pool's MinValues and the policy allows fewer.
	MinValuesRelaxed bool
	// PriceOverlaid is true where NodeOverlays correct the price of something that is listed, or expect to lose more by interruptions of
	// some of it than of the rest: the cloud does not know that order. Added names, for each resource of a
	// listed type that a NodeOverlay sets, the overlay.
	PriceOverlaid bool                           `json:",omitempty"`
	Added         map[corev1.ResourceName]string `json:",omitempty"`
	// DeviceDrivers lists, in order, those whose devices the pods claim: the node is not ready for pods before each has published them.
	DeviceDrivers []string `json:",omitempty"`
}

// LaunchOffering is one way in which a launch may be met.
type LaunchOffering struct {
	OfferingID
	Price float64 `json:"price"`
}

// Choice explains why a launch names the offering that it names first.
type Choice struct {
	// Considered counts the offerings that were available and could hold the pods.
	Considered int
	// RunnerUp is the cheapest offering of another instance type, the zero value if there is none; it costs
	// PriceDifference USD per hour more.
	RunnerUp        OfferingID
	PriceDifference float64
	// Filled is the largest share of any resource of the chosen type that the pods and DaemonSets ask for, FilledBy
	// that resource.
	Filled   float64
	FilledBy corev1.ResourceName
	// Division says why a launch of spot machines lists less than it could; nil where it lists all.
	Division *Division `json:",omitempty"`
}

// Division is what a launch of spot machines lists, and does not, so that fewer pods of an owner can be lost at once: machines of one loss
// group, a type in a zone, are taken away together.
type Division struct {
	// Owner is the controller that it is about, "ReplicaSet default/web".
	Owner string `json:"owner"`
	// Zones and Types are those that are listed, OtherZones and OtherTypes those that could be as well, cheapest first.
	Zones      []string `json:"zones"`
	OtherZones []string `json:"otherZones,omitempty"`
	Types      []string `json:"types"`
	OtherTypes []string `json:"otherTypes,omitempty"`
	// Dearer is by what share of its price the cheapest offering is dearer for it.
	Dearer float64 `json:"dearer"`
}

// Placement is one pod on one existing node, or on a machine that has been asked for and has no node yet.
type Placement struct {
	Pod PodID
	// Node is the name of the Node; for a machine without one it is the name of its NodeClaim.
	Node string
	// Claim is the name of the node's NodeClaim, empty for a node that Tenon does not manage.
	Claim string
}

// Unplaced is a pod that nothing can run, with the reason for each pool.
type Unplaced struct {
	Pod     PodID
	Reasons []Reason
}

// Disruption is a set of nodes to remove together, with what replaces them and why. OwnersMoved are written down first, because nobody
// could count them afterwards. Then each claim says that it goes, and then its node is closed: a closed node whose claim says nothing
// is opened again. With Replacements, these are asked for next, and replacement.Progress says how it goes on. Without, each node is
// looked at once more for pods that have just come, DrainWithin is written on its claim, and the claim is deleted.
type Disruption struct {
	// Nodes and Claims hold the names of the nodes and of their NodeClaims, in the same order.
	Nodes  []string
	Claims []string
	Reason v1.DisruptionReason
	// Replacements lists the launches that have to be ready before the nodes go.
	Replacements []Launch
	// SavingPerHour is what the bill falls by, in USD per hour.
	SavingPerHour float64
	// Pods lists the pods that have to move. Moves says where there is room for them: on a node, or on a replacement, by the
	// name of its launch. kube-scheduler decides where they really go.
	Pods  []PodID
	Moves []Placement
	// Held lists the protected pods. They stay until the nodes' deadline; HeldUntil is the earliest deadline, zero if no node has one. Machines
	// for the held pods are started shortly before the deadline, and SavingPerHour counts the price of these machines.
	Held      []PodID   `json:",omitempty"`
	HeldUntil time.Time `json:",omitzero"`
	// DrainWithin is how long the drain may take; nil leaves it to the claims.
	DrainWithin *time.Duration `json:",omitempty"`
	// TerminateFirst says why what replaces the nodes has no room until they are gone; empty if nothing replaces them, or
	// Replacements do.
	TerminateFirst TerminateFirstCause `json:",omitempty"`
	// YieldsTo lists the pods for which the nodes make way that only keep room of CapacityBuffers: the limits of their pool leave too
	// little for the machine of these.
	YieldsTo []PodID `json:",omitempty"`
	// NodesLater lists the nodes for whose pods the replacement has room as well, and that go once the budgets allow it. SavingPerHour does
	// not count them.
	NodesLater []string `json:",omitempty"`
	// OwnersMoved is how many pods of each owner consolidation moves, as its limit counts them; RecordMoves writes them down.
	OwnersMoved map[string]int `json:"-"`
}

// TerminateFirstCause is why nodes go before what replaces them is there.
type TerminateFirstCause string

const (
	NoReservedCapacity TerminateFirstCause = "no-reserved-capacity" // the replacement is to have their slot of a reservation
	StaticAtLimit      TerminateFirstCause = "static-at-limit"      // their static pool has as many nodes as its limit allows
)

// Kept is a node that stays, and why.
type Kept struct {
	Node  string
	Claim string
	// NodePool is the node's own; the reason may be about another one.
	NodePool string `json:"-"`
	Reason   Reason
	// Protector is the pod whose annotation keeps the node for a limited time, nil if that is not why it stays.
	Protector *corev1.Pod `json:"-"`
}

// Cost is what a plan costs, in USD per hour.
type Cost struct {
	// LaunchesPerHour adds up the cheapest listed offering of every launch. Unpriced counts those of which nobody knows the price: they
	// are in no sum, and there is no bound then.
	LaunchesPerHour float64
	Unpriced        int `json:",omitempty"`
	// Bound is a lower bound for what any plan must pay to run the pods that this plan launches machines for; 0 where
	// there are none.
	Bound float64
	// Gap is LaunchesPerHour/Bound - 1; it has no meaning where Bound is 0.
	Gap float64
	// Expected is what the machines cost that the planned pods would need if kube-scheduler placed them by its default
	// scores, with the plan's nominations; Unhinted is the same without nominations.
	Expected, Unhinted float64
	// Worst adds up the dearest listed offering of every launch.
	Worst float64
	// Prices says what a unit of each resource is worth here: the dual prices of the bound.
	Prices []ResourcePrice
}

// ResourcePrice is what one unit of a resource is worth, in USD per hour.
type ResourcePrice struct {
	Resource corev1.ResourceName
	// Unit is the amount that PerHour buys: one core, one GiB, one device.
	Unit    string
	PerHour float64
}

// Note is something that the engine left out of account.
type Note struct {
	// Object names what the note is about, "NodePool general".
	Object string
	Reason Reason
}

// An Action is a part of a plan that can be carried out by itself: a Launch, a Placement or a Disruption.
type Action interface{ isAction() }

func (Launch) isAction()     {}
func (Placement) isAction()  {}
func (Disruption) isAction() {}

// Nomination is advice to kube-scheduler: to try this node first for the pod. An empty name takes advice back.
type Nomination struct {
	Pod  *corev1.Pod
	Node string
}

// Judgement is what became of a move that consolidation weighed, for one of the pools that it would take machines from.
type Judgement struct {
	NodePool string
	Policy   v1.ConsolidationPolicy
	// Approved is true for moves that begin.
	Approved bool
	// Nodes and Claims are those that would go, of all pools.
	Nodes, Claims []string
	// Balance is nil for other policies than Balanced, and where something else speaks against the move.
	Balance *Balance
}

// Balance is the score of a move under the policy Balanced: the share of the pool's price that it saves, against the share of
// the pool's disruption that it causes.
type Balance struct{ Score, Saving, Disruption float64 }

// Worst is what the launch costs if the cloud picks the dearest of what it lists.
func (l *Launch) Worst() float64 {
	if len(l.Offerings) == 0 {
		return l.Price
	}
	return l.Offerings[len(l.Offerings)-1].Price
}

// LaunchFinding is a machine that does not take pods that it was started for.
type LaunchFinding struct {
	Claim *v1.NodeClaim
	Pods  []PodID
	Why   string
}

// BackoffChange is what a plan wants written on a pool about machines that did not take their pods; an empty Text removes what is
// there. Found lists those that were found out now.
type BackoffChange struct {
	NodePool string
	Text     string
	Found    []LaunchFinding
}

// LearnedDevices is what a plan wants written on a pool about the devices that drivers publish on its machines.
type LearnedDevices struct {
	NodePool, Text string
}

// BufferShare is room for so many pods of a CapacityBuffer, or of a ProvisioningRequest.
type BufferShare struct {
	Namespace, Name string
	Pods            int
}

// BufferRoom is what has become of a CapacityBuffer in a plan.
type BufferRoom struct {
	Namespace, Name string
	UID             types.UID
	// Size is how many pods room is kept for. Existing of them fit on nodes that are there, Coming on machines that have been, or are
	// now, started; the others have no place, for Reasons.
	Size, Existing, Coming int
	Reasons                []Reason `json:",omitempty"`
	// PerHour is what the room costs in USD per hour: of every machine the share of its price that the pods take of its scarcest
	// resource. Pools are those that the machines belong to, in order.
	PerHour float64
	Pools   []string `json:",omitempty"`
	// Problem says why the buffer keeps no room at all, with the reason of its condition; both are empty if it does.
	ProblemReason, Problem string `json:",omitempty"`
	// Quota is the ResourceQuota that keeps the buffer smaller than its spec says, empty for none.
	Quota string `json:",omitempty"`
	// Limit is the resource of Options.BufferLimits that does; empty for none.
	Limit corev1.ResourceName `json:",omitempty"`
}

// RequestRoom is what has become of a ProvisioningRequest in a plan.
type RequestRoom struct {
	Namespace, Name string
	UID             types.UID
	// Size is how many of its pods have no node yet. Existing of them have room on nodes that are there, Coming on machines that have
	// been, or are now, started; the others have no place, for Reasons. All are 0 where no room is looked for.
	Size, Existing, Coming int
	Reasons                []Reason `json:",omitempty"`
	// Problem says why the request cannot be followed; empty if it can.
	Problem string `json:",omitempty"`
	// Status is what the request is to say; nil if it says so already.
	Status *autoscalingv1.ProvisioningRequestStatus `json:",omitempty"`
	// Answer is what that comes to.
	Answer RequestAnswer
}

// RequestProgress is how far a ProvisioningRequest has come.
type RequestProgress string

// How far ProvisioningRequests come.
const (
	RequestWaits       RequestProgress = "Waiting"     // there is no room for it, or not all that it refers to
	RequestStarts      RequestProgress = "Starting"    // machines with room for all of its pods are there or start
	RequestProvisioned RequestProgress = "Provisioned" // room is held
	RequestConsumed    RequestProgress = "Consumed"    // its pods have nodes
	RequestExpired     RequestProgress = "Expired"     // its room is held no longer, and not all of its pods have come
	RequestFailed      RequestProgress = "Failed"      // room is not looked for any more
)

// RequestAnswer is the answer to a ProvisioningRequest: how far it has come, and the reason and message of the condition that says so, or
// why it has none yet.
type RequestAnswer struct {
	Progress        RequestProgress
	Reason, Message string
	// Advice is what its owner can do, empty where Message says it or there is nothing to do.
	Advice string `json:",omitempty"`
}

// GangProgress is how far a PodGroup whose pods start together has come.
type GangProgress string

// How far gangs come.
const (
	GangTooFew  GangProgress = "TooSmall" // fewer of its pods exist than start together
	GangUntried GangProgress = "Untried"  // kube-scheduler has not said yet that it finds no places
	GangWaits   GangProgress = "Waiting"  // too few of its pods have a place: nothing is started for it
	GangStarts  GangProgress = "Starting" // enough of its pods have a node, or a place on one or on a machine that starts
	GangStarted GangProgress = "Running"  // enough of its pods have a node
)

// GangRoom is what becomes of a PodGroup whose pods start together.
type GangRoom struct {
	Namespace, Name string
	UID             types.UID
	Progress        GangProgress
	// MinCount is how many of its pods start together. Running have a node. Of the others Existing have a place on nodes that are there
	// and Coming on machines that have been, or are now, started; Left have none.
	MinCount, Running, Existing, Coming, Left int
	// Reasons say why not more of its pods have a place.
	Reasons []Reason `json:",omitempty"`
}

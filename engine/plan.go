package engine

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"tenon.sh/api/autoscalingv1"
	v1 "tenon.sh/api/v1"
)

// Plan holds the actions that the engine wants, and the pods and nodes for which it wants none, with reasons. Its lists are in a fixed order: the
// same snapshot gives the same plan, byte for byte, whatever the order of the objects in the snapshot.
//
// A caller carries the parts out in this order. If a part fails, the caller goes on with the other parts, because the next plan repeats the failed
// part. A crash in the middle is repaired in the same way.
//
//  1. Backoffs are written first, because a back-off covers all machines that were started before it. If it were written after the launches,
//     failures of the new machines would not make the wait longer.
//  2. Launches follow. Each launch is checked against the newest snapshot, and the launches before it count against the limits. The pods of a launch
//     are not nominated here: the NodeClaim records its pods, and lifecycle.Step nominates its node when that node opens.
//  3. Placements are advice to kube-scheduler. They follow the launches, because a machine takes longer to boot than a pod takes to be bound.
//  4. Disruptions follow in any order. Before them, the caller takes back the disruptions of earlier plans that this plan does not contain. The
//     steps of one disruption have a fixed order (Disruption).
//  5. Next is a preference on which nothing else depends.
//
// The other parts are reports for people.
type Plan struct {
	Launches    []Launch
	Placements  []Placement
	Unplaced    []Unplaced
	Disruptions []Disruption
	Cost        Cost
	// Kept lists the nodes that were candidates for disruption and stay, each with the reason. Only disruption.Plan fills it.
	Kept []Kept
	// Judgements are the moves that consolidation has weighed. Only disruption.Plan fills it.
	Judgements []Judgement `json:"-"`
	// Commitments lists how much of each commitment is used once the launches run, in order of the commitments' names. Only provisioning.Plan fills
	// it.
	Commitments []CommitmentUse `json:",omitempty"`
	// ExpectedPods is the value for Snapshot.ExpectedPods of the next plan. Only provisioning.Plan sets it, and only if its own Snapshot has
	// ExpectedPods.
	ExpectedPods map[string]ExpectedPod `json:"-"`
	// Passes is the value for Snapshot.EarlierPasses of the next pass. Only disruption.Plan fills it, and only if its own Snapshot has
	// EarlierPasses.
	Passes *EarlierPasses `json:"-"`
	// Next names nodes that are likely to be removed next. New pods should avoid these nodes. Only disruption.Plan fills it.
	Next []string `json:",omitempty"`
	// Notes lists the objects that the engine ignored: a pool that cannot be used, or an object that cannot be read.
	Notes []Note
	// Sequence lists every pod that the plan places, in an order in which kube-scheduler can bind the pods: each pod meets its constraints if the
	// pods before it run and all planned machines are there.
	Sequence []PodID
	// Buffers lists the room that the plan has for each CapacityBuffer, by namespace and name. Only provisioning.Plan fills it.
	Buffers []BufferRoom `json:",omitempty"`
	// ProvisioningRequests lists the room that the plan has for each ProvisioningRequest, in the order in which the requests are served. Only
	// provisioning.Plan fills it.
	ProvisioningRequests []RequestRoom `json:",omitempty"`
	// Gangs lists the state of each PodGroup whose pods start together, in the order in which the groups are served. Only provisioning.Plan fills
	// it.
	Gangs []GangRoom `json:",omitempty"`
	// Backoffs lists the annotations to write on pools whose machines did not take their pods, in order of the pools' names. Only provisioning.Plan
	// fills it.
	Backoffs []BackoffChange `json:"-"`
	// LearnedDevices lists the annotations to write on pools about the devices that their machines publish, in order of the pools' names. Only
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

// Launch is one machine to start. Each of its offerings is large enough for all of its pods.
type Launch struct {
	// Name is the launch's name within the plan, "general-1". The NodeClaim that is created for the launch gets another name.
	Name     string
	NodePool string
	// Price is the price of the cheapest listed offering, in USD per hour; 0 if the price is not known.
	Price float64
	// Commitment names the commitment that pays for the machine, whichever listed offering is started; it is empty if none does. The offerings'
	// prices are then the costs beside the commitment.
	Commitment string `json:",omitempty"`
	// InstanceTypes lists the instance types that may be started, cheapest first.
	InstanceTypes []string
	// Offerings holds every combination of the launch's types, zones and capacity types, cheapest first.
	Offerings []LaunchOffering
	// Requirements restricts the labels of the machine, in the form of a NodeClaim's spec.requirements.
	Requirements []v1.Requirement
	// Labels are the labels that the pods need and that neither the machine nor the pool's template determines.
	Labels map[string]string
	// Requests is the sum of the requests of the pods and the DaemonSets' pods.
	Requests corev1.ResourceList
	Pods     []PodID
	// Buffers lists the CapacityBuffers for which the machine has room beside Pods. A launch may have buffers and no pods.
	Buffers []BufferShare `json:",omitempty"`
	// ProvisioningRequests lists the requests for which the machine has room beside Pods and Buffers.
	ProvisioningRequests []BufferShare `json:",omitempty"`
	// Gangs names the PodGroups of Pods whose pods start together or not at all, with their namespaces.
	Gangs []string `json:",omitempty"`
	// Instead names the machines, by claim or node, on which some of the pods were expected and cannot run.
	Instead []string `json:",omitempty"`
	Why     Choice
	// MinValuesRelaxed is true if the offerings do not reach the pool's MinValues and the policy allows fewer values.
	MinValuesRelaxed bool
	// PriceOverlaid is true if NodeOverlays change the price or the expected loss by interruptions of a listed offering. The order of the offerings
	// then differs from the order of the cloud's prices. Added names, for each resource that a NodeOverlay adds to a listed type, the overlay.
	PriceOverlaid bool                           `json:",omitempty"`
	Added         map[corev1.ResourceName]string `json:",omitempty"`
	// DeviceDrivers lists, in order, the drivers whose devices the pods claim. The node is not ready for pods until each driver has published its
	// devices.
	DeviceDrivers []string `json:",omitempty"`
}

// LaunchOffering is an offering that a launch may start.
type LaunchOffering struct {
	OfferingID
	Price float64 `json:"price"`
}

// Choice explains why a launch names the offering that it names first.
type Choice struct {
	// Considered counts the offerings that were available and could hold the pods.
	Considered int
	// RunnerUp is the cheapest offering of another instance type, or the zero value if there is none. It costs PriceDifference USD per hour more.
	RunnerUp        OfferingID
	PriceDifference float64
	// FilledBy is the resource of which the pods and DaemonSets request the largest share on the chosen type. Filled is that share.
	Filled   float64
	FilledBy corev1.ResourceName
	// Division says why a launch of spot machines lists fewer offerings than it could; it is nil if the launch lists all.
	Division *Division `json:",omitempty"`
}

// Division says which types and zones a launch of spot machines lists and leaves out, so that an owner loses fewer pods at once. The cloud takes
// machines of one loss group (one type in one zone) away together.
type Division struct {
	// Owner is the owner of the pods, "ReplicaSet default/web".
	Owner string `json:"owner"`
	// Zones and Types are listed. OtherZones and OtherTypes could be listed too. All are in order of price, cheapest first.
	Zones      []string `json:"zones"`
	OtherZones []string `json:"otherZones,omitempty"`
	Types      []string `json:"types"`
	OtherTypes []string `json:"otherTypes,omitempty"`
	// Dearer is the share by which the division raises the price of the cheapest offering.
	Dearer float64 `json:"dearer"`
}

// Placement is one pod on one existing node, or on a machine that was started and has no node yet.
type Placement struct {
	Pod PodID
	// Node is the name of the Node; for a machine without one it is the name of its NodeClaim.
	Node string
	// Claim is the name of the node's NodeClaim, empty for a node that Tenon does not manage.
	Claim string
}

// Unplaced is a pod that no node and no new machine can run, with the reason for each pool.
type Unplaced struct {
	Pod     PodID
	Reasons []Reason
}

// Disruption is a set of nodes to remove together, with the machines that replace the nodes and the reason. A caller carries it out in this order.
// OwnersMoved is written first, because the moved pods cannot be counted afterwards. Each claim is marked before its node is tainted, because a
// tainted node whose claim has no mark is opened again. If there are Replacements, they are launched next, and replacement.Progress decides how the
// disruption goes on. If there are none, the pods of each node are read once more, DrainWithin is written on the node's claim, and the claim is
// deleted.
type Disruption struct {
	// Nodes and Claims hold the names of the nodes and of their NodeClaims, in the same order.
	Nodes  []string
	Claims []string
	Reason v1.DisruptionReason
	// Replacements lists the launches that have to be ready before the nodes go.
	Replacements []Launch
	// SavingPerHour is the amount by which the bill falls, in USD per hour.
	SavingPerHour float64
	// Pods lists the pods that have to move. Moves names a node with room for each, or the launch of a replacement. kube-scheduler decides where the
	// pods really go.
	Pods  []PodID
	Moves []Placement
	// Held lists the protected pods. They stay until the nodes' deadline; HeldUntil is the earliest deadline, zero if no node has one. Machines
	// for the held pods are started shortly before the deadline, and SavingPerHour counts the price of these machines.
	Held      []PodID   `json:",omitempty"`
	HeldUntil time.Time `json:",omitzero"`
	// DrainWithin is how long the drain may take; nil leaves it to the claims.
	DrainWithin *time.Duration `json:",omitempty"`
	// TerminateFirst says why the nodes go before their replacements can be started. It is empty if nothing replaces the nodes, or if Replacements
	// do.
	TerminateFirst TerminateFirstCause `json:",omitempty"`
	// YieldsTo lists pods for which the limits of the nodes' pool leave too little. The nodes hold nothing but room of CapacityBuffers, and make way
	// for a machine for these pods.
	YieldsTo []PodID `json:",omitempty"`
	// NodesLater lists nodes that go once the budgets allow it. The replacement has room for their pods too. SavingPerHour does not count these
	// nodes.
	NodesLater []string `json:",omitempty"`
	// OwnersMoved is the number of pods of each owner that consolidation moves, as the limit on moves counts them. budget.RecordMoves writes it.
	OwnersMoved map[string]int `json:"-"`
}

// TerminateFirstCause says why nodes go before their replacements are there.
type TerminateFirstCause string

const (
	NoReservedCapacity TerminateFirstCause = "no-reserved-capacity" // the replacement needs the nodes' slot of a reservation
	StaticAtLimit      TerminateFirstCause = "static-at-limit"      // their static pool has as many nodes as its limit allows
)

// Kept is a node that stays, and why.
type Kept struct {
	Node  string
	Claim string
	// NodePool is the node's pool. The reason may be about another pool.
	NodePool string `json:"-"`
	Reason   Reason
	// Protector is the pod whose annotation protects the node for a limited time, nil if the node stays for another reason.
	Protector *corev1.Pod `json:"-"`
}

// Cost holds the costs of a plan, in USD per hour.
type Cost struct {
	// LaunchesPerHour is the sum of the prices of the cheapest listed offering of each launch. Unpriced counts the launches without a known price.
	// They are in no sum, and there is no bound if there are any.
	LaunchesPerHour float64
	Unpriced        int `json:",omitempty"`
	// Bound is a lower bound for the cost of any plan that runs the pods of this plan's launches; 0 if there are no launches.
	Bound float64
	// Gap is LaunchesPerHour/Bound - 1. It has no meaning if Bound is 0.
	Gap float64
	// Expected is the cost of the machines that the planned pods would need if kube-scheduler placed them by its default scores and the plan's
	// nominations. Unhinted is the same without nominations.
	Expected, Unhinted float64
	// Worst is the sum of the prices of the dearest listed offering of each launch.
	Worst float64
	// Prices holds the value of a unit of each resource: the dual prices of the bound.
	Prices []ResourcePrice
}

// ResourcePrice is the value of one unit of a resource, in USD per hour.
type ResourcePrice struct {
	Resource corev1.ResourceName
	// Unit is the amount that PerHour is for: one core, one GiB or one device.
	Unit    string
	PerHour float64
}

// Note says that the engine ignored an object, and why.
type Note struct {
	// Object names the object, "NodePool general".
	Object string
	Reason Reason
}

// An Action is a part of a plan that can be carried out by itself: a Launch, a Placement or a Disruption.
type Action interface{ isAction() }

func (Launch) isAction()     {}
func (Placement) isAction()  {}
func (Disruption) isAction() {}

// Nomination advises kube-scheduler to try this node first for the pod. An empty name withdraws the advice.
type Nomination struct {
	Pod  *corev1.Pod
	Node string
}

// Judgement is the outcome of a move that consolidation weighed, for one of the pools of its nodes.
type Judgement struct {
	NodePool string
	Policy   v1.ConsolidationPolicy
	// Approved is true for moves that begin.
	Approved bool
	// Nodes and Claims are the nodes that the move would remove, of all pools, and their claims.
	Nodes, Claims []string
	// Balance is nil for other policies than Balanced, and if the move was refused before its balance was computed.
	Balance *Balance
}

// Balance is the score of a move under the policy Balanced: the share of the pool's price that it saves, against the share of
// the pool's disruption that it causes.
type Balance struct{ Score, Saving, Disruption float64 }

// Worst returns the cost of the launch if the cloud picks the dearest listed offering, in USD per hour.
func (l *Launch) Worst() float64 {
	if len(l.Offerings) == 0 {
		return l.Price
	}
	return l.Offerings[len(l.Offerings)-1].Price
}

// LaunchFinding is a machine that does not take some pods for which it was started.
type LaunchFinding struct {
	Claim *v1.NodeClaim
	Pods  []PodID
	Why   string
}

// BackoffChange is an annotation to write on a pool whose machines did not take their pods. An empty Text removes the annotation. Found lists the
// machines that this plan found.
type BackoffChange struct {
	NodePool string
	Text     string
	Found    []LaunchFinding
}

// LearnedDevices is an annotation to write on a pool about the devices that drivers publish on its machines.
type LearnedDevices struct {
	NodePool, Text string
}

// BufferShare is room for a number of pods of a CapacityBuffer or a ProvisioningRequest.
type BufferShare struct {
	Namespace, Name string
	Pods            int
}

// BufferRoom is the room that a plan has for a CapacityBuffer.
type BufferRoom struct {
	Namespace, Name string
	UID             types.UID
	// Size is the number of pods for which room is kept. Existing of them fit on nodes that are there, and Coming on machines that start now or were
	// started before. The others have no place, for Reasons.
	Size, Existing, Coming int
	Reasons                []Reason `json:",omitempty"`
	// PerHour is the cost of the room in USD per hour: the sum over the machines of the price times the pods' share of the scarcest resource. Pools
	// are the pools of the machines, in order.
	PerHour float64
	Pools   []string `json:",omitempty"`
	// Problem says why the buffer keeps no room at all, and ProblemReason is the reason of its condition. Both are empty if the buffer keeps room.
	ProblemReason, Problem string `json:",omitempty"`
	// Quota is the ResourceQuota that keeps the buffer smaller than its spec says, empty if none does.
	Quota string `json:",omitempty"`
	// Limit is the resource of Options.BufferLimits that keeps the buffer smaller, empty if none does.
	Limit corev1.ResourceName `json:",omitempty"`
}

// RequestRoom is the room that a plan has for a ProvisioningRequest.
type RequestRoom struct {
	Namespace, Name string
	UID             types.UID
	// Size is the number of its pods that have no node yet. Existing of them have room on nodes that are there, and Coming on machines that start now
	// or were started before. The others have no place, for Reasons. All are 0 if the plan looks for no room for the request.
	Size, Existing, Coming int
	Reasons                []Reason `json:",omitempty"`
	// Problem says why the request cannot be followed; empty if it can.
	Problem string `json:",omitempty"`
	// Status is the status to write on the request; nil if the request has it already.
	Status *autoscalingv1.ProvisioningRequestStatus `json:",omitempty"`
	// Answer is the answer that Status gives.
	Answer RequestAnswer
}

// RequestProgress is the state of a ProvisioningRequest.
type RequestProgress string

// The states of ProvisioningRequests.
const (
	RequestWaits       RequestProgress = "Waiting"     // there is no room for its pods, or an object that it names is missing
	RequestStarts      RequestProgress = "Starting"    // machines with room for all of its pods are there or start
	RequestProvisioned RequestProgress = "Provisioned" // room is held
	RequestConsumed    RequestProgress = "Consumed"    // its pods have nodes
	RequestExpired     RequestProgress = "Expired"     // its room is held no longer, and some of its pods have not come
	RequestFailed      RequestProgress = "Failed"      // the plan does not look for room any more
)

// RequestAnswer is the answer to a ProvisioningRequest: its state, with the reason and message of the condition for that state. If there is no such
// condition, Message says why.
type RequestAnswer struct {
	Progress        RequestProgress
	Reason, Message string
	// Advice tells the request's owner what to do. It is empty if Message says it, or if there is nothing to do.
	Advice string `json:",omitempty"`
}

// GangProgress is the state of a PodGroup whose pods start together.
type GangProgress string

// The states of gangs.
const (
	GangTooFew  GangProgress = "TooSmall" // fewer of its pods exist than start together
	GangUntried GangProgress = "Untried"  // kube-scheduler has not reported yet that it finds no places
	GangWaits   GangProgress = "Waiting"  // too few of its pods have a place, so no machine is started for the gang
	GangStarts  GangProgress = "Starting" // enough of its pods run on a node, or are planned for a node or for a starting machine
	GangStarted GangProgress = "Running"  // enough of its pods have a node
)

// GangRoom is the room that a plan has for a PodGroup whose pods start together.
type GangRoom struct {
	Namespace, Name string
	UID             types.UID
	Progress        GangProgress
	// MinCount is the number of its pods that start together. Running pods have a node. Of the others, Existing have a place on nodes that are there,
	// Coming on machines that start now or were started before, and Left have no place.
	MinCount, Running, Existing, Coming, Left int
	// Reasons say why the pods in Left have no place.
	Reasons []Reason `json:",omitempty"`
}

package engine

import (
	"fmt"
	"strings"

	v1 "tenon.sh/api/v1"
)

// Code is the kind of a Reason. Codes are part of the JSON output and of metrics, so their meaning never changes.
type Code string

// Reasons for which a pod cannot be placed.
const (
	NoNodePools           Code = "NoNodePools"           // there is no usable pool
	NodePoolNotReady      Code = "NodePoolNotReady"      // Have: the problem of the pool or of its class
	NoInstanceTypes       Code = "NoInstanceTypes"       // no type in the catalog meets the pool's own requirements
	TaintNotTolerated     Code = "TaintNotTolerated"     // Have: the pool's taint
	LabelNotDefined       Code = "LabelNotDefined"       // Key: a label that the pool does not define; Need: the pod's requirement
	LabelMismatch         Code = "LabelMismatch"         // Key, Need: the pod's requirement; Have: the pool's values
	RequirementsConflict  Code = "RequirementsConflict"  // each label is on offer, but no instance type has all of them
	NotEnoughResources    Code = "NotEnoughResources"    // Key: the resource; Need: the pod's request; Have: the largest amount of any type, and that type
	SoldOut               Code = "SoldOut"               // all suitable offerings are sold out; Have: these offerings
	QuotaExceeded         Code = "QuotaExceeded"         // Key: the cloud's quota; Need: a machine's units; Have: the units left, and how to raise it
	LimitReached          Code = "LimitReached"          // Key: the resource of spec.limits; Need, Have
	MinValuesNotMet       Code = "MinValuesNotMet"       // Key; Need: the least number of values; Have: the number of values
	ConstraintsConflict   Code = "ConstraintsConflict"   // each of Have can be met, but not all together
	FeatureNotSupported   Code = "NotSupported"          // Key: a feature of the pod that Tenon does not support yet
	InvalidPod            Code = "InvalidPod"            // Key: the field; Have: the problem
	ReplacementDear       Code = "ReplacementDear"       // Have: the offering that could replace a machine, and its price as a multiple of the usual price
	CheaperSoldOut        Code = "CheaperSoldOut"        // Have: the available offering, and its multiple of the usual price; Need: when it is paid
	NotBound              Code = "NotBound"              // Key: the nodes on which the pod was expected; Have: kube-scheduler's message
	LaunchesBackedOff     Code = "LaunchesBackedOff"     // Have: why machines that were started for such pods did not take them; Need: the end of the wait
	NotOnManagedNodes     Code = "NotOnManagedNodes"     // the pod excludes managed nodes
	TooComplex            Code = "TooComplex"            // Need: the number of the pod's rules; Have: the number of its namespace's rules
	VolumeElsewhere       Code = "VolumeElsewhere"       // Key: the claim; Need: where its volume is or can be; Have: where machines are
	PodsFirst             Code = "PodsFirst"             // room of a CapacityBuffer that waits until pods have their places
	LeftToFargate         Code = "LeftToFargate"         // Have: the Fargate profile that selected the pod
	ServedElsewhere       Code = "ServedElsewhere"       // Have: the node group that another autoscaler scales up; Need: the end of the wait for it
	GangTooSmall          Code = "GangTooSmall"          // Key: the pod group; Need: the number of pods that start together; Have: the number of its pods
	GangIncomplete        Code = "GangIncomplete"        // Key: the pod group; Need: the number of pods that start together; Have: how many have a place
	ProvisioningRequested Code = "ProvisioningRequested" // Key: the ProvisioningRequest whose room the pod is to use; Have: the state of the request
	LaunchDelayed         Code = "LaunchDelayed"         // Key: the annotation; Need: the time until which another autoscaler may act first
	NoExistingNodeMatches Code = "NoExistingNodeMatches" // the pod names a node by its hostname, and that node cannot take the pod; Need
	OnDemandShare         Code = "OnDemandShare"         // Key: the annotation because of which the pod must run on demand; comes after the real reason
)

// Reasons for which other pods, volumes or ports keep a pod from being placed.
const (
	SpreadNotMet       Code = "SpreadNotMet"       // Key: the topology key; Need: the constraint; Have: the counts
	AffinityNotMet     Code = "AffinityNotMet"     // Key: the topology key; Need: the pods that the pod must run with; Have: where they are
	AffinityCycle      Code = "AffinityCycle"      // Need: the pods that wait for each other
	AntiAffinityNotMet Code = "AntiAffinityNotMet" // Key: the topology key; Need: the pods that the pod must not run with; Have: where they are
	VolumeNotReady     Code = "VolumeNotReady"     // Key: the claim; Have: the problem
	AttachLimit        Code = "AttachLimit"        // Key: the CSI driver; Need: the number of volumes; Have: the largest number that a type takes
	PortTaken          Code = "PortTaken"          // Key: the port; Have: the pod that holds the port
	ClaimNotReady      Code = "ClaimNotReady"      // Key: the resource claim; Have: the problem
	SelectorFails      Code = "SelectorFails"      // Key: the resource claim; Need: the selector; Have: the device
	NoDevices          Code = "NoDevices"          // Key: the resource claims; Need: the requested devices; Have: the devices of the nearest type
)

// Reasons for which a node is not disrupted.
const (
	NotManaged            Code = "NotManaged"            // the node has no NodeClaim; Have: its possible owner
	NotInitialized        Code = "NotInitialized"        // the node is still starting
	MachineLate           Code = "MachineLate"           // Need: the time within which the machine should have been ready
	AlreadyLeaving        Code = "AlreadyLeaving"        // the node or its claim is being deleted
	PodsExpected          Code = "PodsExpected"          // Need: a pod that is to run there
	DoNotDisrupt          Code = "DoNotDisrupt"          // Key: the owner of the annotation
	NodePoolNotFound      Code = "NodePoolNotFound"      // Need: the pool that the node names
	NotEmpty              Code = "NotEmpty"              // Have: the number of pods; Need: the time from which room makes way, if it is known
	ConsolidationDisabled Code = "ConsolidationDisabled" // consolidateAfter is Never
	ConsolidateAfter      Code = "ConsolidateAfter"      // Need: the end of the quiet time
	Unsettled             Code = "Unsettled"             // Have: the number of nodes that pods leave; Need: the time until which Tenon waits for that
	BudgetExhausted       Code = "BudgetExhausted"       // Have: the disruptions that the pool's budgets allow now
	StaticPool            Code = "StaticPool"            // pools with replicas are not consolidated
	SeveralNodes          Code = "SeveralNodes"          // Have: the nodes with the machine's provider ID
	EvictionBlocked       Code = "EvictionBlocked"       // Key: a pod that cannot be evicted now; Have: the PodDisruptionBudgets that prevent it
	Rebooting             Code = "Rebooting"             // the machine is being rebooted
	NoPoolLabel           Code = "NoPoolLabel"           // Key: the missing label
	Paused                Code = "Paused"                // Key: the paused object; Need: the end of the pause; Have: the reason
	OutsideMoveWindow     Code = "OutsideMoveWindow"     // Key: a pod that must not be moved now; Need: the time when it may be moved
	RollingOut            Code = "RollingOut"            // Key: the workload; Need: the pod that it will replace soon, or its next pods
	GangRuns              Code = "GangRuns"              // Key: the pod group; Need: the number of its pods that must run
	OnlyWhenEmpty         Code = "OnlyWhenEmpty"         // Have: the number of pods; the pool's policy is WhenEmpty
	MissingLabel          Code = "MissingLabel"          // Key: a label without which the price of the node is not known
	UnknownInstanceType   Code = "UnknownInstanceType"   // Have: a type that the catalog does not list
	UnknownPrice          Code = "UnknownPrice"          // Have: the offering
	NotBalanced           Code = "NotBalanced"           // Need, Have: the score of the policy Balanced
	CannotMove            Code = "CannotMove"            // Key: a pod that no other node can run; Have: the reason
	DriftObserved         Code = "DriftObserved"         // Have: the reason of the condition Drifted; Key: the pool or node class that only observes drift
	ReplacingHalted       Code = "ReplacingHalted"       // Have: the problem of replacements
	StaticSurplus         Code = "StaticSurplus"         // Have, Need: the present and the desired number of the pool's nodes
	DoNotRepair           Code = "DoNotRepair"           // the node carries the annotation
	RepairedElsewhere     Code = "RepairedElsewhere"     // the cloud's own health checks repair the machine
	TooManyUnhealthy      Code = "TooManyUnhealthy"      // Have: the number of the pool's unhealthy nodes; Need: the largest allowed number
	SavesTooLittle        Code = "SavesTooLittle"        // Have: the saving of moving the pods; Need: the least saving; Key: the new place of the pods
	NoCheaperPlace        Code = "NoCheaperPlace"        // Have: the largest possible saving; Key: the room that counts beside the pods
	WouldStrand           Code = "WouldStrand"           // Key: a pod for which kube-scheduler would find no room
	SpotToSpot            Code = "SpotToSpot"            // Have: why a spot machine is not replaced by another
	OwnerMoved            Code = "OwnerMoved"            // Key: the owner; Need: how many pods would move; Have: how many may within an hour
	OnDemandShareLost     Code = "OnDemandShareLost"     // Key: a pod that must run on demand and that kube-scheduler would bind to a spot machine
)

// Reasons for which a value cannot be read. An unreadable value has the effect that does least harm.
const (
	DevicesForgotten     Code = "DevicesForgotten"     // Need: instance types; Key: the annotation that has no room for their devices
	UnknownLimit         Code = "UnknownLimit"         // Key: a resource that no machine has; Need: the one that is meant; Have: machines' resources
	LittleMemory         Code = "LittleMemory"         // Key: the instance type; Need: pods that request no memory; Have: the memory that is left for them
	UnreadableAnnotation Code = "UnreadableAnnotation" // Key; Have: the value; Need: a description of valid values
	UnreadableSelector   Code = "UnreadableSelector"   // Have: the problem
	UnreadablePolicy     Code = "UnreadablePolicy"     // Key: the condition; Have: the problem
)

// Reasons for which a part of an older plan is outdated, in addition to the codes above.
const (
	PodGone        Code = "PodGone"        // Need: the pod that no longer waits
	PoolChanged    Code = "PoolChanged"    // the pool is gone, or is not the pool of the plan
	NodeGone       Code = "NodeGone"       // Need: the node
	MachineOpening Code = "MachineOpening" // Need: a pod that may still find its place on the machine that was started for it; Have: that machine
)

// States of a disruption with replacements that is in progress, in addition to the codes above.
const (
	AwaitingReplacements Code = "AwaitingReplacements" // Key: the replacements that are not ready
	ReplacementGone      Code = "ReplacementGone"      // Need: the replacement that was deleted, or could not be launched
	ReplacementLate      Code = "ReplacementLate"      // Key: the replacements that are not ready; Need: the time limit
	OrderBroken          Code = "OrderBroken"          // Key: the claim; Have: the problem
	PodStranded          Code = "PodStranded"          // Key: a pod that would have no place
	BeingReplaced        Code = "BeingReplaced"        // the node goes once its replacements are ready
	TakenBack            Code = "TakenBack"            // Need: the time until which it counts; Have: the reason
	BackedOff            Code = "BackedOff"            // Need: the end of the wait; Have: why replacements failed
	Replacing            Code = "Replacing"            // the node replaces other nodes, whose pods will come
)

// Reason is a typed refusal: the value that was needed, and the value that was there instead. The zero value means that there is no refusal.
type Reason struct {
	Code Code
	// NodePool is the pool of the reason, empty if the reason concerns no pool.
	NodePool string
	// Key is the decisive label, resource, field or annotation. Need is the requested value, and Have is the present value, or the nearest one.
	Key, Need, Have string
}

// mostText limits each part of a reason, in bytes, because a request of a pod may be as long as the pod.
const mostText = 600

// Bounded returns the reason with each part cut to a length that people read.
func (r Reason) Bounded() Reason {
	r.Key, r.Need, r.Have = boundedText(r.Key), boundedText(r.Need), boundedText(r.Have)
	return r
}

func boundedText(text string) string {
	if len(text) <= mostText {
		return text
	}
	return strings.ToValidUTF8(text[:mostText], "") + "…"
}

// OK reports whether there is no refusal.
func (r Reason) OK() bool { return r.Code == "" }

// Message returns the reason as one sentence for people.
func (r Reason) Message() string {
	text, ok := messages[r.Code]
	if !ok {
		text = string(r.Code)
	}
	return strings.NewReplacer("{key}", r.Key, "{need}", r.Need, "{have}", r.Have).Replace(text)
}

func (r Reason) String() string {
	if r.NodePool == "" {
		return fmt.Sprintf("%s: %s", r.Code, r.Message())
	}
	return fmt.Sprintf("%s: pool %s: %s", r.Code, r.NodePool, r.Message())
}

var messages = map[Code]string{
	NoNodePools:           "there is no NodePool that can be used",
	NodePoolNotReady:      "the pool cannot be used: {have}",
	NoInstanceTypes:       "no instance type meets the pool's own requirements{have}",
	TaintNotTolerated:     "the pod does not tolerate the taint {have}",
	LabelNotDefined:       "the pod asks for label {key} {need}, which the pool does not define",
	LabelMismatch:         "the pod asks for label {key} {need}, the pool offers {have}",
	RequirementsConflict:  "each label that the pod asks for is on offer, but no instance type has all of them: {have}",
	NotEnoughResources:    "needs {need} {key}, {have}",
	ReplacementDear:       "everything cheaper that would do in its place is sold out, and what is left is {have}; it is replaced when something cheaper can be had",
	CheaperSoldOut:        "everything cheaper that would do is sold out, and what is left is {have}; the pod waits for something cheaper, and has that from {need} on",
	NotBound:              "kube-scheduler does not bind the pod to node {key}, where there is room for it by all that is known, so that it is expected there no more; kube-scheduler says: {have}",
	LaunchesBackedOff:     "{have}; no such machine is started for it before {need}",
	SoldOut:               "every offering that would do is sold out: {have}",
	QuotaExceeded:         "quota {key} has {have}; the machine needs {need}",
	LimitReached:          "the pool's limit for {key} is reached: needs {need}, {have}",
	MinValuesNotMet:       "minValues of {key} is {need}, what is left has {have}",
	ConstraintsConflict:   "a machine cannot meet all of these together: {have}",
	FeatureNotSupported:   "the pod uses {key}, which is not supported yet",
	InvalidPod:            "{key}: {have}",
	NotOnManagedNodes:     "the pod asks to run on nodes that no NodePool owns",
	TooComplex:            "what the pod asks of nodes and of other pods is too much for one plan: {need} rules, of {have} in its namespace; those who ask for less come first",
	LeftToFargate:         "Fargate profile {have} has selected the pod, and Fargate's scheduler binds it to no node of others",
	ServedElsewhere:       "Cluster Autoscaler has said that it scales up group {have} for the pod; a machine is started for it from {need} on, if it still waits then",
	GangTooSmall:          "kube-scheduler starts pod group {key} once {need} of its pods exist, and there are {have}",
	GangIncomplete:        "pod group {key} starts with {need} pods or not at all, and {have} would have a place: nothing is started for it",
	ProvisioningRequested: "it is to use the room of ProvisioningRequest {key}, which {have}; no machine is started for the pod itself",
	LaunchDelayed:         "its annotation {key} lets another autoscaler come first; a machine is started for it from {need} on, if it still waits then",
	NoExistingNodeMatches: "the pod asks for the node with hostname {need}, which cannot take it, and no new node will have that name",
	OnDemandShare:         "it is one of the pods of its owner that have to run on demand ({key})",

	SpreadNotMet:       "the pod's spread over {key} ({need}) cannot be met: {have}",
	AffinityNotMet:     "the pod has to run with {need} in the same {key}, {have}",
	AffinityCycle:      "pods wait for each other, and none of them may start: {need}",
	PodsFirst:          "pods that wait come first",
	AntiAffinityNotMet: "the pod may not run with {need} in the same {key}, and {have}",
	VolumeElsewhere:    "persistent volume claim {key}: {need}, {have}",
	VolumeNotReady:     "persistent volume claim {key}: {have}",
	AttachLimit:        "needs {need} volumes of {key}, {have}",
	PortTaken:          "host port {key} is taken on every machine that would do: {have}",
	ClaimNotReady:      "resource claim {key}: {have}",
	SelectorFails:      "resource claim {key}: {have} makes the selector {need} fail, and kube-scheduler gives the pod up as soon as it comes to it",
	NoDevices:          "resource claim {key} needs {need}; {have}",

	NotManaged:            "the node has no NodeClaim{have}",
	NotInitialized:        "the node is not initialized yet",
	MachineLate:           "the machine was not ready within {need}, and is counted on only where nothing else can be started",
	AlreadyLeaving:        "the node is already being removed",
	PodsExpected:          "pod {need} is to run on the node",
	DoNotDisrupt:          "{key} carries the annotation karpenter.sh/do-not-disrupt{have}",
	NodePoolNotFound:      "the node's NodePool {need} does not exist",
	NotEmpty:              "{have} would have to move{need}",
	ConsolidationDisabled: "the pool's consolidateAfter is Never",
	ConsolidateAfter:      "consolidateAfter has not passed; it ends at {need}",
	Unsettled:             "pods leave {have} of the pool: its pods are moved once that is over, or from {need} on",
	BudgetExhausted:       "the pool's disruption budgets allow {have}",
	StaticPool:            "pools with replicas are not consolidated",
	SeveralNodes:          "several nodes carry the machine's provider ID: {have}",
	SavesTooLittle:        "moving its pods saves {have}, and has to save {need}",
	WouldStrand:           "kube-scheduler spreads pods, and would find no room for pod {key}",
	SpotToSpot:            "{have}",
	NoCheaperPlace:        "no cheaper place was found for its pods{key}: at most {have} is to be had here",
	OwnerMoved:            "of {key} at most {have} may move within an hour, and {need} would move",
	OnDemandShareLost:     "kube-scheduler would put pod {key} on a spot machine, and it has to run on demand for its owner's share (" + v1.OnDemandShareAnnotationKey + ")",
	EvictionBlocked:       "PodDisruptionBudgets keep pod {key} from being evicted now: {have}",
	Rebooting:             "the machine is being rebooted",
	NoPoolLabel:           "the node does not carry the label {key}",
	Paused:                "{key} is paused{need}{have}",
	OutsideMoveWindow:     "pod {key} may not be moved now; its next window opens at {need}",
	RollingOut:            "{key} is rolling out and is about to need the node or to leave it ({need})",
	GangRuns:              "it runs pods of pod group {key}, which needs {need} at a time: they are not moved",
	OnlyWhenEmpty:         "{have} would have to move, and the pool's policy is WhenEmpty",
	MissingLabel:          "the node does not carry the label {key}, so what it costs is not known",
	UnknownInstanceType:   "instance type {have} is not in the catalog, so what the node costs is not known",
	UnknownPrice:          "the catalog has no price for {have}",
	NotBalanced:           "moving its pods is worth too little: the score is {have}, Balanced wants {need}",
	CannotMove:            "pod {key} could run nowhere else: {have}",
	DriftObserved:         "the node has drifted ({have}), and the {key} only observes that",
	ReplacingHalted:       "nodes of the pool are not replaced for now: {have}",
	StaticSurplus:         "the pool has {have} and should have {need}: that comes first",
	RepairedElsewhere:     "the cloud's own health checks see to the machine",
	DoNotRepair:           "the node carries the annotation karpenter.sh/do-not-repair",
	TooManyUnhealthy:      "{have} nodes of the pool are unhealthy and at most {need} may be: what is wrong with so many is not mended by replacing them",

	DevicesForgotten:     "what drivers publish on nodes of {need} does not fit into annotation {key}, which holds 64 KiB: it is expected of new machines only while an initialized node of the type is there, and without one none is started for claims. Keep one, or move types to a NodePool of their own",
	UnknownLimit:         "spec.limits: {key} limits nothing, because no instance type of its node class has that resource; limits can be of {have}{need}",
	LittleMemory:         "{key} is started for {need} without a memory request, and leaves {have} of memory to pods: set the pods' memory requests",
	UnreadableAnnotation: "annotation {key} is {have}, want {need}",
	UnreadableSelector:   "its selector cannot be read, so it covers no pod: {have}",
	UnreadablePolicy:     "the repair policy for {key} cannot be read and is left out: {have}",

	PodGone:        "pod {need} no longer waits for a machine",
	PoolChanged:    "the pool is gone or cannot be used any more: {have}",
	NodeGone:       "node {need} is gone",
	MachineOpening: "the machine that was started for pod {need}, {have}, takes pods only now",

	AwaitingReplacements: "replacements are not ready: {key}",
	ReplacementGone:      "replacement {need} is gone before it was ready",
	ReplacementLate:      "replacements were not ready within {need}: {key}",
	OrderBroken:          "NodeClaim {key}: {have}",
	PodStranded:          "pod {key} would have no place to run",
	BeingReplaced:        "the node goes once its replacements are ready",
	TakenBack:            "its disruption was taken back, because {have}; it is not tried again until {need}",
	BackedOff:            "nodes of the pool are not replaced until {need}, because replacements failed: {have}",
	Replacing:            "the node replaces others, whose pods are to come",
}

// The records of this and the following files are explanations as values. Programs read them as JSON, so their fields
// keep their names and meaning; people read the sentences made of them.

// ReasonRecord is a Reason as a record.
type ReasonRecord struct {
	Code     Code   `json:"code"`
	NodePool string `json:"nodePool,omitempty"`
	Key      string `json:"key,omitempty"`
	Need     string `json:"need,omitempty"`
	Have     string `json:"have,omitempty"`
	Message  string `json:"message"`
}

// Record returns the reason as a record.
func (r Reason) Record() ReasonRecord {
	return ReasonRecord{r.Code, r.NodePool, r.Key, r.Need, r.Have, r.Message()}
}

// Reason is the reverse of Record.
func (r ReasonRecord) Reason() Reason {
	return Reason{Code: r.Code, NodePool: r.NodePool, Key: r.Key, Need: r.Need, Have: r.Have}
}

package engine

import (
	"fmt"
	"strings"
)

// Code says what kind of reason a Reason is. Codes are part of the JSON output and of metrics: they never change
// their meaning.
type Code string

// Why a pod cannot be placed.
const (
	NoNodePools           Code = "NoNodePools"           // there is no pool at all that could be used
	NodePoolNotReady      Code = "NodePoolNotReady"      // Have: what is wrong with the pool or its class
	NoInstanceTypes       Code = "NoInstanceTypes"       // nothing in the catalog meets the pool's own requirements
	TaintNotTolerated     Code = "TaintNotTolerated"     // Have: the pool's taint
	LabelNotDefined       Code = "LabelNotDefined"       // Key: a label that the pool does not define; Need: what the pod asks of it
	LabelMismatch         Code = "LabelMismatch"         // Key, Need: what the pod asks for; Have: what the pool offers
	RequirementsConflict  Code = "RequirementsConflict"  // each label is on offer, but no instance type has them together
	NotEnoughResources    Code = "NotEnoughResources"    // Key: the resource; Need: what the pod asks for; Have: the most that any type has, and which
	SoldOut               Code = "SoldOut"               // every offering that would do is sold out; Have: which
	LimitReached          Code = "LimitReached"          // Key: the resource of spec.limits; Need, Have
	MinValuesNotMet       Code = "MinValuesNotMet"       // Key; Need: how many values; Have: how many there are
	FeatureNotSupported   Code = "NotSupported"          // Key: what the pod uses that Tenon does not act on yet
	InvalidPod            Code = "InvalidPod"            // Key: the field; Have: what is wrong
	NotOnManagedNodes     Code = "NotOnManagedNodes"     // the pod asks to stay off managed nodes
	NoExistingNodeMatches Code = "NoExistingNodeMatches" // the pod names a node by its hostname and that node cannot take it; Need
)

// Why a pod cannot be placed because of other pods, volumes or ports.
const (
	SpreadNotMet       Code = "SpreadNotMet"       // Key: the topology key; Need: the constraint; Have: the counts
	AffinityNotMet     Code = "AffinityNotMet"     // Key: the topology key; Need: what pods it wants to be with; Have: where they are
	AffinityCycle      Code = "AffinityCycle"      // Need: the pods that wait for each other
	AntiAffinityNotMet Code = "AntiAffinityNotMet" // Key: the topology key; Need: the pods that it may not be with
	VolumeNotReady     Code = "VolumeNotReady"     // Key: the claim; Have: what is wrong with it
	AttachLimit        Code = "AttachLimit"        // Key: the CSI driver; Need: how many volumes; Have: what the largest type takes
	PortTaken          Code = "PortTaken"          // Key: the port; Have: what holds it
)

// Why a node is not disrupted.
const (
	NotManaged            Code = "NotManaged"            // the node has no NodeClaim
	NotInitialized        Code = "NotInitialized"        // the node is still starting
	AlreadyLeaving        Code = "AlreadyLeaving"        // the node or its claim is being deleted
	PodsExpected          Code = "PodsExpected"          // Need: a pod that is to run there
	DoNotDisrupt          Code = "DoNotDisrupt"          // Key: the annotation's owner
	NodePoolNotFound      Code = "NodePoolNotFound"      // Need: the pool that the node names
	NotEmpty              Code = "NotEmpty"              // Have: how many pods
	ConsolidationDisabled Code = "ConsolidationDisabled" // consolidateAfter is Never
	ConsolidateAfter      Code = "ConsolidateAfter"      // Need: when the quiet time ends
	BudgetExhausted       Code = "BudgetExhausted"       // Have: what the pool's budgets allow now
	StaticPool            Code = "StaticPool"            // pools with replicas are not consolidated
	SeveralNodes          Code = "SeveralNodes"          // Have: the nodes that carry the machine's provider ID
	EvictionBlocked       Code = "EvictionBlocked"       // Key: a pod that PodDisruptionBudgets keep from being evicted now
)

// Why part of an older plan is not right any more, beside the codes above.
const (
	PodGone     Code = "PodGone"     // Need: the pod that no longer waits
	PoolChanged Code = "PoolChanged" // the pool is gone, or not the one that the plan knew
	NodeGone    Code = "NodeGone"    // Need: the node
)

// Reason is a typed "no": what was needed, and what there is instead. The zero value means that nothing speaks against.
type Reason struct {
	Code Code
	// NodePool is the pool that the reason is about, empty if it is about none.
	NodePool string
	// Key is the label, resource, field or annotation that decides; Need is what was asked for and Have what there is,
	// with the nearest miss where there is one.
	Key, Need, Have string
}

// OK reports whether nothing speaks against.
func (r Reason) OK() bool { return r.Code == "" }

// Message says the reason in one sentence for people.
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
	SoldOut:               "every offering that would do is sold out: {have}",
	LimitReached:          "the pool's limit for {key} is reached: needs {need}, {have}",
	MinValuesNotMet:       "minValues of {key} is {need}, but only {have} values are left",
	FeatureNotSupported:   "the pod uses {key}, which is not supported yet",
	InvalidPod:            "{key}: {have}",
	NotOnManagedNodes:     "the pod asks to run on nodes that no NodePool owns",
	NoExistingNodeMatches: "the pod asks for the node with hostname {need}, which cannot take it, and no new node will have that name",

	SpreadNotMet:       "the pod's spread over {key} ({need}) cannot be met: {have}",
	AffinityNotMet:     "the pod has to run with {need} in the same {key}, {have}",
	AffinityCycle:      "pods wait for each other, and none of them may start: {need}",
	AntiAffinityNotMet: "the pod may not run with {need} in the same {key}, and every {key} has some",
	VolumeNotReady:     "persistent volume claim {key}: {have}",
	AttachLimit:        "needs {need} volumes of {key}, {have}",
	PortTaken:          "host port {key} is taken on every machine that would do: {have}",

	NotManaged:            "the node has no NodeClaim",
	NotInitialized:        "the node is not initialized yet",
	AlreadyLeaving:        "the node is already being removed",
	PodsExpected:          "pod {need} is to run on the node",
	DoNotDisrupt:          "{key} carries the annotation karpenter.sh/do-not-disrupt",
	NodePoolNotFound:      "the node's NodePool {need} does not exist",
	NotEmpty:              "{have} would have to move",
	ConsolidationDisabled: "the pool's consolidateAfter is Never",
	ConsolidateAfter:      "consolidateAfter has not passed; it ends at {need}",
	BudgetExhausted:       "the pool's disruption budgets allow {have}",
	StaticPool:            "pools with replicas are not consolidated",
	SeveralNodes:          "several nodes carry the machine's provider ID: {have}",
	EvictionBlocked:       "PodDisruptionBudgets keep pod {key} from being evicted now",

	PodGone:     "pod {need} no longer waits for a machine",
	PoolChanged: "the pool is gone or cannot be used any more: {have}",
	NodeGone:    "node {need} is gone",
}

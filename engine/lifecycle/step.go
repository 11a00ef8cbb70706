package lifecycle

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/dra"
)

// Life is one NodeClaim with all data that determines its next step. Next does not change it.
type Life struct {
	Now time.Time
	// Claim is nil for a Node that carries our finalizer and has no claim, or more than one.
	Claim *v1.NodeClaim
	// Pool is the claim's pool, nil if there is none.
	Pool *v1.NodePool
	// Class is the pool's node class, nil if unknown.
	Class *engine.Class
	// Nodes are the nodes with the machine's provider ID.
	Nodes []*corev1.Node
	// Sought means that the claim's node was looked up at the API server itself: if Nodes has no registered one, a stale cache is not the cause.
	Sought bool
	// Pods are the pods bound to Nodes. Fresh means that they were listed from the API server itself, after Nodes were read.
	Pods  []*corev1.Pod
	Fresh bool
	// PodLeft is when a pod last vanished from Nodes, BriefPodLeft the same for brief pods (IsBrief); zero if none did.
	PodLeft, BriefPodLeft time.Time
	// Attachments are the volumes attached to Nodes, VolumeClaims the claims of the pods' volumes. They are read only if the nodes are leaving.
	Attachments  []*storagev1.VolumeAttachment
	VolumeClaims []*corev1.PersistentVolumeClaim
	// Budgets are the PodDisruptionBudgets of the pods' namespaces. They are read only if the nodes are leaving, and only explain why a drain waits:
	// the eviction API decides whether a pod may be evicted.
	Budgets []*policyv1.PodDisruptionBudget
	// Workloads are the workloads of Pods, by the controllers' UIDs. They are read only if the nodes are leaving; if a workload is missing, all of
	// its pods may be evicted at once.
	Workloads map[types.UID]*Workload
	// Sent are the pods, of any node, that were evicted a moment ago. Their deletion may not be visible yet.
	Sent    map[types.UID]bool
	Machine Presence
	// Published is the devices that drivers have published for Nodes; nil if ResourceClaims are not acted on.
	Published *dra.Published
	// Nominating means that pods are nominated to the machines started for them, and that nominations to leaving nodes are withdrawn.
	Nominating bool
}

// Presence is the known state of a machine.
type Presence int

const (
	// MachineUnknown means that the cloud was not asked.
	MachineUnknown Presence = iota
	MachinePresent
	// MachineLeaving means that the cloud was asked, in this very step, to stop the machine and has not done it yet.
	MachineLeaving
	// MachineGone means that the cloud knows no such machine.
	MachineGone
)

// Step is the next action for one claim. Its fields are in the order of their execution; after any of them changed an object, Next is called
// again with the changed object, until its step is empty. So the next call continues a step that was interrupted anywhere.
type Step struct {
	// Ask is a question that must be answered first. A step with a question has no other field.
	Ask Ask
	// Delete requests the claim's deletion, provided that the claim has not changed since it was read.
	Delete *Deletion
	// Launch requests the claim's machine.
	Launch bool
	// Nominate names the node to which the claim's planned pods should be nominated, while no pod can run there yet.
	Nominate string
	// Nodes are the changed nodes, as they should be.
	Nodes []*corev1.Node
	// Pool is the claim's pool with a new annotation of learned startup taints, nil if unchanged.
	Pool *v1.NodePool
	// Claim is the claim as it should be, metadata and status; nil if unchanged.
	Claim *v1.NodeClaim
	// DeleteNodes names the nodes to delete, Withdraw the nodes whose nominations end; without nominations Withdraw is empty.
	DeleteNodes []string
	Withdraw    []string
	// Evict lists the pods to evict now.
	Evict []Eviction
	// ReleaseNodes names the nodes that lose our finalizer; Release means that the claim loses it.
	ReleaseNodes []string
	Release      bool

	Events []engine.Event
	// After is the time until the next look if nothing changes; 0 means that only a change matters.
	After time.Duration
}

// Ask is a question that costs a call. So it is put only if the answer decides something.
type Ask int

const (
	AskNothing Ask = iota
	// AskMachine asks whether the machine exists.
	AskMachine
	// AskNode looks for the claim's node by name at the API server itself.
	AskNode
	// AskPods lists the pods of the nodes from the API server itself.
	AskPods
	// AskTerminate requests that the cloud stop the machine, and records the answer.
	AskTerminate
)

// Deletion is why a claim is deleted.
type Deletion struct {
	// Cause is the value of the reason label of metrics; empty if only another program's deletion of the node is followed.
	Cause string
}

// Eviction removes one pod from its node.
type Eviction struct {
	Pod *corev1.Pod
	// Force deletes the pod, regardless of budgets and annotations, because the node's deadline demands it. Otherwise the eviction API is used, which
	// respects budgets.
	Force bool
	// Grace is the grace period in seconds of a pod that is deleted by force, at least 1.
	Grace int64
}

// Reasons of the events of steps.
const (
	eventTaintMissing = "UnregisteredTaintMissing"

	eventOtherLabels = "NodeLabelsDiffer"

	eventTaintLearned = "StartupTaintLearned"

	eventDraining = "FailedDraining"

	eventDeadline = "TerminationGracePeriodExpiring"

	eventAwaitingDetachment = "AwaitingVolumeDetachment"

	eventInconsistent = "FailedConsistencyCheck"

	eventNodeGone = "NodeGone"

	eventSeveralNodes = "MultipleNodesFound"

	eventInvalidProtection = "InvalidDoNotDisruptAnnotation"

	eventProtectionEnded = "DoNotDisruptGracePeriodElapsed"
)

// by requests the next look no later than d from now.
func (s *Step) by(d time.Duration) {
	d = max(d, time.Millisecond)
	if s.After == 0 || d < s.After {
		s.After = d
	}
}

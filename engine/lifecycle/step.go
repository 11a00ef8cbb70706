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

// Life is one NodeClaim with everything that its next step depends on. Next changes none of it.
type Life struct {
	Now time.Time
	// Claim is nil for a Node that carries our finalizer and has no claim, or more than one.
	Claim *v1.NodeClaim
	// Pool is the claim's pool, nil if there is none.
	Pool *v1.NodePool
	// Class is what is known of the pool's node class, nil if nothing is.
	Class *engine.Class
	// Nodes are those with the machine's provider ID.
	Nodes []*corev1.Node
	// Sought says that the API server itself was asked for the claim's node: that Nodes has none that is registered is no fault
	// of a cache.
	Sought bool
	// Pods are those bound to Nodes. Fresh says that they were listed from the API server itself, after Nodes were read.
	Pods  []*corev1.Pod
	Fresh bool
	// PodLeft is when a pod was last seen to vanish from Nodes, BriefPodLeft the same for those that IsBrief tells; the zero time if
	// none was.
	PodLeft, BriefPodLeft time.Time
	// Attachments are the volumes attached to Nodes, VolumeClaims the claims that the pods' volumes name. They are read
	// only when the nodes are leaving.
	Attachments  []*storagev1.VolumeAttachment
	VolumeClaims []*corev1.PersistentVolumeClaim
	// Budgets are the PodDisruptionBudgets of the pods' namespaces. They are read only when the nodes are leaving, and only say
	// what a drain waits for: whether a pod may go, the eviction API decides.
	Budgets []*policyv1.PodDisruptionBudget
	// Workloads are those that Pods belong to, by the controllers' UIDs. They are read only when the nodes are leaving; a workload that
	// is missing lets all of its pods go at once.
	Workloads map[types.UID]*Workload
	// Sent are the pods that were evicted a moment ago, from whatever node, and may not look so yet.
	Sent    map[types.UID]bool
	Machine Presence
	// Published is what drivers of devices have published for Nodes; nil where claims for devices are not acted on.
	Published *dra.Published
	// Nominating says that pods are pointed at the machines that were started for them, and no longer at those that leave.
	Nominating bool
}

// Presence says what is known of a machine.
type Presence int

const (
	// MachineUnknown means that nobody has asked.
	MachineUnknown Presence = iota
	MachinePresent
	// MachineLeaving means that the cloud has been told, in this very step, to stop the machine and has not done it yet.
	MachineLeaving
	// MachineGone means that the cloud says there is no such machine.
	MachineGone
)

// Step is what to do next for one claim. Its fields are in the order in which they must be carried out; after any of
// them changed an object, Next is asked again with the changed object, until it wants nothing more. So a step that
// was cut short anywhere is taken up again by whoever calls next.
type Step struct {
	// Ask is something that has to be found out first. A step that asks wants nothing else.
	Ask Ask
	// Delete asks for the claim's deletion, provided that the claim is still as it was read.
	Delete *Deletion
	// Launch asks for the claim's machine.
	Launch bool
	// Nominate names the node that the claim's planned pods should be pointed at, while no pod can run there yet.
	Nominate string
	// Nodes are the nodes that change, as they should be.
	Nodes []*corev1.Node
	// Pool is the claim's pool with a new annotation of learned startup taints, nil if that does not change.
	Pool *v1.NodePool
	// Claim is the claim as it should be, metadata and status; nil if it does not change.
	Claim *v1.NodeClaim
	// DeleteNodes names the nodes to delete, Withdraw those that no pod may stay nominated to; with
	// nominations off there are none.
	DeleteNodes []string
	Withdraw    []string
	// Evict lists the pods to send away now.
	Evict []Eviction
	// ReleaseNodes names the nodes that lose our finalizer, Release says that the claim does.
	ReleaseNodes []string
	Release      bool

	Events []engine.Event
	// After is when to look again even if nothing has changed; 0 means that only a change matters.
	After time.Duration
}

// Ask is a question that costs a call, so it is put only when the answer decides something.
type Ask int

const (
	AskNothing Ask = iota
	// AskMachine wants to know whether the machine exists.
	AskMachine
	// AskNode wants the claim's node looked for by its name at the API server itself.
	AskNode
	// AskPods wants the pods of the nodes listed from the API server itself.
	AskPods
	// AskTerminate wants the machine told to stop, and to know what the cloud said.
	AskTerminate
)

// Deletion is why a claim is deleted.
type Deletion struct {
	// Cause is the value of the reason label of metrics; it is empty where only somebody else's deletion is followed.
	Cause string
}

// Eviction sends one pod away.
type Eviction struct {
	Pod *corev1.Pod
	// Force deletes the pod, whatever budgets and annotations say, because the node's deadline demands it. Otherwise the
	// pod is asked to go through the eviction API, which respects budgets.
	Force bool
	// Grace is how many seconds a pod that is forced gets to end, at least 1.
	Grace int64
}

// Reasons of the events that steps tell.
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

// by asks to look again no later than d from now.
func (s *Step) by(d time.Duration) {
	d = max(d, time.Millisecond)
	if s.After == 0 || d < s.After {
		s.After = d
	}
}

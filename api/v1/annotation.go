package v1

// Annotations of Tenon. The table below has the meaning of each, and docs/reference/annotations.md is made from it.
const (
	// On a NodePool; the first two also on PausingNamespace.
	PauseAnnotationKey          = "tenon.sh/pause"
	PauseReasonAnnotationKey    = "tenon.sh/pause-reason"
	RetireAnnotationKey         = "tenon.sh/retire"
	DriftAnnotationKey          = "tenon.sh/drift"
	BudgetTimeZoneAnnotationKey = "tenon.sh/budget-time-zone"
	ReplaceBudgetsAnnotationKey = "tenon.sh/replace-budgets"
	DeleteBudgetsAnnotationKey  = "tenon.sh/delete-budgets"
	PaybackAnnotationKey        = "tenon.sh/payback"
	PricePatienceAnnotationKey  = "tenon.sh/price-patience"
	MinMemoryAnnotationKey      = "tenon.sh/min-memory-for-pods"
	LaunchBackoffAnnotationKey  = "tenon.sh/launch-backoff"         // written by this program
	LearnedDevicesAnnotationKey = "tenon.sh/learned-devices"        // written by this program
	LearnedTaintsAnnotationKey  = "tenon.sh/learned-startup-taints" // written by this program
	MovedPodsAnnotationKey      = "tenon.sh/moved-pods"             // written by this program

	// On a Pod.
	MoveWindowAnnotationKey  = "tenon.sh/move-window"
	LaunchDelayAnnotationKey = "tenon.sh/launch-delay"

	OnDemandShareAnnotationKey = "tenon.sh/on-demand-share"

	WrittenDeletionCostAnnotationKey = "tenon.sh/pod-deletion-cost" // written by this program

	// On a NodeOverlay.
	InterruptionRateAnnotationKey = "tenon.sh/interruption-rate"
	InterruptionCostAnnotationKey = "tenon.sh/interruption-cost"

	// On a NodeClaim, written by this program.
	BriefPodLeftAnnotationKey      = "tenon.sh/brief-pod-left"
	UndeclaredTaintsAnnotationKey  = "tenon.sh/undeclared-taints"
	PlannedPodsAnnotationKey       = "tenon.sh/planned-pods"
	GangsAnnotationKey             = "tenon.sh/pod-groups"
	DisruptionAnnotationKey        = "tenon.sh/disruption"
	ReplacesAnnotationKey          = "tenon.sh/replaces"
	DisruptionBackoffAnnotationKey = "tenon.sh/disruption-backoff"
	LaunchTokenAnnotationKey       = "tenon.sh/launch-token" // also a tag of the machine
	LeaderAnnotationKey            = "tenon.sh/leader"
	AddedResourcesAnnotationKey    = "tenon.sh/added-resources"
	NoticeAnnotationKey            = "tenon.sh/notice"
	MachineDeploymentAnnotationKey = "tenon.sh/machine-deployment"
	MachineTemplateAnnotationKey   = "tenon.sh/machine-template"
	AppliedTagsAnnotationKey       = "tenon.sh/applied-tags"
	KubeletVersionAnnotationKey    = "tenon.sh/kubelet-version"
	KubeletIdentityAnnotationKey   = "tenon.sh/kubelet-identity"

	// On a Machine of Cluster API, written by this program.
	MachineClaimAnnotationKey    = "tenon.sh/nodeclaim"
	MachineClaimUIDAnnotationKey = "tenon.sh/nodeclaim-uid"
	MachineClusterAnnotationKey  = "tenon.sh/cluster-uid"
)

// PausingNamespace is the namespace whose annotations pause the whole cluster.
const PausingNamespace = "kube-system"

// DriftObserve is the value of DriftAnnotationKey with which drift is reported but not acted on.
const DriftObserve = "observe"

// Annotation is one row of the reference of annotations.
//
// +kubebuilder:object:generate=false
type Annotation struct {
	Key string
	// On is the kind of object with the annotation.
	On string
	// Values are the possible values, Meaning is the effect, and Unreadable is the effect of any other value.
	Values, Meaning, Unreadable string
	// Ours marks the annotations that only this program writes. Users must not change them.
	Ours bool
}

// Annotations lists all annotations with the prefix tenon.sh/.
func Annotations() []Annotation {
	return []Annotation{
		{
			Key: BudgetTimeZoneAnnotationKey, On: "NodePool", Values: "a zone of the tz database, such as `Europe/Zurich`",
			Meaning:    "the time zone of the schedules in the pool's budgets, and of move windows without a zone on the pool's nodes; UTC without the annotation",
			Unreadable: "the budgets are closed: no node of the pool is disrupted",
		},
		{
			Key: DeleteBudgetsAnnotationKey, On: "NodePool", Values: "a number of nodes, a percentage, or a JSON list of budgets as in `spec.disruption.budgets`",
			Meaning:    "limits how many nodes of the pool may be removed without a replacement at the same time, in addition to `spec.disruption.budgets`; an unhealthy node counts only for a budget with the reason `Unhealthy`",
			Unreadable: "no node of the pool is removed without a replacement",
		},
		{
			Key: DriftAnnotationKey, On: "NodePool", Values: "`observe`",
			Meaning:    "drifted nodes get the condition `Drifted` and are not replaced",
			Unreadable: "as `observe`",
		},
		{
			Key: InterruptionCostAnnotationKey, On: "NodeOverlay", Values: "an amount in USD, such as `1.50`",
			Meaning:    "the cost of lost work if the cloud interrupts a spot machine that the overlay selects; decisions add this cost, multiplied by the interruption rate, to the machine's price",
			Unreadable: "the overlay applies to nothing, and its condition says so",
		},
		{
			Key: InterruptionRateAnnotationKey, On: "NodeOverlay", Values: "a percentage of machines in a month, such as `5%`, or interruptions of a machine in an hour, such as `0.0001`",
			Meaning:    "how often the cloud interrupts the spot machines that the overlay selects",
			Unreadable: "the overlay applies to nothing, and its condition says so",
		},
		{
			Key: LaunchDelayAnnotationKey, On: "Pod", Values: "a duration such as `30s`, at most `1h`",
			Meaning:    "no machine is started for the pod until the pod is this old, so that another autoscaler that starts nodes for the pod acts first",
			Unreadable: "the annotation is ignored",
		},
		{
			Key: MoveWindowAnnotationKey, On: "Pod", Values: "a schedule and a duration, and a zone if it is not the pool's: `0 14 * * sun for 3h in Europe/Zurich`",
			Meaning:    "voluntary disruption of the pod's node happens only in these windows",
			Unreadable: "the pod's node is not disrupted",
		},
		{
			Key: OnDemandShareAnnotationKey, On: "Pod", Values: "a percentage such as `30%`, rounded up, or a number of pods such as `2`",
			Meaning:    "at least so many pods of the pod's owner run on on-demand or reserved machines; the others run where this costs least",
			Unreadable: "the annotation is ignored",
		},
		{
			Key: PauseAnnotationKey, On: "NodePool; the namespace kube-system for the whole cluster", Values: "`true`, or the time at which the pause ends: `2026-03-01T06:00:00Z`",
			Meaning:    "no node of the pool, or of any pool, is disrupted voluntarily; a NodeClaim that is deleted, expires or loses its machine ends in spite of the pause",
			Unreadable: "as `true`",
		},
		{
			Key: PauseReasonAnnotationKey, On: "NodePool; the namespace kube-system", Values: "any text",
			Meaning:    "the reason of the pause, which conditions and explanations repeat",
			Unreadable: "",
		},
		{
			Key: PaybackAnnotationKey, On: "NodePool", Values: "a duration such as `4h`, which is the default",
			Meaning:    "the time in which a consolidation has to save as much as the disturbance of the moved pods costs",
			Unreadable: "consolidation of the pool removes empty nodes only",
		},
		{
			Key: ReplaceBudgetsAnnotationKey, On: "NodePool", Values: "as for " + "`" + DeleteBudgetsAnnotationKey + "`",
			Meaning:    "limits how many nodes of the pool may be replaced at the same time, in addition to `spec.disruption.budgets`; an unhealthy node counts only for a budget with the reason `Unhealthy`",
			Unreadable: "no node of the pool is replaced",
		},
		{
			Key: RetireAnnotationKey, On: "NodePool", Values: "`true`",
			Meaning:    "the pool starts no more machines, and its nodes are removed as soon as they are empty, without regard to `consolidateAfter`",
			Unreadable: "the pool starts no more machines; its nodes are disrupted by the usual rules",
		},

		{
			Key: BriefPodLeftAnnotationKey, On: "NodeClaim", Ours: true, Values: "a time, such as `2026-03-01T06:00:00Z`",
			Meaning:    "the last time at which a pod of a Job, or a pod younger than 5 minutes, left the node; `consolidateAfter` counts from this time, within limits",
			Unreadable: "the annotation is ignored",
		},
		{
			Key: DisruptionAnnotationKey, On: "NodeClaim", Ours: true, Values: "JSON: id, reason, decided, nodes, replacements",
			Meaning:    "the node is removed once its replacements are ready; a restarted controller continues the disruption from this annotation",
			Unreadable: "the disruption is taken back",
		},
		{
			Key: DisruptionBackoffAnnotationKey, On: "NodeClaim", Ours: true, Values: "JSON: count, last, why, alone, reason",
			Meaning:    "a replacement of the node has failed. The node is not replaced for a while, and neither are the drifted nodes of its pool unless `alone` is set",
			Unreadable: "the annotation is ignored",
		},
		{
			Key: WrittenDeletionCostAnnotationKey, On: "Pod", Ours: true, Values: "the value of `" + PodDeletionCostAnnotationKey + "`",
			Meaning:    "Tenon wrote this value, because the pod's node is removed sooner or later than others (feature gate `PodDeletionCostManagement`). Tenon changes the value, and does not take it for a wish of the pod's owner",
			Unreadable: "the value counts as a user's, and Tenon does not change it",
		},
		{
			Key: PricePatienceAnnotationKey, On: "NodePool", Values: "a duration such as `5m`, which is the default, or `0s`",
			Meaning:    "while all cheap offerings are sold out, a machine for pending pods may cost up to four times its usual price, and this limit doubles each time that the duration has passed. A drifted node is never replaced at more than four times the usual price. `0s` allows any price at once",
			Unreadable: "the annotation is ignored",
		},
		{
			Key: MinMemoryAnnotationKey, On: "NodePool", Values: "an amount of memory such as `512Mi`, or `0`; the default is the controller's `--min-memory-for-pods`, 256Mi",
			Meaning:    "the memory that a machine must have for pods, beside its DaemonSets' pods, if the machine is started for a pod without a memory request. The rule does not apply if no other machine can run the pod, or if the pod or the pool names the instance type. `0` allows every machine",
			Unreadable: "the annotation is ignored",
		},
		{
			Key: LaunchBackoffAnnotationKey, On: "NodePool", Ours: true, Values: "JSON: for, failures (shape, instanceTypes, count, last, why)",
			Meaning:    "machines that did not take the pods for which they were started. Pods of the same shape get other instance types, and the same types again after a while. If you remove the annotation, the same types are tried at once",
			Unreadable: "the annotation is ignored",
		},
		{
			Key: LearnedDevicesAnnotationKey, On: "NodePool", Ours: true, Values: "JSON: for, types (the devices that drivers publish, by instance type)",
			Meaning:    "the devices of the pool's machines, for ResourceClaims. New machines are expected to have the same devices, until the pool's template changes",
			Unreadable: "the annotation is ignored",
		},
		{
			Key: LearnedTaintsAnnotationKey, On: "NodePool", Ours: true, Values: "JSON: a list of taint (key:effect), last",
			Meaning:    "taints that the pool does not declare, and that nodes of the pool lost within ten minutes of being ready. Tenon treats them like `startupTaints` on new nodes. Tenon forgets a taint a week after a node last lost it, or if the taint stays on a node",
			Unreadable: "the annotation is ignored",
		},
		{
			Key: MovedPodsAnnotationKey, On: "NodePool", Ours: true, Values: "JSON: a list of owner, count, last",
			Meaning:    "the number of pods of each owner that consolidation has moved within the last hour, by the minute; consolidation moves at most as many as the owner has",
			Unreadable: "the annotation is ignored",
		},
		{
			Key: UndeclaredTaintsAnnotationKey, On: "NodeClaim", Ours: true, Values: "taints as key:effect, separated by commas",
			Meaning:    "the undeclared taints of the node. A taint that is removed within ten minutes after the node is ready is learned as a startup taint of the pool",
			Unreadable: "nothing is learned from the node",
		},
		{
			Key: LaunchTokenAnnotationKey, On: "NodeClaim", Ours: true, Values: "a time and a random number; on Azure the name of the machine",
			Meaning:    "written before the cloud is asked for the machine. The machine has the same token, so that a restarted controller finds the machine",
			Unreadable: "Tenon looks for the machine by the name of its claim",
		},
		{
			Key: AppliedTagsAnnotationKey, On: "NodeClaim", Ours: true, Values: "keys of tags, separated by commas",
			Meaning:    "the tags that Tenon gave to the machine (Azure). If the tags of the node class change, Tenon leaves all other tags of the machine alone",
			Unreadable: "tags that were removed from the class stay on the machine",
		},
		{
			Key: KubeletIdentityAnnotationKey, On: "NodeClaim", Ours: true, Values: "the client ID of an identity of Azure",
			Meaning:    "the identity with which the node pulls images (AKS). If the installation names another identity, the machine has drifted (`KubeletIdentityDrift`)",
			Unreadable: "the machine has drifted",
		},
		{
			Key: KubeletVersionAnnotationKey, On: "NodeClaim", Ours: true, Values: "a version such as `1.34.2`",
			Meaning:    "the version of the node's kubelet (AKS). If the node class has another version, the machine has drifted (`K8sVersionDrift`)",
			Unreadable: "the machine has drifted",
		},
		{
			Key: LeaderAnnotationKey, On: "NodeClaim", Ours: true, Values: "the holder of the Lease by which leaders are elected",
			Meaning:    "the leader that created the claim. If another leader has begun to plan before it sees the claim, no machine is started for the claim",
			Unreadable: "the claim counts as another leader's",
		},
		{
			Key: MachineClusterAnnotationKey, On: "Machine (Cluster API)", Ours: true, Values: "the UID of a namespace kube-system",
			Meaning:    "the cluster with the machine's NodeClaim. Controllers of other clusters with the same management cluster ignore the machine",
			Unreadable: "the machine counts as another cluster's",
		},
		{
			Key: MachineDeploymentAnnotationKey, On: "NodeClaim", Ours: true, Values: "`<namespace>/<name>`",
			Meaning:    "the MachineDeployment of Cluster API that made the machine, or was scaled up for it",
			Unreadable: "another MachineDeployment is scaled up",
		},
		{
			Key: MachineTemplateAnnotationKey, On: "NodeClaim", Ours: true, Values: "the label `machine-template-hash` of a Machine",
			Meaning:    "the template of the machine. If the MachineDeployment has another template and the strategy OnDelete, the machine has drifted",
			Unreadable: "the machine has drifted",
		},
		{
			Key: MachineClaimAnnotationKey, On: "Machine (Cluster API)", Ours: true, Values: "the name of a NodeClaim",
			Meaning:    "the NodeClaim of the machine",
			Unreadable: "",
		},
		{
			Key: MachineClaimUIDAnnotationKey, On: "Machine (Cluster API)", Ours: true, Values: "the UID of a NodeClaim",
			Meaning:    "the NodeClaim of the machine. A machine without this annotation is given to the next claim that needs one, or is removed",
			Unreadable: "the machine is removed, because no claim owns it",
		},
		{
			Key: NoticeAnnotationKey, On: "Node", Ours: true, Values: "the kind of a notice, such as `SpotInterruption`",
			Meaning:    "the cloud has announced the end of the machine, and its pods are planned elsewhere. The claim's condition `DisruptionReason` repeats the kind",
			Unreadable: "",
		},
		{
			Key: AddedResourcesAnnotationKey, On: "NodeClaim", Ours: true, Values: "RESOURCE=OVERLAY, separated by commas",
			Meaning:    "the resources that a NodeOverlay promises of the machine. If the node does not get a resource, messages name the overlay",
			Unreadable: "no overlay is named",
		},
		{
			Key: PlannedPodsAnnotationKey, On: "NodeClaim", Ours: true, Values: "UIDs of pods, separated by commas",
			Meaning:    "the pods for which the machine was started. Their room is reserved until they are bound",
			Unreadable: "no room is reserved",
		},
		{
			Key: GangsAnnotationKey, On: "NodeClaim", Ours: true, Values: "names of PodGroups as namespace/name, separated by commas",
			Meaning:    "the groups of pods that start together and for which the machine was started. Its node accepts pods at the same time as the nodes of the groups' other machines",
			Unreadable: "the node accepts pods as soon as it is ready",
		},
		{
			Key: ReplacesAnnotationKey, On: "NodeClaim", Ours: true, Values: "JSON: id, claims",
			Meaning:    "the NodeClaims of the nodes that this machine replaces",
			Unreadable: "the machine counts as no replacement",
		},
	}
}

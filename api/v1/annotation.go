package v1

// Annotations of our own. The table below says what each means; docs/reference/annotations.md is made from it.
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

// DriftObserve is the value of DriftAnnotationKey that lets drift be seen and not acted on.
const DriftObserve = "observe"

// Annotation is one row of the reference of annotations.
//
// +kubebuilder:object:generate=false
type Annotation struct {
	Key string
	// On is the kind that carries it.
	On string
	// Values says what may be written, Meaning what comes of it, and Unreadable what any other value does.
	Values, Meaning, Unreadable string
	// Ours marks those that this program writes itself: nobody else is to change them.
	Ours bool
}

// Annotations are all annotations in this program's own domain, first those that people write.
func Annotations() []Annotation {
	return []Annotation{
		{
			Key: BudgetTimeZoneAnnotationKey, On: "NodePool", Values: "a zone of the tz database, such as `Europe/Zurich`",
			Meaning:    "the schedules of the pool's budgets, and windows of pods on its nodes that name no zone, are in this zone; without it, in UTC",
			Unreadable: "the budgets are closed: no node of the pool is disrupted",
		},
		{
			Key: DeleteBudgetsAnnotationKey, On: "NodePool", Values: "a number of nodes, a percentage, or a JSON list of budgets as in `spec.disruption.budgets`",
			Meaning:    "bounds how many nodes of the pool may go at the same time without being replaced, beside `spec.disruption.budgets`; broken ones only with the reason `Unhealthy`",
			Unreadable: "no node of the pool goes without being replaced",
		},
		{
			Key: DriftAnnotationKey, On: "NodePool", Values: "`observe`",
			Meaning:    "nodes that have drifted say so and stay",
			Unreadable: "as `observe`",
		},
		{
			Key: InterruptionCostAnnotationKey, On: "NodeOverlay", Values: "an amount in USD, such as `1.50`",
			Meaning:    "what it costs, in lost work, when the cloud takes a spot machine away that the overlay selects; decisions add this times the rate to what the machine costs",
			Unreadable: "the overlay is in force nowhere, and its condition says so",
		},
		{
			Key: InterruptionRateAnnotationKey, On: "NodeOverlay", Values: "a percentage of machines in a month, such as `5%`, or interruptions of a machine in an hour, such as `0.0001`",
			Meaning:    "how often the cloud takes spot machines away that the overlay selects",
			Unreadable: "the overlay is in force nowhere, and its condition says so",
		},
		{
			Key: LaunchDelayAnnotationKey, On: "Pod", Values: "a duration such as `30s`, at most `1h`",
			Meaning:    "no machine is started for the pod until it has been there for so long: another autoscaler, which starts nodes for it too, is to come first",
			Unreadable: "as if it were not there",
		},
		{
			Key: MoveWindowAnnotationKey, On: "Pod", Values: "a schedule and a duration, and a zone if it is not the pool's: `0 14 * * sun for 3h in Europe/Zurich`",
			Meaning:    "the pod's node is disrupted, as long as anybody has a choice, only in these windows",
			Unreadable: "the pod's node stays",
		},
		{
			Key: OnDemandShareAnnotationKey, On: "Pod", Values: "a percentage such as `30%`, rounded up, or a number of pods such as `2`",
			Meaning:    "at least so many pods of the pod's owner run on machines on demand, or reserved ones; the others where it is cheapest",
			Unreadable: "as if it were not there",
		},
		{
			Key: PauseAnnotationKey, On: "NodePool; the namespace kube-system for the whole cluster", Values: "`true`, or the time at which the pause ends: `2026-03-01T06:00:00Z`",
			Meaning:    "no node of the pool, or of any pool, is disrupted as long as anybody has a choice; claims that are deleted, expire or lose their machine go all the same",
			Unreadable: "as `true`",
		},
		{
			Key: PauseReasonAnnotationKey, On: "NodePool; the namespace kube-system", Values: "any text",
			Meaning:    "why the pool or the cluster is paused; conditions and explanations repeat it",
			Unreadable: "",
		},
		{
			Key: PaybackAnnotationKey, On: "NodePool", Values: "a duration such as `4h`, which is the default",
			Meaning:    "how soon a move that saves money must have paid back what it disturbs",
			Unreadable: "nodes of the pool are not moved to save money; empty ones go",
		},
		{
			Key: ReplaceBudgetsAnnotationKey, On: "NodePool", Values: "as for " + "`" + DeleteBudgetsAnnotationKey + "`",
			Meaning:    "bounds how many nodes of the pool may be replaced at the same time, beside `spec.disruption.budgets`; broken ones only with the reason `Unhealthy`",
			Unreadable: "no node of the pool is replaced",
		},
		{
			Key: RetireAnnotationKey, On: "NodePool", Values: "`true`",
			Meaning:    "the pool starts no more machines, and its nodes go as soon as they are empty, whatever consolidateAfter says",
			Unreadable: "the pool starts no more machines; its nodes are treated as usual",
		},

		{
			Key: BriefPodLeftAnnotationKey, On: "NodeClaim", Ours: true, Values: "a time, such as `2026-03-01T06:00:00Z`",
			Meaning:    "when a pod of a Job, or one that lived less than 5 minutes, last left the node; `consolidateAfter` counts from then, within limits",
			Unreadable: "as if it were not there",
		},
		{
			Key: DisruptionAnnotationKey, On: "NodeClaim", Ours: true, Values: "JSON: id, reason, decided, nodes, replacements",
			Meaning:    "the node is to go once its replacements are ready; what was begun is taken up from here after a restart",
			Unreadable: "the disruption is taken back",
		},
		{
			Key: DisruptionBackoffAnnotationKey, On: "NodeClaim", Ours: true, Values: "JSON: count, last, why, alone, reason",
			Meaning:    "replacing the node has failed; neither it nor, unless it is alone, drifted nodes of its pool are tried again for a while",
			Unreadable: "as if it were not there",
		},
		{
			Key: WrittenDeletionCostAnnotationKey, On: "Pod", Ours: true, Values: "the value of `" + PodDeletionCostAnnotationKey + "`",
			Meaning:    "that value was written because of what becomes of the pod's node (feature gate `PodDeletionCostManagement`); it changes with that, and does not count as a wish of the pod's owner",
			Unreadable: "the value is somebody else's, and stays as it is",
		},
		{
			Key: PricePatienceAnnotationKey, On: "NodePool", Values: "a duration such as `5m`, which is the default, or `0s`",
			Meaning:    "where everything cheap is sold out, pods pay up to four times the usual price of a machine at once, and twice as much after each such time, and what has drifted is not replaced at more than four times it; `0s` pays any price at once",
			Unreadable: "as if it were not there",
		},
		{
			Key: MinMemoryAnnotationKey, On: "NodePool", Values: "an amount of memory such as `512Mi`, or `0`; the controller's `--min-memory-for-pods`, 256Mi, unless said",
			Meaning:    "the pool starts no machine that leaves less memory to pods, beside those of DaemonSets, for a pod that requests no memory. It does not hold for a pod that nothing else can run, nor if the pod or the pool names the instance type; `0` allows every machine",
			Unreadable: "as if it were not there",
		},
		{
			Key: LaunchBackoffAnnotationKey, On: "NodePool", Ours: true, Values: "JSON: for, failures (shape, instanceTypes, count, last, why)",
			Meaning:    "machines that did not take the pods they were started for: such pods get other instance types, and these again after a while; removing it lets them be tried at once",
			Unreadable: "as if it were not there",
		},
		{
			Key: LearnedDevicesAnnotationKey, On: "NodePool", Ours: true, Values: "JSON: for, types (by instance type, what drivers of devices publish)",
			Meaning:    "the devices that machines of the pool were seen to have, for claims: machines that are not there yet are expected to have them too; it counts until the pool's template changes",
			Unreadable: "as if it were not there",
		},
		{
			Key: LearnedTaintsAnnotationKey, On: "NodePool", Ours: true, Values: "JSON: a list of taint (key:effect), last",
			Meaning:    "taints that nodes of the pool lost by themselves within ten minutes of being ready, although the pool does not declare them: new nodes with such a taint are waited for as with one of `startupTaints`; forgotten a week after a node last lost it, or if it stays on a node",
			Unreadable: "as if it were not there",
		},
		{
			Key: MovedPodsAnnotationKey, On: "NodePool", Ours: true, Values: "JSON: a list of owner, count, last",
			Meaning:    "how many pods of each owner consolidation has moved within the last hour, by the minute: at most as many as it has",
			Unreadable: "as if it were not there",
		},
		{
			Key: UndeclaredTaintsAnnotationKey, On: "NodeClaim", Ours: true, Values: "taints as key:effect, separated by commas",
			Meaning:    "taints of the node that nobody has declared, for the first ten minutes after it is ready: one that goes by then is learned as a startup taint of the pool",
			Unreadable: "nothing is learned from the node",
		},
		{
			Key: LaunchTokenAnnotationKey, On: "NodeClaim", Ours: true, Values: "a time and a random number; on Azure the name of the machine",
			Meaning:    "the cloud was about to be asked for the machine; the machine carries the same word, so that it is found again after a crash",
			Unreadable: "the machine is looked for all the same",
		},
		{
			Key: AppliedTagsAnnotationKey, On: "NodeClaim", Ours: true, Values: "keys of tags, separated by commas",
			Meaning:    "the tags that the machine was given (Azure); others on it are left alone when those of its node class change",
			Unreadable: "tags that the class does not have any more stay on the machine",
		},
		{
			Key: KubeletIdentityAnnotationKey, On: "NodeClaim", Ours: true, Values: "the client ID of an identity of Azure",
			Meaning:    "what the node pulls images with (AKS); where the installation names another, the machine has drifted (`KubeletIdentityDrift`)",
			Unreadable: "the machine has drifted",
		},
		{
			Key: KubeletVersionAnnotationKey, On: "NodeClaim", Ours: true, Values: "a version such as `1.34.2`",
			Meaning:    "that of the node's kubelet (AKS); where the node class is at another, the machine has drifted (`K8sVersionDrift`)",
			Unreadable: "the machine has drifted",
		},
		{
			Key: LeaderAnnotationKey, On: "NodeClaim", Ours: true, Values: "the holder of the Lease by which leaders are elected",
			Meaning:    "who created the claim; no machine is started for it if it turns up after another leader has begun to plan",
			Unreadable: "as another leader's",
		},
		{
			Key: MachineClusterAnnotationKey, On: "Machine (Cluster API)", Ours: true, Values: "the UID of a namespace kube-system",
			Meaning:    "the cluster whose NodeClaim the machine belongs to; others in the same management cluster leave it alone",
			Unreadable: "as another cluster's",
		},
		{
			Key: MachineDeploymentAnnotationKey, On: "NodeClaim", Ours: true, Values: "`<namespace>/<name>`",
			Meaning:    "the MachineDeployment of Cluster API that the machine comes from, or was asked of",
			Unreadable: "another is asked",
		},
		{
			Key: MachineTemplateAnnotationKey, On: "NodeClaim", Ours: true, Values: "the label `machine-template-hash` of a Machine",
			Meaning:    "what the machine was made from; where its MachineDeployment has another template and the strategy OnDelete, it has drifted",
			Unreadable: "the machine has drifted",
		},
		{
			Key: MachineClaimAnnotationKey, On: "Machine (Cluster API)", Ours: true, Values: "the name of a NodeClaim",
			Meaning:    "the claim that the machine belongs to",
			Unreadable: "",
		},
		{
			Key: MachineClaimUIDAnnotationKey, On: "Machine (Cluster API)", Ours: true, Values: "the UID of a NodeClaim",
			Meaning:    "the claim that the machine belongs to; without it, the machine is for the next claim that wants one, or goes",
			Unreadable: "the machine is stopped as one that no claim owns",
		},
		{
			Key: NoticeAnnotationKey, On: "Node", Ours: true, Values: "the kind of a notice, such as `SpotInterruption`",
			Meaning:    "the cloud takes the machine away, and its pods are planned for elsewhere; the claim's condition `DisruptionReason` repeats it",
			Unreadable: "",
		},
		{
			Key: AddedResourcesAnnotationKey, On: "NodeClaim", Ours: true, Values: "RESOURCE=OVERLAY, separated by commas",
			Meaning:    "the resources that a NodeOverlay says the machine will have, with the overlay: who waits for one in vain is told whose word it was",
			Unreadable: "no overlay is named",
		},
		{
			Key: PlannedPodsAnnotationKey, On: "NodeClaim", Ours: true, Values: "UIDs of pods, separated by commas",
			Meaning:    "the pods that the machine was started for; until they are bound their room is spoken for",
			Unreadable: "no room is spoken for",
		},
		{
			Key: GangsAnnotationKey, On: "NodeClaim", Ours: true, Values: "names of PodGroups as namespace/name, separated by commas",
			Meaning:    "the groups of pods that start together, of which some were the reason for the machine; its node opens with those of their other machines",
			Unreadable: "the node opens by itself",
		},
		{
			Key: ReplacesAnnotationKey, On: "NodeClaim", Ours: true, Values: "JSON: id, claims",
			Meaning:    "the claims whose nodes this machine replaces",
			Unreadable: "the machine is one like any other",
		},
	}
}

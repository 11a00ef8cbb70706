package v1

import corev1 "k8s.io/api/core/v1"

// Labels.
const (
	NodePoolLabelKey         = "karpenter.sh/nodepool"
	CapacityTypeLabelKey     = "karpenter.sh/capacity-type"
	RegisteredLabelKey       = "karpenter.sh/registered"  // "true" on a node once it has its claim's metadata
	InitializedLabelKey      = "karpenter.sh/initialized" // "true" on a node once pods may rely on it
	DoNotSyncTaintsLabelKey  = "karpenter.sh/do-not-sync-taints"
	ExcludeBalancersLabelKey = corev1.LabelNodeExcludeBalancers // set to ExcludeBalancersValue when draining begins
	ExcludeBalancersValue    = "karpenter"
)

// Values of CapacityTypeLabelKey.
const (
	CapacityTypeSpot     = "spot"
	CapacityTypeOnDemand = "on-demand"
	CapacityTypeReserved = "reserved"
)

// Values of the architecture label.
const (
	ArchitectureAMD64 = "amd64"
	ArchitectureARM64 = "arm64"
)

// Annotations.
const (
	DoNotDisruptAnnotationKey = "karpenter.sh/do-not-disrupt"
	// The names that DoNotDisruptAnnotationKey had on pods and on nodes before v1beta1. They are not read.
	DoNotEvictAnnotationKey                    = "karpenter.sh/do-not-evict"
	DoNotConsolidateAnnotationKey              = "karpenter.sh/do-not-consolidate"
	DoNotRepairAnnotationKey                   = "karpenter.sh/do-not-repair"
	DisruptionCostAnnotationKey                = "karpenter.sh/disruption-cost" // on pods; wins over PodDeletionCostAnnotationKey
	PodDeletionCostAnnotationKey               = corev1.PodDeletionCost
	NodePoolHashAnnotationKey                  = "karpenter.sh/nodepool-hash"
	NodePoolHashVersionAnnotationKey           = "karpenter.sh/nodepool-hash-version"
	NodeClaimTerminationTimestampAnnotationKey = "karpenter.sh/nodeclaim-termination-timestamp"
	MinValuesRelaxedAnnotationKey              = "karpenter.sh/nodeclaim-min-values-relaxed"
	RequestedDRADriversAnnotationKey           = "karpenter.sh/requested-dra-drivers"
	PriceOverlayAppliedAnnotationKey           = "karpenter.sh/price-overlay-applied"
	CapacityOverlayAppliedAnnotationKey        = "karpenter.sh/capacity-overlay-applied"
	RebootPreBootIDAnnotationKey               = "karpenter.sh/reboot-pre-boot-id"
	RebootGracePeriodAnnotationKey             = "karpenter.sh/reboot-termination-grace-period"
	BufferPodAnnotationKey                     = "karpenter.sh/capacity-buffer-fake-pod"
	BufferNameAnnotationKey                    = "karpenter.sh/capacity-buffer-name"
	BufferNamespaceAnnotationKey               = "karpenter.sh/capacity-buffer-namespace"
)

// Taints.
const (
	UnregisteredTaintKey    = "karpenter.sh/unregistered"
	DisruptedTaintKey       = "karpenter.sh/disrupted"
	LeavingSoonTaintKey     = "tenon.sh/leaving-soon"
	ReadinessTaintPrefix    = "readiness.k8s.io/" // every taint that begins so is temporary
	CloudProviderTaintKey   = "node.cloudprovider.kubernetes.io/uninitialized"
	NodeNotReadyTaintKey    = corev1.TaintNodeNotReady
	NodeUnreachableTaintKey = corev1.TaintNodeUnreachable
)

// TerminationFinalizer keeps a claim and its node until the machine is gone.
const TerminationFinalizer = "karpenter.sh/termination"

// ResourceNodes is the pseudo-resource of limits and pool status that counts nodes.
const ResourceNodes corev1.ResourceName = "nodes"

// UnregisteredTaint keeps pods off a node until its claim's labels and taints are on it.
func UnregisteredTaint() corev1.Taint {
	return corev1.Taint{Key: UnregisteredTaintKey, Effect: corev1.TaintEffectNoExecute}
}

// DisruptedTaint keeps pods off a node that is being removed.
func DisruptedTaint() corev1.Taint {
	return corev1.Taint{Key: DisruptedTaintKey, Effect: corev1.TaintEffectNoSchedule}
}

// LeavingSoonTaint sends pods elsewhere, if there is room, from a node that goes as soon as budgets allow.
func LeavingSoonTaint() corev1.Taint {
	return corev1.Taint{Key: LeavingSoonTaintKey, Effect: corev1.TaintEffectPreferNoSchedule}
}

package contract

// Group is the API group of Cluster API's own kinds.
const Group = "cluster.x-k8s.io"

// Labels of Machines and MachineSets.
const (
	ClusterNameLabel    = "cluster.x-k8s.io/cluster-name"
	DeploymentNameLabel = "cluster.x-k8s.io/deployment-name"
	SetNameLabel        = "cluster.x-k8s.io/set-name"
	TemplateHashLabel   = "machine-template-hash"
)

// Labels and annotations of MachineDeployments.
const (
	// MemberLabel, with an empty value, says that a MachineDeployment is for this autoscaler. Karpenter puts it on Machines too.
	MemberLabel = "node.cluster.x-k8s.io/karpenter-member"
	// TopologyOwnedLabel is on what a ClusterClass has made.
	TopologyOwnedLabel = "topology.cluster.x-k8s.io/owned"
	TopologyNameLabel  = "topology.cluster.x-k8s.io/deployment-name"

	MinSizeAnnotation  = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size"
	MaxSizeAnnotation  = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size"
	PriceAnnotation    = "cluster.x-k8s.io/machine-current-price" // USD per hour
	RevisionAnnotation = "machinedeployment.clusters.x-k8s.io/revision"

	// CapacityPrefix begins the annotations that say what a machine has; they are Cluster Autoscaler's.
	CapacityPrefix = "capacity.cluster-autoscaler.kubernetes.io/"
)

// Annotations of Machines.
const (
	DeleteAnnotation         = "cluster.x-k8s.io/delete-machine" // the first to go when replicas are taken away
	PausedAnnotation         = "cluster.x-k8s.io/paused"
	SkipRemediation          = "cluster.x-k8s.io/skip-remediation" // no MachineHealthCheck is to replace it
	ExcludeDrainAnnotation   = "machine.cluster.x-k8s.io/exclude-node-draining"
	ExcludeVolumesAnnotation = "machine.cluster.x-k8s.io/exclude-wait-for-node-volume-detach"
)

// KarpenterMachineAnnotation is where Karpenter writes on a NodeClaim which Machine is its own, "<namespace>/<name>". On a Node
// it is Cluster API's, with a bare name.
const KarpenterMachineAnnotation = "cluster.x-k8s.io/machine"

// Annotations of Nodes, by which Cluster API says whose machine a node is; its name stands in KarpenterMachineAnnotation.
const (
	NodeClusterAnnotation   = "cluster.x-k8s.io/cluster-name"
	NodeNamespaceAnnotation = "cluster.x-k8s.io/cluster-namespace"
	NodeOwnerAnnotation     = "cluster.x-k8s.io/owner-name" // a MachineSet, or what else has made it
)

// UninitializedTaint is on nodes until Cluster API has looked at them for the first time.
const UninitializedTaint = "node.cluster.x-k8s.io/uninitialized"

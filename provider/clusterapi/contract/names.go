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
	// MemberLabel, with an empty value, marks a MachineDeployment as one for this autoscaler. Karpenter sets it on Machines too.
	MemberLabel = "node.cluster.x-k8s.io/karpenter-member"
	// TopologyOwnedLabel marks objects that belong to a Cluster's topology.
	TopologyOwnedLabel = "topology.cluster.x-k8s.io/owned"
	TopologyNameLabel  = "topology.cluster.x-k8s.io/deployment-name"

	MinSizeAnnotation  = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size"
	MaxSizeAnnotation  = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size"
	PriceAnnotation    = "cluster.x-k8s.io/machine-current-price" // USD per hour
	RevisionAnnotation = "machinedeployment.clusters.x-k8s.io/revision"

	// CapacityPrefix begins the annotations with a machine's capacity. Cluster Autoscaler defined them.
	CapacityPrefix = "capacity.cluster-autoscaler.kubernetes.io/"
)

// Annotations of Machines.
const (
	DeleteAnnotation         = "cluster.x-k8s.io/delete-machine" // this Machine is deleted first when replicas are lowered
	PausedAnnotation         = "cluster.x-k8s.io/paused"
	SkipRemediation          = "cluster.x-k8s.io/skip-remediation" // no MachineHealthCheck may replace the Machine
	ExcludeDrainAnnotation   = "machine.cluster.x-k8s.io/exclude-node-draining"
	ExcludeVolumesAnnotation = "machine.cluster.x-k8s.io/exclude-wait-for-node-volume-detach"
)

// KarpenterMachineAnnotation is an annotation of NodeClaims, by Karpenter: the claim's Machine, "<namespace>/<name>". On a Node, the
// annotation is Cluster API's and has only the name.
const KarpenterMachineAnnotation = "cluster.x-k8s.io/machine"

// Annotations of Nodes that name the node's Machine and its owner; the Machine's name is in KarpenterMachineAnnotation.
const (
	NodeClusterAnnotation   = "cluster.x-k8s.io/cluster-name"
	NodeNamespaceAnnotation = "cluster.x-k8s.io/cluster-namespace"
	NodeOwnerAnnotation     = "cluster.x-k8s.io/owner-name" // a MachineSet, or another owner of the Machine
)

// UninitializedTaint is on nodes until Cluster API has processed them for the first time.
const UninitializedTaint = "node.cluster.x-k8s.io/uninitialized"

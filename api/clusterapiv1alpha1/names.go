package clusterapiv1alpha1

// Labels of instance types, made from their capacity; what machines themselves carry is up to their MachineDeployments.
const (
	InstanceCPULabelKey    = "karpenter.cluster.x-k8s.io/instance-cpu"    // whole cores
	InstanceMemoryLabelKey = "karpenter.cluster.x-k8s.io/instance-memory" // MiB
)

// Conditions of a ClusterAPINodeClass beside Ready.
const (
	// ConditionMachineDeploymentsReady is true if machines can be made from at least one MachineDeployment. Its message names
	// those that cannot be used, and why.
	ConditionMachineDeploymentsReady = "MachineDeploymentsReady"
	// ConditionManagementClusterReady is true if the API server that holds the MachineDeployments answers.
	ConditionManagementClusterReady = "ManagementClusterReady"
)

// Drift policies: what happens to machines whose template has changed.
const (
	// DriftReplace replaces them within the budgets of their NodePool where Cluster API does not do so by itself: where the
	// strategy of their MachineDeployment is OnDelete.
	DriftReplace = "Replace"
	// DriftDefer leaves upgrades to Cluster API: such machines count as drifted, and stay until it replaces them.
	DriftDefer = "DeferToClusterAPI"
	// DriftIgnore says nothing of it.
	DriftIgnore = "Ignore"
)

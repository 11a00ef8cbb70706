package clusterapiv1alpha1

// Labels of instance types, made from their capacity. The MachineDeployments determine the labels of machines.
const (
	InstanceCPULabelKey    = "karpenter.cluster.x-k8s.io/instance-cpu"    // whole cores
	InstanceMemoryLabelKey = "karpenter.cluster.x-k8s.io/instance-memory" // MiB
)

// Conditions of a ClusterAPINodeClass besides Ready.
const (
	// ConditionMachineDeploymentsReady is true if at least one MachineDeployment can make machines. Its message names the unusable
	// MachineDeployments with the reasons.
	ConditionMachineDeploymentsReady = "MachineDeploymentsReady"
	// ConditionManagementClusterReady is true if the API server that holds the MachineDeployments answers.
	ConditionManagementClusterReady = "ManagementClusterReady"
)

// Drift policies for machines whose template has changed.
const (
	// DriftReplace replaces the machines within the budgets of their NodePool if Cluster API does not replace them itself, because the
	// strategy of their MachineDeployment is OnDelete.
	DriftReplace = "Replace"
	// DriftDefer leaves upgrades to Cluster API: the machines count as drifted, and stay until Cluster API replaces them.
	DriftDefer = "DeferToClusterAPI"
	// DriftIgnore ignores the change.
	DriftIgnore = "Ignore"
)

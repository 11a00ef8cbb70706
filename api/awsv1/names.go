package awsv1

// Group is the API group of the kinds here, and the domain of their labels and annotations.
const Group = "karpenter.k8s.aws"

// Annotations.
const (
	HashAnnotationKey            = Group + "/ec2nodeclass-hash"
	HashVersionAnnotationKey     = Group + "/ec2nodeclass-hash-version"
	InstanceProfileAnnotationKey = Group + "/instance-profile-name"
	TaggedAnnotationKey          = Group + "/tagged" // "true" once the machine carries its node's name as a tag
	ClusterTaggedAnnotationKey   = "compatibility.karpenter.k8s.aws/cluster-name-tagged"
)

// Tenon's annotations on claims: the settings of the machine, to be compared with the objects that its class selects.
const (
	SubnetAnnotationKey         = "tenon.sh/subnet-id"
	SecurityGroupsAnnotationKey = "tenon.sh/security-group-ids" // in order, separated by commas
)

// TerminationFinalizer keeps a class until the objects that were made for it in the account are deleted.
const TerminationFinalizer = Group + "/termination"

// Labels of machines besides the labels of instance types.
const (
	NodeClassLabelKey                = Group + "/ec2nodeclass"
	TenancyLabelKey                  = Group + "/instance-tenancy"
	ReservationIDLabelKey            = Group + "/capacity-reservation-id"
	ReservationTypeLabelKey          = Group + "/capacity-reservation-type"
	ReservationInterruptibleLabelKey = Group + "/capacity-reservation-interruptible"
	PlacementGroupIDLabelKey         = Group + "/placement-group-id"
	PlacementGroupPartitionLabelKey  = Group + "/placement-group-partition"
	ZoneIDLabelKey                   = "topology.k8s.aws/zone-id"
)

// Labels of instance types.
const (
	CPULabelKey                     = Group + "/instance-cpu"
	CPUManufacturerLabelKey         = Group + "/instance-cpu-manufacturer"
	CPUClockLabelKey                = Group + "/instance-cpu-sustained-clock-speed-mhz"
	MemoryLabelKey                  = Group + "/instance-memory"
	EBSBandwidthLabelKey            = Group + "/instance-ebs-bandwidth"
	NetworkBandwidthLabelKey        = Group + "/instance-network-bandwidth"
	CategoryLabelKey                = Group + "/instance-category"
	GenerationLabelKey              = Group + "/instance-generation"
	FamilyLabelKey                  = Group + "/instance-family"
	SizeLabelKey                    = Group + "/instance-size"
	LocalNVMeLabelKey               = Group + "/instance-local-nvme"
	FlexLabelKey                    = Group + "/instance-capability-flex"
	GPUNameLabelKey                 = Group + "/instance-gpu-name"
	GPUManufacturerLabelKey         = Group + "/instance-gpu-manufacturer"
	GPUCountLabelKey                = Group + "/instance-gpu-count"
	GPUMemoryLabelKey               = Group + "/instance-gpu-memory"
	AcceleratorNameLabelKey         = Group + "/instance-accelerator-name"
	AcceleratorManufacturerLabelKey = Group + "/instance-accelerator-manufacturer"
	AcceleratorCountLabelKey        = Group + "/instance-accelerator-count"
	HypervisorLabelKey              = Group + "/instance-hypervisor"
	EncryptionInTransitLabelKey     = Group + "/instance-encryption-in-transit-supported"
	NitroSandboxLabelKey            = Group + "/nitro-sandbox"
)

// Tags in the account.
const (
	ClusterTagPrefix  = "kubernetes.io/cluster/" // followed by the cluster's name; the value is ClusterTagOwned
	ClusterTagOwned   = "owned"
	ClusterNameTagKey = "eks:eks-cluster-name"
	NameTagKey        = "Name"
)

// Resources of machines.
const (
	ResourceNVIDIAGPU   = "nvidia.com/gpu"
	ResourceAMDGPU      = "amd.com/gpu"
	ResourceGaudi       = "habana.ai/gaudi"
	ResourceNeuron      = "aws.amazon.com/neuron"
	ResourceNeuronCore  = "aws.amazon.com/neuroncore"
	ResourcePodENI      = "vpc.amazonaws.com/pod-eni"
	ResourceEFA         = "vpc.amazonaws.com/efa"
	ResourcePrivateIPv4 = "vpc.amazonaws.com/PrivateIPv4Address"
	// ResourceNitroSandbox is requested by pods, and enables enclaves. Machines do not list it.
	ResourceNitroSandbox = "eks.amazonaws.com/nitro-sandbox"
)

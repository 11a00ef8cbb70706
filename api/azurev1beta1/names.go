package azurev1beta1

// Group is the API group of the kinds here, and the domain of their labels and annotations.
const Group = "karpenter.azure.com"

// aksDomain is the domain of the labels that AKS sets on its nodes.
const aksDomain = "kubernetes.azure.com"

// Annotations.
const (
	HashAnnotationKey            = Group + "/aksnodeclass-hash"
	HashVersionAnnotationKey     = Group + "/aksnodeclass-hash-version"
	InPlaceUpdateAnnotationKey   = Group + "/in-place-update-hash"    // on claims: InPlaceUpdateHash at the machine's last update
	MachineResourceAnnotationKey = Group + "/aks-machine-resource-id" // on claims whose machine AKS itself has made
)

// ClusterTagKey is the tag with the cluster of a machine. Like all tags, it has _ instead of the slash.
const ClusterTagKey = Group + "/cluster"

// AKSMachineClaimTagKey is the tag with the claim of machines that AKS itself has made.
const AKSMachineClaimTagKey = Group + "/aksmachine_nodeclaim"

// TerminationFinalizer keeps a class while there are machines of it.
const TerminationFinalizer = Group + "/termination"

// Labels of instance types.
const (
	NodeClassLabelKey             = Group + "/aksnodeclass"
	SKUNameLabelKey               = Group + "/sku-name"    // such as Standard_D4pls_v6
	SKUFamilyLabelKey             = Group + "/sku-family"  // D
	SKUSeriesLabelKey             = Group + "/sku-series"  // Dpls_v6
	SKUVersionLabelKey            = Group + "/sku-version" // 6
	SKUCPULabelKey                = Group + "/sku-cpu"
	SKUMemoryLabelKey             = Group + "/sku-memory" // MiB
	SKUAcceleratedNetworkLabelKey = Group + "/sku-networking-accelerated"
	SKUPremiumStorageLabelKey     = Group + "/sku-storage-premium-capable"
	SKUEphemeralOSDiskLabelKey    = Group + "/sku-storage-ephemeralos-maxsize" // GB
	SKUUltraSSDLabelKey           = Group + "/sku-storage-ultra-ssd"
	SKUGPUNameLabelKey            = Group + "/sku-gpu-name"
	SKUGPUManufacturerLabelKey    = Group + "/sku-gpu-manufacturer"
	SKUGPUCountLabelKey           = Group + "/sku-gpu-count"
	PlacementScopeLabelKey        = Group + "/placement-scope"
	// SKUHyperVGenerationLabelKey determines the choice of images. Neither pools nor pods may require it.
	SKUHyperVGenerationLabelKey = Group + "/sku-hyperv-generation"
	// SKUDiskControllerLabelKey is a similar label for the attachment of disks, SCSI or NVMe.
	SKUDiskControllerLabelKey = Group + "/sku-disk-controller"
)

// Labels of AKS's own that instance types have too.
const (
	AKSClusterLabelKey          = aksDomain + "/cluster"
	AKSModeLabelKey             = aksDomain + "/mode"
	AKSScaleSetPriorityLabelKey = aksDomain + "/scalesetpriority"
	AKSPriorityLabelKey         = aksDomain + "/priority"
	AKSOSSKULabelKey            = aksDomain + "/os-sku"
	AKSFIPSEnabledLabelKey      = aksDomain + "/fips_enabled"
	AKSCPULabelKey              = aksDomain + "/sku-cpu"
	AKSMemoryLabelKey           = aksDomain + "/sku-memory"
	AKSKubeletIdentityLabelKey  = aksDomain + "/kubelet-identity-client-id"
)

// Values of the label PlacementScopeLabelKey.
const (
	PlacementZonal    = "zonal"
	PlacementRegional = "regional"
)

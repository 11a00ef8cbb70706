package azurev1beta1

// Group is the API group of the kinds here, and the domain of their labels and annotations.
const Group = "karpenter.azure.com"

// aksDomain is the domain of the labels that AKS puts on its nodes.
const aksDomain = "kubernetes.azure.com"

// Annotations.
const (
	HashAnnotationKey            = Group + "/aksnodeclass-hash"
	HashVersionAnnotationKey     = Group + "/aksnodeclass-hash-version"
	InPlaceUpdateAnnotationKey   = Group + "/in-place-update-hash"    // on claims: what InPlaceUpdateHash said of the machine
	MachineResourceAnnotationKey = Group + "/aks-machine-resource-id" // on claims whose machine AKS itself has made
)

// ClusterTagKey is the tag that says which cluster a machine belongs to, as all tags with _ for the slash.
const ClusterTagKey = Group + "/cluster"

// AKSMachineClaimTagKey is the tag of machines that AKS itself has made: the name of their claim.
const AKSMachineClaimTagKey = Group + "/aksmachine_nodeclaim"

// TerminationFinalizer keeps a class for as long as there are machines of it.
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
	// SKUHyperVGenerationLabelKey is what images are chosen by. Neither pools nor pods may ask for it.
	SKUHyperVGenerationLabelKey = Group + "/sku-hyperv-generation"
	// SKUDiskControllerLabelKey is the same of how disks are attached, SCSI or NVMe.
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

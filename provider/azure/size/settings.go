package size

import "cmp"

// DefaultMemoryOverhead is the largest share of a machine's nominal memory that its hypervisor takes.
const DefaultMemoryOverhead = 0.075

// The families of images.
const (
	Ubuntu     = "Ubuntu"
	Ubuntu2204 = "Ubuntu2204"
	Ubuntu2404 = "Ubuntu2404"
	AzureLinux = "AzureLinux"
)

// Network plugins, with the values of option NETWORK_PLUGIN, and the mode of Azure's plugin in which pods have addresses of a separate
// network.
const (
	PluginAzure = "azure"
	PluginNone  = "none"
	ModeOverlay = "overlay"
)

// Settings holds the settings of a class and of the installation that nodes and the choice of sizes depend on.
type Settings struct {
	// Region is Azure's name, "eastus".
	Region string
	// Cluster is the value of label kubernetes.azure.com/cluster, "" for none.
	Cluster string

	ImageFamily string // "" for Ubuntu
	// Images holds, for each of the class's images, the labels that the image demands, with the allowed values. It is empty if no images are
	// known.
	Images []map[string][]string

	FIPS, EncryptionAtHost, TrustedLaunch bool
	LocalDNS, ArtifactStreaming           bool
	NoGPUDriver                           bool // gpu.mode is None

	OSDiskGB int64 // 0 for 128
	// EphemeralOSDisk requires an OS disk on the machine's local storage. PremiumDisks is true if any disk uses premium storage. DataDisks is
	// the number of data disks of each machine, beside the OS disk.
	EphemeralOSDisk, PremiumDisks bool
	DataDisks                     int
	MaxPods                       int // 0 for the network plugin's number
	Plugin                        string
	Mode                          string // of the plugin
	// MemoryOverhead is the share of the nominal memory that the hypervisor takes.
	MemoryOverhead float64
	Kubelet        Kubelet

	// SelfManaged means that the cluster is not AKS: its nodes may be smaller, of a constrained size, and have any GPU.
	SelfManaged bool
	// Regional offers every size without a zone as well; otherwise, only sizes that are not sold in zones are.
	Regional bool
}

// Defaults returns the settings of an installation with only a region, for a class without settings.
func Defaults(region string) Settings {
	return Settings{Region: region, Plugin: PluginAzure, Mode: ModeOverlay, MemoryOverhead: DefaultMemoryOverhead}
}

func (s *Settings) diskGB() int64 { return cmp.Or(s.OSDiskGB, 128) }

// pods returns the number of pods of a node. It does not depend on the size.
func (s *Settings) pods() int64 {
	switch {
	case s.MaxPods > 0:
		return int64(s.MaxPods)
	case s.Plugin == PluginNone, s.Plugin == PluginAzure && s.Mode == ModeOverlay:
		return 250
	case s.Plugin == PluginAzure && s.Mode == "":
		return 30
	}
	return 110
}

// Kubelet holds the known settings of the kubelet.
type Kubelet struct {
	Reserves Reserves
	// The known quantities, which replace those of Reserves.
	KubeReserved, SystemReserved, EvictionHard map[string]string
}

// Reserves is the rule by which a node reserves resources.
type Reserves int

const (
	// ByMachine is the table of AKS before 1.29, which Karpenter's nodes use: a share of the machine.
	ByMachine Reserves = iota
	// ByPods is AKS's rule from 1.29: memory for each pod.
	ByPods
	// NotAtAll is a kubelet without reservations.
	NotAtAll
)

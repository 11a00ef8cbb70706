package size

import "cmp"

// DefaultMemoryOverhead is the part of a machine's nominal memory that its hypervisor takes, at most.
const DefaultMemoryOverhead = 0.075

// The families of images.
const (
	Ubuntu     = "Ubuntu"
	Ubuntu2204 = "Ubuntu2204"
	Ubuntu2404 = "Ubuntu2404"
	AzureLinux = "AzureLinux"
)

// Network plugins, as the option NETWORK_PLUGIN names them, and the mode of Azure's in which pods have addresses of their own network.
const (
	PluginAzure = "azure"
	PluginNone  = "none"
	ModeOverlay = "overlay"
)

// Settings is what a class asks for and what the installation was told, as far as its nodes and the choice of sizes depend on it.
type Settings struct {
	// Region is Azure's name, "eastus".
	Region string
	// Cluster is the value of label kubernetes.azure.com/cluster, "" for none.
	Cluster string

	ImageFamily string // "" for Ubuntu
	// Images are the labels of the machines that the class's images are for, with the values that will do; none if nothing is
	// known of them.
	Images []map[string][]string

	FIPS, EncryptionAtHost, TrustedLaunch bool
	LocalDNS, ArtifactStreaming           bool
	NoGPUDriver                           bool // gpu.mode is None

	OSDiskGB int64 // 0 for 128
	// EphemeralOSDisk wants the system on the machine's own disks, PremiumDisks some disk on premium storage; DataDisks is how many
	// more disks every machine has.
	EphemeralOSDisk, PremiumDisks bool
	DataDisks                     int
	MaxPods                       int // 0 for what the network plugin takes
	Plugin                        string
	Mode                          string // of the plugin
	// MemoryOverhead is the part of the nominal memory that the hypervisor takes.
	MemoryOverhead float64
	Kubelet        Kubelet

	// SelfManaged is a cluster that is not AKS: its nodes may be smaller, of a constrained size, and have any GPU.
	SelfManaged bool
	// Regional has every size offered in no zone in particular as well; otherwise only those are that are sold in no zone.
	Regional bool
}

// Defaults are those of an installation that was told nothing but its region, for a class that asks for nothing.
func Defaults(region string) Settings {
	return Settings{Region: region, Plugin: PluginAzure, Mode: ModeOverlay, MemoryOverhead: DefaultMemoryOverhead}
}

func (s *Settings) diskGB() int64 { return cmp.Or(s.OSDiskGB, 128) }

// pods is the number of pods that a node takes. It does not depend on the size.
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

// Kubelet is what is known of what the kubelet is told.
type Kubelet struct {
	Reserves Reserves
	// What is kept back, where something else is known than what Reserves says.
	KubeReserved, SystemReserved, EvictionHard map[string]string
}

// Reserves says by which rule a node keeps resources back.
type Reserves int

const (
	// ByMachine is the table of AKS before 1.29, which Karpenter's nodes have: a part of the machine.
	ByMachine Reserves = iota
	// ByPods is AKS's rule from 1.29: memory for each pod.
	ByPods
	// NotAtAll is a kubelet that was told nothing.
	NotAtAll
)

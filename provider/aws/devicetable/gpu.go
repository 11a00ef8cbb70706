package devicetable

// The drivers, and the pools in which they publish a machine's devices.
const (
	// GPUDriver is NVIDIA's driver.
	GPUDriver = "gpu.nvidia.com"
	gpuPool   = "gpus"
	// EFADriver is DRANET, which allocates EFA interfaces.
	EFADriver = "dra.net"
	efaPool   = "network"
)

// pcieRoot is the attribute that is equal for devices behind one PCIe root, whatever their driver.
const pcieRoot = "resource.kubernetes.io/pcieRoot"

// rooted describes which GPUs of a machine are behind one PCIe root, as far as this is known.
type rooted int

const (
	unseen rooted = iota
	apart         // each has its own
	inPairs
	together
)

// gpu holds the attributes that NVIDIA's driver publishes for a GPU. A missing figure is unknown: the table then does not satisfy a claim
// that asks for it.
type gpu struct {
	product, architecture, compute string
	mebibytes                      int64
	roots                          rooted
	// efas is the number of EFA interfaces behind each GPU's root; 0 if there are none or if it is unknown.
	efas int
	// efasApart is true if no EFA interface is behind a GPU's root.
	efasApart bool
}

// gpus has a row for each family, and for each type that differs from its family. EC2 reports the number of GPUs.
var gpus = map[string]gpu{
	"g4dn":          {product: "Tesla T4", architecture: "Turing", compute: "7.5.0", mebibytes: 15 * 1024, roots: together},
	"g4dn.metal":    {product: "Tesla T4", architecture: "Turing", compute: "7.5.0", mebibytes: 15 * 1024, roots: inPairs},
	"g5":            {product: "NVIDIA A10G", architecture: "Ampere", compute: "8.6.0", mebibytes: 23028, roots: together},
	"g5g":           {product: "NVIDIA T4G", architecture: "Turing"},
	"g6":            {product: "NVIDIA L4", architecture: "Ada Lovelace", compute: "8.9.0", mebibytes: 23034, roots: apart, efasApart: true},
	"gr6":           {product: "NVIDIA L4", architecture: "Ada Lovelace", compute: "8.9.0", mebibytes: 23034},
	"g6e":           {product: "NVIDIA L40S", architecture: "Ada Lovelace", compute: "8.9.0", mebibytes: 46068, roots: apart},
	"g6f.large":     {product: "NVIDIA L4-3Q", architecture: "Ada Lovelace", mebibytes: 2861},
	"g6f.xlarge":    {product: "NVIDIA L4-3Q", architecture: "Ada Lovelace", mebibytes: 2861},
	"g6f.2xlarge":   {product: "NVIDIA L4-6Q", architecture: "Ada Lovelace", mebibytes: 5722},
	"g6f.4xlarge":   {product: "NVIDIA L4-12Q", architecture: "Ada Lovelace", mebibytes: 11444},
	"gr6f.4xlarge":  {product: "NVIDIA L4-12Q", architecture: "Ada Lovelace", mebibytes: 11444},
	"p3dn.24xlarge": {product: "Tesla V100-SXM2-32GB", architecture: "Volta"},
	"p4d":           {product: "NVIDIA A100-SXM4-40GB", architecture: "Ampere", compute: "8.0.0", mebibytes: 40 * 1024, roots: inPairs},
	"p4de":          {product: "NVIDIA A100-SXM4-80GB", architecture: "Ampere", compute: "8.0.0"},
	// The driver publishes 81559Mi, or 81152Mi if it can partition GPUs.
	"p5":          {product: "NVIDIA H100 80GB HBM3", architecture: "Hopper", compute: "9.0.0", mebibytes: 81152, roots: apart},
	"p5.48xlarge": {product: "NVIDIA H100 80GB HBM3", architecture: "Hopper", compute: "9.0.0", mebibytes: 81152, roots: apart, efas: 4},
	"p5e":         {product: "NVIDIA H200", architecture: "Hopper", compute: "9.0.0", mebibytes: 140 * 1024},
	"p5en":        {product: "NVIDIA H200", architecture: "Hopper", compute: "9.0.0", mebibytes: 140 * 1024, roots: inPairs},
	"p6-b200":     {product: "NVIDIA B200", architecture: "Blackwell", compute: "10.0.0", mebibytes: 182784, roots: inPairs},
	"p6-b300":     {product: "NVIDIA B300 SXM6 AC", architecture: "Blackwell", compute: "10.3.0", mebibytes: 268 * 1024, roots: apart},
}

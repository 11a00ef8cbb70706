// Package size turns what EC2 says of an instance type, and what a node class asks for, into what a node of that type is:
// its labels, what it has and what it keeps back. It calls nothing and knows no prices.
package size

// Figures is what matters here of what EC2 says of an instance type: a tenth of what it sends.
type Figures struct {
	Name string
	// Architecture is amd64 or arm64.
	Architecture string
	VCPUs        int
	MemoryMiB    int64
	// Manufacturer makes the processors and ClockMHz is their speed; "" and 0 if EC2 does not say.
	Manufacturer string
	ClockMHz     int
	// Hypervisor is nitro, xen, or "" for a machine without one.
	Hypervisor           string
	Encrypts             bool // traffic between machines
	Enclaves             bool
	NestedVirtualization bool
	OnDemand, Spot       bool
	// Strategies are those of the placement groups that take the type.
	Strategies []string
	// Untold means that nobody said whether the type has Enclaves and NestedVirtualization, and which Strategies: no label
	// tells then, and a class that needs them may use the type, of enclaves by AWS's rule.
	Untold bool

	// StoreGB is the size of the disks that are in the machine, NVMeGB the same unless they are older than NVMe.
	StoreGB, NVMeGB int64
	EBSMbps         int
	// Volumes is how many volumes of EBS the machine takes besides its first network interface, 0 if EC2 does not say. Dedicated
	// means that further interfaces take no places of them.
	Volumes   int
	Dedicated bool

	NetworkMbps int64
	BranchENIs  int

	// Cards holds the number of interfaces that each network card takes.
	Cards       []int
	DefaultCard int
	IPv4PerENI  int
	ENA         bool
	EFA         int

	GPUs         []Device
	Accelerators []Device // for inference, as EC2 lists some of them
	Neurons      []Device
}

// Device is one model of accelerator in a machine.
type Device struct {
	Name, Manufacturer string
	// Count is as EC2 has it: 0 of a GPU of which a machine gets a part.
	Count     int
	MemoryMiB int64
	Cores     int // of each, of Neuron devices
}

// number is how many devices pods see: the part of a GPU that a machine has is a whole one to them.
func (d *Device) number() int { return max(d.Count, 1) }

// Static is what EC2's API does not say of a type.
type Static struct {
	NetworkMbps int64
	BranchENIs  int
}

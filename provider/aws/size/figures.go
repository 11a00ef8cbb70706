// Package size computes the properties of nodes from EC2's description of an instance type and the settings of a node class: labels, capacity
// and overhead. It calls no service and has no prices.
package size

// Figures holds the used part of EC2's description of an instance type, about a tenth of it.
type Figures struct {
	Name string
	// Architecture is amd64 or arm64.
	Architecture string
	VCPUs        int
	MemoryMiB    int64
	// Manufacturer is the manufacturer of the processors, and ClockMHz their clock rate; "" and 0 if EC2 does not give them.
	Manufacturer string
	ClockMHz     int
	// Hypervisor is nitro, xen, or "" for a machine without one.
	Hypervisor           string
	Encrypts             bool // traffic between machines
	Enclaves             bool
	NestedVirtualization bool
	OnDemand, Spot       bool
	// Strategies are the strategies of placement groups that accept the type.
	Strategies []string
	// Untold means that Enclaves, NestedVirtualization and Strategies are unknown. There is then no label for enclaves, and a class that
	// needs them may use the type; for enclaves, AWS's rule decides.
	Untold bool

	// StoreGB is the size of the machine's own disks. NVMeGB is the same size if they are NVMe disks. Otherwise it is 0.
	StoreGB, NVMeGB int64
	EBSMbps         int
	// Volumes is the number of EBS volumes that the machine takes besides its first network interface, 0 if EC2 does not give it. Dedicated
	// means that further interfaces do not reduce it.
	Volumes   int
	Dedicated bool

	NetworkMbps int64
	BranchENIs  int

	// Cards holds the number of interfaces of each network card.
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
	// Count is EC2's number: 0 for a machine with a part of a GPU.
	Count     int
	MemoryMiB int64
	Cores     int // of each, for Neuron devices
}

// number returns the number of devices that pods see: a part of a GPU counts as one.
func (d *Device) number() int { return max(d.Count, 1) }

// Static holds properties of a type that EC2's API does not give.
type Static struct {
	NetworkMbps int64
	BranchENIs  int
}

package simulated

import "time"

// Profile is the behaviour of a cloud. Each part is independent of the others; the zero value of a part switches it off.
type Profile struct {
	Boot     BootModel
	Shortage ShortageModel
	Spot     SpotModel
	Throttle ThrottleModel
	Lag      LagModel
	Quota    Quota
	// Termination is the time that a machine takes to stop; meanwhile the machine is billed, and listed as leaving.
	Termination Stage
	// LeastBilled is the shortest time for which a machine is billed.
	LeastBilled time.Duration
	// NeverRegisters, NeverReady and FailsLater are shares of machines: machines that never register as nodes, machines that register but never
	// become ready, and machines that the cloud starts but gives up during the boot.
	NeverRegisters, NeverReady, FailsLater float64
	// SilentDeaths is the number of machines that die without notice, per machine and hour.
	SilentDeaths float64
	// AllocatableError is the standard deviation of a node's real memory around the memory of the catalog, as a share.
	AllocatableError float64
	// MissingInZone is the share of instance types that one zone does not sell.
	MissingInZone float64
	// Faults happen at set times.
	Faults []Fault
}

// Stage is a random time: log-normal with this median, and this standard deviation of its logarithm.
type Stage struct {
	Median time.Duration
	Sigma  float64
}

// BootModel describes the time from the call that starts a machine until its node is ready.
type BootModel struct {
	// Fixed is a constant delay until the node registers and is ready, in addition to the stages.
	Fixed time.Duration
	// Linux, Spot, GPU, Metal and Windows are the stages for these kinds of machine.
	Linux, Spot, GPU, Metal, Windows BootStages
	// Factor multiplies all stages; 0 means 1.
	Factor float64
	// SlowTail is the share of machines that boot two to six times slower.
	SlowTail float64
	// QueueAbove is the number of launches that a zone starts without delay in one second. Further launches wait, 1 s for every 10; 0 means
	// no limit.
	QueueAbove int
}

// BootStages are the parts of a boot, one after another.
type BootStages struct {
	Accept   Stage // the call itself
	Run      Stage // pending until running
	Register Stage // running until the kubelet registers
	Ready    Stage // registered until ready
}

// ShortageModel describes how often each kind of offering is sold out: the share of time, and the mean length of an episode. At the start of
// an episode, a few machines are left (Poisson, mean 3).
type ShortageModel struct {
	Common, Newest, GPU, SpotCommon, SpotGPU Shortage
}

// Shortage describes how often one kind of offering is sold out.
type Shortage struct {
	Share float64
	Mean  time.Duration
}

// SpotModel describes interruptions and prices of spot machines.
type SpotModel struct {
	// Hazard is the number of interruptions per machine and hour. Interruptions come in batches: on average, one event takes two thirds of a
	// type's machines in a zone within three minutes. The type is then sold out there for SoldOutFor.
	Hazard     float64
	SoldOutFor time.Duration
	// Notice is the time between the cloud's notice and the end of the machine.
	Notice time.Duration
	// PricesMove lets spot prices change slowly, at most every six hours. The list of prices is at most twelve hours old.
	PricesMove bool
}

// ThrottleModel holds one token bucket for every kind of call, and for the machines within calls.
type ThrottleModel struct {
	Describe, Launch, LaunchMachines, Terminate, TerminateMachines Bucket
}

// Bucket is a token bucket: full at first, refilled at PerSecond. A Size of 0 never throttles.
type Bucket struct {
	Size, PerSecond float64
}

// LagModel describes how long reads do not show a new machine. List is the additional lag of lists.
type LagModel struct {
	Describe Stage
	List     time.Duration
}

// Quota limits the machines that run at the same time; 0 means no limit.
type Quota struct {
	OnDemandCPU, SpotCPU, GPU int64
}

// awsBoot returns EC2's boot times. Medians and deviations of the stages are fitted by eye to public reports of boot times.
func awsBoot() BootModel {
	s := func(seconds, sigma float64) Stage { return Stage{time.Duration(seconds * float64(time.Second)), sigma} }
	return BootModel{
		Linux:      BootStages{s(1.8, .25), s(7, .45), s(17, .30), s(7, .50)},
		Spot:       BootStages{s(2.2, .35), s(8, .60), s(17, .30), s(7, .50)},
		GPU:        BootStages{s(2.2, .30), s(20, .5), s(30, .35), s(25, .5)},
		Metal:      BootStages{s(2.2, .30), s(240, .3), s(30, .35), s(25, .5)},
		Windows:    BootStages{s(1.8, .25), s(10, .4), s(75, .25), s(15, .5)},
		SlowTail:   0.02,
		QueueAbove: 20,
	}
}

func azureBoot() BootModel {
	s := BootStages{Stage{3 * time.Second, .3}, Stage{25 * time.Second, .35}, Stage{28 * time.Second, .3}, Stage{8 * time.Second, .5}}
	return BootModel{Linux: s, Spot: s, GPU: s, Metal: s, Windows: awsBoot().Windows, SlowTail: 0.02}
}

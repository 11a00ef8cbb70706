package simulated

import "time"

// Profile says how a cloud behaves. Every part is a knob of its own; the zero value of a part switches it off.
type Profile struct {
	Boot     BootModel
	Shortage ShortageModel
	Spot     SpotModel
	Throttle ThrottleModel
	Lag      LagModel
	Quota    Quota
	// Termination is how long a machine takes to stop; it is billed and listed as leaving meanwhile.
	Termination Stage
	// LeastBilled is the shortest time that a machine is billed for.
	LeastBilled time.Duration
	// NeverRegisters, NeverReady and FailsLater are the shares of machines that never show up as nodes, that register
	// but never become ready, and that the cloud accepts and then gives up while they boot.
	NeverRegisters, NeverReady, FailsLater float64
	// SilentDeaths is how many machines die without notice, per machine and hour.
	SilentDeaths float64
	// AllocatableError is the standard deviation of a node's real memory around what the catalog says, as a share.
	AllocatableError float64
	// MissingInZone is the share of instance types that one zone does not sell.
	MissingInZone float64
	// Faults are things that go wrong at set times.
	Faults []Fault
}

// Stage is a time that varies: log-normal with this median, and this standard deviation of its logarithm.
type Stage struct {
	Median time.Duration
	Sigma  float64
}

// BootModel says how long it takes from the call that starts a machine until its node is ready.
type BootModel struct {
	// Fixed is a constant delay until the node registers and is ready. It comes on top of the stages.
	Fixed time.Duration
	// Linux, Spot, GPU, Metal and Windows are the stages for these kinds of machine.
	Linux, Spot, GPU, Metal, Windows BootStages
	// Factor stretches all stages; 0 means 1.
	Factor float64
	// SlowTail is the share of machines that boot two to six times slower.
	SlowTail float64
	// QueueAbove is how many launches a zone takes in one second before further ones queue, 1 s for every 10; 0 is no
	// limit.
	QueueAbove int
}

// BootStages are the parts of a boot, one after another.
type BootStages struct {
	Accept   Stage // the call itself
	Run      Stage // pending until running
	Register Stage // running until the kubelet registers
	Ready    Stage // registered until ready
}

// ShortageModel says how often which offerings are sold out: for each kind of offering the share of time and the mean
// length of an episode. Within one, a few machines are left at first (Poisson, mean 3).
type ShortageModel struct {
	Common, Newest, GPU, SpotCommon, SpotGPU Shortage
}

// Shortage is how often one kind of offering is sold out.
type Shortage struct {
	Share float64
	Mean  time.Duration
}

// SpotModel says how spot machines are taken away and what they cost.
type SpotModel struct {
	// Hazard is the number of interruptions per machine and hour. They come in batches: one event takes two thirds of a
	// type in a zone within three minutes, on average, and leaves it sold out for SoldOutFor.
	Hazard     float64
	SoldOutFor time.Duration
	// Notice is how long before the end the cloud tells.
	Notice time.Duration
	// PricesMove lets spot prices wander slowly, at most every six hours. The list of prices is twelve hours old at
	// most.
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

// LagModel says how long a new machine stays invisible to reads; lists lag by List on top.
type LagModel struct {
	Describe Stage
	List     time.Duration
}

// Quota bounds what may run at once; 0 is no bound.
type Quota struct {
	OnDemandCPU, SpotCPU, GPU int64
}

// Medians and deviations of the stages are fitted by eye to public reports of boot times.
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

package report

// Reasons of events. They are part of the API: alerts and scripts match on them.
const (
	FailedScheduling          = "FailedScheduling"
	Nominated                 = "Nominated"
	NoCompatibleInstanceTypes = "NoCompatibleInstanceTypes"

	DisruptionLaunching        = "DisruptionLaunching"
	DisruptionWaitingReadiness = "DisruptionWaitingReadiness"
	DisruptionTerminating      = "DisruptionTerminating"
	DisruptionBlocked          = "DisruptionBlocked"
	NodeRepairBlocked          = "NodeRepairBlocked"
	Unconsolidatable           = "Unconsolidatable"
	ConsolidationCandidate     = "ConsolidationCandidate"
	ConsolidationApproved      = "ConsolidationApproved"
	ConsolidationRejected      = "ConsolidationRejected"

	TerminatingOnInterruption = "TerminatingOnInterruption"
	InsufficientCapacityError = "InsufficientCapacityError"
	LaunchFailed              = "LaunchFailed"       // ours
	MachineLate               = "MachineLate"        // ours
	PodsDidNotFit             = "PodsDidNotFit"      // ours
	SlowPass                  = "SlowPass"           // ours
	CommitmentsRefused        = "CommitmentsRefused" // ours
	NodesDiffer               = "NodesDiffer"        // ours
	GangStarting              = "GangStarting"       // ours
	FailedDraining            = "FailedDraining"
	Evicted                   = "Evicted"
	Disrupted                 = "Disrupted"
	DoNotDisruptUntil         = "DoNotDisruptUntil"
	DoNotDisruptElapsed       = "DoNotDisruptGracePeriodElapsed"
	Finalized                 = "Finalized"
)

package report

// Reasons of events. They are part of the API: alerts and scripts match on them.
const (
	FailedScheduling          = "FailedScheduling"
	Nominated                 = "Nominated"
	NoCompatibleInstanceTypes = "NoCompatibleInstanceTypes"

	DisruptionTerminating = "DisruptionTerminating"
	DisruptionBlocked     = "DisruptionBlocked"
	Unconsolidatable      = "Unconsolidatable"

	InsufficientCapacityError    = "InsufficientCapacityError"
	UnregisteredTaintMissing     = "UnregisteredTaintMissing"
	FailedConsistencyCheck       = "FailedConsistencyCheck"
	FailedDraining               = "FailedDraining"
	TerminationGracePeriodExpiry = "TerminationGracePeriodExpiring"
	AwaitingVolumeDetachment     = "AwaitingVolumeDetachment"
	Evicted                      = "Evicted"
	Disrupted                    = "Disrupted"
	InvalidDoNotDisrupt          = "InvalidDoNotDisruptAnnotation"
	Finalized                    = "Finalized"
)

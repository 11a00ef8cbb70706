package engine

// Notice says that the cloud is about to take a machine away, or that something is wrong with it.
type Notice struct {
	ID      string
	Machine MachineID
	// Kind is one of the kinds below. Any other kind counts as an announcement that the machine will end soon.
	Kind string
}

// Kinds of notices.
const (
	NoticeSpotInterruption        = "SpotInterruption"
	NoticeReservationInterruption = "CapacityReservationInterruption"
	NoticeRebalance               = "RebalanceRecommendation" // nothing is certain: it is only told
	NoticeScheduledChange         = "ScheduledChange"
	NoticeStopping                = "InstanceStopping"
	NoticeTerminating             = "InstanceTerminating"
	NoticeReservationExpiring     = "CapacityReservationExpiring"
	NoticeStatusCheck             = "StatusCheckImpaired" // the machine is broken: its pods get no more time
)

package engine

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine/parallel"
)

// Options tune the engine's decisions. The zero value is the default.
type Options struct {
	// Preferences says what soft constraints of pods are worth.
	Preferences PreferencePolicy `json:"preferences,omitempty"`
	// MinValues says what happens when a pool's MinValues cannot be met.
	MinValues MinValuesPolicy `json:"minValues,omitempty"`
	// Effort is the number of units of work to spend on looking for a cheaper plan; 0 means 150,000, below 0 none.
	Effort int `json:"effort,omitempty"`
	// PriceBand bounds the offerings that one launch lists: each costs at most this times the cheapest of them.
	// 0 means 1.15.
	PriceBand float64 `json:"priceBand,omitempty"`
	// MaxTypes is the largest number of instance types that one launch lists; 0 means 600.
	MaxTypes int `json:"maxTypes,omitempty"`
	// PreferenceShare is, with the policy Weighted, what a soft term of weight 100 is worth: a share of what the pod itself
	// is worth at the dual prices. 0 means 0.1.
	PreferenceShare float64 `json:"preferenceShare,omitempty"`
	// DefaultConstraints are the spread constraints of pods that name none, as configured for kube-scheduler
	// (PodTopologySpread's defaultConstraints).
	DefaultConstraints []corev1.TopologySpreadConstraint `json:"defaultConstraints,omitempty"`
	// Profiles are those of kube-scheduler's configuration. A pod has that of the scheduler that it names.
	Profiles []SchedulerProfile `json:"schedulerProfiles,omitempty"`
	// NoNominations says that pods are not pointed at the nodes that were planned for them (status.nominatedNodeName).
	NoNominations bool `json:"noNominations,omitempty"`
	// LargestCPU is the size, in cores, above which a type is bought only for a pod, or in a pool, that smaller ones cannot
	// serve. 0 means 96, below 0 means any size.
	LargestCPU int `json:"largestCPU,omitempty"`
	// MaxPodsPerNode bounds the pods of a new machine; 0 means what its type takes.
	MaxPodsPerNode int `json:"maxPodsPerNode,omitempty"`
	// MinMemoryForPods is how many bytes of memory a new machine leaves to pods, beside those of DaemonSets, at least, if it is started for a pod
	// that requests no memory. It does not hold for a pod that nothing else can run, nor where pods or pools name the instance type.
	// 0 means 256Mi, below 0 none.
	MinMemoryForPods int64 `json:"minMemoryForPods,omitempty"`
	// BufferLimits is what the pods that all CapacityBuffers stand for may request together; a resource that is not named has no limit.
	BufferLimits corev1.ResourceList `json:"bufferLimits,omitempty"`
	// SpotSpreadShare is how much dearer a spot machine may be, as a share of its price, so that no more than half of an owner's pods are
	// lost at once. 0 means 0.02, below 0 that nothing is done for that.
	SpotSpreadShare float64 `json:"spotSpreadShare,omitempty"`
	// SpotToSpot lets consolidation replace spot machines by spot machines.
	SpotToSpot bool `json:"spotToSpot,omitempty"`
	// TerminateFirstDrift lets machines that have drifted go before their replacement is there, where it has no room until then.
	TerminateFirstDrift bool `json:"terminateFirstDrift,omitempty"`
	// LookAgain is how old a look at everything may be that a pass of disruption goes on from, also in a cluster of few machines
	// and however many of them have changed; 0 means a minute where there are many machines and few have changed.
	LookAgain time.Duration `json:"lookAgain,omitempty"`
	// Threads is how many goroutines may work at a time; the plan does not depend on it. 0 means 1.
	Threads int `json:"threads,omitempty"`
	// Stop, unless it is nil, is asked now and then whether nobody waits for the plan any more. Once it says so, searching ends soon,
	// and what has come out by then is of no use.
	Stop func() bool `json:"-"`
}

// PreferencePolicy says what soft constraints of pods are worth.
type PreferencePolicy string

// MinValuesPolicy says what happens when a pool's MinValues cannot be met.
type MinValuesPolicy string

const (
	Respect  PreferencePolicy = ""         // honoured where possible
	Ignore   PreferencePolicy = "Ignore"   // never looked at
	Weighted PreferencePolicy = "Weighted" // honoured where free, and where it costs less than PreferenceShare says

	Strict     MinValuesPolicy = ""           // pods stay pending
	BestEffort MinValuesPolicy = "BestEffort" // lowered to what can be reached
)

// Stopped reports whether nobody waits for the plan any more.
func (o Options) Stopped() bool { return o.Stop != nil && o.Stop() }

func (o Options) EffectiveEffort() int {
	switch {
	case o.Effort < 0, o.Stopped():
		return 0
	case o.Effort == 0:
		return 150_000
	}
	return o.Effort
}

func (o Options) EffectivePriceBand() float64 {
	if o.PriceBand == 0 {
		return 1.15
	}
	return max(o.PriceBand, 1)
}

func (o Options) EffectiveMaxTypes() int {
	if o.MaxTypes <= 0 {
		return 600
	}
	return o.MaxTypes
}

func (o Options) EffectivePreferenceShare() float64 {
	if o.PreferenceShare == 0 {
		return 0.1
	}
	return max(o.PreferenceShare, 0)
}

// EffectiveSpotSpreadShare is below 0 where nothing is done so that pods are not lost together.
func (o Options) EffectiveSpotSpreadShare() float64 {
	if o.SpotSpreadShare == 0 {
		return 0.02
	}
	return o.SpotSpreadShare
}

// EffectiveLargestCPU is in thousandths of a core; 0 means any size.
func (o Options) EffectiveLargestCPU() int64 {
	switch {
	case o.LargestCPU < 0:
		return 0
	case o.LargestCPU == 0:
		return 96_000
	}
	return int64(o.LargestCPU) * 1000
}

// UsualMinMemoryForPods is the floor, in bytes, where nobody says another one.
const UsualMinMemoryForPods = 256 << 20

// EffectiveMinMemoryForPods is in bytes; 0 means none.
func (o Options) EffectiveMinMemoryForPods() int64 {
	if o.MinMemoryForPods == 0 {
		return UsualMinMemoryForPods
	}
	return max(o.MinMemoryForPods, 0)
}

// Parallel does the work, all parts at a time where the options allow several goroutines; see parallel.Run.
func (opt Options) Parallel(parts ...func()) {
	if opt.Threads > 1 {
		parallel.Run(parts...)
		return
	}
	for _, part := range parts {
		part()
	}
}

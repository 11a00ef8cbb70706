package engine

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine/parallel"
)

// Options tune the engine's decisions. The zero value is the default.
type Options struct {
	// Preferences says whether soft constraints of pods count.
	Preferences PreferencePolicy `json:"preferences,omitempty"`
	// MinValues says what happens if a pool's MinValues cannot be met.
	MinValues MinValuesPolicy `json:"minValues,omitempty"`
	// Effort is the number of units of work that the search for a cheaper plan may use; 0 means 150,000, below 0 none.
	Effort int `json:"effort,omitempty"`
	// PriceBand limits the offerings that one launch lists: each costs at most PriceBand times the price of the cheapest. 0 means 1.15.
	PriceBand float64 `json:"priceBand,omitempty"`
	// MaxTypes is the largest number of instance types that one launch lists; 0 means 600.
	MaxTypes int `json:"maxTypes,omitempty"`
	// PreferenceShare is the value of a soft term of weight 100 under the policy Weighted, as a share of the pod's own value at the dual prices. 0 means
	// 0.1.
	PreferenceShare float64 `json:"preferenceShare,omitempty"`
	// DefaultConstraints are the spread constraints of pods without constraints of their own, as in kube-scheduler's configuration (PodTopologySpread's
	// defaultConstraints).
	DefaultConstraints []corev1.TopologySpreadConstraint `json:"defaultConstraints,omitempty"`
	// Profiles are the profiles in kube-scheduler's configuration. A pod has the profile that its schedulerName names.
	Profiles []SchedulerProfile `json:"schedulerProfiles,omitempty"`
	// NoNominations turns nominations off: the planned nodes of pods are not written into status.nominatedNodeName.
	NoNominations bool `json:"noNominations,omitempty"`
	// LargestCPU is a size in cores. A larger type is bought only if smaller types cannot serve the pod or the pool. 0 means 96, below 0 means any size.
	LargestCPU int `json:"largestCPU,omitempty"`
	// MaxPodsPerNode limits the pods of a new machine; 0 means the limit of its type.
	MaxPodsPerNode int `json:"maxPodsPerNode,omitempty"`
	// MinMemoryForPods is the least memory, in bytes, that a new machine has for pods beside the DaemonSets' pods, if the machine is started for a pod
	// that requests no memory. It does not hold for a pod that no other machine can run, or if pods or pools name the instance type. 0 means 256Mi,
	// below 0 none.
	MinMemoryForPods int64 `json:"minMemoryForPods,omitempty"`
	// BufferLimits limits the requests of the pods of all CapacityBuffers together. A resource that is not named has no limit.
	BufferLimits corev1.ResourceList `json:"bufferLimits,omitempty"`
	// SpotSpreadShare is the share by which a spot machine may be dearer if an owner then loses at most half of its pods at once. 0 means 0.02; below
	// 0, a spot machine may not be dearer for that.
	SpotSpreadShare float64 `json:"spotSpreadShare,omitempty"`
	// SpotToSpot lets consolidation replace spot machines by spot machines.
	SpotToSpot bool `json:"spotToSpot,omitempty"`
	// TerminateFirstDrift lets a drifted machine go before its replacement starts, if there is no room for the replacement until the machine has gone.
	TerminateFirstDrift bool `json:"terminateFirstDrift,omitempty"`
	// LookAgain is the time for which passes of disruption may reuse the findings of the last complete pass, however many machines there are and have
	// changed. 0 means a minute if there are many machines and few of them have changed, and no time otherwise.
	LookAgain time.Duration `json:"lookAgain,omitempty"`
	// Threads is the number of goroutines that may work at a time. The plan does not depend on it. 0 means 1.
	Threads int `json:"threads,omitempty"`
	// Stop, if it is not nil, is called now and then and reports whether the plan is no longer needed. If it returns true, the search ends soon
	// and the plan is of no use.
	Stop func() bool `json:"-"`
}

// PreferencePolicy says whether soft constraints of pods count.
type PreferencePolicy string

// MinValuesPolicy says what happens if a pool's MinValues cannot be met.
type MinValuesPolicy string

const (
	Respect  PreferencePolicy = ""         // honoured where possible
	Ignore   PreferencePolicy = "Ignore"   // never honoured
	Weighted PreferencePolicy = "Weighted" // honoured if that costs no more than PreferenceShare says

	Strict     MinValuesPolicy = ""           // pods stay pending
	BestEffort MinValuesPolicy = "BestEffort" // lowered to the number that can be reached
)

// Stopped reports whether the plan is no longer needed.
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

// EffectiveSpotSpreadShare is below 0 if nothing is done to keep pods from being lost together.
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

// UsualMinMemoryForPods is the default of MinMemoryForPods, in bytes.
const UsualMinMemoryForPods = 256 << 20

// EffectiveMinMemoryForPods is in bytes; 0 means none.
func (o Options) EffectiveMinMemoryForPods() int64 {
	if o.MinMemoryForPods == 0 {
		return UsualMinMemoryForPods
	}
	return max(o.MinMemoryForPods, 0)
}

// Parallel calls all parts, at the same time if the options allow several goroutines; see parallel.Run.
func (opt Options) Parallel(parts ...func()) {
	if opt.Threads > 1 {
		parallel.Run(parts...)
		return
	}
	for _, part := range parts {
		part()
	}
}

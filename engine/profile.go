package engine

import (
	"fmt"
	"maps"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// SchedulerProfile holds the settings of a profile in kube-scheduler's configuration that affect the ranking of nodes. An empty field has the
// meaning of kube-scheduler's default. Filters are not included.
type SchedulerProfile struct {
	// SchedulerName is the scheduler of the profile's pods. If it is empty, the profile is for all pods without a profile of their own.
	SchedulerName string `json:"schedulerName,omitempty"`
	// Strategy and Resources are the settings of NodeResourcesFit: the way to score the requested resources, and the resources with their
	// weights. Without Resources, cpu and memory have equal weights. Shape is for RequestedToCapacityRatio only.
	Strategy  ScoringStrategy  `json:"strategy,omitempty"`
	Resources []ResourceWeight `json:"resources,omitempty"`
	Shape     []ShapePoint     `json:"shape,omitempty"`
	// Balanced lists the resources that NodeResourcesBalancedAllocation compares; none means cpu and memory.
	Balanced []corev1.ResourceName `json:"balanced,omitempty"`
	// Weights holds the weights of score plugins, by name, that differ from kube-scheduler's defaults; 0 disables a plugin.
	Weights map[string]int64 `json:"weights,omitempty"`
	// HardPodAffinityWeight is the weight of a running pod's required affinity to the new pod; nil means 1.
	HardPodAffinityWeight *int64 `json:"hardPodAffinityWeight,omitempty"`
	// IgnoreTermsOfOthers disables InterPodAffinity for pods without preferences about other pods (ignorePreferredTermsOfExistingPods).
	IgnoreTermsOfOthers bool `json:"ignoreTermsOfOthers,omitempty"`
	// PercentageOfNodesToScore ends the search for nodes that can take a pod; 0 means kube-scheduler's default.
	PercentageOfNodesToScore int64 `json:"percentageOfNodesToScore,omitempty"`
	// DefaultConstraints, if there are any, replace Options.DefaultConstraints for the profile's pods. NoSystemDefaults disables kube-scheduler's
	// own constraints if there are none.
	DefaultConstraints []corev1.TopologySpreadConstraint `json:"defaultConstraints,omitempty"`
	NoSystemDefaults   bool                              `json:"noSystemDefaults,omitempty"`
	// Unread lists the settings that affect the nodes of pods and that a replay ignores.
	Unread []string `json:"unread,omitempty"`
}

// ScoringStrategy determines which nodes the plugin NodeResourcesFit prefers.
type ScoringStrategy string

const (
	LeastAllocated           ScoringStrategy = ""                         // nodes with most free resources
	MostAllocated            ScoringStrategy = "MostAllocated"            // nodes with least free resources
	RequestedToCapacityRatio ScoringStrategy = "RequestedToCapacityRatio" // by the shape
)

// ResourceWeight is a resource that is scored, with its weight.
type ResourceWeight struct {
	Name   corev1.ResourceName `json:"name"`
	Weight int64               `json:"weight"` // 1 to 100
}

// ShapePoint maps a utilization in per cent to a score of 0 to 10. Between points the score is linear.
type ShapePoint struct {
	Utilization int64 `json:"utilization"`
	Score       int64 `json:"score"`
}

// The score plugins that a replay supports, by their names in kube-scheduler's configuration.
const (
	NodeResourcesFit                = "NodeResourcesFit"
	NodeResourcesBalancedAllocation = "NodeResourcesBalancedAllocation"
	TaintToleration                 = "TaintToleration"
	NodeAffinity                    = "NodeAffinity"
	InterPodAffinity                = "InterPodAffinity"
	PodTopologySpread               = "PodTopologySpread"
)

// ScorePlugins returns the plugins whose scores a replay adds up, with kube-scheduler's default weights.
func ScorePlugins() map[string]int64 {
	return map[string]int64{
		NodeResourcesFit: 1, NodeResourcesBalancedAllocation: 1, TaintToleration: 3, NodeAffinity: 2, InterPodAffinity: 2, PodTopologySpread: 2,
	}
}

// Problem returns the reason for which kube-scheduler would refuse the profile. It returns "" if there is none. It does not check default
// constraints.
func (p *SchedulerProfile) Problem() string {
	if !slices.Contains([]ScoringStrategy{LeastAllocated, MostAllocated, RequestedToCapacityRatio}, p.Strategy) {
		return fmt.Sprintf("scoring strategy %q is none of LeastAllocated, MostAllocated, RequestedToCapacityRatio", p.Strategy)
	}
	for _, r := range p.Resources {
		switch {
		case r.Name == "":
			return "a resource of the scoring strategy has no name"
		case r.Weight < 1 || r.Weight > 100:
			return fmt.Sprintf("the weight of resource %s is %d: it must be 1 to 100", r.Name, r.Weight)
		}
	}
	if problem := p.shapeProblem(); problem != "" {
		return problem
	}
	for _, name := range slices.Sorted(maps.Keys(p.Weights)) {
		if _, known := ScorePlugins()[name]; !known {
			return fmt.Sprintf("score plugin %q is none of those that are replayed: %v", name, slices.Sorted(maps.Keys(ScorePlugins())))
		}
		if w := p.Weights[name]; w < 0 || w > mostPluginWeight {
			return fmt.Sprintf("the weight of score plugin %s is %d: it must be 0 to %d", name, w, mostPluginWeight)
		}
	}
	if w := p.HardPodAffinityWeight; w != nil && (*w < 0 || *w > 100) {
		return fmt.Sprintf("hardPodAffinityWeight is %d: it must be 0 to 100", *w)
	}
	if n := p.PercentageOfNodesToScore; n < 0 || n > 100 {
		return fmt.Sprintf("percentageOfNodesToScore is %d: it must be 0 to 100", n)
	}
	return ""
}

const (
	mostPluginWeight int64 = math.MaxInt32 // the limit of the configuration, with which no sum of scores overflows
	MostShapeScore   int64 = 10
)

func (p *SchedulerProfile) shapeProblem() string {
	switch ratio := p.Strategy == RequestedToCapacityRatio; {
	case ratio && len(p.Shape) == 0:
		return "scoring strategy RequestedToCapacityRatio needs a shape of at least one point"
	case !ratio && len(p.Shape) > 0:
		return "a shape is for scoring strategy RequestedToCapacityRatio alone"
	}
	for i, s := range p.Shape {
		switch {
		case s.Utilization < 0 || s.Utilization > 100:
			return fmt.Sprintf("point %d of the shape has utilization %d: it must be 0 to 100", i+1, s.Utilization)
		case s.Score < 0 || s.Score > MostShapeScore:
			return fmt.Sprintf("point %d of the shape has score %d: it must be 0 to %d", i+1, s.Score, MostShapeScore)
		case i > 0 && s.Utilization <= p.Shape[i-1].Utilization:
			return fmt.Sprintf("point %d of the shape has utilization %d: it must be more than that of the point before", i+1, s.Utilization)
		}
	}
	return ""
}

// ProfileOf returns the index of the profile of the scheduler's pods. It returns -1 for kube-scheduler's default.
func (o *Options) ProfileOf(scheduler string) int {
	if scheduler == "" {
		scheduler = corev1.DefaultSchedulerName
	}
	named := func(name string) int {
		return slices.IndexFunc(o.Profiles, func(p SchedulerProfile) bool { return p.SchedulerName == name })
	}
	if i := named(scheduler); i >= 0 {
		return i
	}
	return named("")
}

// IsKubeScheduler reports whether kube-scheduler serves the pods of the scheduler, by its default or by one of the profiles.
func (o *Options) IsKubeScheduler(scheduler string) bool {
	return scheduler == "" || scheduler == corev1.DefaultSchedulerName ||
		slices.ContainsFunc(o.Profiles, func(p SchedulerProfile) bool { return p.SchedulerName == scheduler })
}

// ConstraintsOf returns the default spread constraints of the profile's pods. system is true if kube-scheduler's own constraints hold instead.
// The profile may be nil.
func (o *Options) ConstraintsOf(p *SchedulerProfile) (constraints []corev1.TopologySpreadConstraint, system bool) {
	if p != nil && (len(p.DefaultConstraints) > 0 || p.NoSystemDefaults) {
		return p.DefaultConstraints, false
	}
	return o.DefaultConstraints, len(o.DefaultConstraints) == 0
}

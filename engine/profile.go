package engine

import (
	"fmt"
	"maps"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// SchedulerProfile is what a profile of kube-scheduler's configuration says of how it ranks nodes. What is left out is as
// kube-scheduler has it without a configuration. Filters are not part of it.
type SchedulerProfile struct {
	// SchedulerName is the scheduler whose pods the profile is for; without a name it is for all that no other profile is for.
	SchedulerName string `json:"schedulerName,omitempty"`
	// Strategy and Resources are NodeResourcesFit's: how it scores what is requested of a node, and of which resources, with
	// their weights; none means cpu and memory alike. Shape is for RequestedToCapacityRatio alone.
	Strategy  ScoringStrategy  `json:"strategy,omitempty"`
	Resources []ResourceWeight `json:"resources,omitempty"`
	Shape     []ShapePoint     `json:"shape,omitempty"`
	// Balanced are the resources that NodeResourcesBalancedAllocation compares; none means cpu and memory.
	Balanced []corev1.ResourceName `json:"balanced,omitempty"`
	// Weights are those of score plugins, by name, where they are not kube-scheduler's own; 0 switches a plugin off.
	Weights map[string]int64 `json:"weights,omitempty"`
	// HardPodAffinityWeight is what a running pod's required affinity to the new pod counts; nil means 1.
	HardPodAffinityWeight *int64 `json:"hardPodAffinityWeight,omitempty"`
	// IgnoreTermsOfOthers leaves InterPodAffinity out for pods that prefer nothing of others themselves
	// (ignorePreferredTermsOfExistingPods).
	IgnoreTermsOfOthers bool `json:"ignoreTermsOfOthers,omitempty"`
	// PercentageOfNodesToScore ends the search for nodes that can take a pod; 0 lets kube-scheduler choose.
	PercentageOfNodesToScore int64 `json:"percentageOfNodesToScore,omitempty"`
	// DefaultConstraints take the place of Options.DefaultConstraints for the profile's pods, if there are some. NoSystemDefaults
	// keeps kube-scheduler from using its own where there are none.
	DefaultConstraints []corev1.TopologySpreadConstraint `json:"defaultConstraints,omitempty"`
	NoSystemDefaults   bool                              `json:"noSystemDefaults,omitempty"`
	// Unread is what the configuration says besides that changes where pods go, and that no replay knows.
	Unread []string `json:"unread,omitempty"`
}

// ScoringStrategy says which nodes NodeResourcesFit likes best.
type ScoringStrategy string

const (
	LeastAllocated           ScoringStrategy = ""                         // those with the most left over
	MostAllocated            ScoringStrategy = "MostAllocated"            // those with the least left over
	RequestedToCapacityRatio ScoringStrategy = "RequestedToCapacityRatio" // by the shape
)

// ResourceWeight is a resource that is scored.
type ResourceWeight struct {
	Name   corev1.ResourceName `json:"name"`
	Weight int64               `json:"weight"` // 1 to 100
}

// ShapePoint gives a node of which so many percent are requested a score of 0 to 10. Between points the score is linear.
type ShapePoint struct {
	Utilization int64 `json:"utilization"`
	Score       int64 `json:"score"`
}

// The score plugins that a replay knows, by their names in kube-scheduler's configuration.
const (
	NodeResourcesFit                = "NodeResourcesFit"
	NodeResourcesBalancedAllocation = "NodeResourcesBalancedAllocation"
	TaintToleration                 = "TaintToleration"
	NodeAffinity                    = "NodeAffinity"
	InterPodAffinity                = "InterPodAffinity"
	PodTopologySpread               = "PodTopologySpread"
)

// ScorePlugins are the plugins whose scores a replay adds up, with the weights that kube-scheduler gives them.
func ScorePlugins() map[string]int64 {
	return map[string]int64{
		NodeResourcesFit: 1, NodeResourcesBalancedAllocation: 1, TaintToleration: 3, NodeAffinity: 2, InterPodAffinity: 2, PodTopologySpread: 2,
	}
}

// Problem says what kube-scheduler would refuse of the profile; empty for nothing. Default constraints are not looked at.
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
	mostPluginWeight int64 = math.MaxInt32 // as the configuration has it: no sum of scores overflows
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

// ProfileOf is the index of the profile that pods of the scheduler have, -1 for kube-scheduler's default.
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

// IsKubeScheduler reports whether pods of the scheduler are kube-scheduler's, by its default or one of the profiles.
func (o *Options) IsKubeScheduler(scheduler string) bool {
	return scheduler == "" || scheduler == corev1.DefaultSchedulerName ||
		slices.ContainsFunc(o.Profiles, func(p SchedulerProfile) bool { return p.SchedulerName == scheduler })
}

// ConstraintsOf are the spread constraints of the profile's pods that name none; system says that kube-scheduler has its own
// for them. The profile may be nil.
func (o *Options) ConstraintsOf(p *SchedulerProfile) (constraints []corev1.TopologySpreadConstraint, system bool) {
	if p != nil && (len(p.DefaultConstraints) > 0 || p.NoSystemDefaults) {
		return p.DefaultConstraints, false
	}
	return o.DefaultConstraints, len(o.DefaultConstraints) == 0
}

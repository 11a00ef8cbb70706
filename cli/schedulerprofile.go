package cli

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"tenon.sh/engine"
)

// profileReader collects the settings of one profile of kube-scheduler's configuration.
type profileReader struct {
	engine.SchedulerProfile
	told bool // the configuration has such a setting
}

// read takes the arguments of one plugin, or the list of plugins, which may be nil.
func (r *profileReader) read(args any) error {
	switch a := args.(type) {
	case *configv1.NodeResourcesFitArgs:
		return r.readFit(a)
	case *configv1.NodeResourcesBalancedAllocationArgs:
		return r.readBalanced(a)
	case *configv1.InterPodAffinityArgs:
		r.readPodAffinity(a)
	case *configv1.PodTopologySpreadArgs:
		return r.readSpread(a)
	case *configv1.NodeAffinityArgs:
		if a.AddedAffinity != nil {
			r.Unread = append(r.Unread, "addedAffinity of "+engine.NodeAffinity)
		}
	case *configv1.Plugins:
		r.readPlugins(a)
	}
	return nil
}

func (r *profileReader) readFit(a *configv1.NodeResourcesFitArgs) error {
	if a == nil {
		return nil
	}
	r.told = true
	if len(a.IgnoredResources)+len(a.IgnoredResourceGroups) > 0 {
		r.Unread = append(r.Unread, "ignored resources of "+engine.NodeResourcesFit)
	}
	s := a.ScoringStrategy
	if s == nil {
		return nil
	}
	switch s.Type {
	case configv1.LeastAllocated:
	case configv1.MostAllocated, configv1.RequestedToCapacityRatio:
		r.Strategy = engine.ScoringStrategy(s.Type)
	default: // kube-scheduler demands one
		return fmt.Errorf("the type of the scoringStrategy is %q: it must be LeastAllocated, MostAllocated or RequestedToCapacityRatio", s.Type)
	}
	r.Resources = weighed(s.Resources)
	if s.RequestedToCapacityRatio != nil {
		if s.Type != configv1.RequestedToCapacityRatio {
			return fmt.Errorf("requestedToCapacityRatio is for the scoringStrategy of that type alone, and this one is %s", s.Type)
		}
		for _, p := range s.RequestedToCapacityRatio.Shape {
			r.Shape = append(r.Shape, engine.ShapePoint{Utilization: int64(p.Utilization), Score: int64(p.Score)})
		}
	}
	return nil
}

// weighed returns the resources. The weight is 1 if none is given.
func weighed(list []configv1.ResourceSpec) (out []engine.ResourceWeight) {
	for _, s := range list {
		if s.Weight == 0 {
			s.Weight = 1
		}
		out = append(out, engine.ResourceWeight{Name: corev1.ResourceName(s.Name), Weight: s.Weight})
	}
	return out
}

func (r *profileReader) readBalanced(a *configv1.NodeResourcesBalancedAllocationArgs) error {
	if a == nil {
		return nil
	}
	r.told = true
	r.Balanced = nil
	for _, s := range weighed(a.Resources) {
		switch {
		case s.Weight != 1:
			return fmt.Errorf("the weight of resource %s is %d: %s knows no weight but 1", s.Name, s.Weight, engine.NodeResourcesBalancedAllocation)
		case slices.Contains(r.Balanced, s.Name):
			return fmt.Errorf("resource %s stands there twice", s.Name)
		}
		r.Balanced = append(r.Balanced, s.Name)
	}
	return nil
}

func (r *profileReader) readPodAffinity(a *configv1.InterPodAffinityArgs) {
	if a == nil {
		return
	}
	r.told = true
	r.IgnoreTermsOfOthers = a.IgnorePreferredTermsOfExistingPods
	if w := a.HardPodAffinityWeight; w != nil {
		weight := int64(*w)
		r.HardPodAffinityWeight = &weight
	}
}

func (r *profileReader) readSpread(a *configv1.PodTopologySpreadArgs) error {
	switch a.DefaultingType {
	case configv1.ListDefaulting:
		r.NoSystemDefaults = true
	case configv1.SystemDefaulting, "":
		if len(a.DefaultConstraints) > 0 {
			return fmt.Errorf("defaultConstraints need defaultingType: List")
		}
	default:
		return fmt.Errorf("defaultingType %q must be System or List", a.DefaultingType)
	}
	r.DefaultConstraints = a.DefaultConstraints
	return checkDefaultConstraints(a.DefaultConstraints)
}

// readPlugins reads the enabled score plugins and their weights. Settings of score take precedence over settings of multiPoint.
func (r *profileReader) readPlugins(p *configv1.Plugins) {
	if p == nil {
		return
	}
	r.told = true
	standard := engine.ScorePlugins()
	r.Weights = map[string]int64{}
	for name, weight := range standard {
		if w, said := weightIn(p.Score, name); said {
			weight = w
		} else if w, said := weightIn(p.MultiPoint, name); said {
			weight = w
		}
		if weight != standard[name] {
			r.Weights[name] = weight
		}
	}
	for _, set := range []configv1.PluginSet{p.MultiPoint, p.PreFilter, p.Filter, p.PreScore, p.Score} {
		for _, e := range set.Enabled {
			if !slices.Contains(builtInPlugins(), e.Name) {
				r.unread("plugin " + e.Name)
			}
		}
	}
	for _, set := range []configv1.PluginSet{p.MultiPoint, p.PreFilter, p.Filter} {
		for _, d := range set.Disabled {
			if slices.Contains(filterPlugins(), d.Name) && !enables(set, d.Name) {
				r.unread("filter " + d.Name + " is off")
			}
		}
		if enables(configv1.PluginSet{Enabled: set.Disabled}, "*") {
			for _, name := range filterPlugins() {
				if !enables(set, name) && !enables(p.Filter, name) {
					r.unread("filter " + name + " is off")
				}
			}
		}
	}
}

func (r *profileReader) unread(what string) {
	if !slices.Contains(r.Unread, what) {
		r.Unread = append(r.Unread, what)
	}
}

// weightIn returns the plugin's weight in the set. said is false if the set does not mention the plugin.
func weightIn(set configv1.PluginSet, name string) (weight int64, said bool) {
	for _, p := range set.Enabled {
		if p.Name != name {
			continue
		}
		if p.Weight == nil || *p.Weight == 0 {
			return 1, true
		}
		return int64(*p.Weight), true
	}
	off := configv1.PluginSet{Enabled: set.Disabled}
	return 0, enables(off, name) || enables(off, "*")
}

func enables(set configv1.PluginSet, name string) bool {
	return slices.ContainsFunc(set.Enabled, func(p configv1.Plugin) bool { return p.Name == name })
}

// filterPlugins returns kube-scheduler's own plugins that exclude nodes for a pod.
func filterPlugins() []string {
	return []string{"NodeUnschedulable", "NodeName", engine.TaintToleration, engine.NodeAffinity, "NodePorts", engine.NodeResourcesFit,
		"VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone", engine.PodTopologySpread, engine.InterPodAffinity}
}

// builtInPlugins returns the filterPlugins and kube-scheduler's other own plugins.
func builtInPlugins() []string {
	return append(filterPlugins(), "SchedulingGates", "PrioritySort", "DefaultPreemption", engine.NodeResourcesBalancedAllocation, "ImageLocality",
		"DefaultBinder", "NodeDeclaredFeatures", "DynamicResources", "GangScheduling", "TopologyPlacementGenerator", "PodGroupPodsCount")
}

package cli

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"sigs.k8s.io/yaml"

	"tenon.sh/engine"
)

// shortSchedulerConfig is a short document of --scheduler-config. It applies to the pods of all schedulers. It has the arguments of
// kube-scheduler's plugins, and the list of plugins.
type shortSchedulerConfig struct {
	PodTopologySpread struct {
		DefaultConstraints []corev1.TopologySpreadConstraint `json:"defaultConstraints"`
	} `json:"podTopologySpread"`
	NodeResourcesFit                *configv1.NodeResourcesFitArgs                `json:"nodeResourcesFit"`
	NodeResourcesBalancedAllocation *configv1.NodeResourcesBalancedAllocationArgs `json:"nodeResourcesBalancedAllocation"`
	InterPodAffinity                *configv1.InterPodAffinityArgs                `json:"interPodAffinity"`
	Plugins                         *configv1.Plugins                             `json:"plugins"`
}

// schedulerConfig is the document in the engine's types.
type schedulerConfig struct {
	constraints []corev1.TopologySpreadConstraint
	profiles    []engine.SchedulerProfile
}

// readSchedulerConfig reads a KubeSchedulerConfiguration or a short document, which may be empty.
func readSchedulerConfig(text string) (out schedulerConfig, err error) {
	var head struct{ APIVersion, Kind string }
	var name string
	if yaml.Unmarshal([]byte(text), &name) == nil && name != "" {
		return out, fmt.Errorf("%s is a text, %.60q: give the YAML document itself; of a file, \"$(cat FILE)\"", flagAndVariable("scheduler-config"), name)
	}
	if err = yaml.Unmarshal([]byte(text), &head); err == nil {
		if head.Kind != "" || head.APIVersion != "" {
			out, err = readKubeSchedulerConfiguration(text, head.APIVersion, head.Kind)
		} else {
			out, err = readShortSchedulerConfig(text)
		}
	}
	if err != nil {
		return schedulerConfig{}, fmt.Errorf("%s: %w", flagAndVariable("scheduler-config"), err)
	}
	return out, nil
}

func readShortSchedulerConfig(text string) (out schedulerConfig, err error) {
	var config shortSchedulerConfig
	if err := yaml.UnmarshalStrict([]byte(text), &config); err != nil {
		return out, err
	}
	out.constraints = config.PodTopologySpread.DefaultConstraints
	if err := checkDefaultConstraints(out.constraints); err != nil {
		return out, err
	}
	reader := profileReader{}
	for _, args := range []any{config.NodeResourcesFit, config.NodeResourcesBalancedAllocation, config.InterPodAffinity, config.Plugins} {
		if err := reader.read(args); err != nil {
			return out, err
		}
	}
	if problem := reader.Problem(); problem != "" {
		return out, fmt.Errorf("%s", problem)
	}
	if reader.told {
		out.profiles = append(out.profiles, reader.SchedulerProfile)
	}
	return out, nil
}

func readKubeSchedulerConfiguration(text, version, kind string) (out schedulerConfig, err error) {
	if want := configv1.SchemeGroupVersion.String(); version != want || kind != "KubeSchedulerConfiguration" {
		return out, fmt.Errorf("it is a %s of %s: it must be a KubeSchedulerConfiguration of %s, or a document without kind", kind, version, want)
	}
	var config configv1.KubeSchedulerConfiguration
	if err := yaml.UnmarshalStrict([]byte(text), &config); err != nil {
		return out, err
	}
	if len(config.Profiles) == 0 {
		config.Profiles = make([]configv1.KubeSchedulerProfile, 1)
	}
	for i := range config.Profiles {
		p := &config.Profiles[i]
		if p.SchedulerName == nil && len(config.Profiles) == 1 {
			p.SchedulerName = new(string)
			*p.SchedulerName = corev1.DefaultSchedulerName
		}
		if p.SchedulerName == nil || *p.SchedulerName == "" {
			return out, fmt.Errorf("profile %d has no schedulerName, which each of several profiles needs", i+1)
		}
		if slices.ContainsFunc(out.profiles, func(o engine.SchedulerProfile) bool { return o.SchedulerName == *p.SchedulerName }) {
			return out, fmt.Errorf("two profiles have the schedulerName %s", *p.SchedulerName)
		}
		profile, err := readProfile(&config, p)
		if err != nil {
			return out, fmt.Errorf("profile %s: %w", *p.SchedulerName, err)
		}
		out.profiles = append(out.profiles, profile)
	}
	return out, nil
}

func readProfile(config *configv1.KubeSchedulerConfiguration, p *configv1.KubeSchedulerProfile) (engine.SchedulerProfile, error) {
	r := profileReader{SchedulerProfile: engine.SchedulerProfile{SchedulerName: *p.SchedulerName}}
	for _, percentage := range []*int32{config.PercentageOfNodesToScore, p.PercentageOfNodesToScore} {
		if percentage != nil {
			r.PercentageOfNodesToScore = int64(*percentage)
		}
	}
	for _, e := range config.Extenders {
		r.Unread = append(r.Unread, "extender "+e.URLPrefix)
	}
	seen := map[string]bool{}
	for i := range p.PluginConfig {
		name := p.PluginConfig[i].Name
		if seen[name] {
			return r.SchedulerProfile, fmt.Errorf("pluginConfig has %s twice", name)
		}
		seen[name] = true
		args := argsOf(name)
		if args == nil {
			continue // the arguments do not affect placement, or readPlugins reports the unknown plugin
		}
		if err := yaml.UnmarshalStrict(p.PluginConfig[i].Args.Raw, args); err != nil {
			return r.SchedulerProfile, fmt.Errorf("pluginConfig of %s: %w", name, err)
		}
		if err := r.read(args); err != nil {
			return r.SchedulerProfile, fmt.Errorf("pluginConfig of %s: %w", name, err)
		}
	}
	if err := r.read(p.Plugins); err != nil {
		return r.SchedulerProfile, err
	}
	if problem := r.Problem(); problem != "" {
		return r.SchedulerProfile, fmt.Errorf("%s", problem)
	}
	return r.SchedulerProfile, nil
}

// argsOf returns an empty value for the arguments of the plugin. It returns nil for plugins whose arguments are not read.
func argsOf(plugin string) any {
	switch plugin {
	case engine.NodeResourcesFit:
		return &configv1.NodeResourcesFitArgs{}
	case engine.NodeResourcesBalancedAllocation:
		return &configv1.NodeResourcesBalancedAllocationArgs{}
	case engine.InterPodAffinity:
		return &configv1.InterPodAffinityArgs{}
	case engine.PodTopologySpread:
		return &configv1.PodTopologySpreadArgs{}
	case engine.NodeAffinity:
		return &configv1.NodeAffinityArgs{}
	}
	return nil
}

// checkDefaultConstraints makes the same checks as kube-scheduler.
func checkDefaultConstraints(constraints []corev1.TopologySpreadConstraint) error {
	seen := map[string]bool{}
	for i, c := range constraints {
		problem := spreadProblem(c)
		key := c.TopologyKey + " " + string(c.WhenUnsatisfiable)
		if problem == "" && seen[key] {
			problem = "topologyKey and whenUnsatisfiable are those of another one"
		}
		seen[key] = true
		if problem != "" {
			return fmt.Errorf("default constraint number %d: %s", i+1, problem)
		}
	}
	return nil
}

func spreadProblem(c corev1.TopologySpreadConstraint) string {
	switch {
	case c.MaxSkew <= 0:
		return "maxSkew must be more than 0"
	case len(validation.IsQualifiedName(c.TopologyKey)) > 0:
		return fmt.Sprintf("topologyKey %q is not the name of a label", c.TopologyKey)
	case c.WhenUnsatisfiable != corev1.DoNotSchedule && c.WhenUnsatisfiable != corev1.ScheduleAnyway:
		return fmt.Sprintf("whenUnsatisfiable %q must be DoNotSchedule or ScheduleAnyway", c.WhenUnsatisfiable)
	case c.LabelSelector != nil || len(c.MatchLabelKeys) > 0:
		return "labelSelector and matchLabelKeys must be left out: they follow from each pod's owner"
	}
	return ""
}

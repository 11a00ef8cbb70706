package cli

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"
)

// schedulerConfig is the document of --scheduler-config.
type schedulerConfig struct {
	PodTopologySpread struct {
		DefaultConstraints []corev1.TopologySpreadConstraint `json:"defaultConstraints"`
	} `json:"podTopologySpread"`
}

// readSchedulerConfig reads the document, which may be empty, or says what is wrong with it.
func readSchedulerConfig(text string) ([]corev1.TopologySpreadConstraint, error) {
	var config schedulerConfig
	if err := yaml.UnmarshalStrict([]byte(text), &config); err != nil {
		return nil, fmt.Errorf("--scheduler-config (SCHEDULER_CONFIG): %w", err)
	}
	seen := map[string]bool{}
	for i, c := range config.PodTopologySpread.DefaultConstraints {
		problem := spreadProblem(c)
		key := c.TopologyKey + " " + string(c.WhenUnsatisfiable)
		if problem == "" && seen[key] {
			problem = "topologyKey and whenUnsatisfiable are those of another one"
		}
		seen[key] = true
		if problem != "" {
			return nil, fmt.Errorf("--scheduler-config (SCHEDULER_CONFIG): default constraint number %d: %s", i+1, problem)
		}
	}
	return config.PodTopologySpread.DefaultConstraints, nil
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

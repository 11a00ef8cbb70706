package accelerator

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Sharing is the configuration by which NVIDIA's plugin splits the GPUs of a node. The zero value does not split them.
type Sharing struct {
	// Strategy is time-slicing or mps, "" for neither. With a strategy, each device counts Replicas times.
	Strategy string
	Replicas int
	// Renamed is true if the shared GPUs are counted under another name: nvidia.com/gpu.shared.
	Renamed bool
	// Profile holds the MIG profile by which GPUs are divided, such as 1g.5gb, by names of models such as a100.40gb. It is empty if they are not
	// divided.
	Profile map[string]string
	// Problem describes a setting that is impossible for any GPU. It is "" if there is none.
	Problem string
}

// ProblemOf returns why these GPUs are not shared as configured. It returns "" if they are, or if no sharing is configured.
func (s Sharing) ProblemOf(model Model, gpus int) string {
	if gpus <= 0 {
		return ""
	}
	if s.Problem != "" {
		return s.Problem
	}
	if profile := s.profileOf(model); profile != "" && model.slices(profile) == 0 {
		return fmt.Sprintf("it is not known that a GPU %q can be cut into %q", model.Name, profile)
	}
	return ""
}

// Words describes how devices are shared.
func (s Sharing) Words() string {
	var text string
	switch {
	case len(s.Profile) > 0 && s.Strategy != "":
		text = fmt.Sprintf("MIG, each slice by %s for %d", s.Strategy, s.Replicas)
	case len(s.Profile) > 0:
		text = "MIG"
	default:
		text = fmt.Sprintf("%s, %d replicas", s.Strategy, s.Replicas)
	}
	if s.Renamed && s.Strategy != "" {
		text += ", renamed"
	}
	return text
}

// Shows returns the resources of a node with these GPUs. It returns nil if the node shows just the GPUs, for example because the setting is
// impossible.
func (s Sharing) Shows(model Model, gpus int) corev1.ResourceList {
	if gpus <= 0 || s.Problem != "" {
		return nil
	}
	parts := gpus
	if profile := s.profileOf(model); profile != "" {
		n := model.slices(profile)
		if n == 0 {
			return nil
		}
		parts *= n
	}
	name := GPU
	if s.Strategy != "" && s.Replicas > 1 {
		parts *= s.Replicas
		if s.Renamed {
			name += shared
		}
	}
	if parts == gpus && name == GPU {
		return nil
	}
	return corev1.ResourceList{name: count(parts)}
}

func (s Sharing) profileOf(model Model) string {
	for _, name := range slices.Sorted(maps.Keys(s.Profile)) {
		if model.Is(name) {
			return s.Profile[name]
		}
	}
	return ""
}

package accelerator

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Sharing is how NVIDIA's plugin shows the GPUs of a node, where it is told to split them. The zero value leaves them whole.
type Sharing struct {
	// Strategy is time-slicing or mps, "" for neither; of each device there are then Replicas.
	Strategy string
	Replicas int
	// Renamed has them counted under another name: nvidia.com/gpu.shared.
	Renamed bool
	// Profile is the MIG profile into which GPUs are cut, such as 1g.5gb, by names of models such as a100.40gb; empty for none.
	Profile map[string]string
	// Problem says what in the setting cannot be, whatever the GPU; empty for nothing.
	Problem string
}

// ProblemOf says why such GPUs are not shared as they are told to be; empty if they are, or are to stay whole.
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

// Words say how devices are shared.
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

// Shows is what a node with such GPUs shows; nil if that is nothing else than the GPUs, as it is where a setting cannot be.
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

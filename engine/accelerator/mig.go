package accelerator

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine"
)

// Labels that configure how NVIDIA's operator divides the GPUs of a node. One names a layout. The other is the strategy: slices count as GPUs
// (single) or under names of their own (mixed).
const (
	MIGConfigLabel   = "nvidia.com/mig.config"
	MIGStrategyLabel = "nvidia.com/mig.strategy"
	// PluginConfigLabel names the settings of the device plugin for a node.
	PluginConfigLabel = "nvidia.com/device-plugin.config"
)

// Model is a model of GPU, with the memory of one GPU.
type Model struct {
	Name      string // such as a100
	MemoryMiB int    // 0 if it is not known
}

// ModelOf reads the labels of an instance type that describe its GPUs, for any cloud.
func ModelOf(t *engine.InstanceType) Model {
	var m Model
	for key, values := range t.Labels {
		if len(values) == 0 {
			continue
		}
		switch {
		case strings.HasSuffix(key, "-gpu-name"):
			m.Name = strings.ToLower(values[0])
		case strings.HasSuffix(key, "-gpu-memory"):
			m.MemoryMiB, _ = strconv.Atoi(values[0])
		}
	}
	return m
}

// Is reports whether a name such as a100.40gb or A100 denotes this model.
func (m Model) Is(name string) bool {
	name, size, sized := strings.Cut(strings.ToLower(name), ".")
	if name != m.Name {
		return false
	}
	gb, err := strconv.Atoi(strings.TrimSuffix(size, "gb"))
	return !sized || err != nil || m.MemoryMiB == 0 || gb-gb/8 <= m.MemoryMiB>>10 && m.MemoryMiB>>10 <= gb+gb/8
}

// cut describes how a GPU can be divided. most holds the largest number of slices of each profile. balanced holds the slices of the balanced
// layout.
type cut struct {
	name      string
	memoryGiB int // at most
	most      map[string]int
	balanced  map[string]int
}

// cuts lists the GPUs of NVIDIA's MIG user guide, with the layouts of the MIG manager's default configuration. Of each model, small memories
// come first.
var cuts = [...]cut{
	{"a30", 24, map[string]int{"1g.6gb": 4, "2g.12gb": 2, "4g.24gb": 1}, map[string]int{"1g.6gb": 2, "2g.12gb": 1}},
	{"a100", 40, map[string]int{"1g.5gb": 7, "1g.10gb": 4, "2g.10gb": 3, "3g.20gb": 2, "4g.20gb": 1, "7g.40gb": 1},
		map[string]int{"1g.5gb": 2, "2g.10gb": 1, "3g.20gb": 1}},
	{"a100", 80, eighty(), eightyBalanced()},
	{"h100", 80, eighty(), eightyBalanced()},
	{"h200", 144, map[string]int{"1g.18gb": 7, "1g.35gb": 4, "2g.35gb": 3, "3g.71gb": 2, "4g.71gb": 1, "7g.141gb": 1},
		map[string]int{"1g.18gb": 2, "2g.35gb": 1, "3g.71gb": 1}},
	{"b200", 192, map[string]int{"1g.23gb": 7, "1g.45gb": 4, "2g.45gb": 3, "3g.90gb": 2, "4g.90gb": 1, "7g.180gb": 1},
		map[string]int{"1g.23gb": 2, "2g.45gb": 1, "3g.90gb": 1}},
	{"rtx-pro-server-6000", 96, map[string]int{"1g.24gb": 4, "2g.48gb": 2, "4g.96gb": 1}, map[string]int{"1g.24gb": 2, "2g.48gb": 1}},
}

func eighty() map[string]int {
	return map[string]int{"1g.10gb": 7, "1g.20gb": 4, "2g.20gb": 3, "3g.40gb": 2, "4g.40gb": 1, "7g.80gb": 1}
}

func eightyBalanced() map[string]int { return map[string]int{"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1} }

// cutOf returns how the model can be divided. known is false if that is impossible or unknown. If the model's memory is not known, the larger
// memory is assumed.
func (m Model) cutOf() (found cut, known bool) {
	for _, c := range cuts {
		if c.name == m.Name && (m.MemoryMiB == 0 || m.MemoryMiB>>10 <= c.memoryGiB) {
			if found, known = c, true; m.MemoryMiB > 0 {
				break
			}
		}
	}
	return found, known
}

// slices returns the number of slices of a profile on a GPU of the model. It returns 0 if the GPU cannot be divided like that. The profile may be a
// number of slices instead, as in Bottlerocket's settings.
func (m Model) slices(profile string) int {
	c, _ := m.cutOf()
	if n, err := strconv.Atoi(profile); err == nil {
		for _, most := range c.most {
			if most == n {
				return n
			}
		}
		return 0
	}
	return c.most[profile]
}

// MIG returns the resources of a node whose GPUs have a layout of the MIG manager, such as all-1g.5gb or all-balanced. strategy is single, mixed
// or empty. If it is empty and all slices are alike, the slices count as GPUs, as is the operator's default. MIG returns nil if the layout does
// not divide GPUs, or if the layout is not known for the model. In the latter case known is false.
func MIG(layout, strategy string, model Model, gpus int) (shows corev1.ResourceList, known bool) {
	if layout == "all-disabled" || gpus <= 0 {
		return nil, true
	}
	c, cuttable := model.cutOf()
	profile, ok := strings.CutPrefix(layout, "all-")
	if !cuttable || !ok {
		return nil, false
	}
	parts := map[string]int{}
	switch {
	case profile == "balanced":
		parts = c.balanced
	case c.most[profile] > 0:
		parts[profile] = c.most[profile]
	default:
		return nil, false
	}
	shows = corev1.ResourceList{}
	if strategy == "single" || strategy == "" && len(parts) == 1 {
		if len(parts) > 1 {
			return nil, false // the plugin shows no resource for slices that differ
		}
		shows[GPU] = count(gpus * parts[profile])
		return shows, true
	}
	for name, n := range parts {
		shows[corev1.ResourceName(migPrefix+name)] = count(gpus * n)
	}
	return shows, true
}

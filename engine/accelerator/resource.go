package accelerator

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// GPU counts those of NVIDIA.
const GPU corev1.ResourceName = "nvidia.com/gpu"

const (
	migPrefix = "nvidia.com/mig-"
	// shared is what NVIDIA's plugin appends to the names of what it shares, unless it is told not to rename it.
	shared = ".shared"
)

// makers are those whose plugins show more than one resource for the same devices, or more devices than there are.
var makers = [...]string{"nvidia.com/", "amd.com/", "gpu.intel.com/", "aws.amazon.com/neuron", "habana.ai/"}

// Maker is what the names of all resources begin with that stand for the same devices as this one; "" for a resource that is no
// accelerator.
func Maker(name corev1.ResourceName) string {
	for _, m := range makers {
		if strings.HasPrefix(string(name), m) {
			return m
		}
	}
	return ""
}

// Of are the accelerators of a list, nil if it has none of which there are any.
func Of(list corev1.ResourceList) corev1.ResourceList {
	var out corev1.ResourceList
	for name, q := range list {
		if q.Sign() > 0 && Maker(name) != "" {
			if out == nil {
				out = corev1.ResourceList{}
			}
			out[name] = q
		}
	}
	return out
}

// Same reports whether two lists hold the same accelerators; what there is none of need not be listed.
func Same(a, b corev1.ResourceList) bool {
	a, b = Of(a), Of(b)
	return maps.EqualFunc(a, b, func(x, y resource.Quantity) bool { return x.Cmp(y) == 0 })
}

// Lacking reports whether a node shows less than its hardware should: less of something than it has, and nothing under another name, or
// parts of one kind that are not as many of each device. A device has failed, or is still to come.
func Lacking(shown, physical corev1.ResourceList) bool {
	shown = Of(shown)
	for name, parts := range shown {
		if len(shown) > 1 {
			break
		}
		devices := physical[cmp.Or(Whole(name), name)]
		if n := devices.Value(); n > 0 && parts.Value()%n != 0 {
			return true
		}
	}
	for name := range shown {
		if _, whole := physical[name]; !whole {
			return false
		}
	}
	for name, has := range physical {
		if q := shown[name]; q.Cmp(has) < 0 {
			return true
		}
	}
	return false
}

// Whole is the resource that counts whole devices where this one counts parts of them, under a name of their own: shared ones, or
// slices. It is "" for others.
func Whole(name corev1.ResourceName) corev1.ResourceName {
	text, ok := strings.CutSuffix(string(name), shared)
	switch {
	case Maker(name) == "":
		return ""
	case ok && !strings.HasPrefix(text, migPrefix):
		return corev1.ResourceName(text)
	case strings.HasPrefix(text, migPrefix):
		return GPU
	}
	return ""
}

// Words lists the accelerators of a list for people, in order of name.
func Words(list corev1.ResourceList) string {
	list = Of(list)
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(list)) {
		q := list[name]
		parts = append(parts, q.String()+" "+string(name))
	}
	return cmp.Or(strings.Join(parts, ", "), "no accelerators")
}

func count(n int) resource.Quantity { return *resource.NewQuantity(int64(n), resource.DecimalSI) }

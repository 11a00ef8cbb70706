package accelerator

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// GPU is the resource of NVIDIA's GPUs.
const GPU corev1.ResourceName = "nvidia.com/gpu"

const (
	migPrefix = "nvidia.com/mig-"
	// shared is the suffix that NVIDIA's plugin appends to the names of shared devices, unless its settings turn renaming off.
	shared = ".shared"
)

// makers are the prefixes of resources of which plugins may show several for the same devices, or more than there are devices.
var makers = [...]string{"nvidia.com/", "amd.com/", "gpu.intel.com/", "aws.amazon.com/neuron", "habana.ai/"}

// Maker returns the prefix of all resources that count the same devices as this one. It returns "" for a resource that is no accelerator.
func Maker(name corev1.ResourceName) string {
	for _, m := range makers {
		if strings.HasPrefix(string(name), m) {
			return m
		}
	}
	return ""
}

// Of returns the accelerators in the list with an amount above 0. It returns nil if there are none.
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

// Same reports whether two lists hold the same accelerators. A resource with amount 0 counts as absent.
func Same(a, b corev1.ResourceList) bool {
	a, b = Of(a), Of(b)
	return maps.EqualFunc(a, b, func(x, y resource.Quantity) bool { return x.Cmp(y) == 0 })
}

// Lacking reports whether a node shows less than its hardware has, because a device has failed or is not ready yet. That is so if the node shows
// a single resource, and its amount is no multiple of the number of devices. It is so, too, if the amount of a hardware resource is too small,
// and the node shows no resource under another name.
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

// Whole returns the resource that counts whole devices, for a resource that counts parts of them under another name: shared devices or slices.
// It returns "" for other resources.
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

// Words lists the accelerators of a list as text, sorted by name.
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

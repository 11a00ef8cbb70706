package devicetable

import (
	"fmt"
	"strconv"

	"tenon.sh/engine/device"
)

// SharingAnnotation on an EC2NodeClass repeats the setting of NVIDIA's driver that lets several claims share one GPU.
const SharingAnnotation = "karpenter.k8s.aws/nvidia-consumable-capacity"

// mebibyte is the amount of one MiB. Package engine/device counts amounts in thousandths, here of a byte.
const mebibyte = 1024 * 1024 * 1000

// Sharing is the way in which claims share a GPU. The zero value means no sharing.
type Sharing struct {
	shared bool
	// shares is the number of parts of a GPU; 0 if only its memory is divided.
	shares int64
	// whole means that a claim without an amount of memory gets all memory.
	whole bool
}

// SharingOf parses the annotation.
func SharingOf(annotation string) (Sharing, error) {
	switch annotation {
	case "", "disabled":
		return Sharing{}, nil
	case "memory":
		return Sharing{shared: true, whole: true}, nil
	case "unlimited":
		return Sharing{shared: true}, nil
	}
	n, err := strconv.ParseInt(annotation, 10, 32)
	if err != nil || n < 1 {
		return Sharing{}, fmt.Errorf("annotation %s: %q is none of disabled, memory, unlimited and a positive number of shares", SharingAnnotation, annotation)
	}
	return Sharing{shared: true, shares: n}, nil
}

// apply adds the policies that the driver publishes for a GPU.
func (s Sharing) apply(shape *device.Shape) {
	if !s.shared {
		return
	}
	shape.Shared = true
	if memory, ok := shape.Capacities["memory"]; ok {
		least, taken := int64(0), int64(0)
		if s.whole {
			least, taken = mebibyte, memory.Amount
		}
		memory.Policy = &device.Policy{Default: &taken, Range: &device.Range{Min: &least, Max: new(memory.Amount), Step: new(int64(mebibyte))}}
		shape.Capacities["memory"] = memory
	}
	if s.shares > 0 {
		one, all := int64(1000), s.shares*1000
		shape.Capacities["shares"] = device.Capacity{Amount: all, Policy: &device.Policy{Default: &one, Range: &device.Range{Min: &one, Max: &all, Step: &one}}}
	}
}

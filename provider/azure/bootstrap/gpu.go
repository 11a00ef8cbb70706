package bootstrap

import "strings"

// driver is a build of NVIDIA's driver in AKS's images mcr.microsoft.com/aks/aks-gpu-<kind>:<version>-<build>.
type driver struct{ kind, version, build string }

// cuda is the driver for machines with whole GPUs, grid for machines with parts of GPUs.
var (
	cuda = driver{"cuda", "550.144.03", "20250328201547"}
	grid = driver{"grid", "550.144.06", "20250512225043"}
)

// drivesGPU reports whether the image shall install a driver.
func (in *Input) drivesGPU() bool {
	return in.NVIDIA && (in.Spec.GPU == nil || in.Spec.GPU.Mode != "None")
}

// gpuVariables returns the image's settings for GPUs: only the driver. NVIDIA's device plugin, which makes GPUs a resource of the node, is
// the user's DaemonSet. Without a driver, the node is configured like one without GPUs, because the image would look for a driver.
func (in *Input) gpuVariables() []variable {
	d, fabric := driver{}, false
	if in.drivesGPU() {
		d, fabric = cuda, needsFabricManager(in.Size)
		if strings.Contains(strings.ToLower(in.Size), "_a10_") {
			d = grid
		}
	}
	return []variable{
		{"GPU_NODE", flag(in.drivesGPU())},
		{"CONFIG_GPU_DRIVER_IF_NEEDED", flag(in.drivesGPU())},
		{"ENABLE_GPU_DEVICE_PLUGIN_IF_NEEDED", no},
		{"GPU_DRIVER_TYPE", d.kind},
		{"GPU_DRIVER_VERSION", d.version},
		{"GPU_IMAGE_SHA", d.build},
		{"GPU_NEEDS_FABRIC_MANAGER", flag(fabric)},
	}
}

// needsFabricManager reports whether switches connect the GPUs of a size. This is so in the ND series from A100 on.
func needsFabricManager(size string) bool {
	size = strings.ToLower(size)
	if !strings.HasPrefix(size, "standard_nd") {
		return false
	}
	for _, model := range []string{"a100_v4", "asr_v4", "_h100_", "_h200_"} {
		if strings.Contains(size, model) {
			return true
		}
	}
	return false
}

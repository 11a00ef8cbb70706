package size

import (
	"regexp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/api/awsv1"
	v1 "tenon.sh/api/v1"
)

// Labels lists every label that a machine of the type can have in a region with an image of a family. A label that the type lacks is listed
// without values. Labels of zones, reservations and placement groups are not included.
func (f *Figures) Labels(region, family, windowsBuild string) map[string][]string {
	name, size, _ := strings.Cut(f.Name, ".")
	category, generation := categoryAndGeneration(f.Name)
	labels := map[string][]string{
		corev1.LabelArchStable:            one(f.Architecture),
		corev1.LabelOSStable:              f.systems(family),
		corev1.LabelTopologyRegion:        one(region),
		corev1.LabelWindowsBuild:          one(windowsBuild),
		awsv1.CPULabelKey:                 one(strconv.Itoa(f.VCPUs)),
		awsv1.CPUManufacturerLabelKey:     one(kebab(f.Manufacturer)),
		awsv1.CPUClockLabelKey:            number(f.ClockMHz),
		awsv1.MemoryLabelKey:              one(strconv.FormatInt(f.MemoryMiB, 10)),
		awsv1.EBSBandwidthLabelKey:        number(f.EBSMbps),
		awsv1.NetworkBandwidthLabelKey:    number(f.NetworkMbps),
		awsv1.CategoryLabelKey:            one(category),
		awsv1.GenerationLabelKey:          one(generation),
		awsv1.FamilyLabelKey:              one(name),
		awsv1.SizeLabelKey:                one(size),
		awsv1.LocalNVMeLabelKey:           number(f.NVMeGB),
		awsv1.FlexLabelKey:                one(strconv.FormatBool(strings.Contains(name, "-flex"))),
		awsv1.HypervisorLabelKey:          {f.Hypervisor}, // "" for a machine without one
		awsv1.EncryptionInTransitLabelKey: one(strconv.FormatBool(f.Encrypts)),
		awsv1.NitroSandboxLabelKey:        one(strconv.FormatBool(f.Enclaves)),
		awsv1.TenancyLabelKey:             {"default", "dedicated"},

		awsv1.GPUNameLabelKey:                 nil,
		awsv1.GPUManufacturerLabelKey:         nil,
		awsv1.GPUCountLabelKey:                nil,
		awsv1.GPUMemoryLabelKey:               nil,
		awsv1.AcceleratorNameLabelKey:         nil,
		awsv1.AcceleratorManufacturerLabelKey: nil,
		awsv1.AcceleratorCountLabelKey:        nil,
	}
	f.addDevices(labels)
	if f.Untold {
		delete(labels, awsv1.NitroSandboxLabelKey)
	}
	return labels
}

// addDevices adds the labels of accelerators if there is only one model, because the labels can describe only one.
func (f *Figures) addDevices(labels map[string][]string) {
	if len(f.GPUs) == 1 {
		gpu := f.GPUs[0]
		labels[awsv1.GPUNameLabelKey] = one(kebab(gpu.Name))
		labels[awsv1.GPUManufacturerLabelKey] = one(kebab(gpu.Manufacturer))
		labels[awsv1.GPUCountLabelKey] = number(gpu.number())
		labels[awsv1.GPUMemoryLabelKey] = number(gpu.MemoryMiB)
	}
	devices := f.Neurons
	if len(devices) == 0 {
		devices = f.Accelerators
	}
	if len(devices) == 1 {
		labels[awsv1.AcceleratorNameLabelKey] = one(kebab(devices[0].Name))
		labels[awsv1.AcceleratorManufacturerLabelKey] = one(kebab(devices[0].Manufacturer))
		labels[awsv1.AcceleratorCountLabelKey] = number(devices[0].Count)
	}
}

// systems returns the operating systems that a family's image runs on the type. There is no Windows for arm64.
func (f *Figures) systems(family string) []string {
	switch {
	case !awsv1.IsWindows(family):
		return []string{string(corev1.Linux)}
	case f.Architecture == v1.ArchitectureAMD64:
		return []string{string(corev1.Windows)}
	}
	return nil
}

var typeName = regexp.MustCompile(`(^[a-z]+)(-[0-9]+tb)?([0-9]+).*\.`)

// categoryAndGeneration parses "m" and "5" out of "m5.large", and "u" and "1" out of "u-12tb1.112xlarge".
func categoryAndGeneration(name string) (category, generation string) {
	if match := typeName.FindStringSubmatch(name); match != nil {
		return match[1], match[3]
	}
	return "", ""
}

// one returns a list with the value, or nil for "".
func one(value string) []string {
	if value == "" {
		return nil
	}
	return []string{value}
}

func number[T int | int64](n T) []string {
	if n == 0 {
		return nil
	}
	return []string{strconv.FormatInt(int64(n), 10)}
}

func kebab(text string) string { return strings.ReplaceAll(strings.ToLower(text), " ", "-") }

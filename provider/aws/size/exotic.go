package size

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/api/awsv1"
	"tenon.sh/engine"
)

// Exotic reports whether machines of a type are started only if there is a reason to, whatever they cost: they have
// accelerators, or no hypervisor between them and the hardware, which takes them long to boot.
func Exotic(t *engine.InstanceType) bool {
	_, size, _ := strings.Cut(t.Name, ".")
	return strings.Contains(size, "metal") || t.Devices != nil || slices.ContainsFunc([]corev1.ResourceName{
		awsv1.ResourceNVIDIAGPU, awsv1.ResourceAMDGPU, awsv1.ResourceGaudi, awsv1.ResourceNeuron, awsv1.ResourceNeuronCore,
	}, func(name corev1.ResourceName) bool { q := t.Capacity[name]; return !q.IsZero() })
}

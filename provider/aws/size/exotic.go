package size

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/api/awsv1"
	"tenon.sh/engine"
)

// Exotic reports whether machines of a type are started only for a reason, whatever their price: machines with accelerators, and machines
// without a hypervisor, which boot slowly.
func Exotic(t *engine.InstanceType) bool {
	_, size, _ := strings.Cut(t.Name, ".")
	return strings.Contains(size, "metal") || t.Devices != nil || slices.ContainsFunc([]corev1.ResourceName{
		awsv1.ResourceNVIDIAGPU, awsv1.ResourceAMDGPU, awsv1.ResourceGaudi, awsv1.ResourceNeuron, awsv1.ResourceNeuronCore,
	}, func(name corev1.ResourceName) bool { q := t.Capacity[name]; return !q.IsZero() })
}

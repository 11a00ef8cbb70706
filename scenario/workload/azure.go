package workload

import (
	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider/azure/size"
	"tenon.sh/provider/catalog"
)

// OnAzure returns a snapshot of Cost with machines of Azure in East US: amd64 of the families D, E and F (for gpu with the GPU families too),
// with the same capacity types.
func OnAzure(s *engine.Snapshot, kind string) *engine.Snapshot {
	families := []string{"D", "E", "F"}
	if kind == GPU {
		families = append(families, "NC", "ND", "NV")
	}
	out := *s
	out.Classes = []engine.Class{{Ref: s.Classes[0].Ref, InstanceTypes: catalog.Azure(catalog.AzureRegion, false)}}
	pool := s.NodePools[0].DeepCopy()
	requirements := []v1.Requirement{
		{Key: corev1.LabelArchStable, Operator: v1.In, Values: []string{v1.ArchitectureAMD64}},
		{Key: size.LabelFamily, Operator: v1.In, Values: families},
	}
	for _, r := range pool.Spec.Template.Spec.Requirements {
		if r.Key == v1.CapacityTypeLabelKey {
			requirements = append(requirements, r)
		}
	}
	pool.Spec.Template.Spec.Requirements = requirements
	out.NodePools = []*v1.NodePool{pool}
	return &out
}

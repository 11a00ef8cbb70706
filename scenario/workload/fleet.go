package workload

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/api/kwokv1alpha1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
)

// Fleet returns a cluster without nodes, with pending pods like those of a cluster for machine learning. There are a hundred shapes: a few of
// them have most of the pods, and many have one or two pods (the n-th shape has 1/n of the pods of the first). Nine in ten request a GPU,
// some two, four or eight. The pool may buy, on demand, Catalog's types with Linux, amd64 and the families c, m, r, g and p.
func Fleet(pods int, seed uint64) *engine.Snapshot {
	kinds := Catalog()
	s := newSnapshot(kinds, []v1.Requirement{
		{Key: corev1.LabelOSStable, Operator: v1.In, Values: []string{"linux"}},
		{Key: corev1.LabelArchStable, Operator: v1.In, Values: []string{v1.ArchitectureAMD64}},
		{Key: kwokv1alpha1.InstanceFamilyLabelKey, Operator: v1.In, Values: families(kinds, "cmrgp")},
		{Key: v1.CapacityTypeLabelKey, Operator: v1.In, Values: []string{v1.CapacityTypeOnDemand}},
	})
	const shapes = 100
	harmonic := 0.0
	for i := range shapes {
		harmonic += 1 / float64(i+1)
	}
	m := newMersenne(fmt.Sprintf("fleet-%d", seed))
	for i := range shapes {
		gpus := choose[int64](m, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1)
		if i > 10 && m.fraction() < 0.15 {
			gpus = choose[int64](m, 2, 2, 4, 8)
		}
		cpu := choose[int64](m, 1000, 3150, 4000, 6000, 8000, 9800, 11300, 11900, 12500, 16000) * max(1, gpus)
		if gpus == 0 {
			cpu = choose[int64](m, 4000, 8000, 12500, 16000, 32000)
		}
		shape := newShape(map[string]string{"app": fmt.Sprintf("fleet-%d", i)}, cpu, cpu*choose[int64](m, 1500, 2000, 3800, 4200, 5000)/1000, gpus)
		for range max(1, int(float64(pods)/harmonic/float64(i+1))) {
			name := numbered("fleet", len(s.Pods))
			s.Pods = append(s.Pods, shape.pod(name, name))
		}
	}
	return s
}

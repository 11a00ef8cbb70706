package explain_test

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/explain"
)

// Each pass searches each pool for types with impossible sharing. The search reads the pool's requirements only if there are such types, and
// names only the types that the pool allows.
func TestSharingThatCannotBeIsSoughtWhereThereIsAny(t *testing.T) {
	class, pool := &engine.Class{}, &v1.NodePool{}
	for i := range 100 {
		class.InstanceTypes = append(class.InstanceTypes, engine.InstanceType{Name: fmt.Sprintf("type-%d", i), Labels: map[string][]string{"family": {fmt.Sprint(i % 2)}},
			Devices: &engine.DeviceSource{}, Offerings: []engine.Offering{{Zone: "a", CapacityType: v1.CapacityTypeOnDemand, Price: float64(i)}}})
	}
	pool.Spec.Template.Spec.Requirements = []v1.Requirement{{Key: "family", Operator: v1.In, Values: []string{"1"}}, {Key: corev1.LabelTopologyZone, Operator: v1.In, Values: []string{"a"}}}
	if n := testing.AllocsPerRun(10, func() { explain.DeviceProblems(pool, class) }); n > 5 {
		t.Errorf("%v allocations where no type shares anything", n)
	}
	for _, i := range []int{31, 2, 5} {
		class.InstanceTypes[i].Devices = &engine.DeviceSource{Problem: "no such strategy"}
	}
	want := "sharing of GPUs: no such strategy; type-5, type-31: machines are planned with whole GPUs"
	if got := explain.DeviceProblems(pool, class); !slices.Equal(got, []string{want}) {
		t.Errorf("%q, want %q", got, want)
	}
}

package limits_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/limits"
)

// Launches are counted one after the other at their largest listed type, and one that has no room says which limit it would exceed.
func TestLaunchesAreTakenAsFarAsTheLimitReaches(t *testing.T) {
	t.Parallel()
	ref := &v1.NodeClassReference{Name: "default"}
	pool := &v1.NodePool{}
	pool.Name = "general"
	pool.Spec.Template.Spec.NodeClassRef = ref
	pool.Spec.Limits = v1.Limits{corev1.ResourceCPU: resource.MustParse("10")}
	sized := func(name, cpu string) engine.InstanceType {
		return engine.InstanceType{Name: name, Capacity: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}
	}
	s := &engine.Snapshot{NodePools: []*v1.NodePool{pool}, Classes: []engine.Class{{Ref: *ref, InstanceTypes: []engine.InstanceType{sized("small", "2"), sized("large", "4")}}}}
	u := limits.NewUsage(s, (*inventory.Cache)(nil).Take(s, 1), nil)
	launch := engine.Launch{NodePool: "general", InstanceTypes: []string{"small", "large"}}
	for i := range 2 {
		if r := u.Take(launch, pool); !r.OK() {
			t.Fatalf("launch %d of 4 cores, limit 10: %v", i+1, r)
		}
	}
	if r := u.Take(launch, pool); r.Code != engine.LimitReached || r.Key != "cpu" {
		t.Errorf("the third launch of 4 cores: %v, want LimitReached of cpu", r)
	}
	launch.InstanceTypes = launch.InstanceTypes[:1]
	if r := u.Take(launch, pool); !r.OK() {
		t.Errorf("2 cores more, limit 10: %v", r)
	}
}

package offering_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/offering"
)

func TestALimitOfAResourceThatNoMachineHasIsToldWithTheNameThatIsMeant(t *testing.T) {
	t.Parallel()
	for name, want := range map[corev1.ResourceName]string{
		"cpu": "", "memory": "", "nodes": "", "nvidia.com/gpu": "",
		"cpus": "; write cpu if that is meant", "CPU": "; write cpu if that is meant", "mem": "; write memory if that is meant",
		"node": "; write nodes if that is meant", "gpu": "; write nvidia.com/gpu if that is meant", "memroy": "none",
	} {
		pool := &v1.NodePool{Spec: v1.NodePoolSpec{Limits: v1.Limits{name: resource.MustParse("4")}}}
		pool.Name = "general"
		p := &offering.Pool{NodePool: pool, Class: &engine.Class{InstanceTypes: []engine.InstanceType{{Capacity: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"), "nvidia.com/gpu": resource.MustParse("1"),
		}}}}}
		notes := p.UnknownLimits()
		switch {
		case want == "" && len(notes) > 0:
			t.Errorf("%s: %v", name, notes)
		case want == "":
		case len(notes) != 1 || notes[0].Object != "NodePool general" || notes[0].Reason.Code != engine.UnknownLimit:
			t.Errorf("%s: %v", name, notes)
		case want == "none" && notes[0].Reason.Need != "" || want != "none" && notes[0].Reason.Need != want:
			t.Errorf("%s: %q, want %q", name, notes[0].Reason.Need, want)
		}
	}
}

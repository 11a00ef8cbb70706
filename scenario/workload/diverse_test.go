package workload_test

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario/workload"
)

// kindOf names the constraint of a pod of Diverse.
func kindOf(pod *corev1.Pod) string {
	affinity := pod.Spec.Affinity
	switch {
	case len(pod.Spec.TopologySpreadConstraints) == 1:
		c := pod.Spec.TopologySpreadConstraints[0]
		if c.MaxSkew != 1 || c.WhenUnsatisfiable != corev1.DoNotSchedule || pod.Labels["my-label"] == "" || c.LabelSelector.MatchLabels["my-label"] == "" {
			return "unknown spread"
		}
		return "spread " + c.TopologyKey
	case affinity != nil && affinity.PodAffinity != nil:
		term := affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0]
		if !reflect.DeepEqual(term.LabelSelector.MatchLabels, pod.Labels) {
			return "unknown affinity"
		}
		return "together " + term.TopologyKey
	case affinity != nil:
		term := affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0]
		if !reflect.DeepEqual(term.LabelSelector.MatchLabels, pod.Labels) {
			return "unknown anti-affinity"
		}
		return "apart " + term.TopologyKey
	case pod.Labels["my-label"] != "":
		return "generic"
	}
	return "unknown"
}

func TestDiversePodsComeInFiveEqualShares(t *testing.T) {
	t.Parallel()
	s := workload.Diverse(1003, 1)
	got, sizes := map[string]int{}, map[string]bool{}
	for _, pod := range s.Pods {
		if !kube.IsPending(pod) {
			t.Fatalf("pod %s is not pending", pod.Name)
		}
		got[kindOf(pod)]++
		requests := pod.Spec.Containers[0].Resources.Requests
		sizes[requests.Cpu().String()+"/"+requests.Memory().String()] = true
	}
	want := map[string]int{
		"generic": 203, "spread topology.kubernetes.io/zone": 200, "spread kubernetes.io/hostname": 200,
		"together topology.kubernetes.io/zone": 200, "apart kubernetes.io/hostname": 200,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if len(sizes) != 30 {
		t.Errorf("%d sizes of pods, want 30", len(sizes))
	}
	if !reflect.DeepEqual(s, workload.Diverse(1003, 1)) || reflect.DeepEqual(s, workload.Diverse(1003, 2)) {
		t.Error("the seed, and nothing else, must decide the pods")
	}
}

func TestRegularTypesGrowByOneCore(t *testing.T) {
	t.Parallel()
	kinds := workload.Diverse(0, 1).Classes[0].InstanceTypes
	if len(kinds) != 400 {
		t.Fatalf("%d types, want 400", len(kinds))
	}
	last := kinds[399]
	if got := amount(last.Capacity, "cpu") + " " + amount(last.Capacity, "memory") + " " + amount(last.Capacity, "pods"); got != "400 800Gi 4k" {
		t.Errorf("the largest type has %s", got)
	}
	if got := amount(last.Allocatable(), "cpu"); got != "399900m" {
		t.Errorf("the largest type leaves %s cores to pods", got)
	}
	if o := last.Offerings; len(o) != 5 || o[0].Price < 125.8 || o[0].Price > 125.9 {
		t.Errorf("offerings of the largest type: %+v", o)
	}
}

func TestPreferencePodsOnlyWish(t *testing.T) {
	t.Parallel()
	s := workload.Preference(500, 1)
	if len(s.Pods) != 500 {
		t.Fatalf("%d pods", len(s.Pods))
	}
	for _, pod := range s.Pods {
		a := pod.Spec.Affinity
		wishes := a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution
		if a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil || a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil ||
			len(a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution) != 1 || len(wishes) != 2 || wishes[0].Weight != 10 || wishes[1].Weight != 1 {
			t.Fatalf("pod %s: %+v", pod.Name, a)
		}
	}
	if plan := provisioning.Plan(s, engine.Options{Preferences: engine.Ignore}, nil); len(plan.Unplaced) > 0 {
		t.Errorf("without the wishes, %d pods have no place", len(plan.Unplaced))
	}
}

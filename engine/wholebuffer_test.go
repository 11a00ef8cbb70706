package engine_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/api/autoscalingv1beta1"
	"tenon.sh/engine"
	"tenon.sh/engine/disruption"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario/scenariotest"
)

// withBuffer returns the snapshot with a buffer of pods that request very little.
func withBuffer(s *engine.Snapshot, replicas int32, cpu string) *engine.Snapshot {
	out := *s
	meta := metav1.ObjectMeta{Namespace: "default", Name: "law", UID: "law"}
	b := &autoscalingv1beta1.CapacityBuffer{ObjectMeta: meta}
	b.Spec.PodTemplateRef, b.Spec.Replicas = &autoscalingv1beta1.LocalObjectRef{Name: "law"}, &replicas
	template := &corev1.PodTemplate{ObjectMeta: meta}
	template.Template.Labels = map[string]string{"app": "web"} // selectors of many scenarios match it
	template.Template.Spec.Containers = []corev1.Container{{Name: "a", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}}}
	out.CapacityBuffers, out.PodTemplates = append(slices.Clone(s.CapacityBuffers), b), append(slices.Clone(s.PodTemplates), template)
	return &out
}

// TestBuffersOfNothingChangeNoPlan adds to each scenario a buffer of size 0, and a buffer with the strategy of another program.
func TestBuffersOfNothingChangeNoPlan(t *testing.T) {
	t.Parallel()
	for _, path := range scenariotest.Drawn(t, ".") {
		f := scenariotest.Load(t, path)
		foreign := withBuffer(f.Snapshot, 5, "1")
		foreign.CapacityBuffers[len(foreign.CapacityBuffers)-1].Spec.ProvisioningStrategy = new("example.com/other")
		for _, with := range []*engine.Snapshot{withBuffer(f.Snapshot, 0, "1"), foreign} {
			for name, plan := range map[string]func(*engine.Snapshot) *engine.Plan{
				"provision": func(s *engine.Snapshot) *engine.Plan { return provisioning.Plan(s, f.Options, nil) },
				"disrupt":   func(s *engine.Snapshot) *engine.Plan { return disruption.Plan(s, f.Options, nil) },
			} {
				if want, got := scenariotest.Said(plan(f.Snapshot)), scenariotest.Said(plan(with)); got != want {
					t.Errorf("%s, %s: got\n%swant\n%s", filepath.Base(path), name, got, want)
				}
			}
		}
	}
}

// TestRoomIsNobodysPod adds a buffer to each scenario. No list names its pods, as many pods as before have a place, and the sums of the room are
// complete.
func TestRoomIsNobodysPod(t *testing.T) {
	t.Parallel()
	for _, path := range scenariotest.Drawn(t, ".") {
		f := scenariotest.Load(t, path)
		with := withBuffer(f.Snapshot, 3, "100m")
		plain, plan := provisioning.Plan(f.Snapshot, f.Options, nil), provisioning.Plan(with, f.Options, nil)
		if len(plan.Unplaced) > len(plain.Unplaced) {
			t.Errorf("%s: %d pods have no place beside the buffer, %d without it", filepath.Base(path), len(plan.Unplaced), len(plain.Unplaced))
		}
		i := slices.IndexFunc(plan.Buffers, func(b engine.BufferRoom) bool { return b.Name == "law" })
		room := plan.Buffers[i]
		if room.Size != 3 || room.Existing+room.Coming > 3 || room.Existing+room.Coming < 3 && len(room.Reasons) == 0 {
			t.Errorf("%s: %+v", filepath.Base(path), room)
		}
		launched := 0
		for _, l := range plan.Launches {
			for _, b := range l.Buffers {
				if b.Name == "law" {
					launched += b.Pods
				}
			}
			if len(l.Pods)+len(l.Buffers)+len(l.ProvisioningRequests) == 0 {
				t.Errorf("%s: launch %s is for nobody", filepath.Base(path), l.Name)
			}
		}
		if launched > room.Coming {
			t.Errorf("%s: launches have room for %d pods, %d are said to come", filepath.Base(path), launched, room.Coming)
		}
		for name, plan := range map[string]*engine.Plan{"provision": plan, "disrupt": disruption.Plan(with, f.Options, nil)} {
			if scenariotest.Said(plan) != "" && strings.Contains(scenariotest.Said(plan), "capacity-buffer-law") {
				t.Errorf("%s, %s names pods that do not exist:\n%s", filepath.Base(path), name, scenariotest.Said(plan))
			}
		}
	}
}

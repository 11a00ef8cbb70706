package engine_test

import (
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/api/autoscalingv1"
	"tenon.sh/engine"
	"tenon.sh/engine/disruption"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario/scenariotest"
)

// withRequest returns the snapshot with a ProvisioningRequest of the class for so many small pods.
func withRequest(s *engine.Snapshot, class string, count int32) *engine.Snapshot {
	out := *s
	meta := metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "law", UID: "law request", CreationTimestamp: metav1.NewTime(s.Now)}
	template := &corev1.PodTemplate{ObjectMeta: meta}
	template.Template.Spec.Containers = []corev1.Container{{Name: "a", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("100m")}}}}
	out.PodTemplates = append([]*corev1.PodTemplate{template}, s.PodTemplates...)
	out.ProvisioningRequests = append([]*autoscalingv1.ProvisioningRequest{{ObjectMeta: meta, Spec: autoscalingv1.ProvisioningRequestSpec{
		ProvisioningClassName: class, PodSets: []autoscalingv1.PodSet{{PodTemplateRef: autoscalingv1.Reference{Name: "law"}, Count: count}},
	}}}, s.ProvisioningRequests...)
	return &out
}

// TestRoomIsForAllPodsOfARequestOrForNone adds a request to each scenario. An atomic request has places for all of its pods or for none. For a
// request that only checks, nothing is started. No list names the pods that represent the request.
func TestRoomIsForAllPodsOfARequestOrForNone(t *testing.T) {
	t.Parallel()
	for _, path := range scenariotest.Drawn(t, ".") {
		f := scenariotest.Load(t, path)
		for _, class := range []string{autoscalingv1.CheckCapacity, autoscalingv1.BestEffortAtomic} {
			s := withRequest(f.Snapshot, class, 7)
			plan := provisioning.Plan(s, f.Options, nil)
			started := 0
			for _, l := range plan.Launches {
				for _, b := range l.ProvisioningRequests {
					if b.Name == "law" {
						started += b.Pods
					}
				}
			}
			for _, room := range plan.ProvisioningRequests {
				if room.Name != "law" {
					continue
				}
				places := room.Existing + room.Coming
				if class == autoscalingv1.BestEffortAtomic && places != 0 && places != 7 || class == autoscalingv1.CheckCapacity && room.Coming > 0 || started > room.Coming {
					t.Errorf("%s, %s: machines are started for %d: %+v", filepath.Base(path), class, started, room)
				}
				if room.Status == nil {
					t.Errorf("%s, %s: nothing is said of a new request", filepath.Base(path), class)
				}
			}
			for _, plan := range []*engine.Plan{plan, disruption.Plan(s, f.Options, nil)} {
				if text := scenariotest.Said(plan); strings.Contains(text, "provisioning-request-law") {
					t.Errorf("%s, %s: pods that do not exist are named:\n%s", filepath.Base(path), class, text)
				}
			}
		}
	}
}

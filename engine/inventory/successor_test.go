package inventory_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"tenon.sh/engine"
	"tenon.sh/engine/disruption"
	"tenon.sh/engine/inventory"
	"tenon.sh/scenario/scenariotest"
)

// Pods stay the same while their owner's template changes: an old cache gives the same result as a new one.
func TestACacheSeesThatAnOwnersTemplateHasChanged(t *testing.T) {
	t.Parallel()
	s := scenariotest.Cluster(t,
		"pool general budget=100%", "type four cpu=4 mem=8Gi price=0.10",
		"node n1 pool=general type=four zone=a quiet=10m", "node n2 pool=general type=four zone=a quiet=10m",
		"statefulset db", "pod db cpu=1 node=n1 owner=StatefulSet/db age=5h", "pod other cpu=2 node=n2 do-not-disrupt")
	pod := s.Pods[0]
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", Resources: &corev1.ResourceRequirements{Requests: pod.Spec.Containers[0].Resources.Requests}}}
	cache := &inventory.Cache{}
	for i, c := range []struct {
		cpu   string
		moves bool
	}{{"3", false}, {"3", false}, {"2", true}, {"", true}, {"4", false}} {
		next := *s
		set := s.StatefulSets[0].DeepCopy()
		if c.cpu != "" {
			set.Spec.Template.Spec.Containers = []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(c.cpu)}}}}
		}
		next.StatefulSets = []*appsv1.StatefulSet{set}
		if plan := disruption.Plan(&next, engine.Options{}, cache); (len(plan.Disruptions) > 0) != c.moves {
			t.Errorf("step %d: with %q cpu in the template %d nodes go", i+1, c.cpu, len(plan.Disruptions))
		}
	}
}

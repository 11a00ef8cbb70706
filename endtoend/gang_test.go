package endtoend_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/playground"
)

// TestGangsStartTogether has kube-scheduler itself schedule gangs: one gets four machines that open together, one finds a limit and gets
// none at all.
func TestGangsStartTogether(t *testing.T) {
	p, err := playground.Start(t.Context(), playground.Config{
		FeatureGates: "GenericWorkload=true,GangScheduling=true", APIs: "scheduling.k8s.io/v1alpha2=true",
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	})
	w := worldOn(t, p)
	w.start()
	w.pool("gangs", func(p *v1.NodePool) {
		p.Spec.Disruption.ConsolidateAfter = v1.DurationOf(0)
		p.Spec.Limits = v1.Limits{corev1.ResourceCPU: resource.MustParse("20")}
	})
	w.gang("train", 4, 4)
	w.running(4, 2*time.Minute)
	if n := len(w.claims()); n != 4 {
		t.Errorf("%d machines for four pods that each fill one", n)
	}
	w.openedTogether()

	w.gang("large", 6, 6) // for which the limit leaves too little
	w.until(time.Minute, func() (bool, string) {
		var events corev1.EventList
		w.must(w.List(w, &events))
		return slices.ContainsFunc(events.Items, func(e corev1.Event) bool {
			return strings.HasPrefix(e.InvolvedObject.Name, "large-") && strings.Contains(e.Message, "pod group default/large starts with 6 pods or not at all")
		}), "no pod of the large gang says why it waits"
	})
	w.until(time.Minute, func() (bool, string) {
		var events corev1.EventList
		w.must(w.List(w, &events))
		at := slices.IndexFunc(events.Items, func(e corev1.Event) bool {
			return e.InvolvedObject.Kind == "PodGroup" && e.InvolvedObject.Name == "large"
		})
		if at >= 0 && events.Items[at].InvolvedObject.APIVersion != schedulingv1alpha2.SchemeGroupVersion.String() {
			t.Errorf("an event is about a PodGroup of %s, which is not served", events.Items[at].InvolvedObject.APIVersion)
		}
		return at >= 0, "the large gang's PodGroup does not say why it waits"
	})
	if n := len(w.claims()); n != 4 {
		t.Errorf("%d machines, want the four of the gang that runs", n)
	}
	w.scale("large", 0)
	w.scale("train", 0)
	w.until(2*time.Minute, func() (bool, string) {
		return len(w.claims()) == 0, fmt.Sprintf("%d machines are left without pods", len(w.claims()))
	})
}

// openedTogether looks at when the nodes lost their last taint: kube-scheduler binds all pods of a gang in one cycle.
func (w *world) openedTogether() {
	w.Helper()
	var first, last time.Time
	for _, pod := range w.pods() {
		for _, c := range pod.Status.Conditions {
			if c.Type != corev1.PodScheduled {
				continue
			}
			if at := c.LastTransitionTime.Time; first.IsZero() || at.Before(first) {
				first = at
			}
			if at := c.LastTransitionTime.Time; at.After(last) {
				last = at
			}
		}
	}
	if last.Sub(first) > 2*time.Second {
		w.Errorf("the first pod of the gang was bound %v before the last", last.Sub(first))
	}
}

// gang makes a Deployment of so many pods, of which minCount start together, and no two on a machine.
func (w *world) gang(name string, pods, minCount int32) {
	w.Helper()
	group := &schedulingv1alpha2.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}}
	group.Spec.SchedulingPolicy.Gang = &schedulingv1alpha2.GangSchedulingPolicy{MinCount: minCount}
	w.must(w.Create(w, group))
	labels := map[string]string{"app": name}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}}
	d.Spec.Replicas, d.Spec.Selector, d.Spec.Template.Labels = &pods, &metav1.LabelSelector{MatchLabels: labels}, labels
	spec := &d.Spec.Template.Spec
	spec.TerminationGracePeriodSeconds = new(int64(0))
	spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &name}
	spec.Containers = []corev1.Container{{Name: "a", Image: "a", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("3500m"), corev1.ResourceMemory: resource.MustParse("64Mi")},
	}}}
	spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
		TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: labels},
	}}}}
	w.must(w.Create(w, d))
}

package provision_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"tenon.sh/api/schedulingv1alpha3"
	"tenon.sh/cluster/clustertest"
)

// A gang says on its PodGroup what it waits for and what to do, once in five minutes, and when it starts; metrics count gangs.
func TestPodGroupsAreToldOf(t *testing.T) {
	t.Parallel()
	objects := []client.Object{clustertest.Pool("general")}
	add := func(name string, min int32, cpu string, pods ...string) {
		group := &schedulingv1alpha3.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}}
		group.Spec.SchedulingPolicy.Gang = &schedulingv1alpha3.GangSchedulingPolicy{MinCount: min}
		objects = append(objects, group)
		for _, p := range pods {
			pod := clustertest.Pending(name+p, cpu)
			pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &name}
			objects = append(objects, pod)
		}
	}
	add("huge", 2, "5000", "-1", "-2")
	add("few", 3, "1", "-1", "-2")
	add("train", 2, "1", "-1", "-2")
	w := clustertest.New(t, interceptor.Funcs{}, objects...)
	r := newReconciler(w)
	for range 3 {
		w.Must(r.Reconcile(w))
		w.Clock.Step(10 * time.Second)
	}
	got := w.Events()
	if got["PodGroup GangIncomplete"] != 1 || got["PodGroup GangTooSmall"] != 1 || got["PodGroup GangStarting"] != 1 {
		t.Errorf("%v", got)
	}
	w.Clock.Step(5 * time.Minute)
	w.Must(r.Reconcile(w))
	if got := w.Events(); got["PodGroup GangIncomplete"] != 2 {
		t.Errorf("five minutes later: %v", got)
	}
	var list corev1.EventList
	w.Must(w.Client.List(w, &list))
	for _, e := range list.Items {
		if e.InvolvedObject.Kind != "PodGroup" {
			continue
		}
		if warning := e.Type == corev1.EventTypeWarning; warning != (e.InvolvedObject.Name == "huge") {
			t.Errorf("%s %s: %s", e.Type, e.Reason, e.Message)
		}
		if want := map[string]string{
			"huge":  "pod group default/huge starts with 2 pods or not at all, and 0 would have a place: nothing is started for it",
			"few":   "it waits for pods: 3 pods start together, and 2 exist; to do: make the other pods",
			"train": "it starts: of its pods 0 run, 0 have a place on nodes that are there and 2 on machines that start",
		}[e.InvolvedObject.Name]; !strings.HasPrefix(e.Message, want) {
			t.Errorf("%s: %s", e.InvolvedObject.Name, e.Message)
		}
	}
	if err := testutil.GatherAndCompare(w.Registry, strings.NewReader(`
# HELP tenon_pod_groups PodGroups whose pods start together, by the last plan's answer, as in tenon explain podgroup.
# TYPE tenon_pod_groups gauge
tenon_pod_groups{progress="starting",reason=""} 1
tenon_pod_groups{progress="too_small",reason="gang_too_small"} 1
tenon_pod_groups{progress="waiting",reason="not_enough_resources"} 1
`), "tenon_pod_groups"); err != nil {
		t.Error(err)
	}
}

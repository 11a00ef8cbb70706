package provision

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"tenon.sh/engine"
)

// replica is a pod of a ReplicaSet that kube-scheduler tried in this place.
func replica(owner string, tried int, spread bool) *corev1.Pod {
	name := fmt.Sprintf("%s-%d", owner, tried)
	control := true
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID(name), ResourceVersion: fmt.Sprint(100 + tried),
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: owner, UID: types.UID(owner), Controller: &control}},
	}}
	if spread {
		pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule,
		}}
	}
	return pod
}

func launchOf(zone string, pods ...*corev1.Pod) engine.Launch {
	l := engine.Launch{Offerings: []engine.LaunchOffering{{OfferingID: engine.OfferingID{Zone: zone}}}}
	for _, p := range pods {
		l.Pods = append(l.Pods, engine.PodID{Name: p.Name, UID: p.UID})
	}
	return l
}

func TestEqualPodsArePlannedInTheOrderInWhichTheyAreTried(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		spread bool
		want   string
	}{
		{"spread over zones: the zones take turns", true, "web-0 web-3 | web-1 web-4 | web-2 web-5"},
		{"not spread: one machine after the other", false, "web-0 web-1 | web-2 web-3 | web-4 web-5"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var pods []*corev1.Pod
			known := map[types.UID]*corev1.Pod{}
			for i := range 6 {
				pods = append(pods, replica("web", i, c.spread))
				known[pods[i].UID] = pods[i]
			}
			launches := []engine.Launch{launchOf("a", pods[5], pods[4]), launchOf("b", pods[3], pods[2]), launchOf("c", pods[1], pods[0])}
			takeTurns(launches, known)
			var got []string
			for _, l := range launches {
				var names []string
				for _, id := range l.Pods {
					names = append(names, id.Name)
				}
				slices.Sort(names)
				got = append(got, strings.Join(names, " "))
			}
			if text := strings.Join(got, " | "); text != c.want {
				t.Errorf("planned %s, want %s", text, c.want)
			}
		})
	}
}

func TestPodsOfDifferentKindsKeepTheirMachines(t *testing.T) {
	t.Parallel()
	web, job, large := replica("web", 9, false), replica("job", 1, false), replica("web", 1, false)
	job.OwnerReferences[0].Kind = "Job"
	large.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(2, resource.DecimalSI)}}}}
	launches := []engine.Launch{launchOf("a", web), launchOf("b", job), launchOf("c", large)}
	takeTurns(launches, map[types.UID]*corev1.Pod{web.UID: web, job.UID: job, large.UID: large})
	for i, want := range []*corev1.Pod{web, job, large} {
		if got := launches[i].Pods[0].UID; got != want.UID {
			t.Errorf("launch %d is for %s, want %s", i, got, want.UID)
		}
	}
}

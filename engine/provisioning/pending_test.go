package provisioning_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario/scenariotest"
)

// A machine in zone b was started for web-1 when there was no other, and web-1 still waits. As long as the machine is new, it
// is expected there; later it may go wherever it likes best.
func TestAPodThatItsMachineDoesNotTakeIsPlannedAnew(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		ready time.Duration // for so long
		goes  string
	}{{time.Second, "n-b"}, {time.Minute, "n-a"}} {
		s := scenariotest.Cluster(t,
			"pool general",
			"type two cpu=2 mem=4Gi zones=a,b price=0.05",
			"node n-a pool=general type=two zone=a",
			"node n-b pool=general type=two zone=b planned=web-1",
			"pods web x1 cpu=1 prefer=(zone in (a) weight=100)")
		for _, claim := range s.NodeClaims {
			v1.GetCondition(claim, v1.ConditionInitialized).LastTransitionTime = metav1.NewTime(s.Now.Add(-c.ready))
		}
		plan := provisioning.Plan(s, engine.Options{}, nil)
		if len(plan.Placements) != 1 || plan.Placements[0].Node != c.goes {
			t.Errorf("%v after its machine was ready: placements %v, want one on %s", c.ready, plan.Placements, c.goes)
		}
	}
}

// kube-scheduler tries one pod after the other. Pods that it has not tried yet are planned together with those for which it has found no
// node, because they should not wait for the next plan. (If there is room for them they wait for kube-scheduler:
// engine/testdata/pending_means_that_the_scheduler_gave_up.txt.)
func TestPodsThatAreNotTriedYetArePlannedForWithThoseThatWere(t *testing.T) {
	t.Parallel()
	untried := func(p *corev1.Pod) { p.Status.Conditions = nil }
	for _, c := range []struct {
		name   string
		change func(pods []*corev1.Pod)
		want   int // pods planned for
	}{
		{"one was tried", func(pods []*corev1.Pod) { untried(pods[1]); untried(pods[2]) }, 3},
		{"none was tried", func(pods []*corev1.Pod) { untried(pods[0]); untried(pods[1]); untried(pods[2]) }, 0},
		{"another one is held by a gate", func(pods []*corev1.Pod) {
			untried(pods[1])
			pods[1].Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/wait"}}
		}, 2},
		{"another one has other labels", func(pods []*corev1.Pod) { untried(pods[1]); pods[1].Labels = map[string]string{"app": "other"} }, 3},
		{"another one has no controller", func(pods []*corev1.Pod) { untried(pods[1]); pods[1].OwnerReferences = nil }, 3},
		{"another one is being deleted", func(pods []*corev1.Pod) {
			untried(pods[1])
			pods[1].DeletionTimestamp = &metav1.Time{Time: time.Now()}
		}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := scenariotest.Cluster(t, "pool general", "type two cpu=2 mem=4Gi zones=a price=0.05", "pods web x3 cpu=1 owner=ReplicaSet")
			c.change(s.Pods)
			planned := 0
			for _, l := range provisioning.Plan(s, engine.Options{}, nil).Launches {
				planned += len(l.Pods)
			}
			if planned != c.want {
				t.Errorf("machines for %d pods, want %d", planned, c.want)
			}
		})
	}
}

// A pod that a machine was started for before kube-scheduler came to it keeps its place there.
func TestAReplicaThatIsNotTriedYetIsExpectedOnItsMachine(t *testing.T) {
	t.Parallel()
	s := scenariotest.Cluster(t, "pool general", "type two cpu=2 mem=4Gi zones=a price=0.05",
		"claim general-1 pool=general type=two zone=a planned=web-1", "pods web x1 cpu=1500m untried", "pods other x1 cpu=1")
	plan := provisioning.Plan(s, engine.Options{}, nil)
	if len(plan.Launches) != 1 || len(plan.Launches[0].Pods) != 1 {
		t.Errorf("launches %v: want another machine for the other pod", plan.Launches)
	}
}

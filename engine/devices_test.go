package engine_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/constraints"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/provisioning"
	"tenon.sh/engine/scheduler"
)

// silentNode is a cluster with a machine that was started for claimed devices, and whose driver has published nothing for so long.
func silentNode(t *testing.T, ready string, more ...string) *engine.Snapshot {
	return clusterOf(t, append([]string{
		"pool general",
		"type one cpu=8 mem=16Gi price=1 devices=(driver=gpu.example.com)",
		"deviceclass gpu driver=gpu.example.com",
		"node n pool=general type=one zone=a drivers=gpu.example.com uninitialized planned=a age=40m registered=" + ready + " ready=" + ready,
		"pod a cpu=1 devices=(class=gpu)",
	}, more...)...)
}

func TestAMachineForClaimsSaysWhoseDevicesItWaitsFor(t *testing.T) {
	t.Parallel()
	s := clusterOf(t,
		"pool general",
		"type one cpu=8 mem=16Gi price=1 devices=(driver=gpu.example.com) devices=(driver=nic.example.com)",
		"deviceclass gpu driver=gpu.example.com",
		"pod a cpu=1 devices=(class=gpu)")
	plan := provisioning.Plan(s, engine.Options{}, nil)
	if len(plan.Launches) != 1 {
		t.Fatalf("launches %v", plan.Launches)
	}
	claim := kube.NewClaim(s.NodePools[0], plan.Launches[0])
	if got := kube.DriversAskedFor(claim); !slices.Equal(got, []string{"gpu.example.com"}) {
		t.Errorf("the claim waits for drivers %v", got)
	}
}

// However late a driver is, the same machine is not bought again: first its devices are to come, then its pool remembers that they do
// not, also once the machine is gone.
func TestALateDriverNeverHasTheSameMachineBoughtAgain(t *testing.T) {
	t.Parallel()
	for ready, late := range map[string]bool{"0s": false, "1m": false, "14m59s": false, "15m": true, "20m": true, "29m": true} {
		s := silentNode(t, ready)
		plan := provisioning.Plan(s, engine.Options{}, nil)
		if len(plan.Launches) > 0 {
			t.Errorf("ready for %s: launches %v", ready, plan.Launches)
		}
		if late != (len(plan.Backoffs) == 1) {
			t.Errorf("ready for %s: written down: %+v", ready, plan.Backoffs)
		}
	}
}

func TestWhereADriverPublishesNothingIsRememberedForAllWhoClaimItsDevices(t *testing.T) {
	t.Parallel()
	s := silentNode(t, "16m", "pod other cpu=2 mem=1Gi devices=(class=gpu)", "pod plain cpu=1")
	carryOut(s, provisioning.Plan(s, engine.Options{}, nil))
	s.Nodes, s.NodeClaims = nil, nil
	plan := provisioning.Plan(s, engine.Options{}, nil)
	if len(plan.Launches) != 1 || len(plan.Launches[0].Pods) != 1 || plan.Launches[0].Pods[0].Name != "plain" || len(plan.Unplaced) != 2 {
		t.Fatalf("launches %v, unplaced %v", plan.Launches, plan.Unplaced)
	}
	for _, u := range plan.Unplaced {
		if r := u.Reasons[0]; r.Code != engine.LaunchesBackedOff || !strings.Contains(r.Message(), "driver gpu.example.com has published no ResourceSlices") {
			t.Errorf("%s says: %v", u.Pod.Name, r)
		}
	}
	s.Now = s.Now.Add(31 * time.Minute) // the first wait is over
	if plan = provisioning.Plan(s, engine.Options{}, nil); len(plan.Unplaced) > 0 {
		t.Errorf("once the wait is over: unplaced %v", plan.Unplaced)
	}
}

func TestADriverThatPublishesAfterAllIsBelievedAgain(t *testing.T) {
	t.Parallel()
	s := silentNode(t, "16m")
	carryOut(s, provisioning.Plan(s, engine.Options{}, nil))
	annotations := s.NodePools[0].Annotations
	s = silentNode(t, "17m", "patch node n published=(driver=gpu.example.com)", "pod next cpu=1 devices=(class=gpu)")
	s.NodePools[0].Annotations = annotations
	plan := provisioning.Plan(s, engine.Options{}, nil)
	if len(plan.Launches) != 1 || len(plan.Placements) != 1 || len(plan.Backoffs) != 1 || plan.Backoffs[0].Text != "" {
		t.Errorf("launches %v, placements %v, written down %+v", plan.Launches, plan.Placements, plan.Backoffs)
	}
}

func TestAReplayGivesNoDeviceAwayTwice(t *testing.T) {
	t.Parallel()
	s := clusterOf(t,
		"pool general",
		"type two cpu=8 mem=16Gi price=1 devices=(driver=gpu.example.com count=2)",
		"deviceclass gpu driver=gpu.example.com",
		"node n pool=general type=two zone=a published=(driver=gpu.example.com count=2)",
		"pods web x3 cpu=1 devices=(class=gpu)",
		"pod large cpu=1 devices=(class=gpu memory=40Gi)")
	landing := (&scheduler.Replay{Snapshot: s, Pods: waiting(s)}).Land()
	if len(landing.Placements) != 2 || len(landing.Stranded) != 2 {
		t.Errorf("placed %v, stranded %v", landing.Placements, landing.Stranded)
	}
}

// What was bought in vain for pods that claim one thing says nothing of those that claim another.
func TestPodsThatClaimOtherwiseHaveOtherShapes(t *testing.T) {
	t.Parallel()
	cache := &inventory.Cache{}
	provisioning.Plan(&engine.Snapshot{}, engine.Options{}, cache) // it has been used
	shape := func(claim corev1.PodResourceClaim) string {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}}
		if claim.Name != "" {
			pod.Spec.ResourceClaims = []corev1.PodResourceClaim{claim}
		}
		return constraints.ShapeOf(cache, cache.InfoOf(pod))
	}
	none, small := shape(corev1.PodResourceClaim{}), shape(corev1.PodResourceClaim{Name: "gpu", ResourceClaimTemplateName: new("small")})
	large, shared := shape(corev1.PodResourceClaim{Name: "gpu", ResourceClaimTemplateName: new("large")}), shape(corev1.PodResourceClaim{Name: "gpu", ResourceClaimName: new("shared")})
	if shapes := []string{none, small, large, shared}; none == small || small == large || large == shared || none == shared || small == shared {
		t.Errorf("of no claim, small, large and shared: %v", shapes)
	}
	if again := shape(corev1.PodResourceClaim{Name: "gpu", ResourceClaimTemplateName: new("small")}); again != small {
		t.Errorf("the same claim has the shapes %s and %s", small, again)
	}
}

package provisioning_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/enginetest"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario/workload"
)

// A pool with minValues, for one key or for four, makes a plan take at most three times the work that it takes otherwise, on the full
// catalog of EC2: the search counts its work, and ends.
func TestMinValuesTakeNoMoreThanThreeTimesTheWork(t *testing.T) {
	t.Parallel()
	const pods, enough = 30, 3000 // units that are too few to compare
	worst := 0.0
	for i := range enginetest.Draws(40) {
		seed, keys := i/4, int(i%4)+1
		_, plain := provisioning.PlanAndWork(workload.Flexible(pods, seed, 0))
		_, work := provisioning.PlanAndWork(workload.Flexible(pods, seed, keys))
		worst = max(worst, float64(work)/float64(max(plain, enough)))
		t.Logf("seed %d: %d units with minValues on %d keys, %d without", seed, work, keys, plain)
	}
	if worst > 3 {
		t.Errorf("minValues take up to %.1f times the work", worst)
	}
}

// A user of one namespace can make pods that ask for as much as their bytes allow, of everything that pods may ask for. The work of a plan
// grows with the bytes and not faster, at most by a second's work for each megabyte, and the pods of others have their places all the same.
// The text of reasons is bounded too.
func TestWhatPodsAskForTakesWorkByTheByte(t *testing.T) {
	t.Parallel()
	// Of all kinds, disks take most time for a unit of work: a megabyte of them takes 0.44 s and 0.05 units a byte, so a second is 0.12 units a byte.
	// The solver needs up to a fifth of a second to find out that a mixture is too large, however few bytes the mixture has.
	const unitsPerByte, least, textPerPod = 0.12, 24_000, 2500
	kinds := workload.HostileKinds()
	all := len(kinds) + 4
	for i := range enginetest.Draws(all) {
		seed := uint64(all-1) - i // those with several kinds come first
		some := kinds
		if int(seed) < len(kinds) {
			some = kinds[seed : seed+1]
		}
		bytes := []int{200_000, 20_000, 1_000_000}[i%3]
		hostile, plain := workload.Hostile(workload.Flexible(30, seed, 0), bytes, seed, some...)
		idle, before := provisioning.PlanAndWork(plain)
		plan, work := provisioning.PlanAndWork(hostile)
		if most := before + max(least, int64(unitsPerByte*float64(bytes))); work > most {
			t.Errorf("seed %d, %v of %d bytes: %d units of work, at most %d are fair", seed, some, bytes, work, most)
		}
		if n, without := unplacedIn(plan, "default"), unplacedIn(idle, "default"); n > without {
			t.Errorf("seed %d, %v: %d pods of others have no place, %d otherwise", seed, some, n, without)
		}
		text := 0
		for _, u := range plan.Unplaced {
			text += len(engine.Sentence(u.Reasons))
		}
		if text > textPerPod*len(plan.Unplaced) {
			t.Errorf("seed %d, %v: the reasons of %d pods take %d bytes", seed, some, len(plan.Unplaced), text)
		}
		t.Logf("seed %d, %v: %d units, %d without, %d of %d pods have no place", seed, some, work, before, len(plan.Unplaced), len(hostile.Pods))
	}
}

func unplacedIn(plan *engine.Plan, namespace string) (n int) {
	for _, u := range plan.Unplaced {
		if u.Pod.Namespace == namespace {
			n++
		}
	}
	return n
}

// There are more ways to divide six pods among EC2's instance types than a search can try: it ends, and the pods have a plan.
func TestFewPodsThatSpreadOverThousandsOfDomainsHaveAPlan(t *testing.T) {
	t.Parallel()
	const pods, most = 6, 24_000
	s := workload.Flexible(pods, 1, 0)
	for _, pod := range s.Pods {
		pod.Labels = map[string]string{"app": "spread"}
		pod.Spec.Affinity, pod.Spec.NodeSelector = nil, nil
		pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelInstanceTypeStable, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{MatchLabels: pod.Labels},
		}}
	}
	plan, work := provisioning.PlanAndWork(s)
	if len(plan.Unplaced) > 0 || len(plan.Launches) != pods {
		t.Errorf("%d pods have no place, and there are %d machines", len(plan.Unplaced), len(plan.Launches))
	}
	if work > most {
		t.Errorf("%d units of work, at most %d are fair", work, most)
	}
}

package engine_test

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/enginetest"
	"tenon.sh/engine/provisioning"
	"tenon.sh/provider/catalog"
	"tenon.sh/scenario"
	"tenon.sh/scenario/workload"
)

// This file limits the costs of plans for whole workloads.

// Machines for many shapes of pods with GPUs, with few pods each, cost little more than the bound.
func TestPlansForFleetsWithGPUsAreNearTheirBound(t *testing.T) {
	t.Parallel()
	for seed := range enginetest.Few(4) {
		plan := provisioning.Plan(workload.Fleet(2000, seed), engine.Options{}, nil)
		t.Logf("seed %d: %.2f USD/h, %.2f %% above the bound", seed, plan.Cost.LaunchesPerHour, 100*plan.Cost.Gap)
		if len(plan.Unplaced) > 0 || plan.Cost.Gap > 0.03 || plan.Cost.Gap < 0 {
			t.Errorf("seed %d: %d pods are left, and the plan is %.2f %% above the bound", seed, len(plan.Unplaced), 100*plan.Cost.Gap)
		}
	}
}

// Azure's offerings have labels, and a launch may become machines of several sizes. The limits for other catalogs hold for its catalog too.
func TestPlansOnAzureAreValidAndNearTheirBound(t *testing.T) {
	t.Parallel()
	for kind, gap := range map[string]float64{workload.Mix: 0.1, workload.Spread: 0.25, workload.GPU: 0.1} { // few pods, some alone on their machine
		s := workload.OnAzure(workload.Cost(kind, 200, 1, v1.CapacityTypeOnDemand, v1.CapacityTypeSpot), kind)
		s.Classes[0].InstanceTypes = catalog.Azure(catalog.AzureRegion, kind == workload.Spread)
		plan := provisioning.Plan(s, engine.Options{}, nil)
		for _, fault := range faults(s, plan) {
			t.Errorf("%s: %s", kind, fault)
		}
		if len(plan.Unplaced) > 0 || plan.Cost.Bound > plan.Cost.LaunchesPerHour*(1+1e-9) || plan.Cost.Gap > gap {
			t.Errorf("%s: %d pods refused, %+v", kind, len(plan.Unplaced), plan.Cost)
		}
	}
}

// Replicas are separated by exchanges of pods between machines. After any number of exchanges, each pod has one place.
func TestReplicasAreKeptApartWithoutLosingAny(t *testing.T) {
	t.Parallel()
	for seed := range enginetest.Draws(8) {
		s := workload.Cost(workload.Web, 1000, seed, "on-demand")
		for _, pod := range s.Pods {
			controller := true
			pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: pod.Labels["app"], UID: "u", Controller: &controller}}
		}
		placed := map[engine.PodID]int{}
		for _, l := range provisioning.Plan(s, engine.Options{LargestCPU: 32}, nil).Launches {
			for _, id := range l.Pods {
				placed[id]++
			}
		}
		for _, pod := range s.Pods {
			if n := placed[engine.PodID{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}]; n != 1 {
				t.Errorf("seed %d: pod %s is on %d machines", seed, pod.Name, n)
			}
		}
	}
}

// If each machine takes one pod of each owner, machines keep room that no pod can use. The bound includes that room, even if many kinds of other
// pods share no machine with these pods.
func TestTheBoundKnowsPodsThatKeepApart(t *testing.T) {
	t.Parallel()
	text := `
catalog aws
pool steady taint=steady:NoSchedule karpenter.k8s.aws/instance-category in (m,r) arch in (amd64)
     karpenter.k8s.aws/instance-generation > 5 karpenter.k8s.aws/instance-cpu > 7 karpenter.k8s.aws/instance-cpu < 17 capacity in (on-demand)
pool general capacity in (on-demand)
daemonset agent cpu=200m mem=384Mi tolerate=*
pods kafka x15 cpu=4 mem=24Gi apart=hostname spread=zone tolerate=steady select=karpenter.sh/nodepool:steady
pods postgres x12 cpu=4 mem=32Gi apart=hostname spread=zone tolerate=steady select=karpenter.sh/nodepool:steady
pods redis x18 cpu=2 mem=16Gi apart=hostname spread=zone tolerate=steady select=karpenter.sh/nodepool:steady
pods elastic x21 cpu=4 mem=28Gi spread=(hostname skew=1) spread=zone tolerate=steady select=karpenter.sh/nodepool:steady
pods cassandra x18 cpu=6 mem=40Gi apart=hostname spread=zone tolerate=steady select=karpenter.sh/nodepool:steady
`
	for i := range 20 {
		text += fmt.Sprintf("pods web-%d x2 cpu=%dm mem=%dMi\n", i, 300+20*i, 1000+70*i)
	}
	f, err := scenario.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if plan := provisioning.Plan(f.Snapshot, f.Options, nil); len(plan.Unplaced) > 0 || plan.Cost.Gap < 0 || plan.Cost.Gap > 0.02 {
		t.Errorf("%d pods are left, and the plan costs %.4f, %.1f %% above its bound of %.4f", len(plan.Unplaced), plan.Cost.LaunchesPerHour, 100*plan.Cost.Gap, plan.Cost.Bound)
	}
}

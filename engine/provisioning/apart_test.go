package provisioning_test

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/engine"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario"
	"tenon.sh/scenario/workload"
)

// Replicas are kept apart by exchanging pods between machines. However many exchanges that takes, every pod has one place.
func TestReplicasAreKeptApartWithoutLosingAny(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
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

// Machines of which each takes one pod of every owner are left with room that no pod may have: the bound pays for that, also where many
// kinds of pods beside them share no machine with them.
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

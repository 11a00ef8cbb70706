package disruption

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/enginetest"
	"tenon.sh/engine/provisioning"
)

// oneTypeWorld is a pool that sells one type of 4 cores, and a waiting pod of 3 cores.
func oneTypeWorld() (*engine.Snapshot, *v1.NodePool, *corev1.Pod) {
	ref := v1.NodeClassReference{Group: "karpenter.kwok.sh", Kind: "KWOKNodeClass", Name: "default"}
	pool := &v1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "general"}}
	pool.Spec.Template.Spec.NodeClassRef = &ref
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "web"}}
	pod.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("3")},
	}}}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
	return &engine.Snapshot{
		Now: enginetest.LifeStart, Pods: []*corev1.Pod{pod}, NodePools: []*v1.NodePool{pool},
		Classes: []engine.Class{{Ref: ref, InstanceTypes: []engine.InstanceType{{
			Name:      "four",
			Capacity:  corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourcePods: resource.MustParse("10")},
			Offerings: []engine.Offering{{Zone: "a", CapacityType: v1.CapacityTypeOnDemand, Price: 1}},
		}}}},
	}, pool, pod
}

func TestLaunchesCheckedTogetherStayWithinTheLimits(t *testing.T) {
	t.Parallel()
	s, pool, _ := oneTypeWorld()
	plan := provisioning.Plan(s, engine.Options{}, nil)
	if len(plan.Launches) != 1 {
		t.Fatalf("%d launches, want one", len(plan.Launches))
	}
	pool.Spec.Limits = v1.Limits{corev1.ResourceCPU: resource.MustParse("7")}
	checker := NewChecker(s)
	if r := checker.Check(plan.Launches[0]); !r.OK() {
		t.Errorf("the first machine of 4 cores within 7: %s", r)
	}
	if r := checker.Check(plan.Launches[0]); r.Code != engine.LimitReached || r.Key != "cpu" {
		t.Errorf("the second machine of 4 cores within 7: %+v", r)
	}
}

// If the catalog no longer has an offering of the launch, the next one counts against the cloud's quotas.
func TestALaunchIsCheckedWithoutTheOfferingsThatHaveGone(t *testing.T) {
	t.Parallel()
	s, _, _ := oneTypeWorld()
	class := &s.Classes[0]
	class.Quotas = []engine.Quota{{Name: "cores", Left: 4, Limit: 4}}
	offerings := &class.InstanceTypes[0].Offerings
	*offerings = append(*offerings, engine.Offering{Zone: "b", CapacityType: v1.CapacityTypeOnDemand, Price: 1})
	for i := range *offerings {
		(*offerings)[i].Quotas = []engine.QuotaUse{{Quota: "cores", Units: 4}}
	}
	launch := provisioning.Plan(s, engine.Options{}, nil).Launches[0]
	if len(launch.Offerings) != 2 || launch.Offerings[0].Zone != "a" {
		t.Fatalf("the launch lists %v", launch.Offerings)
	}
	*offerings = (*offerings)[1:]
	checker := NewChecker(s)
	if r := checker.Check(launch); !r.OK() {
		t.Errorf("the first machine of 4 cores within 4: %s", r)
	}
	if r := checker.Check(launch); r.Code != engine.QuotaExceeded {
		t.Errorf("the second machine of 4 cores within 4: %+v", r)
	}
}

func TestPoolsOfFixedSizeTakeNoPodsByThemselves(t *testing.T) {
	t.Parallel()
	s, pool, _ := oneTypeWorld()
	replicas := int64(3)
	pool.Spec.Replicas = &replicas
	plan := provisioning.Plan(s, engine.Options{}, nil)
	if len(plan.Launches) != 0 || len(plan.Unplaced) != 1 || plan.Unplaced[0].Reasons[0].Code != engine.NodePoolNotReady {
		t.Errorf("launches %v, unplaced %+v", plan.Launches, plan.Unplaced)
	}
}

func TestAnEmptyAffinityTermMatchesNoNode(t *testing.T) {
	t.Parallel()
	s, _, pod := oneTypeWorld()
	pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{}}},
	}}
	if plan := provisioning.Plan(s, engine.Options{}, nil); len(plan.Launches) != 0 || len(plan.Unplaced) != 1 {
		t.Errorf("launches %v, unplaced %v: kube-scheduler would place the pod nowhere", plan.Launches, plan.Unplaced)
	}
}

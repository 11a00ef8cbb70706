package constraints_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/constraints"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario/scenariotest"
)

// A failure with pods that claim one device does not count for pods that claim another.
func TestPodsThatClaimOtherwiseHaveOtherShapes(t *testing.T) {
	t.Parallel()
	cache := &inventory.Cache{}
	provisioning.Plan(&engine.Snapshot{}, engine.Options{}, cache) // the cache has been used
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

// The replicas that must run on demand may change from pass to pass. A failure with one replica counts for all.
func TestPodsThatHoldAShareHaveTheShapeOfTheOthers(t *testing.T) {
	t.Parallel()
	cache := &inventory.Cache{}
	provisioning.Plan(&engine.Snapshot{}, engine.Options{}, cache) // the cache has been used
	plain := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}, Spec: corev1.PodSpec{Priority: new(int32(7))}}
	marked := plain.DeepCopy()
	marked.Annotations = map[string]string{kube.MustRunOnDemandMark: "true"}
	if a, b := constraints.ShapeOf(cache, cache.InfoOf(plain)), constraints.ShapeOf(cache, cache.InfoOf(marked)); a != b {
		t.Errorf("%s and %s", a, b)
	}
}

// The record outlives the node, and each further failure doubles the wait.
func TestTheWaitDoublesUpToAnHour(t *testing.T) {
	t.Parallel()
	s := scenariotest.Unfit(t, scenariotest.Tainted("example.com/a"), "pods web x1 cpu=1")
	for _, wait := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
		plan := provisioning.Plan(s, engine.Options{}, nil)
		if len(plan.Launches) > 0 || len(plan.Backoffs) != 1 || len(plan.Backoffs[0].Found) != 1 {
			t.Fatalf("launches %v, backoffs %+v", plan.Launches, plan.Backoffs)
		}
		scenariotest.WriteBackoffs(s, plan)
		nodes, claims := s.Nodes, s.NodeClaims
		s.Nodes, s.NodeClaims = nil, nil
		s.Now = s.Now.Add(wait*time.Minute - time.Second)
		if plan = provisioning.Plan(s, engine.Options{}, nil); len(plan.Launches) > 0 || len(plan.Backoffs) > 0 {
			t.Fatalf("a second before %v min are over: launches %v, backoffs %+v", wait, plan.Launches, plan.Backoffs)
		}
		s.Now = s.Now.Add(time.Second)
		if got := scenariotest.Bought(provisioning.Plan(s, engine.Options{}, nil)); !slices.Equal(got, []string{"two"}) {
			t.Fatalf("after %v min: launches %v", wait, got)
		}
		s.Now = s.Now.Add(time.Minute) // the machine comes, and is the same
		s.Nodes, s.NodeClaims = nodes, claims
		claims[0].CreationTimestamp = metav1.NewTime(s.Now.Add(-50 * time.Second))
		scenariotest.ReadyFor(s, 5*time.Second)
	}
}

// A pass that sees the same machine again records nothing new.
func TestAMachineThatDidNotTakeItsPodCountsOnce(t *testing.T) {
	t.Parallel()
	s := scenariotest.Unfit(t, scenariotest.Tainted("example.com/a"), "pods web x1 cpu=1")
	scenariotest.WriteBackoffs(s, provisioning.Plan(s, engine.Options{}, nil))
	s.Now = s.Now.Add(20 * time.Second)
	if plan := provisioning.Plan(s, engine.Options{}, nil); len(plan.Backoffs) > 0 {
		t.Errorf("written down again: %+v", plan.Backoffs)
	}
}

// If there are many types, the pool waits after the second failure before it tries a third type.
func TestWhereNoTypeTakesThePodTheNextOneWaitsToo(t *testing.T) {
	t.Parallel()
	s := scenariotest.Unfit(t, scenariotest.Tainted("example.com/a"), "pods web x1 cpu=1", "type three cpu=3 mem=6Gi zones=a price=0.09",
		"type four cpu=4 mem=8Gi zones=a price=0.12")
	scenariotest.WriteBackoffs(s, provisioning.Plan(s, engine.Options{}, nil))
	s.Now = s.Now.Add(30 * time.Second)
	s.Nodes[0].Labels[corev1.LabelInstanceTypeStable], s.NodeClaims[0].Labels[corev1.LabelInstanceTypeStable] = "three", "three"
	s.NodeClaims[0].CreationTimestamp = metav1.NewTime(s.Now.Add(-25 * time.Second))
	scenariotest.ReadyFor(s, time.Second)
	plan := provisioning.Plan(s, engine.Options{}, nil)
	scenariotest.WriteBackoffs(s, plan)
	s.Nodes, s.NodeClaims = nil, nil
	if len(plan.Launches) > 0 || plan.Unplaced[0].Reasons[0].Code != engine.LaunchesBackedOff {
		t.Fatalf("right after the second: launches %v, unplaced %v", plan.Launches, plan.Unplaced)
	}
	s.Now = s.Now.Add(time.Minute)
	if got := scenariotest.Bought(provisioning.Plan(s, engine.Options{}, nil)); !slices.Equal(got, []string{"four"}) {
		t.Errorf("a minute later: launches %v, want one of type four", got)
	}
}

// A failure is forgotten if it may not be true any more.
func TestWhatMachinesDidNotTakeIsForgotten(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(*engine.Snapshot)
	}{
		{"the pool names the taint", func(s *engine.Snapshot) {
			s.NodePools[0].Spec.Template.Spec.StartupTaints = []v1.Taint{{Key: "example.com/a", Effect: "NoSchedule"}}
		}},
		{"the class wants other machines", func(s *engine.Snapshot) {
			s.Classes[0].Traits = append(s.Classes[0].Traits, engine.Trait{Key: engine.ImageTrait, Accepts: []string{"ami-2"}})
		}},
		{"it is a day ago", func(s *engine.Snapshot) { s.Now = s.Now.Add(24 * time.Hour) }},
		{"it is to be tomorrow", func(s *engine.Snapshot) { s.Now = s.Now.Add(-24 * time.Hour) }},
		{"the pod asks for something else", func(s *engine.Snapshot) {
			s.Pods[0].Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("900m")
		}},
		{"the pod is somebody else's", func(s *engine.Snapshot) { s.Pods[0].Namespace = "other" }},
		{"nobody can read it", func(s *engine.Snapshot) { s.NodePools[0].Annotations[v1.LaunchBackoffAnnotationKey] = "{" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := scenariotest.Unfit(t, scenariotest.Tainted("example.com/a"), "pods web x1 cpu=1")
			scenariotest.WriteBackoffs(s, provisioning.Plan(s, engine.Options{}, nil))
			s.Nodes, s.NodeClaims = nil, nil
			c.change(s)
			if got := scenariotest.Bought(provisioning.Plan(s, engine.Options{}, nil)); !slices.Equal(got, []string{"two"}) {
				t.Errorf("launches %v", got)
			}
		})
	}
}

// Pods with another number of volumes have another shape, because too many volumes may have been the cause.
func TestAPodWithFewerVolumesIsAnother(t *testing.T) {
	t.Parallel()
	s := scenariotest.Unfit(t, scenariotest.Tainted("example.com/a"), "volume a zone=a claim=a", "volume b zone=a claim=b", "pods web x1 cpu=1 disk=a,b")
	scenariotest.WriteBackoffs(s, provisioning.Plan(s, engine.Options{}, nil))
	s.Nodes, s.NodeClaims = nil, nil
	if got := scenariotest.Bought(provisioning.Plan(s, engine.Options{}, nil)); len(got) > 0 {
		t.Errorf("the same pod: launches %v", got)
	}
	s.Pods[0].Spec.Volumes = s.Pods[0].Spec.Volumes[:1]
	if got := scenariotest.Bought(provisioning.Plan(s, engine.Options{}, nil)); !slices.Equal(got, []string{"two"}) {
		t.Errorf("the pod with one volume: launches %v", got)
	}
}

// A later machine of the type that takes such a pod shows that the type is not the cause.
func TestAMachineThatTakesThePodClearsItsType(t *testing.T) {
	t.Parallel()
	s := scenariotest.Unfit(t, scenariotest.Tainted("example.com/a"), "pods web x1 cpu=1")
	scenariotest.WriteBackoffs(s, provisioning.Plan(s, engine.Options{}, nil))
	s.Now = s.Now.Add(2 * time.Minute)
	s.Nodes[0].Spec.Taints = nil
	s.NodeClaims[0].CreationTimestamp = metav1.NewTime(s.Now.Add(-50 * time.Second))
	scenariotest.ReadyFor(s, 5*time.Second)
	s.Pods[0].Spec.NodeName, s.Pods[0].Status.Phase = s.Nodes[0].Name, corev1.PodRunning
	plan := provisioning.Plan(s, engine.Options{}, nil)
	if len(plan.Backoffs) != 1 || plan.Backoffs[0].Text != "" {
		t.Errorf("what is written down: %+v", plan.Backoffs)
	}
}

// An agent removes its taint late: the machine that did not take its pod takes it after all.
func TestTheSameMachineClearsItsTypeOnceItTakesThePod(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		bound time.Duration // before the second plan
		want  bool
	}{{"bound since", 10 * time.Second, true}, {"bound before it was found out", 3 * time.Minute, false}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := scenariotest.Unfit(t, scenariotest.Tainted("example.com/a"), "pods web x1 cpu=1")
			scenariotest.WriteBackoffs(s, provisioning.Plan(s, engine.Options{}, nil))
			s.Now = s.Now.Add(2 * time.Minute)
			s.Nodes[0].Spec.Taints = nil
			s.Pods[0].Spec.NodeName, s.Pods[0].Status.Phase = s.Nodes[0].Name, corev1.PodRunning
			s.Pods[0].Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(s.Now.Add(-c.bound))}}
			plan := provisioning.Plan(s, engine.Options{}, nil)
			if forgotten := len(plan.Backoffs) == 1 && plan.Backoffs[0].Text == ""; forgotten != c.want {
				t.Errorf("what is written down: %+v", plan.Backoffs)
			}
		})
	}
}

// A machine of one of two types takes the pod after all. Then the other type has failed once.
func TestOfTwoTypesTheOneThatTakesThePodIsCleared(t *testing.T) {
	t.Parallel()
	s := scenariotest.Unfit(t, scenariotest.Tainted("example.com/a"), "pods web x1 cpu=1", "type three cpu=3 mem=6Gi zones=a price=0.09")
	scenariotest.WriteBackoffs(s, provisioning.Plan(s, engine.Options{}, nil))
	failures := constraints.LaunchFailures(s, s.NodePools[0])
	failures[0].InstanceTypes, failures[0].Count = append(failures[0].InstanceTypes, "three"), 2
	s.NodePools[0].Annotations[v1.LaunchBackoffAnnotationKey] = (&constraints.LaunchBackoff{Failures: failures}).Text(s, s.NodePools[0])
	s.Now = s.Now.Add(10 * time.Second)
	s.Nodes[0].Spec.Taints = nil
	s.Pods[0].Spec.NodeName, s.Pods[0].Status.Phase = s.Nodes[0].Name, corev1.PodRunning
	s.Pods[0].Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(s.Now.Add(-time.Second))}}
	scenariotest.WriteBackoffs(s, provisioning.Plan(s, engine.Options{}, nil))
	left := constraints.LaunchFailures(s, s.NodePools[0])
	if len(left) != 1 || left[0].Count != 1 || !slices.Equal(left[0].InstanceTypes, []string{"three"}) {
		t.Errorf("what is left: %+v", left)
	}
}

// Pods of ever new shapes do not make the NodePool's annotation grow without bound: it keeps the newest failures.
func TestAPoolRemembersSoManyShapes(t *testing.T) {
	t.Parallel()
	pods := []string{}
	for i := range 40 {
		pods = append(pods, fmt.Sprintf("pods web%d x1 cpu=%dm", i, 10+i))
	}
	s := scenariotest.Unfit(t, scenariotest.Tainted("example.com/a"), pods...)
	s.NodeClaims[0].Annotations[v1.PlannedPodsAnnotationKey] = ""
	for _, p := range s.Pods {
		s.NodeClaims[0].Annotations[v1.PlannedPodsAnnotationKey] += string(p.UID) + ","
	}
	scenariotest.WriteBackoffs(s, provisioning.Plan(s, engine.Options{}, nil))
	if n := len(constraints.LaunchFailures(s, s.NodePools[0])); n != 32 {
		t.Errorf("%d shapes are remembered", n)
	}
}

package constraints_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/constraints"
	"tenon.sh/engine/disruption"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario/scenariotest"
)

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

// Which replicas have to run on demand changes from pass to pass: what was learned of one counts for all.
func TestPodsThatHoldAShareHaveTheShapeOfTheOthers(t *testing.T) {
	t.Parallel()
	cache := &inventory.Cache{}
	provisioning.Plan(&engine.Snapshot{}, engine.Options{}, cache) // it has been used
	plain := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}, Spec: corev1.PodSpec{Priority: new(int32(7))}}
	marked := plain.DeepCopy()
	marked.Annotations = map[string]string{kube.MustRunOnDemandMark: "true"}
	if a, b := constraints.ShapeOf(cache, cache.InfoOf(plain)), constraints.ShapeOf(cache, cache.InfoOf(marked)); a != b {
		t.Errorf("%s and %s", a, b)
	}
}

// aMachineThatTakesNothing is a machine that was started for a pod, is ready for a few seconds, and is not what was planned.
func aMachineThatTakesNothing(t *testing.T, differs func(*engine.Snapshot), more ...string) *engine.Snapshot {
	t.Helper()
	s := scenariotest.Cluster(t, append([]string{
		"pool general",
		"type two cpu=2 mem=4Gi ephemeral-storage=20Gi zones=a price=0.05",
		"node n pool=general type=two zone=a age=2m planned=web-1",
	}, more...)...)
	scenariotest.ReadyFor(s, 5*time.Second)
	differs(s)
	return s
}

func tainted(key string) func(*engine.Snapshot) {
	return func(s *engine.Snapshot) {
		s.Nodes[0].Spec.Taints = append(s.Nodes[0].Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})
	}
}

// bought lists the types of the machines that the plan starts.
func bought(plan *engine.Plan) []string {
	var out []string
	for _, l := range plan.Launches {
		out = append(out, l.InstanceTypes...)
	}
	return out
}

// Whatever keeps a pod off the machine that was started for it, no other machine of the type is started at once: the pod says
// why, and gets another type where there is one.
func TestAMachineThatDoesNotTakeItsPodIsNotStartedAgainAtOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		differs func(*engine.Snapshot)
		pod     string
		why     string
	}{
		{"taint", tainted("net.example.com/agent-not-ready"), "pods web x1 cpu=1", "taint net.example.com/agent-not-ready"},
		{"memory", func(s *engine.Snapshot) {
			s.Nodes[0].Status.Allocatable[corev1.ResourceMemory] = resource.MustParse("3Gi")
		}, "pods web x1 mem=3500Mi", "3Gi memory"},
		{"disk", func(s *engine.Snapshot) {
			s.Nodes[0].Status.Allocatable[corev1.ResourceEphemeralStorage] = resource.MustParse("3Gi")
		}, "pods web x1 ephemeral-storage=5Gi", "3Gi ephemeral-storage"},
		{"label", func(s *engine.Snapshot) { s.Nodes[0].Labels["kubernetes.io/arch"] = "arm64" }, "pods web x1 cpu=1 arch in (amd64)", "label kubernetes.io/arch"},
		{"zone", func(s *engine.Snapshot) { s.Nodes[0].Labels[corev1.LabelTopologyZone] = "b" }, "pods web x1 cpu=1 zone in (a)", "zone=b instead of a"},
		{"zone that a spread counts by", func(s *engine.Snapshot) { delete(s.Nodes[0].Labels, corev1.LabelTopologyZone) }, "pods web x1 cpu=1 spread=zone", corev1.LabelTopologyZone},
		{"memory beside a DaemonSet's pod", func(s *engine.Snapshot) {
			s.Nodes[0].Status.Allocatable[corev1.ResourceMemory] = resource.MustParse("2500Mi")
		}, "pods web x1 mem=2Gi\ndaemonset agent mem=1Gi\npods agent x1 mem=1Gi node=n owner=DaemonSet/agent", "2500Mi memory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := aMachineThatTakesNothing(t, c.differs, c.pod)
			plan := provisioning.Plan(s, engine.Options{}, nil)
			if len(plan.Launches) > 0 || len(plan.Unplaced) != 1 {
				t.Fatalf("launches %v, unplaced %v", plan.Launches, plan.Unplaced)
			}
			scenariotest.WriteBackoffs(s, plan)
			s.Nodes, s.NodeClaims = nil, nil
			gone := provisioning.Plan(s, engine.Options{}, nil)
			if len(gone.Launches) > 0 || len(gone.Unplaced) != 1 {
				t.Fatalf("once the machine is gone: launches %v, unplaced %v", gone.Launches, gone.Unplaced)
			}
			reason := gone.Unplaced[0].Reasons[0]
			if reason.Code != engine.LaunchesBackedOff || !strings.Contains(reason.Message(), c.why) || !strings.Contains(reason.Message(), "(two)") {
				t.Errorf("the pod says: %v", reason)
			}
			if len(plan.Backoffs) != 1 || len(plan.Backoffs[0].Found) != 1 || !strings.Contains(plan.Backoffs[0].Found[0].Why, c.why) {
				t.Errorf("what is written down: %+v", plan.Backoffs)
			}

			other := aMachineThatTakesNothing(t, c.differs, c.pod, "type three cpu=3 mem=6Gi ephemeral-storage=20Gi zones=a price=0.09")
			if got := bought(provisioning.Plan(other, engine.Options{}, nil)); !slices.Equal(got, []string{"three"}) {
				t.Errorf("with another type: launches %v, want one of type three", got)
			}
		})
	}
}

// A machine that goes because it has not joined the cluster took no pod either.
func TestAMachineThatNeverJoinedIsNotStartedAgainAtOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		claim string
		known bool
	}{
		{"launched=20m age=20m", false}, // it is late, and may come yet
		{"launched=5m age=10m deleting", false},
		{"launched=11m age=15m deleting", true}, // it took a while to be started
	} {
		t.Run(c.claim, func(t *testing.T) {
			t.Parallel()
			s := scenariotest.Cluster(t,
				"pool general",
				"type two   cpu=2 mem=4Gi zones=a price=0.05",
				"type three cpu=3 mem=6Gi zones=a price=0.09",
				"claim m pool=general type=two zone=a planned=web "+c.claim,
				"pod web cpu=1",
			)
			plan := provisioning.Plan(s, engine.Options{}, nil)
			if !c.known {
				if len(plan.Backoffs) > 0 {
					t.Errorf("what is written down: %+v", plan.Backoffs)
				}
				return
			}
			if got := bought(plan); !slices.Equal(got, []string{"three"}) || len(plan.Backoffs) != 1 || !strings.Contains(plan.Backoffs[0].Found[0].Why, "has not joined the cluster within 15m") {
				t.Errorf("machines of types %v are started, written down: %+v", got, plan.Backoffs)
			}
			scenariotest.WriteBackoffs(s, plan)
			if more := provisioning.Plan(s, engine.Options{}, nil).Backoffs; len(more) > 0 {
				t.Errorf("written down once more: %+v", more)
			}
			next := s.NodeClaims[0] // of another type, half an hour later
			next.CreationTimestamp, next.Labels[corev1.LabelInstanceTypeStable] = metav1.NewTime(s.Now.Add(time.Minute)), "three"
			s.Now = s.Now.Add(30 * time.Minute)
			plan = provisioning.Plan(s, engine.Options{}, nil)
			if len(plan.Launches) > 0 || len(plan.Unplaced) != 1 || plan.Unplaced[0].Reasons[0].Code != engine.LaunchesBackedOff {
				t.Errorf("the second time: launches %v, unplaced %v", plan.Launches, plan.Unplaced)
			}
		})
	}
}

// The machine stays until its pool remembers what it showed: else the next one would be the same.
func TestAMachineThatDoesNotTakeItsPodStaysUntilItsPoolRemembersThat(t *testing.T) {
	t.Parallel()
	s := aMachineThatTakesNothing(t, tainted("example.com/a"), "pods web x1 cpu=1")
	s.NodePools[0].Spec.Disruption.ConsolidateAfter = v1.DurationOf(0)
	v1.SetCondition(s.NodeClaims[0], v1.ConditionConsolidatable, metav1.ConditionTrue, "", "", s.Now)
	plan := disruption.Plan(s, engine.Options{}, nil)
	if len(plan.Disruptions) > 0 || len(plan.Kept) != 1 || plan.Kept[0].Reason.Code != engine.PodsExpected {
		t.Fatalf("before: %+v, kept %+v", plan.Disruptions, plan.Kept)
	}
	scenariotest.WriteBackoffs(s, provisioning.Plan(s, engine.Options{}, nil))
	if plan = disruption.Plan(s, engine.Options{}, nil); len(plan.Disruptions) != 1 {
		t.Errorf("after: %+v, kept %+v", plan.Disruptions, plan.Kept)
	}
}

// The node is initialized a moment before its claim says so, and nobody waits for that moment.
func TestAMachineShowsItselfBeforeItsClaimSaysThatItIsReady(t *testing.T) {
	t.Parallel()
	s := aMachineThatTakesNothing(t, tainted("example.com/a"), "pods web x1 cpu=1")
	v1.GetCondition(s.NodeClaims[0], v1.ConditionInitialized).Status = metav1.ConditionUnknown
	if plan := provisioning.Plan(s, engine.Options{}, nil); len(plan.Launches) > 0 || len(plan.Backoffs) != 1 {
		t.Errorf("launches %v, backoffs %+v", plan.Launches, plan.Backoffs)
	}
}

// A machine of another type is right as soon as the first one has shown what it is, though that opened a moment ago.
func TestHowMuchANodeHasIsKnownBeforeItIsReady(t *testing.T) {
	t.Parallel()
	s := scenariotest.Cluster(t,
		"pool general",
		"type two  cpu=2 mem=4Gi zones=a price=0.05",
		"type four cpu=4 mem=8Gi zones=a price=0.11",
		"node n pool=general type=two zone=a age=1m planned=web uninitialized not-ready allocatable=cpu:500m",
		"pod web cpu=1",
	)
	plan := provisioning.Plan(s, engine.Options{}, nil)
	if got := bought(plan); !slices.Equal(got, []string{"four"}) || len(plan.Backoffs) != 1 {
		t.Errorf("machines of types %v are started, written down: %+v; want one of type four, and what two did not take", got, plan.Backoffs)
	}
}

// A device whose driver is being installed takes its time; a device that has not come by then does not come.
func TestAResourceThatANodeNeverShowsIsNotCountedOn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		after time.Duration
		want  []string // types of the machines that are started
	}{
		{"it may still come", 14 * time.Minute, nil},
		{"it has not come", 15 * time.Minute, []string{"four"}},
		{"it has not come, and the machine is overdue", 20 * time.Minute, []string{"four"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := scenariotest.Cluster(t,
				"pool general",
				"type two  cpu=2 mem=4Gi example.com/npu=1 zones=a price=0.05",
				"type four cpu=4 mem=8Gi example.com/npu=1 zones=a price=0.11",
				fmt.Sprintf("node n pool=general type=two zone=a age=30m launched=%v registered=%[1]v planned=web uninitialized", c.after),
				"pod web cpu=1 example.com/npu=1",
				"pod small cpu=500m",
			)
			s.NodeClaims[0].Spec.Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("1"), "example.com/npu": resource.MustParse("1")}
			delete(s.Nodes[0].Status.Allocatable, "example.com/npu")
			plan := provisioning.Plan(s, engine.Options{}, nil)
			if got := bought(plan); !slices.Equal(got, c.want) {
				t.Errorf("machines of types %v are started, want %v", got, c.want)
			}
			if !slices.ContainsFunc(plan.Placements, func(p engine.Placement) bool { return p.Pod.Name == "small" && p.Node == "n" }) {
				t.Errorf("the pod that asks for no device does not run on the machine: placements %v", plan.Placements)
			}
			if (len(plan.Backoffs) > 0) != (c.want != nil) {
				t.Fatalf("what is written down: %+v", plan.Backoffs)
			}
			for _, b := range plan.Backoffs {
				if want := "its node has 0 example.com/npu for pods instead of 1"; !strings.Contains(b.Found[0].Why, want) {
					t.Errorf("%q does not say %q", b.Found[0].Why, want)
				}
			}
		})
	}
}

func TestALaunchInsteadOfAMachineThatDoesNotTakeItsPodIsRight(t *testing.T) {
	t.Parallel()
	s := aMachineThatTakesNothing(t, tainted("example.com/a"), "pods web x1 cpu=1", "type three cpu=3 mem=6Gi zones=a price=0.09")
	plan := provisioning.Plan(s, engine.Options{}, nil)
	if r := disruption.Check(plan.Launches[0], s); !r.OK() {
		t.Errorf("the launch is dropped: %v", r)
	}
}

// What was learned outlives the node, and each time that it turns out to be so again the wait is twice as long.
func TestTheWaitDoublesUpToAnHour(t *testing.T) {
	t.Parallel()
	s := aMachineThatTakesNothing(t, tainted("example.com/a"), "pods web x1 cpu=1")
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
		if got := bought(provisioning.Plan(s, engine.Options{}, nil)); !slices.Equal(got, []string{"two"}) {
			t.Fatalf("after %v min: launches %v", wait, got)
		}
		s.Now = s.Now.Add(time.Minute) // the machine comes, and is the same
		s.Nodes, s.NodeClaims = nodes, claims
		claims[0].CreationTimestamp = metav1.NewTime(s.Now.Add(-50 * time.Second))
		scenariotest.ReadyFor(s, 5*time.Second)
	}
}

// A pass that looks at the same machine again learns nothing new.
func TestAMachineThatDidNotTakeItsPodCountsOnce(t *testing.T) {
	t.Parallel()
	s := aMachineThatTakesNothing(t, tainted("example.com/a"), "pods web x1 cpu=1")
	scenariotest.WriteBackoffs(s, provisioning.Plan(s, engine.Options{}, nil))
	s.Now = s.Now.Add(20 * time.Second)
	if plan := provisioning.Plan(s, engine.Options{}, nil); len(plan.Backoffs) > 0 {
		t.Errorf("written down again: %+v", plan.Backoffs)
	}
}

// Of many types none is better than another: after the second the pool waits before it tries the next.
func TestWhereNoTypeTakesThePodTheNextOneWaitsToo(t *testing.T) {
	t.Parallel()
	s := aMachineThatTakesNothing(t, tainted("example.com/a"), "pods web x1 cpu=1", "type three cpu=3 mem=6Gi zones=a price=0.09",
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
	if got := bought(provisioning.Plan(s, engine.Options{}, nil)); !slices.Equal(got, []string{"four"}) {
		t.Errorf("a minute later: launches %v, want one of type four", got)
	}
}

// What was learned is forgotten where it may not be so any more.
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
			s := aMachineThatTakesNothing(t, tainted("example.com/a"), "pods web x1 cpu=1")
			scenariotest.WriteBackoffs(s, provisioning.Plan(s, engine.Options{}, nil))
			s.Nodes, s.NodeClaims = nil, nil
			c.change(s)
			if got := bought(provisioning.Plan(s, engine.Options{}, nil)); !slices.Equal(got, []string{"two"}) {
				t.Errorf("launches %v", got)
			}
		})
	}
}

// Pods with another number of volumes are others: it may have been the volumes that were too many.
func TestAPodWithFewerVolumesIsAnother(t *testing.T) {
	t.Parallel()
	s := aMachineThatTakesNothing(t, tainted("example.com/a"), "volume a zone=a claim=a", "volume b zone=a claim=b", "pods web x1 cpu=1 disk=a,b")
	scenariotest.WriteBackoffs(s, provisioning.Plan(s, engine.Options{}, nil))
	s.Nodes, s.NodeClaims = nil, nil
	if got := bought(provisioning.Plan(s, engine.Options{}, nil)); len(got) > 0 {
		t.Errorf("the same pod: launches %v", got)
	}
	s.Pods[0].Spec.Volumes = s.Pods[0].Spec.Volumes[:1]
	if got := bought(provisioning.Plan(s, engine.Options{}, nil)); !slices.Equal(got, []string{"two"}) {
		t.Errorf("the pod with one volume: launches %v", got)
	}
}

// The pool whose wait is over is tried again, though that of another is not.
func TestAPoolIsTriedAgainWhileAnotherWaits(t *testing.T) {
	t.Parallel()
	s := aMachineThatTakesNothing(t, tainted("example.com/a"), "pods web x1 cpu=1", "pool other")
	for _, pool := range []string{"general", "other"} {
		s.NodeClaims[0].Labels[v1.NodePoolLabelKey], s.Nodes[0].Labels[v1.NodePoolLabelKey] = pool, pool
		s.NodeClaims[0].CreationTimestamp = metav1.NewTime(s.Now.Add(-25 * time.Second))
		scenariotest.ReadyFor(s, time.Second)
		scenariotest.WriteBackoffs(s, provisioning.Plan(s, engine.Options{}, nil))
		s.Now = s.Now.Add(50 * time.Second)
	}
	s.Nodes, s.NodeClaims, s.Now = nil, nil, s.Now.Add(-35*time.Second)
	plan := provisioning.Plan(s, engine.Options{}, nil)
	if len(plan.Launches) != 1 || plan.Launches[0].NodePool != "general" {
		t.Errorf("launches %+v, unplaced %v", plan.Launches, plan.Unplaced)
	}
}

// A machine of the type that did take such a pod shows that it was not the type.
func TestAMachineThatTakesThePodClearsItsType(t *testing.T) {
	t.Parallel()
	s := aMachineThatTakesNothing(t, tainted("example.com/a"), "pods web x1 cpu=1")
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

// Whoever makes pods of ever new shapes does not make the pool's annotation grow for ever: the newest are kept.
func TestAPoolRemembersSoManyShapes(t *testing.T) {
	t.Parallel()
	pods := []string{}
	for i := range 40 {
		pods = append(pods, fmt.Sprintf("pods web%d x1 cpu=%dm", i, 10+i))
	}
	s := aMachineThatTakesNothing(t, tainted("example.com/a"), pods...)
	s.NodeClaims[0].Annotations[v1.PlannedPodsAnnotationKey] = ""
	for _, p := range s.Pods {
		s.NodeClaims[0].Annotations[v1.PlannedPodsAnnotationKey] += string(p.UID) + ","
	}
	scenariotest.WriteBackoffs(s, provisioning.Plan(s, engine.Options{}, nil))
	if n := len(constraints.LaunchFailures(s, s.NodePools[0])); n != 32 {
		t.Errorf("%d shapes are remembered", n)
	}
}

// That others took the room, or that the node is in trouble at the moment, says nothing about the type.
func TestWhatPassesIsNotLearned(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		differs func(*engine.Snapshot)
		more    []string
	}{
		{"others took the room", func(*engine.Snapshot) {}, []string{"pods other x1 cpu=1500m node=n"}},
		{"the node's disk is full", tainted(corev1.TaintNodeDiskPressure), nil},
		{"somebody closed the node", func(s *engine.Snapshot) { s.Nodes[0].Spec.Unschedulable = true }, nil},
		{"the node is not ready", func(s *engine.Snapshot) {
			s.Nodes[0].Status.Conditions[0].Status = corev1.ConditionFalse
			tainted("example.com/a")(s)
		}, nil},
		{"the node is not initialized yet", func(s *engine.Snapshot) {
			delete(s.Nodes[0].Labels, v1.InitializedLabelKey)
			tainted("example.com/a")(s)
		}, nil},
		{"the node is there for long", func(s *engine.Snapshot) { scenariotest.ReadyFor(s, time.Hour); tainted("example.com/a")(s) }, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := aMachineThatTakesNothing(t, c.differs, append(c.more, "pods web x1 cpu=1")...)
			if plan := provisioning.Plan(s, engine.Options{}, nil); len(plan.Backoffs) > 0 {
				t.Errorf("what is written down: %+v", plan.Backoffs)
			}
		})
	}
}

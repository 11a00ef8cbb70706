package lifecycle

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/enginetest"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
)

func TestClaimGetsFinalizerAndClassLabelBeforeItsMachine(t *testing.T) {
	t.Parallel()
	bare := enginetest.LifeClaim(func(c *v1.NodeClaim) { c.Finalizers, c.Labels = nil, nil })
	step := Next(Life{Now: enginetest.LifeStart, Claim: bare})
	if step.Launch || step.Claim == nil {
		t.Fatalf("step %+v: want only the claim changed", step)
	}
	if !slices.Contains(step.Claim.Finalizers, v1.TerminationFinalizer) || step.Claim.Labels["karpenter.kwok.sh/kwoknodeclass"] != "default" {
		t.Errorf("finalizers %v, labels %v", step.Claim.Finalizers, step.Claim.Labels)
	}
	if len(bare.Finalizers) != 0 {
		t.Error("the claim that was read has changed")
	}
	if next := Next(Life{Now: enginetest.LifeStart, Claim: step.Claim}); !next.Launch {
		t.Errorf("with the finalizer: %+v, want a launch", next)
	}
}

func TestTimeLimitsOfAClaim(t *testing.T) {
	t.Parallel()
	expiring := func(c *v1.NodeClaim) { c.Spec.ExpireAfter = v1.DurationOf(time.Hour) }
	tests := []struct {
		name  string
		claim *v1.NodeClaim
		nodes []*corev1.Node
		age   time.Duration
		want  string // cause of deletion
		after time.Duration
	}{
		{"not launched, before the limit", enginetest.LifeClaim(), nil, 5*time.Minute - time.Second, "", time.Second},
		{"not launched, at the limit", enginetest.LifeClaim(), nil, 5 * time.Minute, engine.CauseLaunchTimeout, 0},
		{"not registered, before the limit", enginetest.LifeClaim(enginetest.LifeLaunched), nil, 14 * time.Minute, "", time.Minute},
		{"not registered, at the limit", enginetest.LifeClaim(enginetest.LifeLaunched), nil, 15 * time.Minute, engine.CauseRegistrationTimeout, 0},
		{"the limit counts from the last change of status", enginetest.LifeClaim(enginetest.LifeLaunched, func(c *v1.NodeClaim) {
			v1.SetCondition(c, v1.ConditionRegistered, metav1.ConditionFalse, "MultipleNodesFound", "", enginetest.LifeStart.Add(10*time.Minute))
		}), []*corev1.Node{enginetest.LifeNode(), enginetest.LifeNode()}, 20 * time.Minute, "", 5 * time.Minute},
		{"registered, not ready, before the limit", enginetest.LifeClaim(enginetest.LifeLaunched, enginetest.LifeTrue(v1.ConditionRegistered)),
			[]*corev1.Node{enginetest.LifeNode(enginetest.LifeOpen, enginetest.LifeNotReady)}, 14 * time.Minute, "", time.Minute},
		{"registered, not ready, at the limit", enginetest.LifeClaim(enginetest.LifeLaunched, enginetest.LifeTrue(v1.ConditionRegistered)),
			[]*corev1.Node{enginetest.LifeNode(enginetest.LifeOpen, enginetest.LifeNotReady)}, 15 * time.Minute, engine.CauseReadinessTimeout, 0},
		{"registered, ready until a moment ago", enginetest.LifeClaim(enginetest.LifeLaunched, enginetest.LifeTrue(v1.ConditionRegistered)),
			[]*corev1.Node{enginetest.LifeNode(enginetest.LifeOpen, enginetest.LifeNotReady, func(n *corev1.Node) {
				n.Status.Conditions[0].LastTransitionTime = metav1.NewTime(enginetest.LifeStart.Add(10 * time.Minute))
			})}, 15 * time.Minute, "", 10 * time.Minute},
		{"registered and ready, but with a startup taint: no limit", enginetest.LifeClaim(enginetest.LifeLaunched, enginetest.LifeTrue(v1.ConditionRegistered)),
			[]*corev1.Node{enginetest.LifeNode(enginetest.LifeOpen, enginetest.LifeTaint("booting", corev1.TaintEffectNoExecute))}, 1000 * time.Hour, "", 0},
		{"ready, without a resource that was asked for, before the limit", enginetest.LifeClaim(enginetest.LifeLaunched, enginetest.LifeTrue(v1.ConditionRegistered)),
			[]*corev1.Node{enginetest.LifeNode(enginetest.LifeOpen, enginetest.LifeWithoutCPU)}, 29 * time.Minute, "", time.Minute},
		{"ready, without a resource that was asked for, at the limit", enginetest.LifeClaim(enginetest.LifeLaunched, enginetest.LifeTrue(v1.ConditionRegistered)),
			[]*corev1.Node{enginetest.LifeNode(enginetest.LifeOpen, enginetest.LifeWithoutCPU)}, 30 * time.Minute, engine.CauseReadinessTimeout, 0},
		{"ready a moment ago, without a resource that was asked for", enginetest.LifeClaim(enginetest.LifeLaunched, enginetest.LifeTrue(v1.ConditionRegistered)),
			[]*corev1.Node{enginetest.LifeNode(enginetest.LifeOpen, enginetest.LifeWithoutCPU, func(n *corev1.Node) {
				n.Status.Conditions[0].LastTransitionTime = metav1.NewTime(enginetest.LifeStart.Add(14 * time.Minute))
			})}, 30 * time.Minute, "", 14 * time.Minute},
		{"without a resource that a driver behind a startup taint brings: no limit", enginetest.LifeClaim(enginetest.LifeLaunched, enginetest.LifeTrue(v1.ConditionRegistered)),
			[]*corev1.Node{enginetest.LifeNode(enginetest.LifeOpen, enginetest.LifeWithoutCPU, enginetest.LifeTaint("booting", corev1.TaintEffectNoExecute))}, 1000 * time.Hour, "", 0},
		{"registered and ready, one of two nodes, at the limit", enginetest.LifeClaim(enginetest.LifeLaunched, enginetest.LifeTrue(v1.ConditionRegistered)),
			[]*corev1.Node{enginetest.LifeNode(enginetest.LifeOpen), enginetest.LifeNode(func(n *corev1.Node) { n.Name = "node-2" })}, 15 * time.Minute, engine.CauseReadinessTimeout, 0},
		{"running, one of two nodes, no limit", enginetest.LifeClaim(enginetest.LifeRunning),
			[]*corev1.Node{enginetest.LifeNode(enginetest.LifeOpen), enginetest.LifeNode(func(n *corev1.Node) { n.Name = "node-2" })}, 1000 * time.Hour, "", 0},
		{"not ready any more after it was initialized, no limit", enginetest.LifeClaim(enginetest.LifeRunning), []*corev1.Node{enginetest.LifeNode(enginetest.LifeOpen, enginetest.LifeNotReady)}, 1000 * time.Hour, "", 0},
		{"running, no limit", enginetest.LifeClaim(enginetest.LifeRunning), []*corev1.Node{enginetest.LifeNode(enginetest.LifeOpen)}, 1000 * time.Hour, "", 0},
		{"running, young", enginetest.LifeClaim(enginetest.LifeRunning, expiring), []*corev1.Node{enginetest.LifeNode(enginetest.LifeOpen)}, 59 * time.Minute, "", time.Minute},
		{"running, expired", enginetest.LifeClaim(enginetest.LifeRunning, expiring), []*corev1.Node{enginetest.LifeNode(enginetest.LifeOpen)}, time.Hour, engine.CauseExpired, 0},
		{"its node is being deleted by somebody", enginetest.LifeClaim(enginetest.LifeRunning), []*corev1.Node{enginetest.LifeNode(enginetest.LifeClosed)}, time.Minute, "followed", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			step := Next(Life{Now: enginetest.LifeStart.Add(tt.age), Claim: tt.claim, Nodes: tt.nodes})
			got := ""
			if step.Delete != nil {
				if got = step.Delete.Cause; got == "" {
					got = "followed"
				}
			}
			if got != tt.want || step.After != tt.after {
				t.Errorf("deletion %q, after %v; want %q, %v", got, step.After, tt.want, tt.after)
			}
		})
	}
}

func TestLaunchedClaimKeepsItsLabelsAndTakesTheMachines(t *testing.T) {
	t.Parallel()
	claim := Launched(enginetest.LifeClaim(func(c *v1.NodeClaim) { c.Annotations = map[string]string{"a": "claim", "b": "claim"} }),
		engine.Machine{ID: "sim://1", ImageID: "i", Labels: map[string]string{"team": "b", "zone": "a"}, Annotations: map[string]string{"a": "machine"}}, enginetest.LifeStart)
	if claim.Labels["team"] != "a" || claim.Labels["zone"] != "a" {
		t.Errorf("labels %v: the claim's own win", claim.Labels)
	}
	if claim.Annotations["a"] != "machine" || claim.Annotations["b"] != "claim" {
		t.Errorf("annotations %v: the machine's win", claim.Annotations)
	}
	if claim.Status.ProviderID != "sim://1" || claim.Status.ImageID != "i" || enginetest.ConditionText(claim, v1.ConditionLaunched) != "True" {
		t.Errorf("status %+v", claim.Status)
	}
}

func TestLaunchFailureIsToldInAtMost1024Bytes(t *testing.T) {
	t.Parallel()
	claim := LaunchFailed(enginetest.LifeClaim(), "QuotaExceeded", strings.Repeat("é", 1000), enginetest.LifeStart)
	c := v1.GetCondition(claim, v1.ConditionLaunched)
	if c.Status != metav1.ConditionUnknown || c.Reason != "QuotaExceeded" || len(c.Message) > 1024 || !strings.HasSuffix(c.Message, "é...") {
		t.Errorf("condition %s %s, %d bytes", c.Status, c.Reason, len(c.Message))
	}
}

func TestRegistrationSyncsTheNode(t *testing.T) {
	t.Parallel()
	claim := enginetest.LifeClaim(enginetest.LifeLaunched, func(c *v1.NodeClaim) {
		c.Annotations = map[string]string{"note": "x", kube.PlannedPodsAnnotation: "uid-1,uid-2"}
	})
	step := Next(Life{Now: enginetest.LifeStart, Claim: claim, Nodes: []*corev1.Node{enginetest.LifeNode(enginetest.LifeNotReady)}})
	if len(step.Nodes) != 1 || step.Claim == nil {
		t.Fatalf("step %+v", step)
	}
	node := step.Nodes[0]
	if node.Labels["team"] != "a" || node.Labels["zone"] != "a" || node.Labels[v1.RegisteredLabelKey] != "true" || node.Labels["kubernetes.io/hostname"] != "node-1" {
		t.Errorf("labels %v", node.Labels)
	}
	if _, leaked := node.Annotations[kube.PlannedPodsAnnotation]; leaked || node.Annotations["note"] != "x" {
		t.Errorf("annotations %v", node.Annotations)
	}
	var taints []string
	for _, x := range node.Spec.Taints {
		taints = append(taints, x.ToString())
	}
	if !slices.Equal(taints, []string{"dedicated=x:NoSchedule", "booting:NoExecute"}) {
		t.Errorf("taints %v", taints)
	}
	if !ours(node) || len(node.OwnerReferences) != 1 || node.OwnerReferences[0].UID != claim.UID || !*node.OwnerReferences[0].BlockOwnerDeletion {
		t.Errorf("finalizers %v, owners %v", node.Finalizers, node.OwnerReferences)
	}
	if step.Claim.Status.NodeName != "node-1" || enginetest.ConditionText(step.Claim, v1.ConditionRegistered) != "True" ||
		enginetest.ConditionText(step.Claim, v1.ConditionInitialized) != "Unknown NodeNotReady" {
		t.Errorf("claim status %+v", step.Claim.Status)
	}
	again := Next(Life{Now: enginetest.LifeStart, Claim: step.Claim, Nodes: step.Nodes})
	if !again.Quiet() {
		t.Errorf("the same again: %+v, want nothing to do", again)
	}
}

func TestNodesOfLongAgoGetTheLabelOfTheirClass(t *testing.T) {
	t.Parallel()
	const label = "karpenter.kwok.sh/kwoknodeclass"
	without := func(n *corev1.Node) { enginetest.LifeOpen(n); delete(n.Labels, label) }
	for name, claim := range map[string]*v1.NodeClaim{
		"registered, not initialized": enginetest.LifeClaim(enginetest.LifeLaunched, enginetest.LifeTrue(v1.ConditionRegistered)),
		"initialized":                 enginetest.LifeClaim(enginetest.LifeRunning),
	} {
		step := Next(Life{Now: enginetest.LifeStart, Claim: claim, Nodes: []*corev1.Node{enginetest.LifeNode(without, enginetest.LifeNotReady)}})
		if len(step.Nodes) != 1 || step.Nodes[0].Labels[label] != "default" {
			t.Errorf("%s: nodes %v", name, step.Nodes)
		}
	}
	other := func(n *corev1.Node) { enginetest.LifeOpen(n); n.Labels[label] = "other" }
	if step := Next(Life{Now: enginetest.LifeStart, Claim: enginetest.LifeClaim(enginetest.LifeRunning), Nodes: []*corev1.Node{enginetest.LifeNode(other)}}); len(step.Nodes) != 0 {
		t.Errorf("a label that somebody has set is written over: %v", step.Nodes[0].Labels)
	}
}

func TestRegistrationDoesNotSyncTaintsOnDemand(t *testing.T) {
	t.Parallel()
	node := enginetest.LifeNode(func(n *corev1.Node) { n.Labels[v1.DoNotSyncTaintsLabelKey] = "true" })
	step := Next(Life{Now: enginetest.LifeStart, Claim: enginetest.LifeClaim(enginetest.LifeLaunched), Nodes: []*corev1.Node{node}})
	if got := step.Nodes[0]; len(got.Spec.Taints) != 0 || got.Labels["team"] != "a" {
		t.Errorf("taints %v, labels %v", got.Spec.Taints, got.Labels)
	}
}

func TestRegistrationCutShortDoesNotBringStartupTaintsBack(t *testing.T) {
	t.Parallel()
	step := Next(Life{Now: enginetest.LifeStart, Claim: enginetest.LifeClaim(enginetest.LifeLaunched), Nodes: []*corev1.Node{enginetest.LifeNode(enginetest.LifeOpen)}})
	for _, n := range step.Nodes {
		if len(n.Spec.Taints) != 0 {
			t.Errorf("taints %v", n.Spec.Taints)
		}
	}
	if enginetest.ConditionText(step.Claim, v1.ConditionRegistered) != "True" || step.Nominate != "" {
		t.Errorf("step %+v", step)
	}
}

func TestRegistrationWithoutTheUnregisteredTaintIsTold(t *testing.T) {
	t.Parallel()
	step := Next(Life{Now: enginetest.LifeStart, Claim: enginetest.LifeClaim(enginetest.LifeLaunched), Nodes: []*corev1.Node{enginetest.LifeNode(func(n *corev1.Node) { n.Spec.Taints = nil })}})
	if enginetest.ConditionText(step.Claim, v1.ConditionRegistered) != "True" || len(step.Events) != 1 || step.Events[0].Reason != "UnregisteredTaintMissing" {
		t.Errorf("events %v", step.Events)
	}
}

func TestRegistrationWaitsOrRefuses(t *testing.T) {
	t.Parallel()
	none := Next(Life{Now: enginetest.LifeStart, Claim: enginetest.LifeClaim(enginetest.LifeTrue(v1.ConditionLaunched))})
	if got := enginetest.ConditionText(none.Claim, v1.ConditionRegistered); got != "Unknown NodeNotFound" {
		t.Errorf("without a node: %s", got)
	}
	two := []*corev1.Node{enginetest.LifeNode(), enginetest.LifeNode(func(n *corev1.Node) { n.Name = "node-2" })}
	several := Next(Life{Now: enginetest.LifeStart, Claim: enginetest.LifeClaim(enginetest.LifeLaunched), Nodes: two})
	if got := enginetest.ConditionText(several.Claim, v1.ConditionRegistered); got != "False MultipleNodesFound" || len(several.Nodes) != 0 {
		t.Errorf("with two nodes: %s, %d nodes written", got, len(several.Nodes))
	}
}

func TestInitializationChecksInOrder(t *testing.T) {
	t.Parallel()
	noCPU := func(n *corev1.Node) { n.Status.Allocatable["cpu"] = resource.MustParse("0") }
	tests := []struct {
		name string
		node *corev1.Node
		want string
	}{
		{"ready", enginetest.LifeNode(enginetest.LifeOpen), "True"},
		{"not ready", enginetest.LifeNode(enginetest.LifeOpen, enginetest.LifeNotReady, enginetest.LifeTaint("booting", corev1.TaintEffectNoExecute)), "Unknown NodeNotReady"},
		{"startup taint", enginetest.LifeNode(enginetest.LifeOpen, enginetest.LifeTaint("booting", corev1.TaintEffectNoExecute), enginetest.LifeTaint("node.kubernetes.io/not-ready", corev1.TaintEffectNoSchedule)), "Unknown StartupTaintsExist"},
		{"startup taint with another effect", enginetest.LifeNode(enginetest.LifeOpen, enginetest.LifeTaint("booting", corev1.TaintEffectNoSchedule)), "True"},
		{"ephemeral taint", enginetest.LifeNode(enginetest.LifeOpen, enginetest.LifeTaint("node.kubernetes.io/not-ready", corev1.TaintEffectNoExecute), noCPU), "Unknown KnownEphemeralTaintsExist"},
		{"readiness gate", enginetest.LifeNode(enginetest.LifeOpen, enginetest.LifeTaint("readiness.k8s.io/net", corev1.TaintEffectNoSchedule)), "Unknown KnownEphemeralTaintsExist"},
		{"resource not there yet", enginetest.LifeNode(enginetest.LifeOpen, noCPU), "Unknown ResourceNotRegistered"},
		{"own taint", enginetest.LifeNode(enginetest.LifeOpen, enginetest.LifeTaint("dedicated", corev1.TaintEffectNoSchedule)), "True"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			step := Next(Life{Now: enginetest.LifeStart, Claim: enginetest.LifeClaim(enginetest.LifeLaunched, enginetest.LifeTrue(v1.ConditionRegistered)), Nodes: []*corev1.Node{tt.node}})
			if got := enginetest.ConditionText(step.Claim, v1.ConditionInitialized); got != tt.want {
				t.Errorf("Initialized is %s, want %s", got, tt.want)
			}
			labelled := len(step.Nodes) == 1 && step.Nodes[0].Labels[v1.InitializedLabelKey] == "true"
			if labelled != (tt.want == "True") {
				t.Errorf("label on the node: %v", labelled)
			}
		})
	}
}

func TestReadyNodeIsRegisteredAndInitializedInOneStep(t *testing.T) {
	t.Parallel()
	claim := enginetest.LifeClaim(enginetest.LifeLaunched, func(c *v1.NodeClaim) { c.Spec.StartupTaints = nil })
	step := Next(Life{Now: enginetest.LifeStart, Claim: claim, Nodes: []*corev1.Node{enginetest.LifeNode()}, Pool: enginetest.LifePool(0)})
	for _, c := range []string{v1.ConditionRegistered, v1.ConditionInitialized, v1.ConditionReady, v1.ConditionConsistentStateFound, v1.ConditionConsolidatable} {
		if got := enginetest.ConditionText(step.Claim, c); got != "True" {
			t.Errorf("%s is %s", c, got)
		}
	}
	if again := Next(Life{Now: enginetest.LifeStart, Claim: step.Claim, Nodes: step.Nodes, Pool: enginetest.LifePool(0)}); !again.Quiet() {
		t.Errorf("the same again: %+v, want nothing to do", again)
	}
}

func TestInitializedStaysWhenTheNodeFails(t *testing.T) {
	t.Parallel()
	step := Next(Life{Now: enginetest.LifeStart, Claim: enginetest.LifeClaim(enginetest.LifeRunning), Nodes: []*corev1.Node{enginetest.LifeNode(enginetest.LifeOpen, enginetest.LifeNotReady)}})
	if !step.Quiet() {
		t.Errorf("step %+v, want nothing to do", step)
	}
}

func TestConditionsFollowTheGeneration(t *testing.T) {
	t.Parallel()
	claim := enginetest.LifeClaim(enginetest.LifeRunning, func(c *v1.NodeClaim) { c.Generation = 2 })
	step := Next(Life{Now: enginetest.LifeStart, Claim: claim, Nodes: []*corev1.Node{enginetest.LifeNode(enginetest.LifeOpen)}})
	for _, t2 := range append(claim.DependentConditions(), v1.ConditionReady) {
		if c := v1.GetCondition(step.Claim, t2); c.ObservedGeneration != 2 || c.Status != metav1.ConditionTrue {
			t.Errorf("%s: generation %d, %s", t2, c.ObservedGeneration, c.Status)
		}
	}
}

func TestMuchLessCapacityThanExpectedIsTold(t *testing.T) {
	t.Parallel()
	small := enginetest.LifeNode(enginetest.LifeOpen, func(n *corev1.Node) { n.Status.Capacity["cpu"] = resource.MustParse("3500m") })
	step := Next(Life{Now: enginetest.LifeStart, Claim: enginetest.LifeClaim(enginetest.LifeRunning), Nodes: []*corev1.Node{small}})
	if got := enginetest.ConditionText(step.Claim, v1.ConditionConsistentStateFound); got != "False ConsistencyCheckFailed" || len(step.Events) != 1 {
		t.Errorf("%s, events %v", got, step.Events)
	}
	if again := Next(Life{Now: enginetest.LifeStart, Claim: step.Claim, Nodes: []*corev1.Node{small}}); !again.Quiet() || len(again.Events) != 0 {
		t.Errorf("told twice: %+v", again)
	}
}

func TestPodEventsAreRecordedFromThePodsThemselves(t *testing.T) {
	t.Parallel()
	now := enginetest.LifeStart.Add(time.Hour)
	bound := func(at time.Time) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(at)}}
		}
	}
	recorded := func(at time.Time) func(*v1.NodeClaim) {
		return func(c *v1.NodeClaim) { c.Status.LastPodEventTime = metav1.NewTime(at) }
	}
	at := func(d time.Duration) time.Time { return enginetest.LifeStart.Add(d) }
	tests := []struct {
		name  string
		claim *v1.NodeClaim
		pods  []*corev1.Pod
		left  time.Time
		want  time.Time
	}{
		{"bound", enginetest.LifeClaim(enginetest.LifeRunning), []*corev1.Pod{enginetest.LifePod("a", bound(at(time.Minute)))}, time.Time{}, at(time.Minute)},
		{"the newest counts", enginetest.LifeClaim(enginetest.LifeRunning), []*corev1.Pod{enginetest.LifePod("a", bound(at(time.Minute))), enginetest.LifePod("b", bound(at(2*time.Minute)))}, time.Time{}, at(2 * time.Minute)},
		{"DaemonSet pods do not", enginetest.LifeClaim(enginetest.LifeRunning), []*corev1.Pod{enginetest.LifePod("a", bound(at(time.Minute)), enginetest.LifeOwned("apps/v1", "DaemonSet"))}, time.Time{}, time.Time{}},
		{"a restart changes nothing", enginetest.LifeClaim(enginetest.LifeRunning, recorded(at(time.Minute))), []*corev1.Pod{enginetest.LifePod("a", bound(at(time.Minute)))}, time.Time{}, at(time.Minute)},
		{"within 10 s it is not written again", enginetest.LifeClaim(enginetest.LifeRunning, recorded(at(time.Minute))), []*corev1.Pod{enginetest.LifePod("a", bound(at(70*time.Second)))}, time.Time{}, at(time.Minute)},
		{"after 10 s it is", enginetest.LifeClaim(enginetest.LifeRunning, recorded(at(time.Minute))), []*corev1.Pod{enginetest.LifePod("a", bound(at(71*time.Second)))}, time.Time{}, at(71 * time.Second)},
		{"beginning to end", enginetest.LifeClaim(enginetest.LifeRunning, recorded(at(time.Minute))), []*corev1.Pod{enginetest.LifePod("a", enginetest.LifeEnding(at(5*time.Minute)), func(p *corev1.Pod) { g := int64(60); p.DeletionGracePeriodSeconds = &g })}, time.Time{}, at(4 * time.Minute)},
		{"gone", enginetest.LifeClaim(enginetest.LifeRunning, recorded(at(time.Minute))), nil, at(3 * time.Minute), at(3 * time.Minute)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			claim := tt.claim
			step := Next(Life{Now: now, Claim: claim, Nodes: []*corev1.Node{enginetest.LifeNode(enginetest.LifeOpen)}, Pods: tt.pods, PodLeft: tt.left})
			if step.Claim != nil {
				claim = step.Claim
			}
			if !claim.Status.LastPodEventTime.Time.Equal(tt.want) {
				t.Errorf("recorded %v, want %v", claim.Status.LastPodEventTime, tt.want)
			}
		})
	}
}

func TestThatABriefPodLeftIsRecordedBesideOthers(t *testing.T) {
	t.Parallel()
	recorded := enginetest.LifeStart.Add(time.Minute)
	for after, want := range map[time.Duration]time.Duration{5 * time.Second: 0, 11 * time.Second: 11 * time.Second} {
		claim := enginetest.LifeClaim(enginetest.LifeRunning, func(c *v1.NodeClaim) {
			c.Status.LastPodEventTime = metav1.NewTime(enginetest.LifeStart)
			c.Annotations = map[string]string{v1.BriefPodLeftAnnotationKey: recorded.Format(time.RFC3339)}
		})
		step := Next(Life{Now: enginetest.LifeStart.Add(time.Hour), Claim: claim, Nodes: []*corev1.Node{enginetest.LifeNode(enginetest.LifeOpen)}, BriefPodLeft: recorded.Add(after)})
		if !inventory.BriefPodLeft(claim).Equal(recorded) {
			t.Error("the claim that was read has changed")
		}
		if step.Claim != nil {
			claim = step.Claim
		}
		if got := inventory.BriefPodLeft(claim).Sub(recorded); got != want || !claim.Status.LastPodEventTime.Time.Equal(enginetest.LifeStart) {
			t.Errorf("%v after the last one: recorded %v after it, want %v; lasting pods at %v", after, got, want, claim.Status.LastPodEventTime)
		}
	}
}

func TestConsolidatableAfterAQuietTime(t *testing.T) {
	t.Parallel()
	event := func(c *v1.NodeClaim) {
		c.Status.LastPodEventTime = metav1.NewTime(enginetest.LifeStart.Add(time.Minute))
	}
	static, never := enginetest.LifePool(0), enginetest.LifePool(0)
	static.Spec.Replicas = new(int64)
	never.Spec.Disruption.ConsolidateAfter = v1.NillableDuration{}
	brief := func(at time.Duration) func(*v1.NodeClaim) {
		return func(c *v1.NodeClaim) {
			c.Annotations = map[string]string{v1.BriefPodLeftAnnotationKey: enginetest.LifeStart.Add(at).Format(time.RFC3339)}
		}
	}
	set := enginetest.LifeTrue(v1.ConditionConsolidatable)
	tests := []struct {
		name  string
		claim *v1.NodeClaim
		pool  *v1.NodePool
		now   time.Duration
		want  string
		after time.Duration
	}{
		{"counts from initialization", enginetest.LifeClaim(enginetest.LifeRunning), enginetest.LifePool(30 * time.Second), 20 * time.Second, "absent", 10 * time.Second},
		{"set when the time has passed", enginetest.LifeClaim(enginetest.LifeRunning), enginetest.LifePool(30 * time.Second), 30 * time.Second, "True", 0},
		{"counts from the last pod event", enginetest.LifeClaim(enginetest.LifeRunning, event), enginetest.LifePool(30 * time.Second), 80 * time.Second, "absent", 10 * time.Second},
		{"counts from when a brief pod left", enginetest.LifeClaim(enginetest.LifeRunning, event, brief(2*time.Minute)), enginetest.LifePool(30 * time.Second), 140 * time.Second, "absent", 10 * time.Second},
		{"counts from brief pods for a limited time", enginetest.LifeClaim(enginetest.LifeRunning, event, brief(2*time.Hour)), enginetest.LifePool(30 * time.Second), 2 * time.Hour, "True", 0},
		{"removed by a new event", enginetest.LifeClaim(enginetest.LifeRunning, event, set), enginetest.LifePool(30 * time.Second), 80 * time.Second, "absent", 10 * time.Second},
		{"never", enginetest.LifeClaim(enginetest.LifeRunning, set), never, time.Hour, "absent", 0},
		{"not initialized", enginetest.LifeClaim(enginetest.LifeLaunched, enginetest.LifeTrue(v1.ConditionRegistered), set), enginetest.LifePool(0), time.Minute, "absent", 14 * time.Minute},
		{"static pool", enginetest.LifeClaim(enginetest.LifeRunning), static, time.Hour, "absent", 0},
		{"no pool", enginetest.LifeClaim(enginetest.LifeRunning), nil, time.Hour, "absent", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			node := enginetest.LifeNode(enginetest.LifeOpen)
			if !v1.IsTrue(tt.claim, v1.ConditionInitialized) {
				enginetest.LifeNotReady(node)
			}
			claim := tt.claim
			step := Next(Life{Now: enginetest.LifeStart.Add(tt.now), Claim: claim, Nodes: []*corev1.Node{node}, Pool: tt.pool})
			if step.Claim != nil {
				claim = step.Claim
			}
			if got := enginetest.ConditionText(claim, v1.ConditionConsolidatable); got != tt.want || step.After != tt.after {
				t.Errorf("%s, after %v; want %s, %v", got, step.After, tt.want, tt.after)
			}
		})
	}
}

func TestANodeOnWhichPodsRunIsNotGivenUpBecauseItWasNeverInitialized(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "tolerant"}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	life := Life{
		Now: enginetest.LifeStart.Add(time.Hour), Claim: enginetest.LifeClaim(enginetest.LifeLaunched, enginetest.LifeTrue(v1.ConditionRegistered)), Nodes: []*corev1.Node{enginetest.LifeNode(enginetest.LifeOpen, enginetest.LifeNotReady)},
		Pods: []*corev1.Pod{pod},
	}
	if step := Next(life); step.Delete != nil {
		t.Errorf("deleted: %s", step.Delete.Cause)
	}
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "agent"}}
	if step := Next(life); step.Delete == nil || step.Delete.Cause != engine.CauseReadinessTimeout {
		t.Errorf("a node with nothing but a DaemonSet's pod stays: %+v", step)
	}
}

// What is read comes from a cache that others read too.
func TestAStepSharesNothingWithWhatWasRead(t *testing.T) {
	t.Parallel()
	deleted := func(c *v1.NodeClaim) {
		c.DeletionTimestamp = new(metav1.NewTime(enginetest.LifeStart))
		c.Spec.TerminationGracePeriod = &metav1.Duration{Duration: time.Hour}
	}
	for name, l := range map[string]Life{
		"registered":  {Claim: enginetest.LifeClaim(enginetest.LifeLaunched), Nodes: []*corev1.Node{enginetest.LifeNode()}},
		"initialized": {Claim: enginetest.LifeClaim(enginetest.LifeLaunched, enginetest.LifeTrue(v1.ConditionRegistered)), Nodes: []*corev1.Node{enginetest.LifeNode(enginetest.LifeOpen)}},
		"deleted":     {Claim: enginetest.LifeClaim(enginetest.LifeRunning, deleted), Nodes: []*corev1.Node{enginetest.LifeNode(enginetest.LifeOpen)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l.Now = enginetest.LifeStart.Add(time.Minute)
			claim, node := l.Claim.DeepCopy(), l.Nodes[0].DeepCopy()
			step := Next(l)
			if step.Claim == nil || len(step.Nodes) == 0 {
				t.Fatalf("step %+v: want one that writes both", step)
			}
			// As whoever writes them does with the API server's answer.
			for _, o := range []metav1.Object{step.Claim, step.Nodes[0]} {
				o.GetLabels()["answered"] = "true"
			}
			for i := range step.Claim.Status.Conditions {
				step.Claim.Status.Conditions[i].Message = "answered"
			}
			for i := range step.Claim.Spec.Requirements {
				step.Claim.Spec.Requirements[i].Key = "answered"
			}
			for name := range step.Claim.Status.Capacity {
				delete(step.Claim.Status.Capacity, name)
			}
			for name := range step.Nodes[0].Status.Allocatable {
				delete(step.Nodes[0].Status.Allocatable, name)
			}
			if !equality.Semantic.DeepEqual(claim, l.Claim) {
				t.Errorf("the claim that was read has changed: %+v", l.Claim)
			}
			if !equality.Semantic.DeepEqual(node, l.Nodes[0]) {
				t.Errorf("the node that was read has changed: %+v", l.Nodes[0])
			}
		})
	}
}

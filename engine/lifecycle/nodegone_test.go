package lifecycle

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/enginetest"
)

// lifeGone is a claim whose node was found to be gone at LifeStart.
func lifeGone(t *testing.T, change ...func(*v1.NodeClaim)) *v1.NodeClaim {
	t.Helper()
	step := Next(Life{Now: enginetest.LifeStart, Claim: enginetest.LifeClaim(enginetest.LifeRunning), Sought: true})
	if step.Claim == nil {
		t.Fatalf("step %+v: want the claim to say that its node is gone", step)
	}
	for _, f := range change {
		f(step.Claim)
	}
	return step.Claim
}

func TestAClaimWhoseNodeIsGoneSaysSo(t *testing.T) {
	t.Parallel()
	claim := enginetest.LifeClaim(enginetest.LifeRunning, enginetest.LifeTrue(v1.ConditionConsolidatable))
	if step := Next(Life{Now: enginetest.LifeStart, Claim: claim}); step.Ask != AskNode {
		t.Fatalf("step %+v: want the API server asked, the cache may be behind", step)
	}
	now := enginetest.LifeStart.Add(time.Hour)
	step := Next(Life{Now: now, Claim: claim, Pool: enginetest.LifePool(0), Sought: true})
	if step.Delete != nil || step.Claim == nil {
		t.Fatalf("step %+v: want the claim changed, and kept", step)
	}
	for condition, want := range map[string]string{
		v1.ConditionRegistered: "Unknown NodeNotFound", v1.ConditionInitialized: "Unknown NodeNotFound",
		v1.ConditionReady: "Unknown ReconcilingDependents", v1.ConditionLaunched: "True", v1.ConditionConsolidatable: "absent",
	} {
		if got := enginetest.ConditionText(step.Claim, condition); got != want {
			t.Errorf("%s is %s, want %s", condition, got, want)
		}
	}
	if c := v1.GetCondition(step.Claim, v1.ConditionRegistered); !c.LastTransitionTime.Time.Equal(now) || !strings.HasPrefix(c.Message, "Node node-1 is gone") {
		t.Errorf("condition %+v", c)
	}
	again := Next(Life{Now: enginetest.LifeStart.Add(time.Minute), Claim: lifeGone(t), Sought: true})
	if !again.Quiet() || again.After != nodePatience-time.Minute {
		t.Errorf("a minute later: %+v, want nothing to do until the patience ends", again)
	}
}

func TestAClaimWhoseNodeDoesNotComeAgainGoes(t *testing.T) {
	t.Parallel()
	claim := lifeGone(t)
	if step := Next(Life{Now: enginetest.LifeStart.Add(nodePatience), Claim: claim}); step.Ask != AskNode {
		t.Errorf("step %+v: want the API server asked before the machine goes", step)
	}
	if step := Next(Life{Now: enginetest.LifeStart.Add(nodePatience - time.Second), Claim: claim, Sought: true}); step.Delete != nil {
		t.Errorf("deleted a second early: %+v", step.Delete)
	}
	step := Next(Life{Now: enginetest.LifeStart.Add(nodePatience), Claim: claim, Sought: true})
	if step.Delete == nil || step.Delete.Cause != engine.CauseGarbageCollected {
		t.Fatalf("step %+v: want the claim deleted", step)
	}
	if len(step.Events) != 1 || step.Events[0].Reason != "NodeGone" || !strings.Contains(step.Events[0].Message, "Node node-1 has been gone for 5m0s") {
		t.Errorf("events %+v", step.Events)
	}
}

func TestANodeThatIsMadeAnewIsRegisteredLikeTheFirst(t *testing.T) {
	t.Parallel()
	anew := func(n *corev1.Node) { n.UID = "another" }
	now := enginetest.LifeStart.Add(2 * time.Minute)
	missed := Next(Life{Now: now, Claim: enginetest.LifeClaim(enginetest.LifeRunning, enginetest.LifePlanned), Nodes: []*corev1.Node{enginetest.LifeNode(anew)}, Sought: true})
	if missed.Claim == nil || len(missed.Nodes) > 0 {
		t.Fatalf("step %+v: want the claim to take back what it says before the node is written", missed)
	}
	for name, claim := range map[string]*v1.NodeClaim{"after a while": lifeGone(t, enginetest.LifePlanned), "at once": missed.Claim} {
		step := Next(Life{Now: now, Claim: claim, Nodes: []*corev1.Node{enginetest.LifeNode(anew)}, Sought: true, Nominating: true})
		if len(step.Nodes) != 1 || step.Claim == nil {
			t.Fatalf("%s: step %+v", name, step)
		}
		node := step.Nodes[0]
		var taints []string
		for _, x := range node.Spec.Taints {
			taints = append(taints, x.ToString())
		}
		if want := []string{"dedicated=x:NoSchedule", "booting:NoExecute", "tenon.sh/opening:NoSchedule"}; !slices.Equal(taints, want) {
			t.Errorf("%s: taints %v, want %v", name, taints, want)
		}
		if !ours(node) || node.Labels["team"] != "a" || len(node.OwnerReferences) != 1 {
			t.Errorf("%s: finalizers %v, labels %v, owners %v", name, node.Finalizers, node.Labels, node.OwnerReferences)
		}
		if r, i := enginetest.ConditionText(step.Claim, v1.ConditionRegistered), enginetest.ConditionText(step.Claim, v1.ConditionInitialized); r != "True" || i != "Unknown StartupTaintsExist" {
			t.Errorf("%s: Registered is %s, Initialized %s", name, r, i)
		}
		open := node.DeepCopy()
		open.Spec.Taints = nil
		last := Next(Life{Now: now, Claim: step.Claim, Nodes: []*corev1.Node{open}})
		if c := v1.GetCondition(last.Claim, v1.ConditionInitialized); c.Status != metav1.ConditionTrue || !c.LastTransitionTime.Time.Equal(now) {
			t.Errorf("%s: at last Initialized is %+v", name, c)
		}
	}
}

// Somebody has taken the label off a node that runs pods: it gets it back, but nothing that would send them away.
func TestStartupTaintsDoNotComeBackOnANodeThatHadThem(t *testing.T) {
	t.Parallel()
	claim := lifeGone(t)
	node := enginetest.LifeNode(enginetest.LifeOpen, func(n *corev1.Node) { delete(n.Labels, v1.RegisteredLabelKey); own(n, claim) })
	step := Next(Life{Now: enginetest.LifeStart, Claim: claim, Nodes: []*corev1.Node{node}, Sought: true})
	if len(step.Nodes) != 1 || step.Nodes[0].Labels[v1.RegisteredLabelKey] != "true" {
		t.Fatalf("step %+v", step)
	}
	if taints := step.Nodes[0].Spec.Taints; len(taints) != 1 || taints[0].Key != "dedicated" {
		t.Errorf("taints %v", taints)
	}
}

func TestASecondNodeOfTheMachineIsToldOnce(t *testing.T) {
	t.Parallel()
	second := enginetest.LifeNode(func(n *corev1.Node) { n.Name = "node-2" })
	for name, x := range map[string]struct {
		claim *v1.NodeClaim
		first *corev1.Node
		want  string
	}{
		"before registration": {enginetest.LifeClaim(enginetest.LifeLaunched), enginetest.LifeNode(), "False MultipleNodesFound"},
		"after it":            {enginetest.LifeClaim(enginetest.LifeRunning), enginetest.LifeNode(enginetest.LifeOpen), "True"},
	} {
		both := []*corev1.Node{second, x.first}
		step := Next(Life{Now: enginetest.LifeStart, Claim: x.claim, Nodes: both})
		if step.Claim == nil || len(step.Nodes) > 0 || len(step.Events) != 1 || step.Events[0].Reason != "MultipleNodesFound" {
			t.Fatalf("%s: step %+v", name, step)
		}
		if got := enginetest.ConditionText(step.Claim, v1.ConditionRegistered); got != x.want {
			t.Errorf("%s: Registered is %s, want %s", name, got, x.want)
		}
		for _, text := range []string{step.Events[0].Message, v1.GetCondition(step.Claim, v1.ConditionRegistered).Message} {
			if !strings.Contains(text, "node-1, node-2") {
				t.Errorf("%s: told %q", name, text)
			}
		}
		if again := Next(Life{Now: enginetest.LifeStart, Claim: step.Claim, Nodes: both}); !again.Quiet() || len(again.Events) > 0 {
			t.Errorf("%s: told twice: %+v", name, again)
		}
		alone := Next(Life{Now: enginetest.LifeStart, Claim: step.Claim, Nodes: []*corev1.Node{x.first}})
		if c := v1.GetCondition(alone.Claim, v1.ConditionRegistered); c.Status != metav1.ConditionTrue || c.Message != "" {
			t.Errorf("%s: once the second is gone, Registered is %+v", name, c)
		}
	}
}

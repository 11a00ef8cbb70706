package lifecycle

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/enginetest"
)

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

// The objects come from a cache that other code reads too.
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
			// The writer of the objects does the same with the API server's answer.
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

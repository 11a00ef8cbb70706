package v1_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
)

var (
	created = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	later   = created.Add(time.Minute)
	latest  = created.Add(time.Hour)
)

func newClaim() *v1.NodeClaim {
	return &v1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c", Generation: 1, CreationTimestamp: metav1.NewTime(created)}}
}

func newPool() *v1.NodePool {
	return &v1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "p", Generation: 3, CreationTimestamp: metav1.NewTime(created)}}
}

// show prints conditions as Type=Status/Reason@minutes-after-creation.
func show(obj v1.Conditioned) string {
	var out []string
	for _, c := range obj.GetConditions() {
		out = append(out, fmt.Sprintf("%s=%s/%s@%d", c.Type, c.Status, c.Reason, int(c.LastTransitionTime.Sub(created).Minutes())))
	}
	return strings.Join(out, " ")
}

func expect(t *testing.T, obj v1.Conditioned, want string) {
	t.Helper()
	if got := show(obj); got != want {
		t.Errorf("conditions\n got %s\nwant %s", got, want)
	}
}

func TestFirstConditionCreatesDependentsFromCreationTime(t *testing.T) {
	t.Parallel()
	claim := newClaim()
	if !v1.SetCondition(claim, v1.ConditionLaunched, metav1.ConditionUnknown, "LaunchFailed", "no room", later) {
		t.Error("reported no change")
	}
	expect(t, claim, "Initialized=Unknown/AwaitingReconciliation@0 Launched=Unknown/LaunchFailed@0 Registered=Unknown/AwaitingReconciliation@0 Ready=Unknown/ReconcilingDependents@0")
	if got := v1.GetCondition(claim, v1.ConditionReady).Message; got != "Launched=Unknown, Registered=Unknown, Initialized=Unknown" {
		t.Errorf("message of Ready: %q", got)
	}
}

func TestIndependentConditionCountsFromNow(t *testing.T) {
	t.Parallel()
	claim := newClaim()
	v1.SetCondition(claim, v1.ConditionDrained, metav1.ConditionUnknown, "Draining", "", later)
	if got := v1.GetCondition(claim, v1.ConditionDrained).LastTransitionTime; !got.Time.Equal(later) {
		t.Errorf("transition time %v, want %v", got, later)
	}
}

func TestReadyFollowsDependents(t *testing.T) {
	t.Parallel()
	claim := newClaim()
	for _, c := range claim.DependentConditions() {
		v1.SetCondition(claim, c, metav1.ConditionTrue, "", "", later)
	}
	expect(t, claim, "Initialized=True/Initialized@1 Launched=True/Launched@1 Registered=True/Registered@1 Ready=True/Ready@1")
	v1.SetCondition(claim, v1.ConditionRegistered, metav1.ConditionFalse, "MultipleNodesFound", "two nodes", latest)
	expect(t, claim, "Initialized=True/Initialized@1 Launched=True/Launched@1 Registered=False/MultipleNodesFound@60 Ready=False/UnhealthyDependents@60")
	if v1.IsTrue(claim, v1.ConditionReady) || !v1.IsTrue(claim, v1.ConditionLaunched) || v1.IsTrue(claim, "NoSuch") {
		t.Error("IsTrue disagrees with the conditions")
	}
}

func TestTransitionTimeStaysWhenOnlyReasonChanges(t *testing.T) {
	t.Parallel()
	claim := newClaim()
	v1.SetCondition(claim, v1.ConditionDrifted, metav1.ConditionTrue, "NodePoolDrifted", "", later)
	if !v1.SetCondition(claim, v1.ConditionDrifted, metav1.ConditionTrue, "ImageDrift", "m", latest) {
		t.Error("a new reason is a change")
	}
	c := v1.GetCondition(claim, v1.ConditionDrifted)
	if !c.LastTransitionTime.Time.Equal(later) || c.Reason != "ImageDrift" || c.Message != "m" {
		t.Errorf("condition %+v", c)
	}
	if v1.SetCondition(claim, v1.ConditionDrifted, metav1.ConditionTrue, "ImageDrift", "m", latest) {
		t.Error("setting the same again is no change")
	}
}

func TestDependentOfOlderGenerationDoesNotMakeReady(t *testing.T) {
	t.Parallel()
	pool := newPool()
	v1.SetCondition(pool, v1.ConditionValidationSucceeded, metav1.ConditionTrue, "", "", later)
	v1.SetCondition(pool, v1.ConditionNodeClassReady, metav1.ConditionTrue, "", "", later)
	expect(t, pool, "NodeClassReady=True/NodeClassReady@1 ValidationSucceeded=True/ValidationSucceeded@1 Ready=True/Ready@1")
	pool.Generation++
	v1.SetCondition(pool, v1.ConditionValidationSucceeded, metav1.ConditionTrue, "", "", latest)
	expect(t, pool, "NodeClassReady=True/NodeClassReady@1 ValidationSucceeded=True/ValidationSucceeded@1 Ready=Unknown/ReconcilingDependents@60")
	for _, conditionType := range []string{v1.ConditionValidationSucceeded, v1.ConditionReady} {
		if got := v1.GetCondition(pool, conditionType).ObservedGeneration; got != 4 {
			t.Errorf("%s observed generation %d, want 4", conditionType, got)
		}
	}
	// A False for the older generation does not count either.
	v1.SetCondition(pool, v1.ConditionNodeClassReady, metav1.ConditionFalse, "NodeClassNotFound", "", latest)
	pool.Generation++
	v1.SetCondition(pool, v1.ConditionValidationSucceeded, metav1.ConditionTrue, "", "", latest)
	if got := v1.GetCondition(pool, v1.ConditionReady).Status; got != metav1.ConditionUnknown {
		t.Errorf("Ready is %s, want Unknown", got)
	}
}

func TestOnlyIndependentConditionsCanBeRemoved(t *testing.T) {
	t.Parallel()
	claim := newClaim()
	v1.SetCondition(claim, v1.ConditionLaunched, metav1.ConditionTrue, "", "", latest)
	v1.SetCondition(claim, v1.ConditionDrifted, metav1.ConditionTrue, "", "", later)
	v1.SetCondition(claim, v1.ConditionConsolidatable, metav1.ConditionTrue, "", "", later)
	for _, conditionType := range []string{v1.ConditionReady, v1.ConditionLaunched, "NoSuch"} {
		if v1.RemoveCondition(claim, conditionType, latest) {
			t.Errorf("removed %s", conditionType)
		}
	}
	if !v1.RemoveCondition(claim, v1.ConditionDrifted, latest) {
		t.Error("Drifted was not removed")
	}
	expect(t, claim, "Consolidatable=True/Consolidatable@1 Initialized=Unknown/AwaitingReconciliation@0 Launched=True/Launched@60 Ready=Unknown/ReconcilingDependents@0 Registered=Unknown/AwaitingReconciliation@0")
}

func TestConditionsAreOrderedByTransitionWithReadyLast(t *testing.T) {
	t.Parallel()
	claim := newClaim()
	v1.SetCondition(claim, v1.ConditionDrifted, metav1.ConditionTrue, "", "", latest)
	v1.SetCondition(claim, v1.ConditionLaunched, metav1.ConditionTrue, "", "", later)
	expect(t, claim, "Initialized=Unknown/AwaitingReconciliation@0 Registered=Unknown/AwaitingReconciliation@0 Launched=True/Launched@1 Drifted=True/Drifted@60 Ready=Unknown/ReconcilingDependents@0")
}

func TestSettingAConditionLeavesCopiesAlone(t *testing.T) {
	t.Parallel()
	claim := newClaim()
	v1.InitializeConditions(claim, later)
	seen := *claim // a reader's shallow copy
	v1.SetCondition(claim, v1.ConditionLaunched, metav1.ConditionTrue, "", "", later)
	if v1.IsTrue(&seen, v1.ConditionLaunched) {
		t.Error("the copy changed too")
	}
}

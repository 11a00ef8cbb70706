package lifecycle

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/enginetest"
)

func lifeBudget(name string, allowed int32) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{}},
		Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed},
	}
}

func lifeEndingIn(left time.Duration, finalizers ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		at := metav1.NewTime(enginetest.LifeStart.Add(10*time.Second + left))
		p.DeletionTimestamp, p.Finalizers = &at, finalizers
	}
}

func TestADrainSaysWhichPodAndWhichBudgetHoldIt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		pods    []*corev1.Pod
		budgets []*policyv1.PodDisruptionBudget
		want    string
	}{
		"nothing does": {[]*corev1.Pod{enginetest.LifePod("a")}, nil, ""},
		"a budget that is used up": {[]*corev1.Pod{enginetest.LifePod("a")}, []*policyv1.PodDisruptionBudget{lifeBudget("one", 0)},
			"PodDisruptionBudget ns/one allows no eviction of pod ns/a now"},
		"a budget that allows": {[]*corev1.Pod{enginetest.LifePod("a")}, []*policyv1.PodDisruptionBudget{lifeBudget("one", 1)}, ""},
		"two budgets on one pod": {[]*corev1.Pod{enginetest.LifePod("a")}, []*policyv1.PodDisruptionBudget{lifeBudget("two", 1), lifeBudget("one", 1)},
			"pod ns/a is covered by PodDisruptionBudgets ns/one, ns/two, and the eviction API refuses pods that more than one covers"},
		"a budget whose selector cannot be read": {[]*corev1.Pod{enginetest.LifePod("a")}, []*policyv1.PodDisruptionBudget{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "broken"},
			Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "x", Operator: "Like"}}}},
		}}, ""},
		"protection":                      {[]*corev1.Pod{enginetest.LifePod("a", enginetest.LifeProtected("true"))}, nil, "pod ns/a carries the annotation karpenter.sh/do-not-disrupt"},
		"a pod that takes its time":       {[]*corev1.Pod{enginetest.LifePod("a", lifeEndingIn(time.Hour))}, nil, "pod ns/a is ending and has until 2030-01-02T04:04:10Z"},
		"a pod that does not end":         {[]*corev1.Pod{enginetest.LifePod("a", lifeEndingIn(-20*time.Second))}, nil, "pod ns/a should have ended at 2030-01-02T03:03:50Z"},
		"a pod with somebody's finalizer": {[]*corev1.Pod{enginetest.LifePod("a", lifeEndingIn(-20*time.Second, "x.y/z"))}, nil, "pod ns/a has ended but is held by finalizers x.y/z"},
		"many": {[]*corev1.Pod{enginetest.LifePod("d"), enginetest.LifePod("c"), enginetest.LifePod("b"), enginetest.LifePod("a")}, []*policyv1.PodDisruptionBudget{lifeBudget("one", 0)},
			"PodDisruptionBudget ns/one allows no eviction of pod ns/a now; PodDisruptionBudget ns/one allows no eviction of pod ns/b now; " +
				"PodDisruptionBudget ns/one allows no eviction of pod ns/c now; and more"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			life := leavingLife(func(l *Life) { l.Pods, l.Budgets = c.pods, c.budgets })
			step := Next(life)
			if c.want == "" {
				if step.Claim != nil || len(step.Events) > 0 {
					t.Errorf("claim %+v, events %+v: there is nothing to tell", step.Claim, step.Events)
				}
				return
			}
			if got := v1.GetCondition(step.Claim, v1.ConditionDrained); got.Message != c.want || got.Status != metav1.ConditionUnknown || got.Reason != "Draining" {
				t.Errorf("condition %+v", got)
			}
			kinds := ""
			for _, e := range step.Events {
				if !e.Warning || e.Reason != "FailedDraining" || !strings.HasSuffix(e.Message, c.want) {
					t.Errorf("event %s %q", e.Reason, e.Message)
				}
				kinds += e.Object.GetName() + " "
			}
			if kinds != "node-1 general-1 " {
				t.Errorf("told to %s", kinds)
			}
			life.Claim = step.Claim
			if again := Next(life); again.Claim != nil {
				t.Error("the claim is written again though nothing has changed")
			}
		})
	}
}

func TestWhatHoldsADrainIsToldWithinTenSecondsAndNotAtOnce(t *testing.T) {
	t.Parallel()
	life := leavingLife(func(l *Life) {
		l.Now, l.Pods, l.Budgets = enginetest.LifeStart.Add(time.Second), []*corev1.Pod{enginetest.LifePod("a")}, []*policyv1.PodDisruptionBudget{lifeBudget("one", 0)}
	})
	step := Next(life)
	if step.Claim != nil || len(step.Events) > 0 {
		t.Error("every drain of a pod with a budget waits for a moment")
	}
	if step.After != 4*time.Second {
		t.Errorf("looks again after %v", step.After)
	}
}

// Evictions do not depend on hearing of anything: as long as the pod is there it is asked to go, again and again.
func TestAPodThatStaysIsEvictedAgainWithoutAnyEvent(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{time.Second, time.Minute, time.Hour} {
		step := Next(leavingLife(func(l *Life) { l.Now, l.Pods = enginetest.LifeStart.Add(after), []*corev1.Pod{enginetest.LifePod("a")} }))
		if evictions(step) != "a" || step.After == 0 || step.After > 10*time.Second {
			t.Errorf("after %v: evicts %q, looks again after %v", after, evictions(step), step.After)
		}
	}
}

func TestANodeWithoutClaimSaysWhatHoldsItsDrain(t *testing.T) {
	t.Parallel()
	step := Next(leavingLife(func(l *Life) {
		l.Claim, l.Pods, l.Budgets = nil, []*corev1.Pod{enginetest.LifePod("a")}, []*policyv1.PodDisruptionBudget{lifeBudget("one", 0)}
	}))
	if len(step.Events) != 1 || !slices.Contains(strings.Fields(step.Events[0].Message), "ns/one") {
		t.Errorf("events %+v", step.Events)
	}
}

package disruption_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/budget"
	"tenon.sh/engine/disruption"
	"tenon.sh/scenario/workload"
)

// leaving is a cluster with much to save. From its beginning on, pods leave one in so many nodes all the time.
type leaving struct {
	*passes
	s     *engine.Snapshot
	begun time.Time
}

func newLeaving(t *testing.T) *leaving {
	s := quiet(workload.Mix, 1000)
	s.NodePools[0].Spec.Disruption.ConsolidateAfter = v1.DurationOf(30 * time.Second)
	return &leaving{passes: newPasses(t), s: s, begun: s.Now}
}

// pass makes a pass at that time, when pods have just left one in so many nodes.
func (l *leaving) pass(after time.Duration, oneIn int) *engine.Plan {
	next := *l.s
	next.Now = l.begun.Add(after)
	next.NodeClaims = nil
	for i, c := range l.s.NodeClaims {
		c = c.DeepCopy()
		if oneIn > 0 && i%oneIn == 0 {
			c.Status.LastPodEventTime = metav1.NewTime(next.Now.Add(-time.Second))
		}
		next.NodeClaims = append(next.NodeClaims, c)
	}
	l.s = &next
	return l.plan(&next, engine.Options{})
}

func keptFor(plan *engine.Plan, code engine.Code) int {
	n := 0
	for _, k := range plan.Kept {
		if k.Reason.Code == code {
			n++
		}
	}
	return n
}

// Moves during a wide scale-down are planned for a cluster that will soon change.
func TestPodsAreNotMovedWhileOthersLeaveEverywhere(t *testing.T) {
	t.Parallel()
	l := newLeaving(t)
	for after := time.Duration(0); after < time.Minute; after += 10 * time.Second {
		plan := l.pass(after, 3)
		if len(plan.Disruptions) > 0 || keptFor(plan, engine.Unsettled) == 0 {
			t.Fatalf("after %s: %d disruptions, kept %+v", after, len(plan.Disruptions), plan.Kept)
		}
	}
	if plan := l.pass(85*time.Second, 0); len(plan.Disruptions) == 0 || keptFor(plan, engine.Unsettled) > 0 {
		t.Errorf("once no pod has left for half a minute: %d disruptions, kept %+v", len(plan.Disruptions), plan.Kept)
	}
}

// If pods come and go for ever, the pool must be consolidated all the same.
func TestAPoolWhosePodsComeAndGoForEverIsConsolidated(t *testing.T) {
	t.Parallel()
	l := newLeaving(t)
	for after := time.Duration(0); after < 5*time.Minute; after += 10 * time.Second {
		if plan := l.pass(after, 3); len(plan.Disruptions) > 0 {
			t.Fatalf("after %s: %+v", after, plan.Disruptions)
		}
	}
	if plan := l.pass(5*time.Minute, 3); len(plan.Disruptions) == 0 {
		t.Errorf("kept %+v", plan.Kept)
	}
	if plan := l.pass(5*time.Minute+10*time.Second, 3); len(plan.Disruptions) == 0 {
		t.Errorf("it waits once more: kept %+v", plan.Kept)
	}
}

func TestAFewNodesWhosePodsLeaveHoldNothingUp(t *testing.T) {
	t.Parallel()
	if plan := newLeaving(t).pass(0, 20); len(plan.Disruptions) == 0 {
		t.Errorf("kept %+v", plan.Kept)
	}
}

// Empty nodes go even while pods leave elsewhere.
func TestEmptyNodesGoWhilePodsLeaveEverywhere(t *testing.T) {
	t.Parallel()
	l := newLeaving(t)
	empty := l.s.Nodes[1].Name
	l.s.Pods = slices.DeleteFunc(slices.Clone(l.s.Pods), func(p *corev1.Pod) bool { return p.Spec.NodeName == empty })
	plan := l.pass(0, 3)
	if len(plan.Disruptions) != 1 || plan.Disruptions[0].Nodes[0] != empty || plan.Disruptions[0].Reason != v1.Empty {
		t.Errorf("%+v, want %s to go", plan.Disruptions, empty)
	}
}

// A full record of a pool's moves may have lost some. Pods that are younger than their owner then count as moved too.
func TestWhichPodsCountAsMovedByTheAgeOfTheirOwner(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		owner, first, others time.Duration // ages
		moves                bool
	}{
		"the first pods come late, as whoever makes them is busy":          {40 * time.Minute, 25 * time.Minute, 25 * time.Minute, true},
		"the owner was made anew around pods that it rolled out at once":   {40 * time.Minute, 48 * time.Hour, 39 * time.Minute, true},
		"all but one pod replaced others when the owner had run for a day": {24 * time.Hour, 24 * time.Hour, 25 * time.Minute, false},
	} {
		s := quiet(workload.Mix, 1000)
		full := map[string]int{}
		for i := range 1000 {
			full[fmt.Sprint("default/ReplicaSet/another-", i)] = 1
		}
		s.NodePools[0] = s.NodePools[0].DeepCopy()
		metav1.SetMetaDataAnnotation(&s.NodePools[0].ObjectMeta, v1.MovedPodsAnnotationKey, budget.RecordMoves(s.NodePools[0], engine.Disruption{OwnersMoved: full}, s.Now))
		made := map[string]bool{}
		for i, p := range s.Pods {
			p = p.DeepCopy()
			s.Pods[i] = p
			p.CreationTimestamp = metav1.NewTime(s.Now.Add(-c.others))
			if owner := p.OwnerReferences[0].Name; !made[owner] {
				made[owner] = true
				p.CreationTimestamp = metav1.NewTime(s.Now.Add(-c.first))
				s.ReplicaSets = append(s.ReplicaSets, &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{
					Namespace: p.Namespace, Name: owner, CreationTimestamp: metav1.NewTime(s.Now.Add(-c.owner)),
				}})
			}
		}
		moved := 0
		for _, d := range disruption.Plan(s, engine.Options{}, nil).Disruptions {
			moved += len(d.Pods)
		}
		if many := moved > len(s.Pods)/50; many != c.moves {
			t.Errorf("%s: %d of %d pods are moved", name, moved, len(s.Pods))
		}
	}
}

// Pods that consolidation has moved come to nodes: further moves need not wait for that.
func TestPodsThatComeHoldNothingUp(t *testing.T) {
	t.Parallel()
	l := newLeaving(t)
	l.s.NodePools[0].Spec.Disruption.ConsolidateAfter = v1.DurationOf(0)
	came := metav1.NewTime(l.begun.Add(-5 * time.Second))
	for i, p := range l.s.Pods {
		l.s.Pods[i] = p.DeepCopy()
		l.s.Pods[i].CreationTimestamp, l.s.Pods[i].Status.Conditions = came, nil
	}
	for i, c := range l.s.NodeClaims {
		l.s.NodeClaims[i] = c.DeepCopy()
		l.s.NodeClaims[i].Status.LastPodEventTime = came
	}
	if plan := l.pass(0, 0); len(plan.Disruptions) == 0 || keptFor(plan, engine.Unsettled) > 0 {
		t.Errorf("%d disruptions, kept %+v", len(plan.Disruptions), plan.Kept)
	}
}

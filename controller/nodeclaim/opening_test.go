package nodeclaim_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/kube"
)

func planned(uids string) func(*v1.NodeClaim) {
	return func(c *v1.NodeClaim) { c.Annotations = map[string]string{kube.PlannedPodsAnnotation: uids} }
}

func unschedulable(p *corev1.Pod) {
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
}

func TestAllNodesOpenWithTheirPodsNominated(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newClaim("general-1", planned("uid-a,uid-b")), newClaim("general-2", planned("uid-c")),
		newPod("a", "", unschedulable), newPod("b", "", unschedulable), newPod("c", "", unschedulable))
	w.until("open", func() bool { return w.open() == 2 })
	want := map[string]string{"a": w.nodeOf("general-1"), "b": w.nodeOf("general-1"), "c": w.nodeOf("general-2")}
	for _, p := range w.pods() {
		if p.Status.NominatedNodeName != want[p.Name] {
			t.Errorf("pod %s is nominated to %q, want %q", p.Name, p.Status.NominatedNodeName, want[p.Name])
		}
	}
}

func TestAMachineThatDoesNotComeHoldsNobodyUpForLong(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newClaim("general-1", planned("uid-a")), newClaim("general-2", planned("uid-b")),
		newPod("a", "", unschedulable), newPod("b", "", unschedulable))
	w.never = "general-2"
	began := w.clock.Now()
	w.until("open", func() bool { return w.open() == 1 })
	if took := w.clock.Since(began); took > 20*time.Second {
		t.Errorf("the node opened after %v", took)
	}
}

func TestAPodThatNeverLandsHoldsNoOtherNodeUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newClaim("general-1", planned("uid-a")), newClaim("general-2", planned("uid-b")),
		newPod("a", "", unschedulable), newPod("b", "", unschedulable))
	w.never = "general-2"
	var ready, opened time.Time
	inside := false
	w.paused = func() { // kube-scheduler refuses the one pod again and again; meanwhile the other machine gets ready
		if opened.IsZero() && w.open() == 2 {
			opened = w.clock.Now()
		}
		if inside || w.open() != 1 {
			return
		}
		for _, p := range w.pods() {
			if p.Name == "a" {
				w.update(p, func() { p.Status.NominatedNodeName = "" })
			}
		}
		if inside, w.never = true, ""; ready.IsZero() {
			ready = w.clock.Now()
		}
		w.outside()
		w.reconcile(w.reconciler, "general-2")
		inside = false
	}
	w.until("open", func() bool { return w.open() == 2 })
	if late := opened.Sub(ready); late > 2*time.Second {
		t.Errorf("the second node opened %v after it was ready", late)
	}
}

func TestAPodThatLostItsNominationAtTheOpeningGetsItBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newClaim("general-1", planned("uid-a")), newPod("a", "", unschedulable))
	drops := 2
	w.paused = func() { // kube-scheduler tries the pod before it has heard that the node is open
		for _, p := range w.pods() {
			if drops > 0 && p.Status.NominatedNodeName != "" {
				drops--
				w.update(p, func() { p.Status.NominatedNodeName = "" })
			}
		}
	}
	w.until("open", func() bool { return w.open() == 1 })
	if p := w.pods()[0]; drops > 0 || p.Status.NominatedNodeName != w.nodeOf("general-1") {
		t.Errorf("nominated to %q after %d losses", p.Status.NominatedNodeName, 2-drops)
	}
}

func TestAPodThatTakesTheNameOfAPlannedOneIsAnother(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newClaim("general-1", planned("uid-a")), newPod("a", "", unschedulable))
	replaced := false
	w.paused = func() {
		if p := w.pods()[0]; !replaced && p.Status.NominatedNodeName != "" {
			replaced = true
			other := newPod("a", "", unschedulable)
			other.UID = "uid-other"
			if err := errors.Join(w.client.Delete(t.Context(), p), w.client.Create(t.Context(), other)); err != nil {
				t.Error(err)
			}
		}
	}
	w.until("open", func() bool { return w.open() == 1 })
	if p := w.pods()[0]; !replaced || p.UID != "uid-other" || p.Status.NominatedNodeName != "" {
		t.Errorf("pod %s is nominated to %q, replaced %v", p.UID, p.Status.NominatedNodeName, replaced)
	}
}

// open counts the nodes that pods may go to.
func (w *world) open() int {
	n := 0
	for _, node := range w.nodes() {
		closed := node.Labels[v1.RegisteredLabelKey] != "true"
		for _, taint := range node.Spec.Taints {
			closed = closed || kube.IsEphemeralTaint(taint)
		}
		if !closed {
			n++
		}
	}
	return n
}

func (w *world) nodeOf(claim string) string {
	w.t.Helper()
	c := &v1.NodeClaim{}
	if err := w.client.Get(w.t.Context(), types.NamespacedName{Name: claim}, c); err != nil {
		w.t.Fatal(err)
	}
	return c.Status.NodeName
}

func TestNobodyIsNominatedWhereALongQueueWaitsAndAllFindTheirPlace(t *testing.T) {
	t.Parallel()
	var uids []string
	objects := []client.Object{}
	for i := range 1420 {
		name := fmt.Sprintf("p%d", i)
		if i < 710 {
			uids = append(uids, "uid-"+name)
		}
		objects = append(objects, newPod(name, "", unschedulable))
	}
	w := newWorld(t, append(objects, newClaim("general-1", planned(strings.Join(uids, ","))))...)
	w.until("open", func() bool { return w.open() == 1 })
	for _, p := range w.pods() {
		if p.Status.NominatedNodeName != "" {
			t.Fatalf("pod %s is nominated to %q", p.Name, p.Status.NominatedNodeName)
		}
	}
}

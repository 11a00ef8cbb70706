package nodeclaim_test

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/controller/nodeclaim"
)

// loseNode takes our finalizer off the only node and deletes it, as somebody does who is in a hurry. It returns the node as it was.
func (w *world) loseNode() *corev1.Node {
	w.t.Helper()
	node := w.nodes()[0]
	before := node.DeepCopy()
	w.update(node, func() { node.Finalizers = nil })
	w.remove(node)
	return before
}

// register makes the node as a kubelet does that starts.
func (w *world) register(like *corev1.Node) {
	w.t.Helper()
	w.create(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: like.Name, UID: like.UID + "-again", Labels: map[string]string{corev1.LabelHostname: like.Name}},
		Spec:       corev1.NodeSpec{ProviderID: like.Spec.ProviderID, Taints: []corev1.Taint{v1.UnregisteredTaint()}},
		Status:     corev1.NodeStatus{Capacity: like.Status.Capacity, Allocatable: like.Status.Allocatable},
	})
}

func TestAMachineWhoseNodeDoesNotComeAgainGoes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newClaim("general-1"))
	w.until("initialized", w.initialized)
	w.loseNode()
	w.pass(4 * time.Minute)
	if c := v1.GetCondition(w.claims()[0], v1.ConditionRegistered); c.Status != metav1.ConditionUnknown || c.Reason != "NodeNotFound" {
		t.Errorf("the claim says %+v", c)
	}
	w.reconciler = nodeclaim.New(w.reconciler.Config) // the patience is not begun anew
	w.pass(time.Minute)
	if len(w.claims()) != 1 || len(w.machines()) != 1 || w.events.has("NodeGone") {
		t.Fatalf("gone too early:\n%s", w.describe())
	}
	w.until("gone", w.empty)
	if !w.events.has("NodeGone") {
		t.Error("no event says why the claim went")
	}
	if n := w.counted("karpenter_nodeclaims_disrupted_total"); n != 1 {
		t.Errorf("%v claims are counted as disrupted", n)
	}
	if !slices.Equal(w.outcomes, []bool{true}) {
		t.Errorf("outcomes %v: the pool's machines do join", w.outcomes)
	}
}

func TestAKubeletThatRegistersAnewKeepsItsMachine(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]time.Duration{"at once": 0, "after some minutes": 4 * time.Minute} {
		w := newWorld(t, newClaim("general-1"))
		w.until("initialized", w.initialized)
		lost := w.loseNode()
		if away > 0 {
			w.pass(away)
		}
		w.register(lost)
		w.until("initialized again", func() bool { return w.initialized() && w.nodes()[0].Labels[v1.InitializedLabelKey] == "true" })
		w.pass(time.Hour)
		w.pass(time.Hour)
		node := w.nodes()[0]
		if len(w.claims()) != 1 || w.provider.launches != 1 || node.UID == lost.UID {
			t.Fatalf("%s: %d launches\n%s", name, w.provider.launches, w.describe())
		}
		if !slices.Equal(node.Finalizers, []string{v1.TerminationFinalizer}) || len(node.Spec.Taints) > 0 || node.Labels[v1.NodePoolLabelKey] != "general" ||
			len(node.OwnerReferences) != 1 {
			t.Errorf("%s: finalizers %v, taints %v, labels %v, owners %v", name, node.Finalizers, node.Spec.Taints, node.Labels, node.OwnerReferences)
		}
	}
}

func TestANodeThatOnlyTheCacheDoesNotShowIsNotGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newClaim("general-1"))
	w.until("initialized", w.initialized)
	w.blind = true
	w.reconciler = nodeclaim.New(w.reconciler.Config) // remembers nothing
	before := w.writes
	w.pass(time.Hour)
	w.pass(time.Hour)
	if w.writes != before || !w.initialized() {
		t.Errorf("%d writes\n%s", w.writes-before, w.describe())
	}
}

package endtoend_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "tenon.sh/api/v1"
)

// TestPodsWhoseNodeIsTakenAwayGetAnother takes the finalizer off a node and deletes it. Its pods run on another machine before the
// first one is given up; that it has to be within minutes, the test makes so by putting the condition's clock back.
func TestPodsWhoseNodeIsTakenAwayGetAnother(t *testing.T) {
	w := newWorld(t).in(t, "taken-away")
	w.start()
	w.cornerPool(nil)
	w.workload(1, "3", nil)
	claim := w.only()
	w.takeAway(claim.Status.NodeName)
	w.until(time.Minute, func() (bool, string) {
		w.must(w.Get(w, client.ObjectKeyFromObject(claim), claim))
		c := v1.GetCondition(claim, v1.ConditionRegistered)
		return c.Status == metav1.ConditionUnknown && c.Reason == "NodeNotFound", fmt.Sprintf("the claim says %+v", c)
	})
	w.until(3*time.Minute, func() (bool, string) { // the pod of the node that is gone is removed after 40 seconds or more
		return len(w.claims()) == 2, fmt.Sprintf("%d claims: want the old one kept, and another", len(w.claims()))
	})
	w.running(1, time.Minute)

	before := client.MergeFrom(claim.DeepCopy())
	c := v1.GetCondition(claim, v1.ConditionRegistered)
	c.LastTransitionTime = metav1.NewTime(c.LastTransitionTime.Add(-5 * time.Minute))
	w.must(w.Status().Patch(w, claim, before))
	w.until(time.Minute, func() (bool, string) {
		left := w.claims()
		return len(left) == 1 && left[0].UID != claim.UID, fmt.Sprintf("%d claims", len(left))
	})
	w.event(time.Minute, claim.Name, "NodeGone", claim.Status.NodeName)
	w.running(1, time.Second)
}

// TestANodeThatIsMadeAnewIsTheSameMachine does the same, and then makes the node as a kubelet does: without labels of ours.
func TestANodeThatIsMadeAnewIsTheSameMachine(t *testing.T) {
	w := newWorld(t).in(t, "made-anew")
	w.start()
	w.cornerPool(func(p *v1.NodePool) {
		p.Spec.Template.Spec.Taints = []v1.Taint{{Key: "dedicated", Value: "made-anew", Effect: corev1.TaintEffectNoSchedule}}
	})
	tolerating := func(t *corev1.PodTemplateSpec) {
		t.Spec.Tolerations = []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}}
	}
	w.workload(1, "3", tolerating)
	claim := w.only()
	lost := w.takeAway(claim.Status.NodeName)
	anew := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: lost.Name, Labels: map[string]string{}, Annotations: map[string]string{}},
		Spec:       corev1.NodeSpec{ProviderID: lost.Spec.ProviderID, Taints: []corev1.Taint{v1.UnregisteredTaint()}},
		Status:     corev1.NodeStatus{Capacity: lost.Status.Capacity, Allocatable: lost.Status.Allocatable},
	}
	ours := func(key, _ string) bool {
		return !strings.Contains(key, "kubernetes.io/") && !strings.Contains(key, "kwok.x-k8s.io/")
	}
	maps.Copy(anew.Labels, lost.Labels)
	maps.DeleteFunc(anew.Labels, ours)
	maps.Copy(anew.Annotations, lost.Annotations)
	maps.DeleteFunc(anew.Annotations, ours)
	w.must(w.Create(w, anew))
	w.until(time.Minute, func() (bool, string) {
		w.must(w.Get(w, client.ObjectKeyFromObject(claim), claim))
		w.must(w.Get(w, keyOf(anew.Name), anew))
		ready := v1.IsTrue(claim, v1.ConditionReady) && anew.Labels[v1.InitializedLabelKey] == "true"
		return ready, fmt.Sprintf("claim: %+v\nnode: labels %v, taints %v", claim.Status.Conditions, anew.Labels, anew.Spec.Taints)
	})
	if len(anew.Finalizers) != 1 || len(anew.OwnerReferences) != 1 || anew.Labels[v1.NodePoolLabelKey] != w.corner ||
		len(anew.Spec.Taints) != 1 || anew.Spec.Taints[0].Key != "dedicated" {
		t.Errorf("the node has finalizers %v, owners %v, labels %v, taints %v", anew.Finalizers, anew.OwnerReferences, anew.Labels, anew.Spec.Taints)
	}
	w.running(1, 3*time.Minute)
	if only := w.only(); only.UID != claim.UID {
		t.Errorf("claim %s came in the place of %s", only.Name, claim.Name)
	}
}

// takeAway removes a node whatever holds it, and returns it as it was.
func (w *world) takeAway(name string) *corev1.Node {
	w.Helper()
	node := &corev1.Node{}
	w.must(w.Get(w, keyOf(name), node))
	lost := node.DeepCopy()
	before := client.MergeFrom(node.DeepCopy())
	node.Finalizers = nil
	w.must(w.Patch(w, node, before))
	w.must(w.Delete(w, node))
	return lost
}

package endtoend_test

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "tenon.sh/api/v1"
)

// repairBroken gives the corner a node whose kubelet says that it is not ready.
func repairBroken(w *world) { w.repaired(corev1.ConditionFalse, "KubeletNotReady") }

// repairSilent gives the corner a node of which the node controller says that its kubelet has died. It would say so itself only
// after a long time, so that it is the test which does.
func repairSilent(w *world) { w.repaired(corev1.ConditionUnknown, "NodeStatusUnknown") }

// repaired breaks one of three nodes, and waits until there is another in its place. The pods that ran there run again.
func (w *world) repaired(ready corev1.ConditionStatus, why string) {
	w.Helper()
	w.cornerPool(nil)
	w.workload(3, "3", nil)
	claims, broken := w.openLedger(), w.claims()[0]
	node := &corev1.Node{}
	w.must(w.Get(w, keyOf(broken.Status.NodeName), node))
	w.endKubelet(node)
	before := client.MergeFrom(node.DeepCopy())
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == corev1.NodeReady {
			c.Status, c.Reason, c.LastTransitionTime = ready, why, metav1.Now()
		}
	}
	w.must(w.Status().Patch(w, node, before))
	w.goes(&broken, time.Minute)
	if c := v1.GetCondition(claims.of(broken.UID), v1.ConditionDisruptionReason); c == nil || c.Reason != string(v1.Unhealthy) {
		w.Errorf("the node went, and its claim says %+v", c)
	}
	w.running(3, time.Minute)
	w.quiet(time.Second, time.Minute)
	w.whole()
	if n := claims.check(w.TB); n > 1 {
		w.Errorf("%d nodes went, one was broken", n)
	}
}

// endKubelet lets KWOK play the node's kubelet no more.
func (w *world) endKubelet(node *corev1.Node) {
	w.Helper()
	const key = "kwok.x-k8s.io/node"
	before := client.MergeFrom(node.DeepCopy())
	delete(node.Annotations, key)
	w.must(w.Patch(w, node, before))
	if node.Annotations[key] != "" {
		w.Fatalf("KWOK keeps node %s", node.Name)
	}
}

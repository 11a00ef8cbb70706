package endtoend_test

import (
	"fmt"
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
	w.kubelet(node, "")
	w.report(node, ready, why, time.Now())
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

// repairAnyway has everything keep a node that can: its pods and the node are not to be disrupted, a budget allows no eviction, the
// pool lets nothing go and gives its drains an hour. Once the repair has begun the kubelet reports Ready again.
func repairAnyway(w *world) {
	w.cornerPool(func(p *v1.NodePool) {
		p.Spec.Disruption.Budgets = []v1.Budget{{Nodes: "0"}}
		p.Spec.Template.Spec.TerminationGracePeriod = &metav1.Duration{Duration: time.Hour}
	})
	w.workload(3, "3", func(t *corev1.PodTemplateSpec) {
		t.Annotations = map[string]string{v1.DoNotDisruptAnnotationKey: "true"}
	})
	w.budget(0)
	claims, broken := w.openLedger(), w.claims()[0]
	node := &corev1.Node{}
	w.must(w.Get(w, keyOf(broken.Status.NodeName), node))
	before := client.MergeFrom(node.DeepCopy())
	metav1.SetMetaDataAnnotation(&node.ObjectMeta, v1.DoNotDisruptAnnotationKey, "true")
	w.must(w.Patch(w, node, before))
	player := w.kubelet(node, "")
	w.report(node, corev1.ConditionFalse, "KubeletNotReady", node.CreationTimestamp.Add(-time.Hour))
	w.until(time.Minute, func() (bool, string) {
		c := claims.of(broken.UID)
		return c != nil && c.DeletionTimestamp != nil, fmt.Sprintf("the claim is not deleted: %+v", c)
	})
	if w.Get(w, keyOf(node.Name), node) == nil { // or else it is gone already
		w.kubelet(node, player)
	}
	w.goes(&broken, time.Minute)
	w.running(3, time.Minute)
	w.quiet(time.Second, time.Minute)
	w.whole()
	if n := claims.check(w.TB); n > 1 {
		w.Errorf("%d nodes went, one was broken", n)
	}
}

// report has the node say whether it is ready, and since when.
func (w *world) report(node *corev1.Node, ready corev1.ConditionStatus, why string, since time.Time) {
	w.Helper()
	before := client.MergeFrom(node.DeepCopy())
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == corev1.NodeReady {
			c.Status, c.Reason, c.LastTransitionTime = ready, why, metav1.NewTime(since)
		}
	}
	w.must(w.Status().Patch(w, node, before))
}

// kubelet says who plays the node's kubelet: KWOK, under the name that it has given itself, or nobody. It returns who did.
func (w *world) kubelet(node *corev1.Node, player string) (before string) {
	w.Helper()
	const key = "kwok.x-k8s.io/node"
	old := client.MergeFrom(node.DeepCopy())
	before = node.Annotations[key]
	if player == "" {
		delete(node.Annotations, key)
	} else {
		metav1.SetMetaDataAnnotation(&node.ObjectMeta, key, player)
	}
	w.must(client.IgnoreNotFound(w.Patch(w, node, old)))
	return before
}

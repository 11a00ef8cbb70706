package nodeclaim_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "tenon.sh/api/v1"
)

// An agent's taint that the pool does not declare is written on the pool once a node has lost it, and the claim forgets it.
func TestATaintThatANodeLosesByItselfIsWrittenOnItsPool(t *testing.T) {
	t.Parallel()
	pool := &v1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "general", UID: "general"}}
	w := newWorld(t, newClaim("general-1"), pool)
	seen := func() string { return w.claims()[0].Annotations[v1.UndeclaredTaintsAnnotationKey] }
	w.until("a node", func() bool { return len(w.nodes()) > 0 })
	node := w.nodes()[0]
	w.update(node, func() {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: "linkerd.example.com/starting", Effect: corev1.TaintEffectNoExecute})
	})
	w.until("the taint is noted", func() bool { return seen() == "linkerd.example.com/starting:NoExecute" })
	w.update(node, func() { node.Spec.Taints = nil })
	w.until("the taint has gone", func() bool { return w.initialized() && seen() == "" })
	if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(pool), pool); err != nil {
		t.Fatal(err)
	}
	if text := pool.Annotations[v1.LearnedTaintsAnnotationKey]; !strings.Contains(text, `"linkerd.example.com/starting:NoExecute"`) || !w.events.has("StartupTaintLearned") {
		t.Errorf("written on the pool: %q", text)
	}
	before := w.writes
	for range 5 {
		w.pass(10 * time.Second)
	}
	if w.writes != before {
		t.Errorf("%d writes although nothing happens", w.writes-before)
	}
}

package nodeclaim_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider"
)

// adoptable are machines that belong to no claim.
type adoptable []engine.Machine

func (a adoptable) Adoptable(context.Context, provider.Class) ([]engine.Machine, error) {
	return a, nil
}

func TestMachineThatRunsPodsAndHasNoClaimGetsOne(t *testing.T) {
	t.Parallel()
	pool := &v1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "general"}}
	pool.Spec.Template.Spec.NodeClassRef = newClaim("").Spec.NodeClassRef
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "made-by-others"}, Spec: corev1.NodeSpec{ProviderID: "made://1"}}
	w := newWorld(t, pool, node)
	machine := engine.Machine{ID: "made://1", Labels: map[string]string{
		corev1.LabelInstanceTypeStable: "c-4x", corev1.LabelTopologyZone: "a", v1.CapacityTypeLabelKey: "on-demand",
	}}
	w.reconciler.Adopter = adoptable{machine, {ID: "made://without-a-node"}}
	collect := func(want int) {
		t.Helper()
		if err := w.reconciler.Collect(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := len(w.claims()); n != want {
			t.Fatalf("%d claims, want %d", n, want)
		}
	}
	collect(0)
	w.create(newPod("web", node.Name))
	collect(1)
	collect(1)
	if claim := w.claims()[0]; claim.Labels[v1.NodePoolLabelKey] != "general" {
		t.Errorf("claim %+v is of another pool", claim)
	}
}

package cluster_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	v1 "tenon.sh/api/v1"
	"tenon.sh/cluster"
)

const oneID = "azure:///subscriptions/0a-b/resourceGroups/nodes/providers/Microsoft.Compute/virtualMachines/aks-x"

// The provider IDs of a Node and its claim differ in case. Whichever way they are read, they name one machine.
func TestANodeAndItsClaimHaveOneMachineWhateverItsCase(t *testing.T) {
	t.Parallel()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Spec: corev1.NodeSpec{ProviderID: strings.ToUpper(oneID[:40]) + oneID[40:]}}
	claim := &v1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Status: v1.NodeClaimStatus{ProviderID: strings.Replace(oneID, "nodes", "Nodes", 1)}}
	written := claim.Status.ProviderID
	for _, o := range []client.Object{node.DeepCopy(), claim.DeepCopy()} {
		for kind, by := range cluster.CacheOptions().ByObject {
			if !sameType(kind, o) {
				continue
			}
			if _, err := by.Transform(o); err != nil || machineOf(o) != oneID {
				t.Errorf("the cache has %q of %T: %v", machineOf(o), o, err)
			}
		}
		if machineOf(o) != oneID {
			t.Errorf("the cache does not change %T", o)
		}
	}
	stored := fake.NewClientBuilder().WithScheme(cluster.Scheme()).WithStatusSubresource(claim).WithObjects(node, claim).Build()
	c := cluster.OneCase(stored)
	for how, r := range map[string]client.Reader{"client": c, "reader": cluster.OneCaseReader(stored)} {
		var nodes corev1.NodeList
		var claims v1.NodeClaimList
		oneNode, oneClaim := &corev1.Node{}, &v1.NodeClaim{}
		for _, err := range []error{
			r.List(t.Context(), &nodes), r.List(t.Context(), &claims), r.Get(t.Context(), client.ObjectKey{Name: "x"}, oneNode), r.Get(t.Context(), client.ObjectKey{Name: "x"}, oneClaim),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, o := range []client.Object{&nodes.Items[0], &claims.Items[0], oneNode, oneClaim} {
			if machineOf(o) != oneID {
				t.Errorf("%s has %q of %T", how, machineOf(o), o)
			}
		}
	}
	changed := cluster.MetaOf(claim)
	changed.Labels = map[string]string{"a": "b"}
	if err := c.Patch(t.Context(), changed, client.MergeFrom(cluster.MetaOf(claim))); err != nil || machineOf(changed) != oneID {
		t.Errorf("after a patch: %q, %v", machineOf(changed), err)
	}
	status := changed.DeepCopy()
	status.Status.NodeName = "x"
	if err := c.Status().Patch(t.Context(), status, client.MergeFrom(changed)); err != nil || machineOf(status) != oneID {
		t.Errorf("after a patch of the status: %q, %v", machineOf(status), err)
	}
	if err := stored.Get(t.Context(), client.ObjectKey{Name: "x"}, claim); err != nil || claim.Status.ProviderID != written || claim.Status.NodeName != "x" {
		t.Errorf("what was written has changed to %q: %v", claim.Status.ProviderID, err)
	}
	made := &v1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "y"}, Status: v1.NodeClaimStatus{ProviderID: written}}
	if err := c.Create(t.Context(), made); err != nil || machineOf(made) == written {
		t.Errorf("created: %q, %v", machineOf(made), err)
	}
}

func sameType(a, b client.Object) bool {
	switch a.(type) {
	case *corev1.Node:
		_, is := b.(*corev1.Node)
		return is
	case *v1.NodeClaim:
		_, is := b.(*v1.NodeClaim)
		return is
	}
	return false
}

func machineOf(o client.Object) string {
	if n, is := o.(*corev1.Node); is {
		return n.Spec.ProviderID
	}
	return o.(*v1.NodeClaim).Status.ProviderID
}

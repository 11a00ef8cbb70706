package inventory_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
)

// TestWhoWaitsForAResourceIsToldWhoseWordItWas launches for a resource that an overlay adds, and that the node never shows.
func TestWhoWaitsForAResourceIsToldWhoseWordItWas(t *testing.T) {
	t.Parallel()
	pool := &v1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "general"}}
	pool.Spec.Template.Spec.NodeClassRef = &v1.NodeClassReference{Group: "karpenter.kwok.sh", Kind: "KWOKNodeClass", Name: "default"}
	claim := kube.NewClaim(pool, engine.Launch{
		NodePool: "general", PriceOverlaid: true, Added: map[corev1.ResourceName]string{"x.io/a": "other", "x.io/y": "devices"},
		Requests: corev1.ResourceList{"x.io/y": resource.MustParse("1")},
	})
	for key, want := range map[string]string{
		v1.PriceOverlayAppliedAnnotationKey: "true", v1.CapacityOverlayAppliedAnnotationKey: "true", v1.AddedResourcesAnnotationKey: "x.io/a=other,x.io/y=devices",
	} {
		if got := claim.Annotations[key]; got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	node := &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}
	if _, message := inventory.Uninitialized(claim, node, nil); !strings.Contains(message, "resource x.io/y yet, which NodeOverlay devices says that it will have") {
		t.Error(message)
	}
	plain := kube.NewClaim(pool, engine.Launch{NodePool: "general"})
	for _, key := range []string{v1.PriceOverlayAppliedAnnotationKey, v1.CapacityOverlayAppliedAnnotationKey, v1.AddedResourcesAnnotationKey} {
		if _, there := plain.Annotations[key]; there {
			t.Errorf("a claim that no overlay is about carries %s", key)
		}
	}
}

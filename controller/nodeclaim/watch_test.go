package nodeclaim_test

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1 "tenon.sh/api/v1"
	"tenon.sh/controller/nodeclaim"
	"tenon.sh/engine"
	"tenon.sh/provider"
)

// The fingerprint of a pool's template is written after the template has changed, and only then have claims drifted. That
// nothing else happens to them must not keep them from hearing of it.
func TestClaimsHearOfTheirPoolsNewFingerprint(t *testing.T) {
	t.Parallel()
	before := &v1.NodePool{ObjectMeta: metav1.ObjectMeta{Generation: 2, Annotations: map[string]string{v1.NodePoolHashAnnotationKey: "1"}}}
	for name, c := range map[string]struct {
		change func(*v1.NodePool)
		heard  bool
	}{
		"its spec":                  {func(p *v1.NodePool) { p.Generation++ }, true},
		"its fingerprint":           {func(p *v1.NodePool) { p.Annotations[v1.NodePoolHashAnnotationKey] = "2" }, true},
		"the fingerprint's version": {func(p *v1.NodePool) { p.Annotations[v1.NodePoolHashVersionAnnotationKey] = "v4" }, true},
		"how many nodes it has":     {func(p *v1.NodePool) { p.Status.Nodes = new(int64) }, false},
	} {
		after := before.DeepCopy()
		c.change(after)
		heard := false
		for _, s := range new(nodeclaim.Reconciler).Sources() {
			if _, pool := s.Kind.(*v1.NodePool); pool {
				heard = s.Matters(before, after)
			}
		}
		if heard != c.heard {
			t.Errorf("%s changes and claims hear of it: %v, want %v", name, heard, c.heard)
		}
	}
}

// wants is what an Inspector says.
type wants []engine.Trait

func (w wants) Traits(context.Context, provider.Class) ([]engine.Trait, error) { return w, nil }

// A machine drifts when its class wants something else, which nothing about the claim shows.
func TestClaimsHearWhenTheirClassWantsOtherMachines(t *testing.T) {
	t.Parallel()
	other := newClaim("other-1")
	other.Spec.NodeClassRef.Name = "other"
	w := newWorld(t, newClaim("general-1"), other)
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	t.Cleanup(queue.ShutDown)
	if err := w.reconciler.WakeByTraits(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	ref := *newClaim("").Spec.NodeClassRef
	class, err := w.reconciler.Cluster.Class(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		image string
		woken int
	}{{"old", 1}, {"old", 0}, {"new", 1}} {
		w.reconciler.Cluster.Inspector = wants{{Key: engine.ImageTrait, Accepts: []string{step.image}}}
		if err := w.reconciler.Cluster.RefreshCatalog(t.Context(), class); err != nil {
			t.Fatal(err)
		}
		if queue.Len() != step.woken {
			t.Fatalf("image %s: %d claims are woken, want %d", step.image, queue.Len(), step.woken)
		}
		for range step.woken {
			request, _ := queue.Get()
			queue.Done(request)
			if request.Name != "general-1" {
				t.Errorf("claim %s is woken, want general-1", request.Name)
			}
		}
	}
}

package nodeclaim_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/controller/nodeclaim"
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

package azure_test

import (
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"tenon.sh/api/azurev1beta1"
	"tenon.sh/provider"
)

func TestAClassStaysAsLongAsItHasClaims(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	c := w.class("general", nil)
	claim := w.claim("a", nil, nil)
	w.must(w.provider.Clean(t.Context()))
	w.must(w.client.Delete(t.Context(), c))
	w.must(w.provider.Clean(t.Context()))
	if err := w.client.Get(t.Context(), clientKey("general"), c); err != nil || !slices.Contains(c.Finalizers, azurev1beta1.TerminationFinalizer) {
		t.Errorf("the class went before its claim: %v, %q", err, c.Finalizers)
	}
	if !slices.ContainsFunc(w.told, func(e provider.Event) bool {
		return e.Reason == "WaitingOnNodeClaimTermination" && strings.Contains(e.Message, "ended: a")
	}) {
		t.Errorf("nobody was told why the class stays: %+v", w.told)
	}
	w.must(w.client.Delete(t.Context(), claim))
	w.must(w.provider.Clean(t.Context()))
	if err := w.client.Get(t.Context(), clientKey("general"), c); !apierrors.IsNotFound(err) {
		t.Errorf("the class is still there: %v, %q", err, c.Finalizers)
	}
}

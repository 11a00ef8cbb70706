package kube

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/enginetest"
)

// Machines that were started together are not replaced together.
func TestSoftExpiryIsSpreadOverMachinesOfOneAge(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ life, window time.Duration }{{100 * time.Hour, 10 * time.Hour}, {720 * time.Hour, 24 * time.Hour}, {time.Minute, 6 * time.Second}, {0, 0}} {
		first, last := 1e18, 0.0
		for i := range 400 {
			claim := enginetest.LifeClaim()
			claim.UID, claim.Spec.ExpireAfter = types.UID(fmt.Sprint(i)), v1.DurationOf(c.life)
			at, ok := SoftExpiry(claim)
			before := enginetest.LifeStart.Add(c.life).Sub(at)
			if !ok || before > c.window || before < c.window/4 {
				t.Fatalf("life %s: soft expiry %s before the end, window %s", c.life, before, c.window)
			}
			if again, _ := SoftExpiry(claim); !again.Equal(at) {
				t.Fatal("it depends on something else than the claim")
			}
			first, last = min(first, before.Hours()), max(last, before.Hours())
		}
		if c.window > 0 && last-first < 0.7*c.window.Hours() {
			t.Errorf("life %s: spread over %g of %g hours only", c.life, last-first, c.window.Hours())
		}
	}
	never := enginetest.LifeClaim()
	if _, ok := SoftExpiry(never); ok {
		t.Error("a machine that never expires has a soft expiry")
	}
}

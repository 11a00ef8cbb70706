package overlay_test

import (
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/api/v1alpha1"
	"tenon.sh/engine"
	"tenon.sh/engine/disruption"
	"tenon.sh/engine/overlay"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario"
	"tenon.sh/scenario/scenariotest"
)

// TestOverlaysThatChangeNothingChangeNoPlan applies to each scenario an overlay that leaves all prices as they are.
func TestOverlaysThatChangeNothingChangeNoPlan(t *testing.T) {
	t.Parallel()
	for _, path := range scenariotest.Drawn(t, "..") {
		f := scenariotest.Load(t, path)
		if len(f.Snapshot.NodeOverlays) > 0 {
			continue
		}
		plain, with := *f.Snapshot, *f.Snapshot
		same := &v1alpha1.NodeOverlay{ObjectMeta: metav1.ObjectMeta{Name: "same"}}
		same.Spec.PriceAdjustment = new("+0%")
		with.NodeOverlays = []*v1alpha1.NodeOverlay{same}
		overlay.Apply(&with)
		for name, plan := range map[string]func(*engine.Snapshot) *engine.Plan{
			"provision": func(s *engine.Snapshot) *engine.Plan { return provisioning.Plan(s, f.Options, nil) },
			"disrupt":   func(s *engine.Snapshot) *engine.Plan { return disruption.Plan(s, f.Options, nil) },
		} {
			if want, got := scenario.Print(plan(&plain)), scenario.Print(plan(&with)); got != want {
				t.Errorf("%s, %s: got\n%swant\n%s", filepath.Base(path), name, got, want)
			}
		}
	}
}

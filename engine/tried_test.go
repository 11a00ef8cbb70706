package engine_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/provisioning"
)

// A machine in zone b was started for web-1 when there was no other, and web-1 still waits. As long as the machine is new, it
// is expected there; later it may go wherever it likes best.
func TestAPodThatItsMachineDoesNotTakeIsPlannedAnew(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		ready time.Duration // for so long
		goes  string
	}{{time.Second, "n-b"}, {time.Minute, "n-a"}} {
		s := clusterOf(t,
			"pool general",
			"type two cpu=2 mem=4Gi zones=a,b price=0.05",
			"node n-a pool=general type=two zone=a",
			"node n-b pool=general type=two zone=b planned=web-1",
			"pods web x1 cpu=1 prefer=(zone in (a) weight=100)")
		for _, claim := range s.NodeClaims {
			v1.GetCondition(claim, v1.ConditionInitialized).LastTransitionTime = metav1.NewTime(s.Now.Add(-c.ready))
		}
		plan := provisioning.Plan(s, engine.Options{}, nil)
		if len(plan.Placements) != 1 || plan.Placements[0].Node != c.goes {
			t.Errorf("%v after its machine was ready: placements %v, want one on %s", c.ready, plan.Placements, c.goes)
		}
	}
}

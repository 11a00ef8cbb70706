package engine_test

import (
	"testing"
	"time"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/disruption"
)

// consolidateAfter counts from when the last pod left, also if that had lived for seconds only; but pods that come and go hold a
// node for a limited time.
func TestAnEmptyNodeStaysForItsQuietTimeAfterABriefPodLeft(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		lasting, brief time.Duration // since a pod of the kind came or left
		stays          bool
	}{
		{2 * time.Minute, 10 * time.Second, true},
		{2 * time.Minute, 31 * time.Second, false},
		{time.Hour, 10 * time.Second, false},
	} {
		s := clusterOf(t, "pool general consolidate-after=30s", "type two cpu=2 mem=4Gi zones=a price=0.05", "node n1 pool=general type=two zone=a quiet="+c.lasting.String())
		s.NodeClaims[0].Annotations = map[string]string{v1.BriefPodLeftAnnotationKey: s.Now.Add(-c.brief).Format(time.RFC3339)}
		if plan := disruption.Plan(s, engine.Options{}, nil); (len(plan.Disruptions) == 0) != c.stays {
			t.Errorf("%v after a lasting pod, %v after a brief one: %d nodes go, stays should be %v", c.lasting, c.brief, len(plan.Disruptions), c.stays)
		}
	}
}

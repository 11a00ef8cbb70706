package explain_test

import (
	"encoding/json"
	"math"
	"testing"

	"tenon.sh/engine"
	"tenon.sh/engine/disruption"
	"tenon.sh/engine/enginetest"
	"tenon.sh/engine/explain"
	"tenon.sh/engine/provisioning"
	"tenon.sh/provider/catalog"
	"tenon.sh/scenario"
)

// Everything in a cluster can be explained, the record can be written, and the explanation changes nothing.
func TestEverythingCanBeExplained(t *testing.T) {
	t.Parallel()
	for seed := range enginetest.Draws(30) {
		s := scenario.Random(seed, scenario.Size{})
		before := written(t, s)
		plan, disrupt := provisioning.Plan(s, engine.Options{}, nil), disruption.Plan(s, engine.Options{}, nil)
		record := func(story any, summary string) {
			if summary == "" {
				t.Errorf("seed %d: no summary of %+v", seed, story)
			}
			written(t, story)
		}
		for _, pod := range s.Pods {
			story := explain.ExplainPod(s, engine.Options{}, plan, pod)
			record(story, story.Summary)
		}
		for _, node := range s.Nodes {
			story, ok := explain.ExplainNode(s, plan, disrupt, node.Name)
			if !ok {
				t.Errorf("seed %d: node %s is not known", seed, node.Name)
			}
			record(story, story.Summary)
		}
		for _, claim := range s.NodeClaims {
			story, ok := explain.ExplainNode(s, plan, disrupt, claim.Name)
			if !ok {
				t.Errorf("seed %d: claim %s is not known", seed, claim.Name)
			}
			record(story, story.Summary)
		}
		for _, pool := range s.NodePools {
			story := explain.ExplainPool(s, plan, nil, pool)
			record(story, story.Summary)
		}
		written(t, explain.NewSavings(s, engine.Options{}))
		written(t, explain.NewSavings(explain.AssumePools(s, explain.SoldHere(s, catalog.KWOK())), engine.Options{}))
		if written(t, s) != before {
			t.Errorf("seed %d: explaining changed the snapshot", seed)
		}
	}
}

func written(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The pools' shares add up, and no plan costs less than the bound.
func TestAnAccountAddsUp(t *testing.T) {
	t.Parallel()
	for seed := range enginetest.Draws(30) {
		s := scenario.Random(seed, scenario.Size{})
		for name, s := range map[string]*engine.Snapshot{"pools": s, "assumed": explain.AssumePools(s, explain.SoldHere(s, catalog.KWOK()))} {
			a := explain.NewSavings(s, engine.Options{})
			now, planned, nodes := 0.0, 0.0, len(a.Unpriced)+a.Outside
			for _, p := range a.Pools {
				now, planned, nodes = now+p.NowPerHour, planned+p.PlannedPerHour, nodes+p.Nodes
			}
			if math.Abs(now-a.NowPerHour) > 1e-9 || math.Abs(planned-a.PlannedPerHour) > 1e-9 || nodes != len(s.Nodes) {
				t.Errorf("seed %d, %s: pools cost %v now and %v planned with %d nodes, want %v, %v and %d",
					seed, name, now, planned, nodes, a.NowPerHour, a.PlannedPerHour, len(s.Nodes))
			}
			if a.BoundPerHour != nil && *a.BoundPerHour > a.PlannedPerHour+1e-6 {
				t.Errorf("seed %d, %s: the plan costs %v, less than the bound %v", seed, name, a.PlannedPerHour, *a.BoundPerHour)
			}
		}
	}
}

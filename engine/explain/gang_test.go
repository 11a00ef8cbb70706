package explain_test

import (
	"strings"
	"testing"

	"tenon.sh/engine"
	"tenon.sh/engine/explain"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario/scenariotest"
)

func TestExplainSaysThatAGangIsTooSmall(t *testing.T) {
	t.Parallel()
	s := scenariotest.Cluster(t, "pool general", "type two cpu=2 mem=8Gi zones=a price=0.1", "gang train min=3", "pods train x2 cpu=1 gang=train untried")
	got := explain.ExplainPod(s, engine.Options{}, provisioning.Plan(s, engine.Options{}, nil), s.Pods[0])
	if got.Outcome != explain.OutcomeUntried || !strings.Contains(got.Summary, "once 3 of its pods exist, and there are 2") {
		t.Errorf("%s: %s", got.Outcome, got.Summary)
	}
}

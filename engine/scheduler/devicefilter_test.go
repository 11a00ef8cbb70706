package scheduler_test

import (
	"testing"

	"tenon.sh/engine/scheduler"
	"tenon.sh/scenario/scenariotest"
)

func TestAReplayGivesNoDeviceAwayTwice(t *testing.T) {
	t.Parallel()
	s := scenariotest.Cluster(t,
		"pool general",
		"type two cpu=8 mem=16Gi price=1 devices=(driver=gpu.example.com count=2)",
		"deviceclass gpu driver=gpu.example.com",
		"node n pool=general type=two zone=a published=(driver=gpu.example.com count=2)",
		"pods web x3 cpu=1 devices=(class=gpu)",
		"pod large cpu=1 devices=(class=gpu memory=40Gi)")
	landing := (&scheduler.Replay{Snapshot: s, Pods: scenariotest.Waiting(s)}).Land()
	if len(landing.Placements) != 2 || len(landing.Stranded) != 2 {
		t.Errorf("placed %v, stranded %v", landing.Placements, landing.Stranded)
	}
}

package simulator

import (
	"bytes"
	"encoding/json"
	"time"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/budget"
	"tenon.sh/engine/disruption"
)

// replayEvery is the interval, in passes, between two runs of replay, because a pass without the cache takes longer.
const replayEvery = 4

// audit checks laws of the world that single events do not show. Most checks are only made with Config.Audit.
type audit struct {
	agenda      *agenda
	laws        *laws
	meter       *meter
	cluster     *cluster
	kept        []engine.Kept        // by the last disruption plan
	stays       map[string]time.Time // since when nodes are kept that should be removed, by name
	longestStay Stay
}

// budgets checks that a plan observes the budgets of every NodePool, with its own counts. Sometimes it also calls replay.
func (x *audit) budgets(s *engine.Snapshot, opt engine.Options, plan *engine.Plan) {
	if x.meter.Passes%replayEvery == 0 {
		x.replay(*s, opt, plan)
	}
	begun := map[string]map[v1.DisruptionReason]int{}
	for _, d := range plan.Disruptions {
		for _, name := range d.Claims {
			claim, ok := x.cluster.claims.get(name)
			if !ok {
				x.laws.violate("the plan disrupts claim %s, which is not there", name)
				return
			}
			pool := claim.Labels[v1.NodePoolLabelKey]
			if begun[pool] == nil {
				begun[pool] = map[v1.DisruptionReason]int{}
			}
			begun[pool][d.Reason]++
		}
	}
	for _, pool := range s.NodePools {
		all := 0
		for _, n := range begun[pool.Name] {
			all += n
		}
		for _, reason := range append(v1.DisruptionReasons(), v1.Expired) {
			if begun[pool.Name][reason] == 0 {
				continue
			}
			// Disruptions for other reasons in the same pass use up the budget too.
			if left := budget.PoolAllowance(s, pool, reason).Left(); all > left {
				x.laws.violate("pool %s: %d nodes are disrupted at once, one of them as %s, but its budgets leave %d", pool.Name, all, reason, left)
			}
		}
	}
}

// replay makes the plan again without the cache, with the earlier passes read back from JSON, and compares the two plans.
func (x *audit) replay(s engine.Snapshot, opt engine.Options, plan *engine.Plan) {
	text := asJSON(s.EarlierPasses)
	s.EarlierPasses = &engine.EarlierPasses{}
	if err := json.Unmarshal(text, s.EarlierPasses); err != nil {
		x.laws.violate("what the passes before have left cannot be read: %v", err)
	}
	again := disruption.Plan(&s, opt, nil)
	if !bytes.Equal(asJSON(plan), asJSON(again)) || !bytes.Equal(asJSON(plan.Passes), asJSON(again.Passes)) {
		x.laws.violate("the pass found %d disruptions, and found again, without what this process remembers, %d or others", len(plan.Disruptions), len(again.Disruptions))
	}
}

func asJSON(x any) []byte {
	text, err := json.Marshal(x)
	if err != nil {
		panic(err) // every value of a plan can be written as JSON
	}
	return text
}

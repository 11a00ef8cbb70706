package simulator

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/budget"
	"tenon.sh/engine/disruption"
	"tenon.sh/engine/provisioning"
)

// settled is how long a pod may wait for a machine before it is treated as forgotten. It is longer than the slowest usual boot and a second attempt
// together.
const settled = 15 * time.Minute

// replayEvery is the interval, in passes, between two runs of replay, because a pass without the cache takes longer.
const replayEvery = 4

// atEnd returns the state of the world at its end.
func (w *World) atEnd(ctx context.Context) AtEnd {
	s := w.cluster.snapshot(ctx)
	out := AtEnd{Machines: w.meter.machines, Pods: w.meter.pods, Waiting: len(w.cluster.unbound.list), Kept: map[engine.Code]int{}}
	for _, k := range w.passes.kept {
		out.Kept[k.Reason.Code]++
	}
	w.audit.noteStays()
	out.Idle = w.forgotten(s)
	for _, m := range w.markets.list {
		if m.cloud == nil {
			continue
		}
		for _, boot := range m.cloud.Boots() {
			if claim, ok := w.cluster.claims.get(boot.Claim); !boot.Leaving && (!ok || claim.Status.ProviderID != string(boot.ID)) {
				out.Leaked++
			}
		}
	}
	return out
}

// forgotten returns the number of pods that have waited longer than settled although a plan finds a place for them.
func (w *World) forgotten(s *engine.Snapshot) int {
	plan := provisioning.Plan(s, w.cfg.Options, nil)
	hopeless := map[engine.PodID]bool{}
	for _, u := range plan.Unplaced {
		hopeless[u.Pod] = true
	}
	n := 0
	for _, u := range w.cluster.unbound.list {
		id := engine.PodID{Namespace: u.pod.Namespace, Name: u.pod.Name, UID: u.pod.UID}
		if !hopeless[id] && w.agenda.now.Sub(u.pod.CreationTimestamp.Time) > settled {
			n++
		}
	}
	return n
}

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

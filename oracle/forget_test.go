package oracle

import (
	"reflect"
	"sync/atomic"
	"testing"

	"tenon.sh/engine/enginetest"
	"tenon.sh/engine/provisioning"
)

// An engine without a rule makes plans that kube-scheduler does not accept, or refuses pods that it would accept. The judge notices that within
// 5,000 placements, for each rule. The engine plans for a cluster from which the rule was removed, and the judge checks the plan in the original
// cluster. ORACLE_FORGOTTEN is the number of placements, ORACLE_SEED the first seed. With fewer than 5,000 placements, most rules must be
// noticed, but not all. make test tries one rule in ten. make test-draws and make oracle try all.
func TestAnyRuleThatTheEngineForgetsIsFound(t *testing.T) {
	t.Parallel()
	most, first := number(t, "ORACLE_FORGOTTEN", 500), number(t, "ORACLE_SEED", 1)
	rules := forgettable()
	rules = rules[:enginetest.Draws(len(rules))]
	var missed atomic.Int32
	t.Run("rules", func(t *testing.T) {
		for _, a := range rules {
			t.Run(a.rule, func(t *testing.T) {
				t.Parallel()
				found, placements := a.isMissed(t, uint64(first), most)
				switch {
				case found != "":
					t.Logf("found after %d placements: %s", placements, found)
				case most < 5000:
					missed.Add(1)
					t.Logf("not found in %d placements", placements)
				default:
					t.Errorf("no plan for %d pods is found wrong without the rule", placements)
				}
			})
		}
	})
	if n := int(missed.Load()); n > len(rules)/3 {
		t.Errorf("%d of %d rules are not found in %d placements", n, len(rules), most)
	}
}

// isMissed looks for a plan that is wrong because the engine does not know the rule. It returns the fault, or "" if it finds none.
func (a ablation) isMissed(t *testing.T, seed uint64, most int) (found string, placements int) {
	scheduler := open(t)
	for ; placements < most; seed++ {
		whole, opt := Draw(seed), options(seed)
		part, without := deepCopy(whole), opt
		a.apply(part)
		if a.options != nil {
			a.options(&without)
		}
		plan := provisioning.Plan(part, without, nil)
		if reflect.DeepEqual(whole, part) && reflect.DeepEqual(opt, without) {
			placements += len(plan.Sequence)
			continue
		}
		j := &Judge{Scheduler: scheduler, Seed: seed, DefaultConstraints: opt.DefaultConstraints, Preferences: opt.Preferences, Others: -1}
		report, err := j.Judge(whole, plan)
		placements += report.Placements
		if len(report.Disagreements) > 0 { // the scheduler may not be able to continue with a wrong plan
			return report.Disagreements[0].String(), placements
		}
		do(t, err)
	}
	return "", placements
}

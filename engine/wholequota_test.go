package engine_test

import (
	"math"
	"testing"

	"tenon.sh/engine"
	"tenon.sh/engine/disruption"
	"tenon.sh/engine/enginetest"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario"
	"tenon.sh/scenario/scenariotest"
)

const quotaSeeds = 300

func rationedClusters(t *testing.T, law func(seed uint64, s *engine.Snapshot)) {
	for seed := range enginetest.Draws(quotaSeeds) {
		law(seed, scenario.Random(seed, scenario.Size{Topology: seed%2 == 0, Quotas: true, Nodes: 12}))
	}
}

// overQuota returns the quota that the launches exceed if each becomes its listed offering with the largest use. It returns "" if there is none.
// Unlike the engine, it ignores the use of machines that the quotas do not count yet.
func overQuota(s *engine.Snapshot, launches []engine.Launch) string {
	uses := map[engine.OfferingID][]engine.QuotaUse{}
	for _, c := range s.Classes {
		for _, t := range c.InstanceTypes {
			for _, o := range t.Offerings {
				uses[engine.OfferingID{InstanceType: t.Name, Zone: o.Zone, CapacityType: o.CapacityType, Reservation: o.Reservation}] = o.Quotas
			}
		}
	}
	sum := map[string]int64{}
	for _, l := range launches {
		most := map[string]int64{}
		for _, o := range l.Offerings {
			for _, u := range uses[o.OfferingID] {
				most[u.Quota] = max(most[u.Quota], u.Units)
			}
		}
		for name, n := range most {
			sum[name] += n
		}
	}
	for _, c := range s.Classes {
		for _, q := range c.Quotas {
			if sum[q.Name] > max(q.Left, 0) {
				return q.Name
			}
		}
	}
	return ""
}

func TestNoPlanStartsMoreThanQuotasLeave(t *testing.T) {
	t.Parallel()
	started, refused := 0, 0
	rationedClusters(t, func(seed uint64, s *engine.Snapshot) {
		plan := provisioning.Plan(s, engine.Options{}, nil)
		if name := overQuota(s, plan.Launches); name != "" {
			t.Errorf("seed %d: quota %s is exceeded", seed, name)
		}
		started += len(plan.Launches)
		for _, u := range plan.Unplaced {
			for _, r := range u.Reasons {
				if r.Code == engine.QuotaExceeded {
					refused++
				}
			}
		}
	})
	if started == 0 || refused == 0 {
		t.Errorf("%d machines are started and %d refusals name a quota: the clusters prove nothing", started, refused)
	}
}

func TestReplacementsStayWithinQuotas(t *testing.T) {
	t.Parallel()
	replaced := 0
	rationedClusters(t, func(seed uint64, s *engine.Snapshot) {
		s = scenariotest.Drifting(s)
		var launches []engine.Launch
		for _, d := range disruption.Plan(s, engine.Options{}, nil).Disruptions {
			launches = append(launches, d.Replacements...)
		}
		replaced += len(launches)
		if name := overQuota(s, launches); name != "" {
			t.Errorf("seed %d: quota %s is exceeded by replacements", seed, name)
		}
	})
	if replaced == 0 {
		t.Error("nothing is replaced: the clusters prove nothing")
	}
}

func TestQuotasThatCannotRunOutChangeNothing(t *testing.T) {
	t.Parallel()
	rationedClusters(t, func(seed uint64, s *engine.Snapshot) {
		free := *s
		free.Classes = nil
		for _, c := range s.Classes {
			c.Quotas = nil
			free.Classes = append(free.Classes, c)
		}
		for i := range s.Classes {
			for j := range s.Classes[i].Quotas {
				s.Classes[i].Quotas[j].Left = math.MaxInt64 / 4
			}
		}
		want, got := provisioning.Plan(&free, engine.Options{}, nil), provisioning.Plan(s, engine.Options{}, nil)
		if scenariotest.Text(t, got) != scenariotest.Text(t, want) {
			t.Errorf("seed %d: another plan with quotas that have no end:\n%s", seed, scenariotest.FirstDifference(scenariotest.Text(t, got), scenariotest.Text(t, want)))
		}
	})
}

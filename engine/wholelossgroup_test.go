package engine_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"tenon.sh/engine"
	"tenon.sh/engine/enginetest"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario"
	"tenon.sh/scenario/scenariotest"
)

// In any cluster, machines are the machines of the plan without division, with the same or shorter lists. So no owner can lose more pods at
// once. Each machine is dearer by at most the allowed share, and no rule is broken. No list is shortened without an effect.
func TestLawWhatIsLostTogetherIsNeverMore(t *testing.T) {
	t.Parallel()
	divided, better := 0, 0
	scenariotest.EachRandom(t, func(t *testing.T, seed uint64, s *engine.Snapshot) {
		s, _ = scenariotest.Sharing(seed, s)
		for _, share := range []float64{0, 0.1, 1e-9} {
			with := engine.Options{SpotSpreadShare: share}
			plan, without := provisioning.Plan(s, with, nil), provisioning.Plan(s, engine.Options{SpotSpreadShare: -1}, nil)
			for _, fault := range faults(s, plan) {
				t.Errorf("seed %d: %s", seed, fault)
			}
			if len(plan.Launches) != len(without.Launches) || fmt.Sprint(plan.Placements, plan.Sequence, plan.Unplaced) != fmt.Sprint(without.Placements, without.Sequence, without.Unplaced) {
				t.Fatalf("seed %d: other machines, or other places\n%s\nnot\n%s", seed, scenario.Print(plan), scenario.Print(without))
			}
			cuts, gains := 0, 0
			limit := 1 + with.EffectiveSpotSpreadShare() + 1e-12
			for i, l := range plan.Launches {
				other := without.Launches[i]
				if !slices.Equal(l.Pods, other.Pods) || l.NodePool != other.NodePool || l.Price > other.Price*limit || l.Worst() > other.Worst() {
					t.Errorf("seed %d: %s costs %v for %v, and %v for %v without", seed, l.Name, l.Price, l.Pods, other.Price, other.Pods)
				}
				for _, o := range l.Offerings {
					if !slices.Contains(other.Offerings, o) {
						t.Errorf("seed %d: %s lists %s, which it does not without", seed, l.Name, o.OfferingID)
					}
				}
				if (len(l.Offerings) < len(other.Offerings)) != (l.Why.Division != nil) {
					t.Errorf("seed %d: %s lists %d of %d, because %v", seed, l.Name, len(l.Offerings), len(other.Offerings), l.Why.Division)
				}
				if l.Why.Division != nil {
					cuts++
				}
			}
			most, total := scenariotest.LostAtOnce(s, plan)
			before, _ := scenariotest.LostAtOnce(s, without)
			for name := range total {
				if most[name] > before[name] {
					t.Errorf("seed %d: of the %d pods of %s %d can be lost at once, and %d without", seed, total[name], name, most[name], before[name])
				}
				if most[name] < before[name] {
					gains++
				}
			}
			if cuts > 0 && gains == 0 {
				t.Errorf("seed %d: %d lists are shorter, and as much as before of each owner can be lost at once", seed, cuts)
			}
			divided, better = divided+cuts, better+gains
		}
	})
	if divided < 10 || better < 10 {
		t.Errorf("%d lists are shorter, and less of %d owners can be lost at once: the random clusters do not try it", divided, better)
	}
}

// The test reports the pods that can be lost at once, and the cost of the division, in a catalog like EC2's: forty owners, five seeds.
func TestWhatFewerLossesCost(t *testing.T) {
	t.Parallel()
	var clusters []*engine.Snapshot
	for seed := range enginetest.Few(5) {
		rng := rand.New(rand.NewPCG(seed+1, 1))
		lines := []string{"catalog aws", "pool general karpenter.k8s.aws/instance-category in (c,m,r) arch in (amd64) karpenter.k8s.aws/instance-generation > 4 capacity in (spot,on-demand)"}
		for o := range 40 {
			lines = append(lines, fmt.Sprintf("pods w%d x%d cpu=%dm mem=%dMi owner=Deployment", o, 2+rng.IntN(20), 250*(1+rng.IntN(8)), 512*(1+rng.IntN(16))))
		}
		clusters = append(clusters, scenariotest.Cluster(t, lines...))
	}
	measure := func(share float64) (cost, mean float64) {
		owners, listed, machines := 0, 0, 0
		for _, s := range clusters {
			plan := provisioning.Plan(s, engine.Options{SpotSpreadShare: share}, nil)
			cost += plan.Cost.LaunchesPerHour
			most, total := scenariotest.LostAtOnce(s, plan)
			for name, n := range total {
				mean += float64(most[name]) / float64(n)
				owners++
			}
			for _, l := range plan.Launches {
				listed, machines = listed+len(l.Offerings), machines+1
			}
		}
		mean /= float64(owners)
		t.Logf("share %v: %.2f USD/h, %.0f %% of an owner can be lost at once, %.1f offerings for each of %d machines", share, cost, 100*mean, float64(listed)/float64(machines), machines)
		return cost, mean
	}
	cost, mean := measure(-1)
	for _, share := range []float64{0.02, 0.05, 0.15} {
		if c, m := measure(share); c > cost*(1+share) || m > mean-0.1 {
			t.Errorf("share %v: %v USD/h and %.2f of an owner, %v and %.2f without", share, c, m, cost, mean)
		}
	}
}

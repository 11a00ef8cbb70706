package lossgroup_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"tenon.sh/engine"
	"tenon.sh/engine/enginetest"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario"
	"tenon.sh/scenario/scenariotest"
)

// A cache that has seen the cluster without this division gives the same plan.
func TestLawCachesKnowWhatIsLostTogether(t *testing.T) {
	t.Parallel()
	scenariotest.EachRandom(t, func(t *testing.T, seed uint64, s *engine.Snapshot) {
		s, _ = scenariotest.Sharing(seed, s)
		cache := &inventory.Cache{}
		for _, share := range []float64{-1, 0, 0.2} {
			opt := engine.Options{SpotSpreadShare: share}
			if got, want := scenariotest.Text(t, provisioning.Plan(s, opt, cache)), scenariotest.Text(t, provisioning.Plan(s, opt, nil)); got != want {
				t.Errorf("seed %d, %v: %s", seed, share, scenariotest.FirstDifference(got, want))
			}
		}
	})
}

// If an owner has a machine for each of its pods, at most half of the pods are lost at once, or as few as their number permits. That holds if
// two zones or two types cost about the same. Running pods count too.
func TestLawNoMoreThanHalfOfAnOwnerIsLostAtOnce(t *testing.T) {
	t.Parallel()
	const within, beyond = 1.015, 1.05
	for seed := range enginetest.Draws(200) {
		rng := rand.New(rand.NewPCG(seed, 53))
		zones, types := 1+rng.IntN(4), 1+rng.IntN(4)
		if zones == 1 && types == 1 {
			zones = 2
		}
		var text strings.Builder
		text.WriteString("pool spot capacity in (spot)\n")
		cheap, cheapZones := 0, map[int]bool{}
		for kind := range types {
			fmt.Fprintf(&text, "type t%d cpu=2 mem=4Gi", kind)
			for zone := range zones {
				factor := 1.0
				if kind+zone > 0 {
					factor = []float64{1, within, beyond}[rng.IntN(3)]
				}
				if factor != beyond {
					cheapZones[zone] = true
					cheap++
				}
				fmt.Fprintf(&text, " offer=(zone=z%d capacity=spot price=%v)", zone, 0.02*factor)
			}
			text.WriteString("\n")
		}
		replicas, running := 2+rng.IntN(9), rng.IntN(4)
		fmt.Fprintf(&text, "pods web x%d cpu=1500m owner=Deployment/web\n", replicas)
		for i := range running {
			fmt.Fprintf(&text, "node n%d pool=spot type=t0 zone=z0 capacity=spot\npod old-%d cpu=1500m owner=Deployment/web node=n%d\n", i, i, i)
		}
		f, err := scenario.Parse(text.String())
		if err != nil {
			t.Fatal(err)
		}
		plan := provisioning.Plan(f.Snapshot, engine.Options{}, nil)
		most, total := scenariotest.LostAtOnce(f.Snapshot, plan)
		name := "ReplicaSet default/web"
		if n := total[name]; n != replicas+running || len(plan.Launches) != replicas {
			t.Fatalf("seed %d: %d pods on %d machines\n%s", seed, n, len(plan.Launches), text.String())
		}
		allowed := replicas + running
		if len(cheapZones) > 1 || zones == 1 && cheap > 1 {
			allowed = max(running, (replicas+running+1)/2)
		}
		if most[name] > allowed {
			t.Errorf("seed %d: %d of %d can be lost at once, %d zones cost about the same\n%s\n%s", seed, most[name], total[name], len(cheapZones), text.String(), scenario.Print(plan))
		}
	}
}

// Machines without a cost are divided without a cost.
func TestWhatCostsNothingIsNoDearer(t *testing.T) {
	t.Parallel()
	s := scenariotest.Cluster(t, "pool general capacity in (spot)", "type small cpu=2 mem=4Gi zones=a,b spot=0", "pods web x2 cpu=1500m owner=Deployment")
	plan := provisioning.Plan(s, engine.Options{}, nil)
	scenariotest.Text(t, plan) // fails for a number that JSON cannot represent
	if n := len(plan.Launches); n != 2 || plan.Launches[0].Offerings[0].Zone == plan.Launches[1].Offerings[0].Zone || plan.Launches[1].Why.Division.Dearer != 0 {
		t.Errorf("%s", scenario.Print(plan))
	}
}

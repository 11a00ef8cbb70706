package provisioning_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"tenon.sh/engine"
	"tenon.sh/engine/enginetest"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario/scenariotest"
)

// The cost of nodes beside their machines does not change how many times the usual price pods wait for.
func TestPodsWaitForTheUsualPriceWhateverNodesCost(t *testing.T) {
	t.Parallel()
	lines := []string{"pool p", "type usual cpu=2 mem=4Gi price=0.01 sold-out", "type rather cpu=2 mem=4Gi price=0.03", "pod web cpu=1"}
	if plan := provisioning.Plan(scenariotest.Cluster(t, append(lines, "node-overhead-price 1")...), engine.Options{}, nil); len(plan.Launches) != 1 {
		t.Errorf("three times the usual price is paid at once, whatever nodes cost: %s", scenariotest.Text(t, plan))
	}
	lines[2] = "type dear cpu=2 mem=4Gi price=0.05"
	plain, with := scenariotest.Cluster(t, lines...), scenariotest.Cluster(t, append(lines, "node-overhead-price 1")...)
	a, b := provisioning.Plan(plain, engine.Options{}, nil), provisioning.Plan(with, engine.Options{}, nil)
	if len(a.Unplaced) != 1 || !reflect.DeepEqual(a.Unplaced, b.Unplaced) {
		t.Errorf("without: %v\nwith: %v", a.Unplaced, b.Unplaced)
	}
	if r := a.Unplaced[0].Reasons[0]; r.Code != engine.CheaperSoldOut {
		t.Errorf("it waits for another reason: %v", r)
	}
}

// Even if the cloud has sold out offerings without saying so, a pod that has waited for a time pays at most four times the usual price,
// twice as much after each five minutes; and once a cheap offering is back, it gets that.
func TestLawPodsWaitBeforeTheyPayManyTimesThePrice(t *testing.T) {
	t.Parallel()
	for seed := range enginetest.Draws(20) {
		random := rand.New(rand.NewPCG(seed, 6))
		lines := []string{"pool general", "pod web cpu=1 zone in (b)"}
		for i := range 10 {
			lines = append(lines, fmt.Sprintf("type t%d cpu=%d mem=%dGi zones=a,b price=%.3f spot=%.3f", i, 2<<i, 4<<i,
				0.08*math.Exp2(float64(i)), 0.08*math.Exp2(float64(i))*(0.2+0.6*random.Float64())))
		}
		s := scenariotest.Cluster(t, lines...)
		began, back := s.Pods[0].CreationTimestamp.Time, 10+random.IntN(50)
		refused, launches := map[engine.OfferingID]time.Time{}, 0
		for s.Now.Sub(began) < 2*time.Hour {
			s = at(s, s.Now.Add(10*time.Second), refused)
			waited := s.Now.Sub(began)
			plan := provisioning.Plan(s, engine.Options{}, nil)
			if len(plan.Launches) == 0 {
				continue
			}
			launches++
			l := plan.Launches[0]
			if most := 0.08 * 4 * math.Exp2(waited.Minutes()/5); l.Price > most*1.001 {
				t.Fatalf("seed %d: after %v the pod pays %.3f, at most %.3f is right", seed, waited, l.Price, most)
			}
			if waited > time.Duration(back)*time.Minute && l.Price <= 0.16 || l.Price > 0.08*256 {
				break // it is started
			}
			for _, o := range l.Offerings {
				refused[o.OfferingID] = s.Now
			}
		}
		if waited := s.Now.Sub(began); waited > time.Duration(back+6)*time.Minute && waited > 45*time.Minute {
			t.Errorf("seed %d: the cheapest was back after %d minutes, and the pod has waited for %v", seed, back, waited)
		}
		if most := 10 * 2 * 45 / 3; launches > most {
			t.Errorf("seed %d: %d launches", seed, launches)
		}
	}
}

// at returns the snapshot at a later time; offerings that were refused within the last three minutes count as sold out.
func at(s *engine.Snapshot, now time.Time, refused map[engine.OfferingID]time.Time) *engine.Snapshot {
	next := *s
	next.Now, next.Classes = now, slices.Clone(s.Classes)
	class := &next.Classes[0]
	class.InstanceTypes = slices.Clone(class.InstanceTypes)
	for i := range class.InstanceTypes {
		kind := &class.InstanceTypes[i]
		kind.Offerings = slices.Clone(kind.Offerings)
		for j := range kind.Offerings {
			o := &kind.Offerings[j]
			since, asked := refused[engine.OfferingID{InstanceType: kind.Name, Zone: o.Zone, CapacityType: o.CapacityType}]
			o.SoldOut = asked && now.Sub(since) < 3*time.Minute
		}
	}
	return &next
}

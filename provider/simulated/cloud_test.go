package simulated_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider"
	"tenon.sh/provider/catalog"
	"tenon.sh/provider/simulated"
)

// sky is a cloud with its clock.
type sky struct {
	*simulated.Cloud
	clock *testclock.FakePassiveClock
}

func newSky(t *testing.T, cfg simulated.Config) sky {
	t.Helper()
	clock := testclock.NewFakePassiveClock(start)
	cfg.Clock = clock
	if cfg.Catalog == nil {
		cfg.Catalog = catalog.KWOK()
	}
	cloud, err := simulated.NewCloud(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return sky{cloud, clock}
}

func (s sky) at(d time.Duration) { s.clock.SetTime(start.Add(d)) }

// fleet requests n machines at the given offerings.
func (s sky) fleet(t *testing.T, name string, n int, ids ...engine.OfferingID) simulated.FleetResult {
	t.Helper()
	f := simulated.Fleet{}
	for i := range n {
		f.Targets = append(f.Targets, simulated.Target{Claim: fmt.Sprintf("%s-%d", name, i), ClaimUID: fmt.Sprintf("uid-%s-%d", name, i)})
	}
	for _, id := range ids {
		f.Overrides = append(f.Overrides, simulated.Override{OfferingID: id})
	}
	result, err := s.CreateFleet(f)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

var (
	spotA     = engine.OfferingID{InstanceType: "c-4x-amd64-linux", Zone: "test-zone-a", CapacityType: "spot"}
	spotB     = engine.OfferingID{InstanceType: "c-4x-amd64-linux", Zone: "test-zone-b", CapacityType: "spot"}
	onDemandA = engine.OfferingID{InstanceType: "c-4x-amd64-linux", Zone: "test-zone-a", CapacityType: "on-demand"}
	onDemandB = engine.OfferingID{InstanceType: "c-4x-amd64-linux", Zone: "test-zone-b", CapacityType: "on-demand"}
)

func profile(t *testing.T, name string) simulated.Profile {
	t.Helper()
	p, err := simulated.ProfileByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestEveryProfileRunsADayWithoutTrouble(t *testing.T) {
	for _, name := range simulated.ProfileNames() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSky(t, simulated.Config{Seed: 3, Profile: profile(t, name), Catalog: catalog.AWS()})
			p := simulated.New(s.Cloud)
			launched := 0
			for hour := range 24 {
				s.at(time.Duration(hour) * time.Hour)
				families := v1.Requirement{Key: "karpenter.k8s.aws/instance-family", Operator: v1.In, Values: []string{"c6g", "m8g", "g5"}}
				claim := newClaim(t, fmt.Sprintf("claim-%d", hour), []v1.Requirement{families}, nil)
				_, err := p.Launch(t.Context(), claim, readyClass())
				soldOut, throttled := (*provider.SoldOutError)(nil), (*provider.ThrottledError)(nil)
				if err != nil && !errors.As(err, &soldOut) && !errors.As(err, &throttled) {
					t.Fatal(err)
				}
				if err == nil {
					launched++
				}
			}
			if c := s.Counters(); c.Launches != launched || launched < 12 || c.Cost <= 0 {
				t.Errorf("%d launched; counters %+v", launched, c)
			}
		})
	}
	if _, err := simulated.ProfileByName("sunny"); err == nil || !strings.Contains(err.Error(), "instant, fixed30") {
		t.Errorf("an unknown profile: %v", err)
	}
}

func TestLinuxMachinesBootAsFastAsReported(t *testing.T) {
	p := simulated.Profile{Boot: profile(t, "aws-typical").Boot}
	p.Boot.SlowTail, p.Boot.QueueAbove = 0, 0
	for _, c := range []struct {
		id            engine.OfferingID
		p50, p90, p99 float64
	}{
		{onDemandA, 34, 46, 58},
		{spotA, 36, 50, 66},
		{engine.OfferingID{InstanceType: "c-4x-amd64-windows", Zone: "test-zone-a", CapacityType: "on-demand"}, 105, 136, 169},
	} {
		s := newSky(t, simulated.Config{Profile: p})
		f := simulated.Fleet{}
		for i := range 4000 {
			f.Targets = append(f.Targets, simulated.Target{Claim: fmt.Sprint(i)})
		}
		os := strings.Split(c.id.InstanceType, "-")[3]
		f.Overrides = []simulated.Override{{OfferingID: c.id, Labels: map[string]string{"kubernetes.io/os": os, "karpenter.sh/capacity-type": c.id.CapacityType}}}
		if _, err := s.CreateFleet(f); err != nil {
			t.Fatal(err)
		}
		seconds := []float64{}
		for _, b := range s.Boots() {
			if !b.Registers.Before(b.Ready) {
				t.Fatalf("registers %v, ready %v", b.Registers, b.Ready)
			}
			seconds = append(seconds, b.Ready.Sub(start).Seconds())
		}
		slices.Sort(seconds)
		for _, q := range []struct{ share, want float64 }{{.5, c.p50}, {.9, c.p90}, {.99, c.p99}} {
			if got := seconds[int(q.share*4000)]; math.Abs(got-q.want) > 0.08*q.want {
				t.Errorf("%s: quantile %.2f is %.1f s, want about %.0f s", c.id, q.share, got, q.want)
			}
		}
	}
}

func TestShortagesTakeTheirShareOfTheTime(t *testing.T) {
	p := simulated.Profile{Shortage: simulated.ShortageModel{
		Common: simulated.Shortage{Share: 0.10, Mean: 30 * time.Minute}, SpotCommon: simulated.Shortage{Share: 0.3, Mean: time.Hour},
	}}
	s := newSky(t, simulated.Config{Seed: 5, Profile: p})
	refused, together, n := map[engine.OfferingID]int{}, 0, 0
	for at := time.Duration(0); at < 100*24*time.Hour; at += 10 * time.Minute {
		s.at(at)
		short := map[engine.OfferingID]bool{}
		for _, id := range []engine.OfferingID{spotA, spotB, onDemandA} {
			short[id] = s.Short(id)
			if short[id] {
				refused[id]++
			}
		}
		if short[spotA] && short[spotB] {
			together++
		}
		n++
	}
	for id, want := range map[engine.OfferingID]float64{spotA: 0.3, spotB: 0.3, onDemandA: 0.10} {
		if got := float64(refused[id]) / float64(n); math.Abs(got-want) > want/3 {
			t.Errorf("%s is short %.3f of the time, want about %.2f", id, got, want)
		}
	}
	if got := float64(together) / float64(n); got < 0.12 { // 0.09 if zones were independent
		t.Errorf("two zones are short together %.3f of the time: they should share shortages", got)
	}
}

func TestAFleetInAShortageIsPartlyMet(t *testing.T) {
	p := simulated.Profile{Shortage: simulated.ShortageModel{SpotCommon: simulated.Shortage{Share: 0.5, Mean: 10 * time.Hour}}}
	partial := 0
	for seed := range uint64(40) {
		s := newSky(t, simulated.Config{Seed: seed, Profile: p})
		result := s.fleet(t, "a", 40, spotA)
		if !s.Short(spotA) {
			if len(result.Machines) != 40 || len(result.Errors) != 0 {
				t.Errorf("seed %d: ample, yet %d machines and errors %v", seed, len(result.Machines), result.Errors)
			}
			continue
		}
		if len(result.Machines) > 15 || len(result.Errors) != 1 || result.Errors[0] != (simulated.OverrideError{OfferingID: spotA, Code: simulated.CodeNoCapacity}) {
			t.Errorf("seed %d: short, yet %d machines and errors %v", seed, len(result.Machines), result.Errors)
		}
		if len(result.Machines) > 0 {
			partial++
		}
	}
	if partial == 0 {
		t.Error("no fleet was met in part")
	}
}

func TestAFleetFallsBackToItsNextOverride(t *testing.T) {
	s := newSky(t, simulated.Config{})
	sellOut(t, s.Cloud, spotA)
	result := s.fleet(t, "a", 2, spotA, spotB)
	if len(result.Machines) != 2 || simulated.OfferingOf(result.Machines[1]) != spotB || len(result.Errors) != 1 {
		t.Errorf("%+v", result)
	}
	if _, err := s.CreateFleet(simulated.Fleet{Overrides: []simulated.Override{{OfferingID: engine.OfferingID{InstanceType: "x"}}}}); err == nil {
		t.Error("something was bought that is not sold")
	}
}

func TestCallsAreThrottledByTokenBuckets(t *testing.T) {
	p := simulated.Profile{Throttle: simulated.ThrottleModel{Launch: simulated.Bucket{Size: 3, PerSecond: 0.5}, LaunchMachines: simulated.Bucket{Size: 100, PerSecond: 1}}}
	s := newSky(t, simulated.Config{Profile: p})
	call := func(name string) error {
		_, err := s.CreateFleet(simulated.Fleet{Targets: []simulated.Target{{Claim: name}}, Overrides: []simulated.Override{{OfferingID: spotA}}})
		return err
	}
	for i := range 3 {
		if err := call(fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	throttled := (*provider.ThrottledError)(nil)
	if err := call("3"); !errors.As(err, &throttled) || throttled.RetryAfter != 2*time.Second {
		t.Fatalf("got %v, want a wait of 2 s", err)
	}
	s.at(throttled.RetryAfter)
	if err := call("3"); err != nil {
		t.Errorf("after the wait: %v", err)
	}
	if got := s.Counters().Throttled["Launch"]; got != 1 {
		t.Errorf("%d calls counted as throttled", got)
	}
}

func TestReadsLagBehindButTheProviderKnowsItsOwn(t *testing.T) {
	p := simulated.Profile{Lag: simulated.LagModel{Describe: simulated.Stage{Median: 5 * time.Second}, List: 10 * time.Second}}
	s := newSky(t, simulated.Config{Profile: p})
	mine := simulated.New(s.Cloud)
	m, err := mine.Launch(t.Context(), newClaim(t, "a", nil, nil), readyClass())
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		at           time.Duration
		read, listed bool
	}{{0, false, false}, {5 * time.Second, true, false}, {15 * time.Second, true, true}} {
		s.at(step.at)
		_, err := s.Describe(m.ID)
		list, _ := s.List()
		if read, listed := err == nil, len(list) == 1; read != step.read || listed != step.listed {
			t.Errorf("after %v: read %v, listed %v; want %v, %v", step.at, read, listed, step.read, step.listed)
		}
		if _, err := mine.Machine(t.Context(), m.ID); err != nil {
			t.Errorf("after %v the provider does not know its machine: %v", step.at, err)
		}
		if all, _ := mine.Machines(t.Context()); len(all) != 1 {
			t.Errorf("after %v the provider lists %v", step.at, all)
		}
	}
}

func TestReclaimsComeInBatchesWithNotice(t *testing.T) {
	p := simulated.Profile{Spot: simulated.SpotModel{Hazard: 0.05, SoldOutFor: time.Hour, Notice: 2 * time.Minute}}
	s := newSky(t, simulated.Config{Seed: 1, Profile: p})
	s.fleet(t, "spot", 50, spotA)
	s.fleet(t, "od", 50, onDemandA)
	first := map[engine.MachineID]time.Duration{}
	for minute := range 10 * 24 * 60 {
		s.at(time.Duration(minute) * time.Minute)
		for _, n := range s.Notices() {
			if _, seen := first[n.Machine]; !seen {
				first[n.Machine] = time.Duration(minute) * time.Minute
				if simulated.OfferingOf(mustInspect(t, s, n.Machine)) != spotA || n.Kind != "SpotInterruption" {
					t.Errorf("notice %+v", n)
				}
			}
		}
	}
	gone, late := 50, 0
	for _, b := range s.Boots() {
		if strings.HasPrefix(b.Claim, "spot") {
			gone--
		}
	}
	times := []time.Duration{}
	for _, at := range first {
		times = append(times, at)
	}
	slices.Sort(times)
	for i := 1; i < len(times); i++ {
		if times[i]-times[i-1] > 4*time.Minute {
			late++
		}
	}
	if gone < 25 || gone != len(first) || late > 8 {
		t.Errorf("%d of 50 taken, %d notices in %d batches", gone, len(first), late+1)
	}
	if c := s.Counters(); c.Reclaimed != gone || c.Died != 0 {
		t.Errorf("counters %+v", c)
	}
	if len(s.Boots())-(50-gone) != 50 {
		t.Error("on-demand machines were taken")
	}
}

func TestANoticeComesAgainUntilItIsAcknowledged(t *testing.T) {
	s := newSky(t, simulated.Config{Profile: simulated.Profile{Spot: simulated.SpotModel{Notice: 10 * time.Minute}}})
	p := simulated.New(s.Cloud)
	s.fleet(t, "a", 1, spotA)
	inject(t, s, simulated.Fault{What: simulated.FaultReclaim, Share: 1})
	s.at(4 * time.Minute)
	for range 2 {
		if list, err := p.Notices(t.Context()); err != nil || len(list) != 1 || list[0].Machine != "simulated://a-0" {
			t.Fatalf("notices %v, %v", list, err)
		}
	}
	list, _ := p.Notices(t.Context())
	if err := p.Acknowledge(t.Context(), list[0]); err != nil {
		t.Fatal(err)
	}
	if list, _ := p.Notices(t.Context()); len(list) != 0 {
		t.Errorf("acknowledged, yet there: %v", list)
	}
	s.at(14 * time.Minute)
	if _, err := p.Machine(t.Context(), "simulated://a-0"); !errors.Is(err, provider.ErrGone) {
		t.Errorf("after the notice: %v, want ErrGone", err)
	}
}

func TestSpotPricesWanderBelowOnDemandAndTheListIsLate(t *testing.T) {
	s := newSky(t, simulated.Config{Seed: 2, Profile: simulated.Profile{Spot: simulated.SpotModel{PricesMove: true}}})
	listed := func() float64 {
		for _, it := range s.Catalog() {
			for _, o := range it.Offerings {
				if (engine.OfferingID{InstanceType: it.Name, Zone: o.Zone, CapacityType: o.CapacityType}) == spotA {
					return o.Price
				}
			}
		}
		return 0
	}
	before, changes := s.Price(spotA), 0
	base := before
	for step := range 200 {
		s.at(time.Duration(step) * 6 * time.Hour)
		now := s.Price(spotA)
		if now > s.Price(onDemandA) || math.Abs(now/base-1) > 0.5 {
			t.Errorf("day %d: spot %v, at first %v", step/4, now, base)
		}
		if now != before {
			changes++
		}
		if step%2 == 1 && now != before && listed() == now {
			t.Errorf("the list of prices knows a price of the last six hours")
		}
		before = now
	}
	if changes < 150 {
		t.Errorf("%d changes in 200 steps", changes)
	}
	if s.Price(onDemandA) != 0.117179869184-0.008589934592 {
		t.Errorf("the on-demand price moved to %v", s.Price(onDemandA))
	}
	a := s.Catalog()
	if b := s.Catalog(); &a[0] != &b[0] {
		t.Error("the catalog is copied although nothing changed")
	}
}

func TestMachinesAreBilledUntilTheyAreGone(t *testing.T) {
	s := newSky(t, simulated.Config{Profile: simulated.Profile{Termination: simulated.Stage{Median: time.Hour}}})
	s.fleet(t, "a", 2, onDemandA)
	price := s.Price(onDemandA)
	s.at(10 * time.Hour)
	if err := s.Terminate("simulated://a-0"); err != nil {
		t.Fatal(err)
	}
	s.at(100 * time.Hour)
	if _, err := s.List(); err != nil { // this forgets old machines
		t.Fatal(err)
	}
	if got, want := s.Counters().Cost, (11+100)*price; math.Abs(got-want) > 1e-9 {
		t.Errorf("cost %v, want %v", got, want)
	}
}

func TestQuotasRefuseWithTheirOwnCode(t *testing.T) {
	s := newSky(t, simulated.Config{Profile: simulated.Profile{Quota: simulated.Quota{OnDemandCPU: 9, SpotCPU: 4}}})
	if r := s.fleet(t, "a", 3, onDemandA); len(r.Machines) != 2 || r.Errors[0].Code != simulated.CodeCPUQuota {
		t.Errorf("on-demand: %d machines, %v", len(r.Machines), r.Errors)
	}
	if r := s.fleet(t, "b", 3, spotA); len(r.Machines) != 1 || r.Errors[0].Code != simulated.CodeSpotQuota {
		t.Errorf("spot: %d machines, %v", len(r.Machines), r.Errors)
	}
}

func TestSomeMachinesNeverRegisterOrNeverBecomeReadyOrFailLater(t *testing.T) {
	s := newSky(t, simulated.Config{Profile: simulated.Profile{NeverRegisters: 0.1, NeverReady: 0.1, FailsLater: 0.1, Boot: simulated.BootModel{Fixed: time.Minute}}})
	s.fleet(t, "a", 1000, onDemandA)
	never, notReady, ends := 0, 0, 0
	for _, b := range s.Boots() {
		switch {
		case !b.Ends.IsZero():
			ends++
		case b.Registers.IsZero():
			never++
		case b.Ready.IsZero():
			notReady++
		}
	}
	for what, n := range map[string]int{"never register": never, "are never ready": notReady, "fail later": ends} {
		if n < 60 || n > 140 {
			t.Errorf("%d of 1000 %s, want about 100", n, what)
		}
	}
}

func TestASoldOutOfferingIsTriedAgainAfterThreeMinutes(t *testing.T) {
	s := newSky(t, simulated.Config{})
	inject(t, s, simulated.Fault{What: simulated.FaultShort, For: metav1.Duration{Duration: time.Minute}})
	p := simulated.New(s.Cloud)
	claim := newClaim(t, "a", nil, nil)
	for _, step := range []struct {
		at time.Duration
		ok bool
	}{{0, false}, {2 * time.Minute, false}, {3 * time.Minute, true}} {
		s.at(step.at)
		if _, err := p.Launch(t.Context(), claim, readyClass()); (err == nil) != step.ok {
			t.Errorf("after %v: %v", step.at, err)
		}
	}
}

func TestTheSameSeedAndCallsMeetTheSameFate(t *testing.T) {
	run := func(seed uint64) string {
		cfg := simulated.Config{Seed: seed, Profile: profile(t, "aws-tight"), Faults: []simulated.Fault{
			{At: metav1.Duration{Duration: 3 * time.Hour}, What: simulated.FaultReclaim, Share: 0.5}}}
		s := newSky(t, cfg)
		for hour := range 48 {
			s.at(time.Duration(hour) * time.Hour)
			f := simulated.Fleet{Targets: []simulated.Target{{Claim: fmt.Sprint(hour)}}, Overrides: []simulated.Override{{OfferingID: spotA}, {OfferingID: spotB}, {OfferingID: onDemandB}}}
			_, _ = s.CreateFleet(f) // refusals are part of the outcome
		}
		return fmt.Sprintf("%+v %+v %+v", s.Boots(), s.Notices(), s.Counters())
	}
	first := run(1)
	if second := run(1); first != second {
		t.Error("two runs differ")
	}
	if first == run(2) {
		t.Error("another seed makes no difference")
	}
}

func TestNextIsWhenSomethingHappens(t *testing.T) {
	s := newSky(t, simulated.Config{Profile: simulated.Profile{Boot: simulated.BootModel{Fixed: 30 * time.Second}}})
	if _, found := s.Next(); found {
		t.Error("something will happen in an empty cloud")
	}
	s.fleet(t, "a", 1, onDemandA)
	if next, found := s.Next(); !found || !next.Equal(start.Add(30*time.Second)) {
		t.Errorf("next %v", next)
	}
	s.at(30 * time.Second)
	if next, found := s.Next(); found {
		t.Errorf("next %v", next)
	}
}

// The sorted list of events agrees with a search through all machines.
func TestNothingHappensToAMachineBeforeNext(t *testing.T) {
	t.Parallel()
	p := profile(t, "aws-typical")
	p.SilentDeaths, p.FailsLater, p.Spot.Hazard = 0.1, 0.1, 0.1
	p.Throttle = simulated.ThrottleModel{}
	s := newSky(t, simulated.Config{Seed: 5, Profile: p})
	before, ends, ended := map[engine.MachineID]bool{}, 0, 0
	for minute := range 24 * 60 {
		now := time.Duration(minute) * time.Minute
		s.at(now)
		boots := s.Boots()
		after := map[engine.MachineID]bool{}
		for i, b := range boots {
			after[b.ID] = true
			if minute%30 == 0 && i%5 == 0 {
				if err := s.Terminate(b.ID); err != nil {
					t.Fatal(err)
				}
			}
		}
		for id := range before {
			if !after[id] {
				ended++
				if s.Ends() == ends {
					t.Fatalf("minute %d: machine %s has ended, and nothing said so", minute, id)
				}
			}
		}
		if minute%10 == 0 {
			s.fleet(t, fmt.Sprintf("at-%d", minute), 3, spotA, onDemandA, spotB, onDemandB)
		}
		before, ends = map[engine.MachineID]bool{}, s.Ends()
		next, found := s.Next()
		for _, b := range s.Boots() {
			before[b.ID] = true
			for _, at := range []time.Time{b.Registers, b.Ready, b.Ends} {
				if at.After(start.Add(now)) && (!found || at.Before(next)) {
					t.Fatalf("minute %d: next is %v, but machine %s %+v", minute, next, b.ID, b)
				}
			}
		}
	}
	if ended < 100 {
		t.Errorf("only %d machines have ended: that shows little", ended)
	}
}

func mustInspect(t *testing.T, s sky, id engine.MachineID) engine.Machine {
	t.Helper()
	m, _, found := s.Inspect(id)
	if !found {
		t.Fatalf("no machine %s", id)
	}
	return m
}

func inject(t *testing.T, s sky, f simulated.Fault) {
	t.Helper()
	if err := s.Inject(f); err != nil {
		t.Fatal(err)
	}
}

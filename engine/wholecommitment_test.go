package engine_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/api/v1alpha1"
	"tenon.sh/engine"
	"tenon.sh/engine/disruption"
	"tenon.sh/engine/enginetest"
	"tenon.sh/engine/explain"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario/scenariotest"
)

// withoutWords returns the plan without the parts that report commitments.
func withoutWords(plan *engine.Plan) *engine.Plan {
	plan.Commitments = nil
	for i := range plan.Launches {
		plan.Launches[i].Commitment = ""
	}
	for i := range plan.Disruptions {
		for j := range plan.Disruptions[i].Replacements {
			plan.Disruptions[i].Replacements[j].Commitment = ""
		}
	}
	return plan
}

// A commitment that has ended, is used elsewhere or covers no offered machine changes no plan.
func TestLawCommitmentsWithNothingLeftChangeNothing(t *testing.T) {
	t.Parallel()
	scenariotest.EachRandom(t, func(t *testing.T, seed uint64, s *engine.Snapshot) {
		with := *s
		with.Commitments = []engine.Commitment{
			{Name: "b", Machines: 7, PricePerHour: 0.01, UsedElsewhere: 7}, {Name: "a", AmountPerHour: 5, Discount: 0.5, UsedElsewhere: 5},
			{Name: "ended", AmountPerHour: 1000, End: s.Now}, {Name: "none", Machines: 5, Requirements: in(corev1.LabelInstanceTypeStable, "no-such")},
		}
		for name, plan := range map[string]func(s *engine.Snapshot) *engine.Plan{"provision": provisionOf, "disrupt": disruptOf} {
			if got, want := scenariotest.Text(t, withoutWords(plan(&with))), scenariotest.Text(t, plan(s)); got != want {
				t.Errorf("seed %d, %s: %s", seed, name, scenariotest.FirstDifference(got, want))
			}
		}
		if got, want := explain.NewSavings(&with, engine.Options{}).NowPerHour, explain.NewSavings(s, engine.Options{}).NowPerHour; got != want {
			t.Errorf("seed %d: nodes cost %v, want %v", seed, got, want)
		}
	})
}

// A commitment of unlimited size has the same effect as on-demand machines that cost next to nothing.
func TestLawACommitmentWithoutAnEndIsAsGoodAsCheapMachines(t *testing.T) {
	t.Parallel()
	scenariotest.EachRandom(t, func(t *testing.T, seed uint64, s *engine.Snapshot) {
		with := paysAnyPrice(onDemandOnly(s))
		cheap := *with
		cheap.Classes = scenariotest.PricedAt(with.Classes, func(usd float64) float64 { return usd * engine.CoveredPart })
		with.Commitments = []engine.Commitment{{Name: "all", Machines: 1_000_000, PricePerHour: 0.01}}
		if got, want := scenariotest.Text(t, withoutWords(provisionOf(with))), scenariotest.Text(t, provisionOf(&cheap)); got != want {
			t.Errorf("seed %d: %s", seed, scenariotest.FirstDifference(got, want))
		}
		got, want := explain.NewSavings(with, engine.Options{}), explain.NewSavings(&cheap, engine.Options{})
		for _, x := range []*explain.Savings{got, want} { // the cost of moving pods follows from full prices
			*x = explain.Savings{NowPerHour: x.NowPerHour, PlannedPerHour: x.PlannedPerHour, Planned: x.Planned, Staying: x.Staying}
		}
		if a, b := strings.ReplaceAll(jsonOf(t, got), " beside commitment all, which is paid anyway", ""), jsonOf(t, want); a != b {
			t.Errorf("seed %d, savings: %s", seed, scenariotest.FirstDifference(a, b))
		}
	})
}

// Commitments raise no plan's cost beside their own price. None is overdrawn, and the parts of each add up.
func TestLawCommitmentsMakeNoPlanDearer(t *testing.T) {
	t.Parallel()
	covered, saved := 0, 0
	scenariotest.EachRandom(t, func(t *testing.T, seed uint64, s *engine.Snapshot) {
		with := *s
		with.Commitments = someCommitments(seed, s)
		plan, plain := provisionOf(&with), provisionOf(s)
		if len(plan.Unplaced) > len(plain.Unplaced) || len(plan.Unplaced) == len(plain.Unplaced) && plan.Cost.LaunchesPerHour > plain.Cost.LaunchesPerHour*(1+1e-9) {
			t.Errorf("seed %d: %v for %d launches with commitments, %v for %d without", seed, plan.Cost.LaunchesPerHour, len(plan.Launches), plain.Cost.LaunchesPerHour, len(plain.Launches))
		}
		if plan.Cost.LaunchesPerHour < plan.Cost.Bound*(1-1e-9) {
			t.Errorf("seed %d: the plan costs %v, less than its bound of %v", seed, plan.Cost.LaunchesPerHour, plan.Cost.Bound)
		}
		if plan.Cost.LaunchesPerHour < plain.Cost.LaunchesPerHour*0.99 {
			saved++
		}
		bill := inventory.BillOfSnapshot(&with)
		for i, c := range bill.Commitments {
			takes := 0.0
			for _, l := range plan.Launches {
				if l.Commitment == c.Name {
					covered++
					takes += mostTaken(t, &with, l, c.Commitment)
				}
			}
			if takes > bill.Left[i]*(1+1e-9)+1e-6 {
				t.Errorf("seed %d: launches take %v of %s, which has %v left", seed, takes, c.Name, bill.Left[i])
			}
		}
		for _, u := range plan.Commitments {
			if sum := u.UsedPerHour + u.LaunchesPerHour + u.ElsewherePerHour + u.IdlePerHour; math.Abs(sum-u.CommittedPerHour) > 1e-6 {
				t.Errorf("seed %d: %+v does not add up", seed, u)
			}
		}
		slices.Reverse(with.Commitments)
		if got, want := scenariotest.Text(t, provisionOf(&with)), scenariotest.Text(t, plan); got != want {
			t.Errorf("seed %d: another order of commitments makes another plan: %s", seed, scenariotest.FirstDifference(got, want))
		}
	})
	if covered == 0 || saved == 0 {
		t.Errorf("%d launches are paid by commitments and %d plans are cheaper: the clusters prove nothing", covered, saved)
	}
}

// Consolidation claims no saving that the bill does not show, for machines of one type of which commitments pay some.
func TestLawSavingsOfDisruptionsAreOnTheBill(t *testing.T) {
	t.Parallel()
	claimed, covering := 0, 0
	for seed := range enginetest.Draws(150) {
		random := rand.New(rand.NewPCG(seed, 43))
		lines := []string{"pool general budget=100%"}
		for i, cpu := range []int{2, 4, 8, 16} {
			price := float64(cpu) * (0.04 + 0.01*random.Float64())
			lines = append(lines, fmt.Sprintf("type t%d cpu=%d mem=%dGi price=%.3f spot=%.3f", i, cpu, 4*cpu, price, price*(0.3+0.5*random.Float64())))
		}
		for i := range 3 + random.IntN(8) {
			kind := random.IntN(4)
			lines = append(lines, fmt.Sprintf("node n%d pool=general type=t%d capacity=%s quiet=10m", i, kind, []string{"spot", "on-demand"}[random.IntN(2)]))
			for j := range 1 + random.IntN(3) {
				lines = append(lines, fmt.Sprintf("pod p%d-%d cpu=%dm node=n%d owner=Deployment age=5h", i, j, (1+random.IntN(6))*100*(kind+1), i))
			}
		}
		with := scenariotest.Cluster(t, lines...)
		n := 1 + random.IntN(4)
		with.Commitments = []engine.Commitment{{Name: "some", Machines: n, PricePerHour: 0.01}}
		before := listPrices(with)
		for _, d := range disruptOf(with).Disruptions {
			if d.Reason != v1.Underutilized {
				continue
			}
			after := map[string]machinePrice{}
			for name, p := range before {
				if !slices.Contains(d.Nodes, name) {
					after[name] = p
				}
			}
			for _, l := range d.Replacements {
				after["new "+l.Name] = listPriceOf(t, with, l)
				if l.Commitment != "" {
					covering++
				}
			}
			claimed++
			if saves := billOf(before, n) - billOf(after, n); d.SavingPerHour > saves+1e-4 {
				t.Errorf("seed %d: %v is to save %v, and the bill falls by %v", seed, d.Nodes, d.SavingPerHour, saves)
			}
			before = after
		}
	}
	if claimed == 0 || covering == 0 {
		t.Errorf("%d moves save money, %d replacements are paid for: the clusters prove nothing", claimed, covering)
	}
}

// A cache that has seen other commitments gives the same plan.
func TestLawCachesKnowCommitments(t *testing.T) {
	t.Parallel()
	scenariotest.EachRandom(t, func(t *testing.T, seed uint64, s *engine.Snapshot) {
		cache := &inventory.Cache{}
		some := someCommitments(seed, s)
		more := slices.Clone(some)
		more[0].Machines++
		for i, list := range [][]engine.Commitment{nil, some, more, {{Name: "all", AmountPerHour: 1e6, Discount: 0.1}}, nil} {
			with := *s
			with.Commitments = list
			if got, want := scenariotest.Text(t, provisioning.Plan(&with, engine.Options{}, cache)), scenariotest.Text(t, provisionOf(&with)); got != want {
				t.Errorf("seed %d, list %d: %s", seed, i, scenariotest.FirstDifference(got, want))
			}
			if got, want := scenariotest.Text(t, disruption.Plan(&with, engine.Options{}, cache)), scenariotest.Text(t, disruptOf(&with)); got != want {
				t.Errorf("seed %d, list %d, disrupt: %s", seed, i, scenariotest.FirstDifference(got, want))
			}
		}
	})
}

func provisionOf(s *engine.Snapshot) *engine.Plan { return provisioning.Plan(s, engine.Options{}, nil) }

func disruptOf(s *engine.Snapshot) *engine.Plan { return disruption.Plan(s, engine.Options{}, nil) }

// someCommitments returns commitments of both kinds, for some types and for all, partly unused.
func someCommitments(seed uint64, s *engine.Snapshot) []engine.Commitment {
	name := s.Classes[0].InstanceTypes[seed%uint64(len(s.Classes[0].InstanceTypes))].Name
	return []engine.Commitment{
		{Name: "reserved", Machines: 2 + int(seed%5), PricePerHour: 0.02, UsedElsewhere: 1, Requirements: in(corev1.LabelInstanceTypeStable, name)},
		{Name: "plan", AmountPerHour: 0.1 + 0.1*float64(seed%20), Discount: 0.3, Prices: map[string]float64{name: 0.001}},
	}
}

// mostTaken returns the largest part of the commitment that the launch may take, for any listed offering.
func mostTaken(t *testing.T, s *engine.Snapshot, l engine.Launch, c *engine.Commitment) float64 {
	t.Helper()
	most := 0.0
	for _, o := range l.Offerings {
		if o.CapacityType != v1.CapacityTypeOnDemand || len(c.Requirements) > 0 && c.Requirements[0].Values[0] != o.InstanceType {
			t.Errorf("launch %s lists %v, which %s does not cover", l.Name, o.OfferingID, c.Name)
		}
		units, ok := c.Takes(o.InstanceType, offeringOf(t, s, l, o.OfferingID).Price)
		if !ok {
			t.Errorf("launch %s lists %v, which %s does not pay for", l.Name, o.OfferingID, c.Name)
		}
		most = max(most, units)
	}
	return most
}

func offeringOf(t *testing.T, s *engine.Snapshot, l engine.Launch, id engine.OfferingID) *engine.Offering {
	t.Helper()
	for i := range s.Classes {
		for j := range s.Classes[i].InstanceTypes {
			kind := &s.Classes[i].InstanceTypes[j]
			if kind.Name != id.InstanceType {
				continue
			}
			if o := kind.Find(id); o != nil {
				return o
			}
		}
	}
	t.Fatalf("launch %s lists %v, which nobody sells", l.Name, id)
	return nil
}

// machinePrice returns the price of a machine, and reports whether a commitment for all on-demand machines pays for it.
type machinePrice struct {
	usd     float64
	covered bool
}

func listPrices(s *engine.Snapshot) map[string]machinePrice {
	book, out := inventory.NewPriceBook(s), map[string]machinePrice{}
	for _, n := range s.Nodes {
		usd, _ := book.Price(n.Labels, nil)
		id := inventory.MachineOffering(n.Labels)
		out[n.Name] = machinePrice{usd, id.CapacityType == v1.CapacityTypeOnDemand}
	}
	return out
}

func listPriceOf(t *testing.T, s *engine.Snapshot, l engine.Launch) machinePrice {
	id := l.Offerings[0].OfferingID
	return machinePrice{offeringOf(t, s, l, id).Price, id.CapacityType == v1.CapacityTypeOnDemand && id.Reservation == ""}
}

// billOf returns the cost of the machines if commitments pay for n of them: the dearest.
func billOf(machines map[string]machinePrice, n int) float64 {
	sum, covered := 0.0, []float64{}
	for _, p := range machines {
		sum += p.usd
		if p.covered {
			covered = append(covered, p.usd)
		}
	}
	slices.SortFunc(covered, func(a, b float64) int { return int(math.Copysign(1, b-a)) })
	for _, usd := range covered[:min(n, len(covered))] {
		sum -= usd
	}
	return sum
}

// onDemandOnly returns the snapshot without spot machines and reservations in its catalogs. The prices keep their order.
func onDemandOnly(s *engine.Snapshot) *engine.Snapshot {
	out := *s
	out.Classes = slices.Clone(s.Classes)
	for i := range out.Classes {
		types := slices.Clone(out.Classes[i].InstanceTypes)
		for j := range types {
			types[j].Offerings = slices.DeleteFunc(slices.Clone(types[j].Offerings), func(o engine.Offering) bool {
				return o.CapacityType != v1.CapacityTypeOnDemand || o.Reservation != ""
			})
		}
		out.Classes[i].InstanceTypes = types
	}
	return &out
}

func TestCommitmentsThatMakeNoSenseAreRefused(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]engine.Commitment{
		"machines is -1":                        {Machines: -1},
		"set machines":                          {},
		"not both":                              {Machines: 1, AmountPerHour: 1},
		"machines is 2000000":                   {Machines: 2_000_000},
		"amountPerHour is NaN":                  {AmountPerHour: math.NaN()},
		"amountPerHour is +Inf":                 {AmountPerHour: math.Inf(1)},
		"amountPerHour is -1":                   {AmountPerHour: -1},
		"discount is 1":                         {AmountPerHour: 1, Discount: 1},
		"discount is NaN":                       {AmountPerHour: 1, Discount: math.NaN()},
		"pricePerHour is -0.1":                  {Machines: 1, PricePerHour: -0.1},
		"usedElsewhere is 6":                    {AmountPerHour: 5, UsedElsewhere: 6},
		"usedElsewhere is 0.5":                  {Machines: 5, UsedElsewhere: 0.5},
		"usedElsewhere is NaN":                  {AmountPerHour: 5, UsedElsewhere: math.NaN()},
		"prices[t] is 0":                        {AmountPerHour: 5, Prices: map[string]float64{"t": 0}},
		"only machines on demand are covered":   {Machines: 1, Requirements: in(v1.CapacityTypeLabelKey, "spot")},
		"a bill knows no pools":                 {Machines: 1, Requirements: in(v1.NodePoolLabelKey, "p")},
		"operator In needs at least one value":  {Machines: 1, Requirements: in("family")},
		`requirement of "": it must be the key`: {Machines: 1, Requirements: in("", "a")},
	} {
		c.Name = "plan"
		if err := engine.CheckCommitments([]engine.Commitment{c}); err == nil || !strings.Contains(err.Error(), "commitment plan: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", c, err, want)
		}
	}
	fine := engine.Commitment{Name: "plan", AmountPerHour: 1, End: time.Unix(1, 0)}
	if err := engine.CheckCommitments([]engine.Commitment{fine}); err != nil {
		t.Errorf("one that has ended is nothing wrong: %v", err)
	}
	if err := engine.CheckCommitments([]engine.Commitment{fine, fine}); err == nil || !strings.Contains(err.Error(), "two of this name") {
		t.Errorf("two of a name: %v", err)
	}
	if err := engine.CheckCommitments(make([]engine.Commitment, engine.MostCommitments+1)); err == nil || !strings.Contains(err.Error(), "there may be 200") {
		t.Errorf("too many: %v", err)
	}
	if err := engine.CheckCommitments([]engine.Commitment{{Machines: 1}}); err == nil || !strings.Contains(err.Error(), "commitment 1: name") {
		t.Errorf("no name: %v", err)
	}
}

func in(key string, values ...string) []v1alpha1.Requirement {
	return []v1alpha1.Requirement{{Key: key, Operator: v1.In, Values: values}}
}

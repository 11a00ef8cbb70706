package budget

import (
	"math"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/enginetest"
)

// budgetTime is a Thursday.
var budgetTime = time.Date(2000, 6, 15, 12, 30, 30, 0, time.UTC)

func TestTheSmallestActiveBudgetOfAReasonCounts(t *testing.T) {
	t.Parallel()
	all := []v1.DisruptionReason{v1.Empty, v1.Drifted, v1.Underutilized, v1.Unhealthy}
	standing := func(weekly, reasoned string) []v1.Budget {
		return []v1.Budget{
			enginetest.BudgetOf("10", "", 0), enginetest.BudgetOf("100", "", 0), enginetest.BudgetOf("100%", "", 0),
			enginetest.BudgetOf("15", reasoned, time.Hour, v1.Drifted, v1.Underutilized), enginetest.BudgetOf("5", reasoned, time.Hour, v1.Drifted),
			enginetest.BudgetOf("0", weekly, time.Hour),
		}
	}
	yearly := []v1.Budget{enginetest.BudgetOf("10", "@yearly", time.Hour), enginetest.BudgetOf("100%", "@yearly", time.Hour)}
	for name, c := range map[string]struct {
		budgets []v1.Budget
		want    [4]int
	}{
		"one that is in its window closes all but repairs":     {standing("30 12 * * *", ""), [4]int{0, 0, 0, math.MaxInt}},
		"the weekly one is not active":                         {standing("@weekly", ""), [4]int{10, 5, 10, math.MaxInt}},
		"none is active":                                       {yearly, [4]int{math.MaxInt, math.MaxInt, math.MaxInt, math.MaxInt}},
		"those with reasons are not active":                    {standing("@weekly", "@yearly"), [4]int{10, 10, 10, math.MaxInt}},
		"only one":                                             {[]v1.Budget{enginetest.BudgetOf("10", "", 0)}, [4]int{10, 10, 10, math.MaxInt}},
		"one more for empty nodes":                             {append(standing("@weekly", ""), enginetest.BudgetOf("4", "", 0, v1.Empty)), [4]int{4, 5, 10, math.MaxInt}},
		"one for repairs":                                      {append(standing("@weekly", ""), enginetest.BudgetOf("3", "", 0, v1.Unhealthy)), [4]int{10, 5, 10, 3}},
		"none at all":                                          {nil, [4]int{math.MaxInt, math.MaxInt, math.MaxInt, math.MaxInt}},
		"a schedule that is none closes all but repairs":       {[]v1.Budget{enginetest.BudgetOf("10", "", 0), enginetest.BudgetOf("10", "@noon", time.Hour, v1.Drifted)}, [4]int{0, 0, 0, math.MaxInt}},
		"a count that is none closes all but repairs":          {[]v1.Budget{enginetest.BudgetOf("1000a%", "", 0)}, [4]int{0, 0, 0, math.MaxInt}},
		"more than everything is no count":                     {[]v1.Budget{enginetest.BudgetOf("101%", "", 0)}, [4]int{0, 0, 0, math.MaxInt}},
		"one for repairs that cannot be read":                  {[]v1.Budget{enginetest.BudgetOf("1000a%", "", 0, v1.Unhealthy)}, [4]int{0, 0, 0, 0}},
		"a schedule without a duration closes all but repairs": {[]v1.Budget{{Nodes: "10", Schedule: new(string)}}, [4]int{0, 0, 0, math.MaxInt}},
	} {
		pool := &v1.NodePool{}
		pool.Spec.Disruption.Budgets = c.budgets
		rules := RulesOf(&engine.Snapshot{Now: budgetTime}, pool)
		for i, reason := range all {
			if a := rules.Allowance(budgetTime, reason, PoolNodes{Total: 100}); a.Allowed != c.want[i] {
				t.Errorf("%s: %s allows %d, want %d (%s)", name, reason, a.Allowed, c.want[i], a.Problem)
			}
		}
	}
}

func TestWindowsOfBudgets(t *testing.T) {
	t.Parallel()
	ahead := time.FixedZone("ahead", 3600)
	for name, c := range map[string]struct {
		schedule string
		length   time.Duration
		now      time.Time
		want     bool
	}{
		"every minute":                       {"* * * * *", time.Minute, budgetTime, true},
		"once a year":                        {"@yearly", time.Hour, budgetTime, false},
		"midnight elsewhere is not midnight": {"@daily", 30 * time.Minute, time.Date(2000, 6, 15, 0, 0, 0, 0, ahead), false},
		"in the middle of a day":             {"0 12 * * *", 24 * time.Hour, budgetTime, true},
		"longer than until the next time":    {"0 12 * * *", 48 * time.Hour, budgetTime, true},
		"later today":                        {"30 6 * * sun", 6 * time.Hour, time.Date(2000, 6, 18, 0, 0, 0, 0, time.UTC), false},
		"at the very moment":                 {"30 12 * * *", time.Minute, budgetTime.Truncate(time.Minute), true},
		"at the moment of its end":           {"30 12 * * *", time.Minute, budgetTime.Truncate(time.Minute).Add(time.Minute), false},
		"never ends":                         {"0 0 31 2 *", time.Hour, budgetTime, false},
		"no length at all":                   {"* * * * *", 0, budgetTime, false},
	} {
		b := enginetest.BudgetOf("0", c.schedule, c.length)
		times := (&PoolRules{Zone: time.UTC}).TimesOf(&b)
		if active := times.IsActive(c.now); times.err != nil || active != c.want {
			t.Errorf("%s: %t, %v; want %t", name, active, times.err, c.want)
		}
	}
}

func TestBudgetsThatCannotBeReadSayWhy(t *testing.T) {
	t.Parallel()
	for schedule, want := range map[string]string{
		"* * *": "5 fields", "0 9 * * tue-mon": "beyond end of range", "TZ=Mars/Olympus 0 9 * * *": "names a time zone",
		"@every 1h": "five fields", "": "empty", "CRON_TZ=UTC * * * * *": "names a time zone", "TZ=0": "names a time zone",
	} {
		b := v1.Budget{Nodes: "1", Schedule: &schedule, Duration: &metav1.Duration{Duration: time.Hour}}
		if _, _, err := budgetWindow(&b, time.UTC); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want it to say %q", schedule, err, want)
		}
	}
	b := v1.Budget{Nodes: "1", Schedule: new(string), Duration: &metav1.Duration{Duration: -time.Hour}}
	if _, _, err := budgetWindow(&b, time.UTC); err == nil {
		t.Error("a negative duration is taken")
	}
}

func TestWhenBudgetsOpen(t *testing.T) {
	t.Parallel()
	zurich, err := time.LoadLocation("Europe/Zurich")
	if err != nil {
		t.Fatal(err)
	}
	at := func(day, hour, minute int) time.Time { return time.Date(2000, 6, day, hour, minute, 0, 0, time.UTC) }
	for name, c := range map[string]struct {
		budgets []v1.Budget
		zone    string
		counts  PoolNodes
		want    time.Time
	}{
		"open now":                        {[]v1.Budget{enginetest.BudgetOf("1", "", 0)}, "", PoolNodes{Total: 10}, budgetTime},
		"at the end of the window":        {[]v1.Budget{enginetest.BudgetOf("0", "0 9 * * *", 8*time.Hour)}, "", PoolNodes{Total: 10}, at(15, 17, 0)},
		"two windows that follow":         {[]v1.Budget{enginetest.BudgetOf("0", "0 9 * * *", 8*time.Hour), enginetest.BudgetOf("0", "0 16 * * *", 4*time.Hour)}, "", PoolNodes{Total: 10}, at(15, 20, 0)},
		"windows that overlap themselves": {[]v1.Budget{enginetest.BudgetOf("0", "0 * * * thu", 2*time.Hour)}, "", PoolNodes{Total: 10}, at(16, 1, 0)},
		"in the pool's zone":              {[]v1.Budget{enginetest.BudgetOf("0", "0 9 * * *", 8*time.Hour)}, "Europe/Zurich", PoolNodes{Total: 10}, at(15, 15, 0)},
		"closed for good":                 {[]v1.Budget{enginetest.BudgetOf("0", "", 0)}, "", PoolNodes{Total: 10}, time.Time{}},
		"used up, and time changes that":  {[]v1.Budget{enginetest.BudgetOf("1", "0 9 * * *", 8*time.Hour)}, "", PoolNodes{Total: 10, leaving: 1}, at(15, 17, 0)},
		"a zone that does not exist":      {nil, "Europe/Atlantis", PoolNodes{Total: 10}, time.Time{}},
	} {
		pool := &v1.NodePool{}
		pool.Spec.Disruption.Budgets = c.budgets
		if c.zone != "" {
			pool.Annotations = map[string]string{v1.BudgetTimeZoneAnnotationKey: c.zone}
		}
		rules := RulesOf(&engine.Snapshot{Now: budgetTime, Zones: map[string]*time.Location{"Europe/Zurich": zurich}}, pool)
		if got := rules.Opens(budgetTime, v1.Drifted, c.counts); !got.Equal(c.want) {
			t.Errorf("%s: opens at %s, want %s", name, got, c.want)
		}
	}
}

func TestBrokenNodesDoNotUseUpTheBudgetForRepairingThem(t *testing.T) {
	t.Parallel()
	c := PoolNodes{Total: 10, leaving: 2, unready: 2}
	if n := c.disrupting(v1.Unhealthy); n != 2 {
		t.Errorf("Unhealthy: %d", n)
	}
	if n := c.disrupting(v1.Drifted); n != 4 {
		t.Errorf("Drifted: %d", n)
	}
}

func TestBudgetPercentagesRoundUp(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		nodes       string
		total, want int
	}{{"10%", 1, 1}, {"50%", 3, 2}, {"20%", 5, 1}, {"10%", 11, 2}, {"0%", 9, 0}, {"100%", 7, 7}, {"3", 100, 3}, {"10%", 0, 0}} {
		if got, err := budgetNodes(c.nodes, c.total); err != nil || got != c.want {
			t.Errorf("%s of %d: %d (%v), want %d", c.nodes, c.total, got, err, c.want)
		}
	}
	for _, bad := range []string{"", "many", "-1", "1.5"} {
		if n, err := budgetNodes(bad, 10); err == nil {
			t.Errorf("%q reads as %d", bad, n)
		}
	}
}

package budget

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/enginetest"
)

// someBudgets draws up to three budgets, most of which close a pool for a part of each day or week.
func someBudgets(r *rand.Rand) []v1.Budget {
	var out []v1.Budget
	for range 1 + r.IntN(3) {
		days := []string{"*", "*", "1-5", "sun", "6"}[r.IntN(5)]
		hours := []string{fmt.Sprint(r.IntN(24)), fmt.Sprint(r.IntN(4)), "*/6", "1-3"}[r.IntN(4)]
		schedule := fmt.Sprintf("%d %s * * %s", r.IntN(60), hours, days)
		length := time.Duration(1+r.IntN(10*60)) * time.Minute
		out = append(out, enginetest.BudgetOf([]string{"0", "1", "30%"}[r.IntN(3)], schedule, length))
	}
	return out
}

// TestBudgetsOpenWhenTheySay draws budgets in zones around clock changes. Before the announced opening the budgets allow nothing, at the opening
// they do, and the announcement does not change in between.
func TestBudgetsOpenWhenTheySay(t *testing.T) {
	t.Parallel()
	const days = 3
	r := rand.New(rand.NewPCG(1, 28))
	closed := 0
	for _, c := range []struct {
		name    string
		changes time.Time
	}{
		{"Europe/Zurich", time.Date(2026, 3, 29, 1, 0, 0, 0, time.UTC)},
		{"America/New_York", time.Date(2026, 11, 1, 6, 0, 0, 0, time.UTC)},
		{"Australia/Lord_Howe", time.Date(2026, 4, 4, 15, 0, 0, 0, time.UTC)}, // by half an hour
		{"Africa/Cairo", time.Date(2026, 4, 23, 22, 0, 0, 0, time.UTC)},       // at midnight
		{"Asia/Kolkata", time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)},         // never
	} {
		name := c.name
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		for range enginetest.Draws(8) {
			pool := &v1.NodePool{}
			pool.Annotations = map[string]string{v1.BudgetTimeZoneAnnotationKey: name}
			pool.Spec.Disruption.Budgets = someBudgets(r)
			counts := PoolNodes{Total: 10, leaving: r.IntN(3)}
			rules := RulesOf(&engine.Snapshot{Zones: map[string]*time.Location{name: zone}}, pool)
			begin := c.changes.Add(-days * 12 * time.Hour).Add(time.Duration(r.IntN(60)) * time.Second)
			said := time.Time{} // when they would open, as was said the last time
			for now := begin; now.Before(begin.Add(days * 24 * time.Hour)); now = now.Add(13 * time.Minute) {
				open := rules.Allowance(now, v1.Drifted, counts).Left() > 0
				opens := rules.Opens(now, v1.Drifted, counts)
				switch {
				case open != opens.Equal(now):
					t.Fatalf("%s, %v: at %s it is %t that they are open, but said to be at %s", name, budgetTexts(pool), now, open, opens)
				case now.Before(said) && !opens.Equal(said):
					t.Fatalf("%s, %v: at %s they open at %s, though it was said to be at %s", name, budgetTexts(pool), now, opens, said)
				case !opens.IsZero() && rules.Allowance(opens, v1.Drifted, counts).Left() == 0:
					t.Fatalf("%s, %v: at %s they are said to open at %s, but do not", name, budgetTexts(pool), now, opens)
				case !open && !opens.IsZero() && rules.Allowance(opens.Add(-time.Second), v1.Drifted, counts).Left() > 0:
					t.Fatalf("%s, %v: at %s they are said to open at %s, but are open a second before", name, budgetTexts(pool), now, opens)
				}
				if said = opens; !open {
					closed++
				}
			}
		}
	}
	if closed < 500 {
		t.Errorf("closed only %d times: the draw tells nothing", closed)
	}
}

// budgetTexts returns the pool's budgets as texts.
func budgetTexts(pool *v1.NodePool) (out []string) {
	for _, b := range pool.Spec.Disruption.Budgets {
		out = append(out, fmt.Sprintf("%s at %q for %s", b.Nodes, *b.Schedule, b.Duration.Duration))
	}
	return out
}

package explain

import (
	"testing"
	"time"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/enginetest"
	"tenon.sh/engine/provisioning"
)

// A budget's next change is a real change: if a window closes when the next one opens, the budget stays in force.
func TestABudgetsStoryEndsWhenItsWindowsDo(t *testing.T) {
	t.Parallel()
	at := func(day, hour, minute int) time.Time { return time.Date(2000, 6, day, hour, minute, 0, 0, time.UTC) } // the 15th is a Thursday
	for name, c := range map[string]struct {
		budget v1.Budget
		now    time.Time
		want   time.Time
	}{
		"one window":                    {enginetest.BudgetOf("0", "0 9 * * *", 8*time.Hour), at(15, 10, 30), at(15, 17, 0)},
		"before it":                     {enginetest.BudgetOf("0", "0 9 * * *", 8*time.Hour), at(15, 7, 0), at(15, 9, 0)},
		"hours that adjoin":             {enginetest.BudgetOf("0", "0 9-17 * * mon-fri", time.Hour), at(15, 9, 16), at(15, 18, 0)},
		"in the moment of the next":     {enginetest.BudgetOf("0", "0 9-17 * * mon-fri", time.Hour), at(15, 10, 0), at(15, 18, 0)},
		"hours that overlap":            {enginetest.BudgetOf("0", "0 9-17 * * mon-fri", 90*time.Minute), at(15, 9, 16), at(15, 18, 30)},
		"hours with gaps":               {enginetest.BudgetOf("0", "0 9-17 * * mon-fri", 30*time.Minute), at(15, 9, 16), at(15, 9, 30)},
		"minutes of a day":              {enginetest.BudgetOf("0", "* 9-17 * * *", time.Minute), at(15, 9, 16), at(15, 18, 0)},
		"minutes of a working week":     {enginetest.BudgetOf("0", "* * * * mon-fri", time.Minute), at(12, 0, 1), at(17, 0, 0)},
		"windows that never leave off":  {enginetest.BudgetOf("0", "0 * * * *", time.Hour), at(15, 9, 16), time.Time{}},
		"days that never leave off":     {enginetest.BudgetOf("0", "@daily", 24*time.Hour), at(15, 9, 16), time.Time{}},
		"a budget that holds for good":  {enginetest.BudgetOf("0", "", 0), at(15, 9, 16), time.Time{}},
		"a weekend, from Friday on":     {enginetest.BudgetOf("0", "0 0 * * sat,sun", 24*time.Hour), at(17, 9, 0), at(19, 0, 0)},
		"windows that never come again": {enginetest.BudgetOf("0", "0 0 30 2 *", time.Hour), at(15, 9, 16), time.Time{}},
	} {
		pool := enginetest.LifePool(0)
		pool.Spec.Disruption.Budgets = []v1.Budget{c.budget}
		s := &engine.Snapshot{Now: c.now, NodePools: []*v1.NodePool{pool}}
		pool.Spec.Template.Spec.NodeClassRef = &v1.NodeClassReference{}
		story := ExplainPool(s, provisioning.Plan(s, engine.Options{}, nil), nil, pool)
		var got time.Time
		if turns := story.Budgets[0].Turns; turns != nil {
			got = *turns
		}
		if !got.Equal(c.want) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		if left := story.Allowances[0]; story.Budgets[0].Active && left.Opens != nil && !left.Opens.Equal(got) {
			t.Errorf("%s: the budget holds until %s, and nodes may go from %s", name, got, left.Opens)
		}
	}
}

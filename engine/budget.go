package engine

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	v1 "tenon.sh/api/v1"
)

// Allowance is how many nodes of a pool may be disrupted for one reason now.
type Allowance struct {
	// Allowed is what the budgets allow in all; math.MaxInt where none limits it.
	Allowed int
	// Disrupting counts the nodes that use it up: those that are leaving or not ready.
	Disrupting int
	// Problem says which budget cannot be read; such a budget closes the pool for every reason.
	Problem string
}

// Left is how many more nodes may be disrupted.
func (a Allowance) Left() int { return max(0, a.Allowed-a.Disrupting) }

// PoolAllowance says what the pool's budgets allow for a reason at the snapshot's time.
func PoolAllowance(s *Snapshot, pool *v1.NodePool, reason v1.DisruptionReason) Allowance {
	return allowance(s.Now, pool, reason, hostsOf(s, (*Memo)(nil).take(s)))
}

func allowance(now time.Time, pool *v1.NodePool, reason v1.DisruptionReason, hosts []*host) Allowance {
	total, disrupting := 0, 0
	for _, h := range hosts {
		if h.claim == nil || h.pool() != pool.Name || !h.isInitialized() || v1.IsTrue(h.claim, v1.ConditionInstanceTerminating) {
			continue
		}
		total++
		if h.leaving || !nodeReady(h.node) {
			disrupting++
		}
	}
	a := Allowance{Allowed: math.MaxInt, Disrupting: disrupting}
	for i := range pool.Spec.Disruption.Budgets {
		limit, err := budgetLimit(&pool.Spec.Disruption.Budgets[i], now, total)
		if err != nil {
			return Allowance{Disrupting: disrupting, Problem: err.Error()}
		}
		if names := pool.Spec.Disruption.Budgets[i].Reasons; len(names) == 0 || slices.Contains(names, reason) {
			a.Allowed = min(a.Allowed, limit)
		}
	}
	return a
}

// budgetLimit is how many of total nodes the budget allows to be disrupted at once, math.MaxInt outside its windows.
// Percentages round up.
func budgetLimit(b *v1.Budget, now time.Time, total int) (int, error) {
	limit, err := budgetNodes(b.Nodes, total)
	if err != nil {
		return 0, err
	}
	active, err := budgetActive(b, now)
	if err != nil {
		return 0, err
	}
	if !active {
		return math.MaxInt, nil
	}
	return limit, nil
}

func budgetNodes(text string, total int) (int, error) {
	number, percent := strings.CutSuffix(text, "%")
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("budget nodes %q is neither a number nor a percentage", text)
	}
	if percent {
		return (n*total + 99) / 100, nil
	}
	return n, nil
}

// budgetActive reports whether now is in one of the budget's windows: its schedule was hit at most its duration ago. A
// budget without a schedule is always active. Schedules are in UTC.
func budgetActive(b *v1.Budget, now time.Time) (bool, error) {
	if b.Schedule == nil && b.Duration == nil {
		return true, nil
	}
	if b.Schedule == nil || b.Duration == nil {
		return false, fmt.Errorf("a budget needs schedule and duration together")
	}
	schedule, err := cron.ParseStandard("TZ=UTC " + *b.Schedule)
	if err != nil {
		return false, fmt.Errorf("budget schedule %q cannot be read: %w", *b.Schedule, err)
	}
	opened := schedule.Next(now.UTC().Add(-b.Duration.Duration))
	return !opened.IsZero() && !opened.After(now), nil
}

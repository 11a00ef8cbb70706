package budget

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
)

// Allowance is the number of nodes of a pool that may be disrupted for one reason now.
type Allowance struct {
	// Allowed is the total that the budgets allow; math.MaxInt if no budget bounds it.
	Allowed int
	// Disrupting counts the nodes that use up Allowed: those that are leaving or not ready.
	Disrupting int
	// Problem names an unreadable budget; it closes the pool for every reason.
	Problem string
}

// Left returns how many more nodes may be disrupted.
func (a Allowance) Left() int { return max(0, a.Allowed-a.Disrupting) }

// PoolAllowance returns the allowance of the pool's budgets for a reason at the snapshot's time.
func PoolAllowance(s *engine.Snapshot, pool *v1.NodePool, reason v1.DisruptionReason) Allowance {
	return RulesOf(s, pool).Allowance(s.Now, reason, CountNodes(pool.Name, inventory.MachinesOf(s, (*inventory.Cache)(nil).Take(s, 1))))
}

// PoolNodes counts the nodes of a pool for its budgets.
type PoolNodes struct {
	Total            int
	leaving, unready int // unready nodes are not leaving
	// replacing and deleting divide the leaving nodes: with a replacement, and without.
	replacing, deleting int
}

// CountNodes counts the pool's nodes, without nodes that are not initialized or whose machine is being stopped.
func CountNodes(pool string, hosts []*inventory.Machine) PoolNodes {
	var t PoolNodes
	for _, m := range hosts {
		if m.Claim == nil || m.Pool() != pool || !m.IsInitialized() || m.Stopping {
			continue
		}
		t.Total++
		switch {
		case m.Leaving || m.Ordered || m.IsRebooting():
			t.leaving++
			if m.Ordered {
				t.replacing++
			} else {
				t.deleting++
			}
		case !m.Ready:
			t.unready++
		}
	}
	return t
}

// disrupting returns the number of nodes that use up the allowance for the reason. For repairs, unready nodes do not count, because they would
// prevent their own repair.
func (t PoolNodes) disrupting(reason v1.DisruptionReason) int {
	if reason == v1.Unhealthy {
		return t.leaving
	}
	return t.leaving + t.unready
}

func (r *PoolRules) Allowance(now time.Time, reason v1.DisruptionReason, t PoolNodes) Allowance {
	if r.Closed != "" && anyAbout(r.Pool.Spec.Disruption.Budgets, reason) {
		return Allowance{Disrupting: t.disrupting(reason), Problem: r.Closed}
	}
	return r.within(r.Pool.Spec.Disruption.Budgets, now, reason, t.Total, t.disrupting(reason))
}

// VerbAllowance returns the allowance of the budgets for nodes with a replacement, if `replacing` is true. If not, it returns the allowance for
// nodes without a replacement.
func (r *PoolRules) VerbAllowance(now time.Time, reason v1.DisruptionReason, t PoolNodes, replacing bool) Allowance {
	v, using := r.Deleting, t.deleting
	if replacing {
		v, using = r.Replacing, t.replacing
	}
	switch {
	case v == nil:
		return Allowance{Allowed: math.MaxInt}
	case v.problem != "" && reason != v1.Unhealthy:
		return Allowance{Disrupting: using, Problem: v.problem}
	}
	return r.within(v.Budgets, now, reason, t.Total, using)
}

// isAbout reports whether the budget bounds disruptions for the reason. Only budgets that name Unhealthy bound repairs.
func isAbout(b *v1.Budget, reason v1.DisruptionReason) bool {
	return slices.Contains(b.Reasons, reason) || len(b.Reasons) == 0 && reason != v1.Unhealthy
}

// anyAbout reports whether unreadable budgets close the pool for the reason.
func anyAbout(budgets []v1.Budget, reason v1.DisruptionReason) bool {
	return reason != v1.Unhealthy || slices.ContainsFunc(budgets, func(b v1.Budget) bool { return isAbout(&b, reason) })
}

// within returns the smallest allowance of the active budgets for the reason. An unreadable budget closes the pool, except for repairs that it
// does not bound.
func (r *PoolRules) within(budgets []v1.Budget, now time.Time, reason v1.DisruptionReason, total, disrupting int) Allowance {
	a := Allowance{Allowed: math.MaxInt, Disrupting: disrupting}
	for i := range budgets {
		about := isAbout(&budgets[i], reason)
		limit, err := r.Limit(&budgets[i], now, total)
		if err != nil && (about || reason != v1.Unhealthy) {
			return Allowance{Disrupting: disrupting, Problem: err.Error()}
		}
		if about {
			a.Allowed = min(a.Allowed, limit)
		}
	}
	return a
}

// mostTurns bounds the number of openings and closings of windows that Opens checks.
const mostTurns = 1000

// Opens returns when the budgets next allow a node to go: now if they do, the zero time if no such time is found.
func (r *PoolRules) Opens(now time.Time, reason v1.DisruptionReason, t PoolNodes) time.Time {
	for at, turns := now, 0; turns < mostTurns; turns++ {
		a := r.Allowance(at, reason, t)
		if a.Problem != "" {
			return time.Time{}
		}
		if a.Left() > 0 {
			return at
		}
		next := time.Time{}
		for i := range r.Pool.Spec.Disruption.Budgets {
			b := &r.Pool.Spec.Disruption.Budgets[i]
			if t := r.TimesOf(b); t.err == nil && t.Scheduled {
				if turn := t.Window.turn(at); next.IsZero() || !turn.IsZero() && turn.Before(next) {
					next = turn
				}
			}
		}
		if next.IsZero() {
			return time.Time{}
		}
		at = next
	}
	return time.Time{}
}

// budgetTimes holds the times of a budget, and the last answer of IsActive.
type budgetTimes struct {
	Window    window
	Scheduled bool // false if the budget is always active
	err       error
	now       time.Time
	active    bool
}

// TimesOf returns the budget's times, which it reads once.
func (r *PoolRules) TimesOf(b *v1.Budget) *budgetTimes {
	t := r.times[b]
	if t == nil {
		t = &budgetTimes{}
		t.Window, t.Scheduled, t.err = budgetWindow(b, r.Zone)
		if r.times == nil {
			r.times = map[*v1.Budget]*budgetTimes{}
		}
		r.times[b] = t
	}
	return t
}

func (t *budgetTimes) IsActive(now time.Time) bool {
	if !t.Scheduled {
		return true
	}
	if !t.now.Equal(now) {
		t.now, t.active = now, t.Window.isOpen(now)
	}
	return t.active
}

// Limit returns how many of total nodes the budget allows to be disrupted at once, math.MaxInt outside its windows. Percentages round up.
func (r *PoolRules) Limit(b *v1.Budget, now time.Time, total int) (int, error) {
	limit, err := budgetNodes(b.Nodes, total)
	if err != nil {
		return 0, err
	}
	switch t := r.TimesOf(b); {
	case t.err != nil:
		return 0, t.err
	case !t.IsActive(now):
		return math.MaxInt, nil
	}
	return limit, nil
}

func budgetNodes(text string, total int) (int, error) {
	number, percent := strings.CutSuffix(text, "%")
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 || percent && n > 100 {
		return 0, fmt.Errorf("budget nodes %q is neither a number nor a percentage", text)
	}
	if percent {
		return (n*total + 99) / 100, nil
	}
	return n, nil
}

// budgetWindow returns the window in which the budget is active; scheduled is false if it always is.
func budgetWindow(b *v1.Budget, zone *time.Location) (w window, scheduled bool, err error) {
	switch {
	case b.Schedule == nil && b.Duration == nil:
		return w, false, nil
	case b.Schedule == nil || b.Duration == nil:
		return w, false, fmt.Errorf("a budget needs schedule and duration together")
	case b.Duration.Duration < 0:
		return w, false, fmt.Errorf("budget duration %s is negative", b.Duration.Duration)
	}
	w, err = readWindow(*b.Schedule, b.Duration.Duration, zone)
	if err != nil {
		return w, false, fmt.Errorf("budget %w", err)
	}
	return w, true, nil
}

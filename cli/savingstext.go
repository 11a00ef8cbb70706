package cli

import (
	"fmt"
	"math"
	"strings"

	"tenon.sh/engine"
	"tenon.sh/engine/explain"
)

// mostRows is the largest number of rows about changes that savings prints.
const mostRows = 5

// writeAccount prints the comparison.
func writeAccount(t *terminal, a *explain.Savings) {
	for _, line := range accountHead(a) {
		t.line("%s", line)
	}
	if a.NowPerHour == 0 && len(a.Planned) == 0 {
		writeLeftOut(t, a)
		return
	}
	rows := [][]string{{"SAVED BY", "USD/HOUR", "USD A MONTH", "SETTING OF THE NODEPOOL"}}
	for _, c := range a.Causes {
		if math.Abs(c.PerHour) < 0.00005 {
			continue
		}
		rows = append(rows, []string{c.Name, money(c.PerHour), fmt.Sprintf("%.2f", engine.HoursPerMonth*c.PerHour), c.Setting})
	}
	if len(rows) > 1 {
		t.line("")
		t.lines(table(t, "", rows))
	}
	t.line("")
	rows = [][]string{{"POOL", "NODES", "USD/HOUR NOW", "PLANNED NODES", "USD/HOUR PLANNED"}}
	for _, p := range a.Pools {
		if p.Nodes+p.PlannedNodes == 0 {
			continue
		}
		rows = append(rows, []string{p.NodePool, fmt.Sprint(p.Nodes), money(p.NowPerHour), fmt.Sprint(p.PlannedNodes), money(p.PlannedPerHour)})
	}
	t.lines(table(t, "", rows))
	if len(a.Planned) > 0 {
		t.line("")
		rows = [][]string{{"PLANNED", "POOL", "INSTANCE TYPE", "CAPACITY", "USD/HOUR EACH"}}
		for i, m := range a.Planned {
			if i == 2*mostRows {
				rows = append(rows, []string{"", fmt.Sprintf("and %d more kinds", len(a.Planned)-i), "", "", ""})
				break
			}
			rows = append(rows, []string{fmt.Sprint(m.Count), m.NodePool, m.InstanceType, m.CapacityType, money(m.PricePerHour)})
		}
		t.lines(table(t, "", rows))
	}
	if len(a.Commitments) > 0 {
		t.line("")
		t.lines(commitmentTable(t, a.Commitments))
	}
	writeFirstChanges(t, a)
	writeStaying(t, a)
	writeLeftOut(t, a)
}

// accountHead sums up the comparison in a few lines.
func accountHead(a *explain.Savings) []string {
	if a.NowPerHour == 0 {
		return []string{"There is no node of a pool whose price is known: nothing can be compared."}
	}
	now, planned := a.NowPerHour, a.PlannedPerHour
	lines := []string{fmt.Sprintf("Now %s/h ($%.2f a month); the plan for the same %s costs %s/h ($%.2f a month).",
		engine.Dollars(now), engine.HoursPerMonth*now, count(a.Pods, "pod"), engine.Dollars(planned), engine.HoursPerMonth*planned)}
	switch saving := now - planned; {
	case saving > 0.00005:
		lines = append(lines, fmt.Sprintf("That is %s/h, %.1f %%, less: $%.2f a month.", engine.Dollars(saving), 100*saving/now, engine.HoursPerMonth*saving))
	case saving < -0.00005:
		lines = append(lines, "That is more: "+dearerBecause(a.NotSold))
	default:
		lines = append(lines, "That is the same.")
	}
	if line := commitmentLine(a.Commitments); line != "" {
		idle := 0.0
		for _, u := range a.PlannedCommitments {
			idle += u.IdlePerHour
		}
		lines = append(lines, line+fmt.Sprintf(" In the plan %s/h is idle.", engine.Dollars(idle)))
	}
	if a.BoundPerHour != nil {
		lines = append(lines, fmt.Sprintf("No plan costs less than %s/h.", engine.Dollars(*a.BoundPerHour)))
	}
	return lines
}

// dearerBecause returns the reason why the plan costs more than the present nodes.
func dearerBecause(notSold []explain.NotSoldRecord) string {
	if len(notSold) == 0 {
		return "every pool would buy its nodes again, but the plan does not pack the pods as tightly as they run now."
	}
	var parts []string
	for _, r := range notSold {
		nodes := fmt.Sprintf("%s of pool %s for %s/h", count(r.Nodes, "node"), r.NodePool, engine.Dollars(r.PricePerHour))
		switch r.Cause {
		case explain.CapacityTypeNotAllowed:
			parts = append(parts, fmt.Sprintf("%s, %s: the pool does not allow %[2]s", nodes, r.CapacityType))
		case explain.OfferingSoldOut:
			parts = append(parts, fmt.Sprintf("%s: the offering is sold out, for example %s", nodes, r.Example))
		default:
			parts = append(parts, fmt.Sprintf("%s: the pool does not allow the instance type or the zone, for example %s", nodes, r.Example))
		}
	}
	return "the plan cannot buy some nodes again. " + strings.Join(parts, "; ") + "."
}

// writeFirstChanges prints the removals that the controller would make now, and the nodes with the most idle money.
func writeFirstChanges(t *terminal, a *explain.Savings) {
	if len(a.Changes) > 0 {
		t.line("")
		for i, d := range a.Changes {
			if i == mostRows {
				t.line("and %s more", count(len(a.Changes)-i, "removal"))
				break
			}
			line := fmt.Sprintf("%s %s: %s%s", t.paint(bold, "First to go:"), strings.Join(d.Nodes, ", "), d.Reason, engine.SavingWords(d.SavingPerHour))
			if len(d.Pods) > 0 {
				line += "; moves " + count(len(d.Pods), "pod")
			}
			t.line("%s", line)
		}
	}
	rows := [][]string{{"MOST MONEY IDLE", "POOL", "INSTANCE TYPE", "USED", "USD/HOUR", "IDLE USD/HOUR"}}
	for i, n := range a.Idle {
		if i == mostRows || n.IdlePerHour <= 0 {
			break
		}
		rows = append(rows, []string{n.Node, n.NodePool, n.InstanceType, fmt.Sprintf("%.0f %%", 100*n.Used), money(n.PricePerHour), money(n.IdlePerHour)})
	}
	if len(rows) > 1 {
		t.line("")
		t.lines(table(t, "", rows))
	}
}

// writeStaying prints the reasons for which nodes are kept: in the plan, and at present.
func writeStaying(t *terminal, a *explain.Savings) {
	if len(a.Staying) > 0 {
		t.line("")
		t.line("%s, because nothing else can run some of their pods:", capital(count(len(a.Staying), "node")+" the plan keeps"))
		for i, n := range a.Staying {
			if i == mostRows {
				t.line("  and %d more", len(a.Staying)-i)
				break
			}
			var reasons []engine.Reason
			for _, r := range n.Reasons {
				reasons = append(reasons, r.Reason())
			}
			t.line("  %s: pod %s: %s", n.Node, n.Pod, engine.Sentence(reasons))
		}
	}
	if len(a.Kept) == 0 {
		return
	}
	t.line("")
	rows := [][]string{{"STAY NOW", "POOL", "BECAUSE, FOR EXAMPLE"}}
	for _, k := range a.Kept {
		rows = append(rows, []string{count(k.Nodes, "node"), orDash(k.NodePool), fmt.Sprintf("%s: %s [%s]", k.Example, k.Message, k.Code)})
	}
	t.lines(table(t, "", rows))
}

// writeLeftOut prints the things that neither side of the comparison includes.
func writeLeftOut(t *terminal, a *explain.Savings) {
	var lines []string
	if n := len(a.Unpriced); n > 0 {
		lines = append(lines, fmt.Sprintf("%s of unknown price: %s", count(n, "node"), some(a.Unpriced, mostRows)))
	}
	if a.Outside > 0 {
		lines = append(lines, count(a.Outside, "node")+" outside any pool")
	}
	if a.Starting > 0 {
		lines = append(lines, count(a.Starting, "machine")+" without a node yet")
	}
	if a.Pending > 0 {
		lines = append(lines, count(a.Pending, "pod")+" that no node runs yet: see tenon plan")
	}
	if len(lines) == 0 {
		return
	}
	t.line("")
	t.line("%s", t.paint(bold, "Not counted on either side:"))
	for _, line := range lines {
		t.line("  %s", line)
	}
}

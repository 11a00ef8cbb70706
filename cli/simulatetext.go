package cli

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"tenon.sh/simulator"
)

// writeSimulation prints results: the course of the days for a single result, a comparison for several.
func writeSimulation(t *terminal, results []*simulator.Result, days float64) {
	first := results[0]
	t.line("%s from %s, seed %d, cloud %s.", t.paint(bold, "Simulated "+dayWords(days)), first.Begin.Format("Mon 2 Jan 2006 15:04 MST"), first.Seed, first.Profile)
	for _, r := range results {
		t.line("")
		if len(results) > 1 {
			t.line("%s", t.paint(bold, settingHeading(r)))
		}
		writeCourse(t, r)
		if len(results) == 1 {
			t.line("")
			writeDays(t, r)
		}
	}
	t.line("")
	if len(results) > 1 {
		writeComparison(t, results)
		writeCauses(t, results)
		return
	}
	writeLines(t, outcome(first))
	writeCauses(t, results)
}

func dayWords(days float64) string {
	if days == 1 {
		return "1 day"
	}
	return fmt.Sprintf("%.4g days", days)
}

// writeCourse plots the hours.
func writeCourse(t *terminal, r *simulator.Result) {
	series := func(of func(h *simulator.Hour) float64) []float64 {
		out := make([]float64, len(r.Hours))
		for i := range r.Hours {
			out[i] = of(&r.Hours[i])
		}
		return squeeze(out)
	}
	cost := series(func(h *simulator.Hour) float64 { return h.CostPerHour })
	bounds := make([]float64, len(r.Hours))
	for i, h := range r.Hours {
		bounds[i] = math.NaN()
		if h.BoundPerHour != nil {
			bounds[i] = *h.BoundPerHour
		}
	}
	t.line("USD per hour: █ lower bound for the pods, ░ cost above the bound")
	for _, line := range stack(squeeze(fill(bounds)), cost) {
		t.line("%s", line)
	}
	for _, s := range []struct {
		name string
		of   func(h *simulator.Hour) float64
	}{
		{"machines", func(h *simulator.Hour) float64 { return h.Machines }},
		{"pods", func(h *simulator.Hour) float64 { return h.Pods }},
		{"waiting", func(h *simulator.Hour) float64 { return h.Waiting }},
		{"evicted", func(h *simulator.Hour) float64 { return float64(h.Evictions) }},
	} {
		points := series(s.of)
		most := 0.0
		for _, p := range points {
			most = max(most, p)
		}
		t.line("%8s  %-*s  at most %s", s.name, len(points), pad(spark(points), len(points)), numberWords(most))
	}
	t.line("%8s  %s", "", dayMarks(r))
}

// pad fills a text up with blanks to a width in characters.
func pad(text string, width int) string {
	return text + strings.Repeat(" ", max(0, width-len([]rune(text))))
}

func numberWords(x float64) string {
	switch {
	case x == math.Trunc(x) || x >= 100:
		return fmt.Sprintf("%.0f", x)
	case x >= 10:
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.2f", x)
}

// dayMarks returns the line below a plot with the name of each day at its beginning.
func dayMarks(r *simulator.Result) string {
	each := (len(r.Hours) + plotColumns - 1) / plotColumns
	line := []rune{}
	for i, h := range r.Hours {
		if h.Begin.UTC().Hour() != 0 && i > 0 {
			continue
		}
		for len(line) < i/each {
			line = append(line, ' ')
		}
		if len(line) == i/each {
			line = append(line, []rune(h.Begin.UTC().Format("Mon")+" ")...)
		}
	}
	return strings.TrimRight(string(line), " ")
}

// day is the sum of the hours of one day.
type day struct {
	name                          string
	hours                         int
	machines, pods, waiting, cost float64
	boundCost, bound              float64
	evictions, launched           int
}

func (d *day) add(h *simulator.Hour) {
	d.hours++
	d.machines, d.pods, d.waiting, d.cost = d.machines+h.Machines, d.pods+h.Pods, d.waiting+h.Waiting, d.cost+h.CostPerHour
	d.evictions, d.launched = d.evictions+h.Evictions, d.launched+h.Launched
	if h.BoundPerHour != nil {
		d.boundCost, d.bound = d.boundCost+h.CostPerHour, d.bound+*h.BoundPerHour
	}
}

func (d *day) row() []string {
	n := float64(d.hours)
	gap := "-"
	if d.bound > 0 {
		gap = fmt.Sprintf("%.1f %%", 100*(d.boundCost/d.bound-1))
	}
	perPodDay := 0.0
	if d.pods > 0 {
		perPodDay = float64(d.evictions) / (d.pods / 24)
	}
	return []string{d.name, numberWords(math.Round(d.machines / n)), numberWords(math.Round(d.pods / n)), fmt.Sprintf("%.2f", d.cost/n), gap,
		fmt.Sprintf("%.2f", d.waiting/n), fmt.Sprint(d.launched), fmt.Sprint(d.evictions), fmt.Sprintf("%.3f", perPodDay)}
}

func writeDays(t *terminal, r *simulator.Result) {
	rows := [][]string{{"DAY", "MACHINES", "PODS", "USD/HOUR", "ABOVE BOUND", "PODS WAITING", "LAUNCHED", "EVICTED", "PER POD-DAY"}}
	all, days := &day{name: "all"}, []*day{}
	for i := range r.Hours {
		h := &r.Hours[i]
		name := h.Begin.UTC().Format("Mon 2 Jan")
		if len(days) == 0 || days[len(days)-1].name != name {
			days = append(days, &day{name: name})
		}
		days[len(days)-1].add(h)
		all.add(h)
	}
	if len(days) > 1 {
		days = append(days, all)
	}
	const mostDayRows = 32
	for i, d := range days {
		if len(days) <= mostDayRows || i >= len(days)-mostDayRows {
			rows = append(rows, d.row())
		}
	}
	t.lines(table(t, "", rows))
}

// billWords describes the bill, and its relation to the bound if there is one.
func billWords(r *simulator.Result) string {
	words := fmt.Sprintf("$%.2f", r.Cost)
	if !slices.ContainsFunc(r.Hours, func(h simulator.Hour) bool { return h.BoundPerHour != nil && *h.BoundPerHour > 0 }) {
		return words
	}
	beside := func(share float64) string {
		if share = math.Round(1000*share)/10 + 0; share < 0 { // without the sign of a negative zero
			return fmt.Sprintf("%.1f %% below", -share)
		}
		return fmt.Sprintf("%.1f %% above", share)
	}
	return words + fmt.Sprintf(", %s the bound, %s what plans for all pods would cost, made anew", beside(r.Gap), beside(r.AnewGap))
}

// outcome returns the result of a simulation as facts.
func outcome(r *simulator.Result) []fact {
	waited := func(seconds float64) string {
		return (time.Duration(seconds*10) * time.Second / 10).Round(time.Second / 10).String()
	}
	facts := []fact{
		{"bill", billWords(r)},
		{"machines", fmt.Sprintf("%d launched, %s", r.Counts.Launched, removedWords(r))},
		{"moves", countWords(r.Counts.Moves, "none") + takenBackWords(r)},
		{"evictions", fmt.Sprintf("%.3f for each pod and day, %.3f with those of machines that were lost or taken away: %s",
			r.EvictionsPerPodDay, r.AllEvictionsPerPodDay, countWords(r.Counts.Evictions, "none"))},
		{"pods", fmt.Sprintf("%s found a node; half of them within %s, 99 %% within %s, all within %s; %s of jobs ran to their end",
			count(r.Counts.Bound, "pod"), waited(r.Waited.Median), waited(r.Waited.P99), waited(r.Waited.Most), count(r.Counts.Jobs, "pod"))},
		{"at the end", fmt.Sprintf("%s, %s running, %d waiting", count(r.AtEnd.Machines, "machine"), count(r.AtEnd.Pods, "pod"), r.AtEnd.Waiting)},
	}
	if r.Counts.Unserved > 0 {
		facts = append(facts, fact{"left waiting", count(r.Counts.Unserved, "pod") + " in vain, for a quarter of an hour at least"})
	}
	if r.MostLost > 0 {
		facts = append(facts, fact{"lost at once", fmt.Sprintf("at most %.0f %% of the pods of one workload", 100*r.MostLost)})
	}
	kept := map[string]int{}
	for code, n := range r.AtEnd.Kept {
		kept[string(code)] = n
	}
	facts = append(facts, fact{"nodes stay", countWords(kept, "no node does")})
	if r.AtEnd.Idle > 0 {
		facts = append(facts, fact{"wrong", count(r.AtEnd.Idle, "pod") + " could have run and waited to the end"})
	}
	if r.AtEnd.Leaked > 0 {
		facts = append(facts, fact{"wrong", count(r.AtEnd.Leaked, "machine") + " that no NodeClaim owns"})
	}
	return facts
}

func removedWords(r *simulator.Result) string {
	text := "removed: " + countWords(r.Counts.Removed, "none")
	if r.Counts.Refused > 0 {
		text += fmt.Sprintf("; %s refused because everything was sold out", count(r.Counts.Refused, "launch"))
	}
	return strings.Replace(text, "launchs", "launches", 1)
}

func takenBackWords(r *simulator.Result) string {
	if r.Counts.TakenBack == 0 {
		return ""
	}
	return fmt.Sprintf("; %d taken back because a replacement failed", r.Counts.TakenBack)
}

// countWords lists counts, the largest first.
func countWords(counts map[string]int, none string) string {
	if len(counts) == 0 {
		return none
	}
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b)) })
	var parts []string
	for _, name := range names {
		parts = append(parts, fmt.Sprintf("%d %s", counts[name], name))
	}
	return strings.Join(parts, ", ")
}

// settingHeading returns the heading of a setting's result.
func settingHeading(r *simulator.Result) string {
	if r.Setting != "" {
		return "The cluster " + r.Setting
	}
	return "With " + settingName(r)
}

func writeComparison(t *terminal, results []*simulator.Result) {
	t.lines(table(t, "", comparisonRows(results)))
}

// comparisonRows returns the settings side by side, after a heading.
func comparisonRows(results []*simulator.Result) [][]string {
	of := "OF " + strings.ToUpper(settingName(results[0])) + "'S"
	rows := [][]string{{"SETTING", "USD", of, "ABOVE BOUND", "MACHINES", "LAUNCHED", "MOVES", "EVICTIONS PER POD-DAY", "99 % OF PODS WAIT", "BEATEN BY"}}
	unserved := slices.ContainsFunc(results, func(r *simulator.Result) bool { return r.Counts.Unserved > 0 })
	if unserved {
		rows[0] = slices.Insert(rows[0], len(rows[0])-1, "LEFT WAITING")
	}
	for _, r := range results {
		machines, moves := 0.0, 0
		for _, h := range r.Hours {
			machines += h.Machines
		}
		for _, n := range r.Counts.Moves {
			moves += n
		}
		row := []string{settingName(r), fmt.Sprintf("%.2f", r.Cost), ratioWords(r.Cost, results[0].Cost), fmt.Sprintf("%.1f %%", 100*r.Gap),
			numberWords(math.Round(machines / float64(len(r.Hours)))), fmt.Sprint(r.Counts.Launched), fmt.Sprint(moves),
			fmt.Sprintf("%.3f", r.EvictionsPerPodDay), fmt.Sprintf("%.0fs", r.Waited.P99)}
		if unserved {
			row = append(row, count(r.Counts.Unserved, "pod"))
		}
		rows = append(rows, append(row, beatenBy(r, results)))
	}
	return rows
}

// beatenBy names the cheapest other result that costs less, evicts no more pods and leaves no more pods waiting, because waiting pods cost
// nothing. If there is none, the result is a point of the curve of saving against disturbance.
func beatenBy(r *simulator.Result, results []*simulator.Result) string {
	name, least := "", r.Cost
	for _, other := range results {
		if other.Cost < least && other.EvictionsPerPodDay <= r.EvictionsPerPodDay && other.Counts.Unserved <= r.Counts.Unserved {
			name, least = settingName(other), other.Cost
		}
	}
	return name
}

// causeWords are the texts for the causes.
var causeWords = map[simulator.CauseName]string{
	simulator.Plan:             "whole machines, rules between pods (a plan made anew)",
	simulator.Booting:          "machines that boot",
	simulator.Replacing:        "replacements that boot beside what they replace",
	simulator.Draining:         "machines that drain and stop",
	simulator.Lost:             "machines lost or taken away, and boots of as many",
	simulator.LeastBilling:     "the least time that is billed",
	simulator.Fallback:         "dearer than the cheapest offering listed",
	simulator.OnDemand:         "on demand where spot is allowed",
	simulator.ConsolidateAfter: "nodes that are not quiet yet (consolidateAfter)",
	simulator.Budgets:          "nodes that budgets keep",
	simulator.Protected:        "nodes that do-not-disrupt keeps",
	simulator.Policy:           "nodes that the policy keeps",
	simulator.MovesCost:        "nodes whose pods cost more to move than that saves",
	simulator.Between:          "nodes between looks",
	simulator.Waiting:          "pods that wait and are not paid for yet",
}

// writeCauses prints the causes for which the bill is above the bound.
func writeCauses(t *terminal, results []*simulator.Result) {
	if results[0].Bound <= 0 {
		return
	}
	t.line("")
	t.line("%s:", causesTitle)
	t.lines(table(t, "", causeRows(results)))
}

const causesTitle = "Why the bill is above the bound"

// causeRows returns the causes: in USD for a single result, as a share of the bound for several.
func causeRows(results []*simulator.Result) [][]string {
	header, total := []string{"CAUSE"}, []string{"all"}
	for _, r := range results {
		if len(results) == 1 {
			header = append(header, "USD", "OF THE BOUND")
			total = append(total, fmt.Sprintf("%.2f", r.Cost-r.Bound), percent(r.Gap))
			continue
		}
		header, total = append(header, strings.ToUpper(settingName(r))), append(total, percent(r.Gap))
	}
	rows, named := [][]string{header}, map[simulator.CauseName]bool{}
	for _, r := range results {
		for _, c := range r.Causes {
			if named[c.Cause] {
				continue
			}
			named[c.Cause] = true
			row := []string{causeWords[c.Cause]}
			for _, other := range results {
				share := 0.0
				if i := slices.IndexFunc(other.Causes, func(o simulator.Cause) bool { return o.Cause == c.Cause }); i >= 0 {
					share = other.Causes[i].Share
				}
				if len(results) == 1 {
					row = append(row, fmt.Sprintf("%.2f", c.USD))
				}
				row = append(row, percent(share))
			}
			rows = append(rows, row)
		}
	}
	return append(rows, total)
}

func percent(share float64) string { return fmt.Sprintf("%.1f %%", math.Round(1000*share)/10+0) } // without the sign of a negative zero

// ratioWords returns a bill as a share of the first bill.
func ratioWords(cost, first float64) string {
	if first == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", 100*cost/first)
}

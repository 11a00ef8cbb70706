package cli

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"tenon.sh/engine"
	"tenon.sh/engine/advice"
	"tenon.sh/scenario"
)

// writePlanText prints a plan, and the advice unless it is nil.
func writePlanText(t *terminal, plan *engine.Plan, said *advice.Advice, disrupt bool) error {
	sections := [][]string{
		summary(plan),
		launchTable(t, "", plan.Launches),
		commitmentTable(t, plan.Commitments),
		placementTable(t, plan.Placements),
		bufferTable(t, plan.Buffers),
		requestTable(t, plan.ProvisioningRequests),
		refusals(t, plan.Unplaced),
		disruptionTable(t, plan),
		noteLines(t, plan.Notes),
		launchReasons(said),
		suggestions(t, said),
	}
	if disrupt && len(plan.Disruptions)+len(plan.Kept) == 0 {
		sections = append(sections, []string{"There is no node with a NodeClaim to look at."})
	}
	first := true
	for _, lines := range sections {
		if len(lines) == 0 {
			continue
		}
		if !first {
			t.line("")
		}
		first = false
		t.lines(lines)
	}
	return nil
}

// summary returns one or two lines that sum up the plan.
func summary(plan *engine.Plan) []string {
	started, room, booked := 0, 0, 0
	for _, l := range plan.Launches {
		started += len(l.Pods)
		for _, b := range l.Buffers {
			room += b.Pods
		}
		for _, b := range l.ProvisioningRequests {
			booked += b.Pods
		}
	}
	var parts []string
	if n := len(plan.Launches); n > 0 {
		parts = append(parts, fmt.Sprintf("%s to start for %s", count(n, "machine"), count(started, "pod")))
		if room > 0 {
			parts[0] += fmt.Sprintf(" and the room of %s that buffers keep", count(room, "pod"))
		}
		if booked > 0 {
			parts[0] += fmt.Sprintf(" and %s that ProvisioningRequests announce", count(booked, "pod"))
		}
	}
	if n := len(plan.Placements); n > 0 {
		parts = append(parts, fmt.Sprintf("%s on machines that are there", count(n, "pod")))
	}
	if n := len(plan.Unplaced); n > 0 {
		parts = append(parts, fmt.Sprintf("%s cannot be placed", count(n, "pod")))
	}
	if len(parts) == 0 {
		parts = append(parts, "no pod waits for a machine")
	}
	lines := []string{capital(strings.Join(parts, "; ")) + "."}
	if line := commitmentLine(plan.Commitments); line != "" {
		lines = append(lines, line)
	}
	if cost := plan.Cost; cost.LaunchesPerHour > 0 || cost.Unpriced > 0 {
		line := fmt.Sprintf("Cost: %s USD per hour", money(cost.LaunchesPerHour))
		if cost.Bound > 0 {
			line += fmt.Sprintf("; no plan costs less than %s (gap %.1f %%)", money(cost.Bound), 100*cost.Gap)
		}
		if cost.Unpriced > 0 {
			line += fmt.Sprintf(", and %s of unknown price", count(cost.Unpriced, "machine"))
		}
		lines = append(lines, line+".")
		if cost.Expected > cost.LaunchesPerHour*1.0005 {
			line := fmt.Sprintf("Expected: %s, because kube-scheduler places pods by its own scores", money(cost.Expected))
			if cost.Unhinted != cost.Expected {
				line += fmt.Sprintf(" (%s without nominations)", money(cost.Unhinted))
			}
			lines = append(lines, line+".")
		}
		if len(cost.Prices) > 0 {
			worth := make([]string, 0, len(cost.Prices))
			for _, p := range cost.Prices {
				worth = append(worth, p.Sentence())
			}
			lines = append(lines, capital(strings.Join(worth, "; "))+".")
		}
	}
	return lines
}

func launchTable(t *terminal, indent string, launches []engine.Launch) []string {
	if len(launches) == 0 {
		return nil
	}
	rows := [][]string{{"LAUNCH", "INSTANCE TYPE", "ZONE", "CAPACITY", "USD/HOUR", "FULL", "PODS"}}
	for _, l := range launches {
		var zones, capacity []string
		for _, o := range l.Offerings {
			zones, capacity = append(zones, o.Zone), append(capacity, o.CapacityType)
		}
		if l.Commitment != "" {
			capacity = []string{"paid by " + l.Commitment}
		}
		full := "-"
		if l.Why.FilledBy != "" {
			full = fmt.Sprintf("%.0f %% %s", 100*l.Why.Filled, l.Why.FilledBy)
		}
		price := money(l.Price)
		if l.Price == 0 {
			price = "unknown"
		}
		rows = append(rows, []string{l.Name, some(l.InstanceTypes, 1), some(unique(zones), 2), strings.Join(unique(capacity), ","),
			price, full, launchedFor(&l)})
	}
	return table(t, indent, rows)
}

// launchedFor names the pods of a launch, and the buffers and ProvisioningRequests that it has room for.
func launchedFor(l *engine.Launch) string {
	var parts []string
	if len(l.Pods) > 0 {
		parts = append(parts, podList(l.Pods))
	}
	for _, b := range l.Buffers {
		parts = append(parts, fmt.Sprintf("%d of buffer %s/%s", b.Pods, b.Namespace, b.Name))
	}
	for _, b := range l.ProvisioningRequests {
		parts = append(parts, fmt.Sprintf("%d of request %s/%s", b.Pods, b.Namespace, b.Name))
	}
	return strings.Join(parts, " + ")
}

// bufferTable shows how much room of each CapacityBuffer exists, and its cost.
func bufferTable(t *terminal, buffers []engine.BufferRoom) []string {
	if len(buffers) == 0 {
		return nil
	}
	rows := [][]string{{"BUFFER", "SIZE", "ON NODES", "TO COME", "NO PLACE", "USD/HOUR", "WHY"}}
	for _, b := range buffers {
		why := b.Problem
		if why == "" {
			why = engine.Sentence(b.Reasons)
		}
		if b.Quota != "" {
			why = strings.TrimSpace("no more by ResourceQuota " + b.Quota + " " + why)
		}
		if b.Limit != "" {
			why = strings.TrimSpace("no more by the limit of all buffers for " + string(b.Limit) + " " + why)
		}
		rows = append(rows, []string{b.Namespace + "/" + b.Name, fmt.Sprint(b.Size), fmt.Sprint(b.Existing), fmt.Sprint(b.Coming),
			fmt.Sprint(b.Size - b.Existing - b.Coming), money(b.PerHour), cmp.Or(why, "-")})
	}
	return table(t, "", rows)
}

// requestTable shows the state of each ProvisioningRequest that is not idle.
func requestTable(t *terminal, requests []engine.RequestRoom) []string {
	rows := [][]string{{"PROVISIONING REQUEST", "PODS TO COME", "ON NODES", "STARTING", "SAYS"}}
	for _, r := range requests {
		says := cmp.Or(r.Problem, "-")
		if r.Status != nil && len(r.Status.Conditions) > 0 {
			c := r.Status.Conditions[len(r.Status.Conditions)-1]
			says = c.Reason + ": " + c.Message
		} else if r.Size == 0 && r.Problem == "" {
			continue
		}
		rows = append(rows, []string{r.Namespace + "/" + r.Name, fmt.Sprint(r.Size), fmt.Sprint(r.Existing), fmt.Sprint(r.Coming), says})
	}
	if len(rows) == 1 {
		return nil
	}
	return table(t, "", rows)
}

func placementTable(t *terminal, placements []engine.Placement) []string {
	if len(placements) == 0 {
		return nil
	}
	byNode := map[string][]engine.PodID{}
	for _, p := range placements {
		byNode[p.Node] = append(byNode[p.Node], p.Pod)
	}
	rows := [][]string{{"EXISTING NODE", "PODS"}}
	for _, node := range slices.Sorted(maps.Keys(byNode)) {
		rows = append(rows, []string{node, podList(byNode[node])})
	}
	return table(t, "", rows)
}

// refusals lists the pods that cannot be placed. Pods with the same reasons are listed together.
func refusals(t *terminal, unplaced []engine.Unplaced) []string {
	var lines []string
	for _, g := range scenario.GroupUnplaced(unplaced) {
		lines = append(lines, t.paint(red, "Cannot be placed: ")+podList(g.Pods))
		for _, r := range g.Reasons {
			lines = append(lines, "  "+reasonLine(r))
		}
	}
	return lines
}

func reasonLine(r engine.Reason) string {
	return fmt.Sprintf("%s [%s]", r.Sentence(), r.Code)
}

func disruptionTable(t *terminal, plan *engine.Plan) []string {
	var lines []string
	for _, d := range plan.Disruptions {
		line := fmt.Sprintf("%s %s: %s", t.paint(bold, "Remove"), strings.Join(d.Nodes, ", "), d.Sentence())
		if len(d.Pods) > 0 {
			line += ": " + podList(d.Pods)
		}
		lines = append(lines, line)
		lines = append(lines, launchTable(t, "  ", d.Replacements)...)
	}
	if len(plan.Kept) == 0 {
		return lines
	}
	if len(lines) > 0 {
		lines = append(lines, "")
	}
	rows := [][]string{{"NODE THAT STAYS", "POOL", "BECAUSE"}}
	for _, k := range plan.Kept {
		name := k.Node
		if name == "" {
			name = k.Claim
		}
		rows = append(rows, []string{name, k.Reason.NodePool, fmt.Sprintf("%s [%s]", k.Reason.Message(), k.Reason.Code)})
	}
	return append(lines, table(t, "", rows)...)
}

func noteLines(t *terminal, notes []engine.Note) []string {
	var lines []string
	for _, n := range notes {
		lines = append(lines, fmt.Sprintf("%s %s: %s [%s]", t.paint(bold, "Left out:"), n.Object, n.Reason.Message(), n.Reason.Code))
	}
	return lines
}

// shownSuggestions is the largest number of suggestions in the text. Documents contain all.
const shownSuggestions = 5

// launchReasons lists the reasons for the choice of the machines. Machines with the same reasons are listed together.
func launchReasons(said *advice.Advice) []string {
	if said == nil || len(said.Launches) == 0 {
		return nil
	}
	lines := []string{"Why these:"}
	for i := 0; i < len(said.Launches); {
		end := i + 1
		for end < len(said.Launches) && said.Launches[end].Why == said.Launches[i].Why {
			end++
		}
		names := said.Launches[i].Launch
		if end > i+1 {
			names += " … " + said.Launches[end-1].Launch
		}
		lines = append(lines, "  "+names+": "+said.Launches[i].Why)
		i = end
	}
	return lines
}

// suggestions lists changes that would make the plan cheaper.
func suggestions(t *terminal, said *advice.Advice) []string {
	if said == nil || said.PerHour == 0 {
		return nil
	}
	lines := []string{fmt.Sprintf("Of %s, none saves 1 %%.", count(said.Tried, "change"))}
	if len(said.Suggestions) > 0 {
		rows := [][]string{{"SAVES", "USD/HOUR", "WITH"}}
		for _, x := range said.Suggestions[:min(len(said.Suggestions), shownSuggestions)] {
			with := x.Object + ": " + x.Change
			if x.Caution != "" {
				with += " (" + x.Caution + ")"
			}
			rows = append(rows, []string{fmt.Sprintf("%.1f %%", 100*x.Saving), money(x.SavingPerHour), with})
		}
		lines = append([]string{fmt.Sprintf("What would make the %s USD per hour less, each by itself:", money(said.PerHour))}, table(t, "", rows)...)
		if more := len(said.Suggestions) - shownSuggestions; more > 0 {
			lines = append(lines, fmt.Sprintf("%d more: -o json has all.", more))
		}
	}
	if said.Untried > 0 {
		lines = append(lines, fmt.Sprintf("Not tried: %s.", count(said.Untried, "further change")))
	}
	return lines
}

// table aligns columns. The first row is the heading.
func table(t *terminal, indent string, rows [][]string) []string {
	width := columnWidths(rows)
	var lines []string
	for n, row := range rows {
		var b strings.Builder
		for i, cell := range row {
			b.WriteString(cell)
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell)+2))
			}
		}
		line := b.String()
		if n == 0 {
			line = t.paint(faint, line)
		}
		lines = append(lines, indent+line)
	}
	return lines
}

// A line lists at most mostPodGroups groups of names, and ends earlier at widestPodList characters.
const (
	mostPodGroups = 4
	widestPodList = 60
)

// podList writes pods as web-1 … web-50 (50 pods). Pods whose names count up form one group. If there are many groups, only the first ones
// are named.
func podList(pods []engine.PodID) string {
	var names []string
	named, width := 0, 0
	groups := scenario.GroupPods(pods)
	for i, g := range groups {
		if len(groups)-i > 1 && (i == mostPodGroups || i > 0 && width+len(g.First) > widestPodList) {
			return fmt.Sprintf("%s and %s more", strings.Join(names, ", "), count(len(pods)-named, "pod"))
		}
		name := g.First
		if g.Count > 1 {
			name = fmt.Sprintf("%s … %s (%d pods)", g.First, g.Last, g.Count)
		}
		names = append(names, name)
		named += g.Count
		width += len(name)
	}
	return strings.Join(names, ", ")
}

// some lists the first names and the number of further names.
func some(names []string, most int) string {
	if len(names) <= most {
		return strings.Join(names, ",")
	}
	return fmt.Sprintf("%s +%d", strings.Join(names[:most], ","), len(names)-most)
}

func unique(names []string) []string {
	names = slices.Clone(names)
	slices.Sort(names)
	return slices.Compact(names)
}

// money writes four decimals, because the cheapest machines cost less than a cent per hour.
func money(usd float64) string { return fmt.Sprintf("%.4f", usd) }

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func capital(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

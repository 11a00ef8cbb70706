package scenario

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/disruption"
)

// Print writes a plan in the notation, one line for each part.
func Print(plan *engine.Plan) string {
	var out strings.Builder
	for _, l := range plan.Launches {
		fmt.Fprintf(&out, "launch %s\n", launchLine(l))
	}
	printPlacements(&out, plan.Placements)
	printUnplaced(&out, plan.Unplaced)
	printBuffers(&out, plan.Buffers)
	printRequests(&out, plan.ProvisioningRequests)
	for _, d := range plan.Disruptions {
		printDisruption(&out, d)
	}
	for _, u := range plan.Commitments {
		fmt.Fprintf(&out, "commitment %s %s/h: used %s, launches %s, elsewhere %s, idle %s, instead of %s\n", u.Name, Price(u.CommittedPerHour), Price(u.UsedPerHour),
			Price(u.LaunchesPerHour), Price(u.ElsewherePerHour), Price(u.IdlePerHour), Price(u.InsteadPerHour))
		if u.Problem != "" {
			fmt.Fprintf(&out, "  %s\n", u.Problem)
		}
	}
	for _, k := range plan.Kept {
		fmt.Fprintf(&out, "keep %s: %s\n", cmp.Or(k.Node, k.Claim), k.Reason)
	}
	if len(plan.Next) > 0 {
		fmt.Fprintf(&out, "next %s\n", strings.Join(plan.Next, " "))
	}
	for _, n := range plan.Notes {
		fmt.Fprintf(&out, "note %s: %s\n", n.Object, n.Reason)
	}
	if out.Len() == 0 {
		return "nothing to do\n"
	}
	return out.String()
}

// launchLine returns a line such as general-1 small zone=a,b 0.05/h: web-1 web-2. It names the capacity type unless that is on-demand.
func launchLine(l engine.Launch) string {
	pods := PodNames(l.Pods)
	var zones, capacity, reserved []string
	for _, o := range l.Offerings {
		zones, capacity = append(zones, o.Zone), append(capacity, o.CapacityType)
		if o.Reservation != "" {
			reserved = append(reserved, o.Reservation)
		}
	}
	words := []string{l.Name, typeNames(l.InstanceTypes), "zone=" + set(zones)}
	if c := set(capacity); c != v1.CapacityTypeOnDemand {
		words = append(words, "capacity="+c)
	}
	if len(reserved) > 0 {
		words = append(words, "reserved="+set(reserved))
	}
	if l.Commitment != "" {
		words = append(words, "commitment="+l.Commitment)
	}
	if len(l.Labels) > 0 {
		var labels []string
		for _, key := range slices.Sorted(maps.Keys(l.Labels)) {
			labels = append(labels, key+":"+l.Labels[key])
		}
		words = append(words, "labels="+strings.Join(labels, ","))
	}
	for _, b := range l.Buffers {
		pods += fmt.Sprintf(" + %d of buffer %s/%s", b.Pods, b.Namespace, b.Name)
	}
	for _, b := range l.ProvisioningRequests {
		pods += fmt.Sprintf(" + %d of request %s/%s", b.Pods, b.Namespace, b.Name)
	}
	return fmt.Sprintf("%s %s/h: %s", strings.Join(words, " "), Price(l.Price), strings.TrimPrefix(pods, " "))
}

// printBuffers prints the result of each buffer.
func printBuffers(out *strings.Builder, buffers []engine.BufferRoom) {
	for _, b := range buffers {
		fmt.Fprintf(out, "buffer %s/%s: ", b.Namespace, b.Name)
		if b.ProblemReason != "" {
			fmt.Fprintf(out, "%s: %s\n", b.ProblemReason, b.Problem)
			continue
		}
		fmt.Fprintf(out, "%d, %d fit, %d to come, %s/h", b.Size, b.Existing, b.Coming, Price(b.PerHour))
		if b.Quota != "" {
			fmt.Fprintf(out, ", no more by ResourceQuota %s", b.Quota)
		}
		if b.Limit != "" {
			fmt.Fprintf(out, ", no more by the limit of all buffers for %s", b.Limit)
		}
		fmt.Fprintln(out)
		for _, r := range b.Reasons {
			fmt.Fprintf(out, "  %s\n", r)
		}
	}
}

// typeNames lists instance types, cheapest first. If there are more than four, only the first three are named.
func typeNames(types []string) string {
	if len(types) <= 4 {
		return strings.Join(types, ",")
	}
	return strings.Join(types[:3], ",") + ",+" + strconv.Itoa(len(types)-3)
}

func set(values []string) string {
	slices.Sort(values)
	return strings.Join(slices.Compact(values), ",")
}

// Price writes an amount in USD with at most six decimals.
func Price(usd float64) string {
	return strconv.FormatFloat(math.Round(usd*1e6)/1e6, 'f', -1, 64)
}

func printPlacements(out *strings.Builder, placements []engine.Placement) {
	byNode := map[string][]engine.PodID{}
	for _, p := range placements {
		byNode[p.Node] = append(byNode[p.Node], p.Pod)
	}
	for _, node := range slices.Sorted(maps.Keys(byNode)) {
		fmt.Fprintf(out, "place on %s: %s\n", node, PodNames(byNode[node]))
	}
}

// printUnplaced prints pods with the same reasons on one line.
func printUnplaced(out *strings.Builder, unplaced []engine.Unplaced) {
	for _, g := range GroupUnplaced(unplaced) {
		fmt.Fprintf(out, "refuse %s\n", PodNames(g.Pods))
		for _, r := range g.Reasons {
			fmt.Fprintf(out, "  %s\n", r)
		}
	}
}

// Refused is a set of pods that were refused for the same reasons.
type Refused struct {
	Pods    []engine.PodID
	Reasons []engine.Reason
}

// GroupUnplaced groups pods that were refused for the same reasons, in the order of each group's first pod.
func GroupUnplaced(unplaced []engine.Unplaced) []Refused {
	var groups []Refused
	for _, u := range unplaced {
		i := slices.IndexFunc(groups, func(g Refused) bool { return slices.Equal(g.Reasons, u.Reasons) })
		if i < 0 {
			groups = append(groups, Refused{Reasons: u.Reasons})
			i = len(groups) - 1
		}
		groups[i].Pods = append(groups[i].Pods, u.Pod)
	}
	return groups
}

func printDisruption(out *strings.Builder, d engine.Disruption) {
	fmt.Fprintf(out, "disrupt %s: %s, saves %s/h\n", strings.Join(d.Nodes, " "), d.Reason, Price(d.SavingPerHour))
	if d.TerminateFirst != "" {
		fmt.Fprintf(out, "  terminate first: %s\n", d.TerminateFirst)
	}
	if len(d.NodesLater) > 0 {
		fmt.Fprintf(out, "  then %s\n", strings.Join(d.NodesLater, " "))
	}
	if len(d.YieldsTo) > 0 {
		fmt.Fprintf(out, "  yields to %s\n", PodNames(d.YieldsTo))
	}
	if len(d.Pods) > 0 {
		fmt.Fprintf(out, "  move %s\n", PodNames(d.Pods))
	}
	if len(d.Held) > 0 {
		fmt.Fprintf(out, "  held %s", PodNames(d.Held))
		if !d.HeldUntil.IsZero() {
			fmt.Fprintf(out, " until %s", engine.ClockText(d.HeldUntil))
		}
		fmt.Fprintln(out)
	}
	if d.DrainWithin != nil {
		fmt.Fprintf(out, "  drain within %s\n", *d.DrainWithin)
	}
	for _, l := range d.Replacements {
		fmt.Fprintf(out, "  launch %s\n", launchLine(l))
	}
}

func printChecks(s *engine.Snapshot, plan *engine.Plan) string {
	var out strings.Builder
	say := func(what string, action engine.Action) {
		verdict := "ok"
		if r := disruption.Check(action, s); !r.OK() {
			verdict = r.String()
		}
		fmt.Fprintf(&out, "%s: %s\n", what, verdict)
	}
	for _, l := range plan.Launches {
		say("launch "+l.Name, l)
	}
	for _, p := range plan.Placements {
		say("place "+PodNames([]engine.PodID{p.Pod})+" on "+p.Node, p)
	}
	for _, d := range plan.Disruptions {
		say("disrupt "+strings.Join(d.Nodes, " "), d)
	}
	if out.Len() == 0 {
		return "nothing to check\n"
	}
	return out.String()
}

func printWhy(plan *engine.Plan) string {
	var out strings.Builder
	for _, l := range plan.Launches {
		fmt.Fprintf(&out, "why %s: %d considered", l.Name, l.Why.Considered)
		if l.Why.RunnerUp != (engine.OfferingID{}) {
			fmt.Fprintf(&out, ", next %s for %s/h more", l.Why.RunnerUp, Price(l.Why.PriceDifference))
		}
		fmt.Fprintf(&out, ", %s %.0f %% full", l.Why.FilledBy, 100*l.Why.Filled)
		if l.Why.Division != nil {
			fmt.Fprintf(&out, ", %s", l.Why.Division.Sentence())
		}
		out.WriteString("\n")
	}
	return out.String()
}

func printCost(c engine.Cost) string {
	if c.Bound == 0 {
		return fmt.Sprintf("cost %s/h\n", Price(c.LaunchesPerHour))
	}
	return fmt.Sprintf("cost %s/h, bound %s/h, gap %.1f %%\n", Price(c.LaunchesPerHour), Price(c.Bound), 100*c.Gap)
}

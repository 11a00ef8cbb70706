package cli

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/explain"
)

// poolStory returns the story of a pool: its abilities now.
func poolStory(s *explain.PoolExplanation) objectStory {
	nodes := fmt.Sprintf("%s, %s/h", count(s.Nodes, "node"), engine.Dollars(s.PricePerHour))
	if s.Unpriced > 0 {
		nodes += fmt.Sprintf("; the price of %d is in no catalog", s.Unpriced)
	}
	facts := []fact{{"class", orDash(s.Class)}, {"weight", fmt.Sprint(s.Weight)}, {"runs", nodes}}
	if len(s.Limits) == 0 {
		facts = append(facts, fact{"limits", "none"})
	}
	for _, l := range s.Limits {
		text := fmt.Sprintf("%s of %s %s used", l.UsedWords, l.AvailableWords, l.Resource)
		if l.Hardware != "" {
			text += fmt.Sprintf(", as nodes show it: its machines have %s in hardware", l.Hardware)
		}
		facts = append(facts, fact{"limit", text})
	}
	facts = append(facts, fact{"can buy", fmt.Sprintf("%s of %s", count(s.Offerings, "offering"), count(s.InstanceTypes, "instance type"))})
	if c := s.CheapestPerCore; c != nil {
		facts = append(facts, fact{"cheapest", fmt.Sprintf("%s: %s/h, %s/h for a core", c.Words(), engine.Dollars(c.Price), engine.Dollars(c.PerCore))})
	}
	if len(s.SoldOut) > 0 {
		facts = append(facts, fact{"sold out", some(s.SoldOut, mostPodGroups)})
	}
	for _, d := range s.Devices {
		text := d.Shows
		if d.Hardware != d.Shows {
			text += " for " + d.Hardware
		}
		facts = append(facts, fact{"devices", fmt.Sprintf("%s on %s: %s", text, some(d.InstanceTypes, mostPodGroups), d.Source)})
	}
	facts = append(facts, budgetFacts(s)...)
	if d := s.Drift; d != nil {
		facts = append(facts, fact{"drifted", count(d.Nodes, "node")})
		for _, g := range d.Stay {
			facts = append(facts, fact{"not now", fmt.Sprintf("%s, such as %s: %s [%s]", count(len(g.Nodes), "drifted node"), g.Nodes[0], g.Message, g.Code)})
		}
	}
	for _, c := range s.Conditions {
		if c.Status != metav1.ConditionTrue && c.Message != "" {
			facts = append(facts, fact{"condition", fmt.Sprintf("%s is %s: %s", c.Type, c.Status, c.Message)})
		}
	}
	for _, l := range s.Launches {
		facts = append(facts, fact{"starts", l})
	}
	for _, n := range s.Notes {
		facts = append(facts, fact{"note", n})
	}
	out := objectStory{kind: "NodePool", name: s.NodePool, headline: s.Summary, parts: []part{{facts: facts}}}
	for _, r := range s.Refused {
		out.parts = append(out.parts, part{title: "Refuses:", alarming: true, text: podList(r.PodIDs),
			lines: []string{fmt.Sprintf("  %s [%s]", r.Message, r.Code)}})
	}
	return out
}

// timeLayout is the format of the times at which budgets open and close, in the time zone of their pool.
const timeLayout = "Mon 2 Jan 15:04 MST"

// budgetFacts returns one fact for each budget's present limit, and the facts about all budgets together.
func budgetFacts(s *explain.PoolExplanation) []fact {
	var facts []fact
	if s.Paused != "" {
		facts = append(facts, fact{"paused", s.Paused})
	}
	if s.Retired {
		facts = append(facts, fact{"retired", "it starts no more machines"})
	}
	if s.TimeZone != "" {
		facts = append(facts, fact{"time zone", s.TimeZone})
	}
	for i := range s.Budgets {
		facts = append(facts, fact{"budget", budgetText(&s.Budgets[i])})
	}
	return append(facts, allowanceFacts(s.Allowances)...)
}

// budgetText describes a budget and the number of nodes that it allows now.
func budgetText(b *explain.BudgetRecord) string {
	text := "nodes " + b.Nodes
	if len(b.Reasons) > 0 {
		text += " for " + strings.Join(texts(b.Reasons), ", ")
	}
	switch b.Bounds {
	case "replaced":
		text += ", with a replacement"
	case "deleted":
		text += ", without a replacement"
	}
	if b.Schedule != "" {
		text += fmt.Sprintf(" from %q for %s", b.Schedule, b.Duration)
	}
	switch {
	case b.Problem != "":
		text += ": " + b.Problem
	case b.Allows == nil && b.Turns != nil:
		text += ": not in force now, but from " + b.Turns.Format(timeLayout)
	case b.Allows == nil:
		text += ": not in force now"
	case b.Turns != nil:
		text += ": " + count(*b.Allows, "node") + " at a time until " + b.Turns.Format(timeLayout)
	default:
		text += ": " + count(*b.Allows, "node") + " at a time"
	}
	return text
}

// allowanceFacts says how many nodes may go now. Reasons with the same allowance share a line.
func allowanceFacts(allowances []explain.AllowedRecord) []fact {
	var facts []fact
	var order []string
	reasons := map[string][]v1.DisruptionReason{}
	for _, a := range allowances {
		text := "any number of nodes may go"
		switch {
		case a.Problem != "":
			text = "no node may go: " + a.Problem
		case a.Left != nil:
			text = count(*a.Left, "more node") + " may go"
			if a.Opens != nil {
				text += " before " + a.Opens.Format(timeLayout)
			}
		}
		if a.Disrupting > 0 {
			text += fmt.Sprintf(" (%d leaving or not ready)", a.Disrupting)
		}
		if reasons[text] == nil {
			order = append(order, text)
		}
		reasons[text] = append(reasons[text], a.Reason)
	}
	for _, text := range order {
		if len(order) > 1 {
			facts = append(facts, fact{"now", text + " as " + strings.Join(texts(reasons[text]), ", ")})
			continue
		}
		facts = append(facts, fact{"now", text})
	}
	return facts
}

func texts(reasons []v1.DisruptionReason) []string {
	out := make([]string, 0, len(reasons))
	for _, r := range reasons {
		out = append(out, string(r))
	}
	return out
}

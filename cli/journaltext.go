package cli

import (
	"fmt"
	"strings"
	"time"

	"tenon.sh/engine"
	"tenon.sh/journal"
)

// journalTime is the format of the journal's times. It contains the date.
const journalTime = "2006-01-02 15:04:05"

// journalLines returns the lines of the journal's table. The newest decision is last.
func journalLines(screen *terminal, d *journal.Document) []string {
	if len(d.Records) == 0 {
		return []string{"The journal has no such decision."}
	}
	rows := [][]string{{"TIME (UTC)", "ID", "KIND", "POOL", "REASON", "OUTCOME", "USD/HOUR LESS", "SAVED USD", "DECISION"}}
	for i := range d.Records {
		r := &d.Records[i]
		saving, saved := "-", "-"
		if r.Kind == journal.Disruption {
			saving, saved = money(r.SavingPerHour), savedWords(r)
		}
		rows = append(rows, []string{r.Time.UTC().Format(journalTime), r.ID, string(r.Kind), orDash(strings.Join(r.NodePools, ",")), r.Reason,
			r.Outcome.Words(), saving, saved, r.Says})
	}
	lines := table(screen, "", fit(rows, screen.columns))
	for _, s := range d.Savings {
		lines = append(lines, fmt.Sprintf("%s: %s, %s/h less expected, $%.2f saved so far", s.Reason, count(s.Decisions, "decision"), engine.Dollars(s.SavingPerHour), s.Saved))
	}
	return lines
}

func savedWords(r *journal.Record) string { return fmt.Sprintf("%.2f", r.Saved) }

// decisionStory returns the story of one decision: the situation, the choice, the rejected choices and the outcome.
func decisionStory(r *journal.Record, asOf time.Time) objectStory {
	out := objectStory{kind: "Decision", name: r.ID, headline: r.Says}
	facts := []fact{
		{"when", r.Time.UTC().Format(journalTime) + " UTC"}, {"kind", string(r.Kind)}, {"reason", r.Reason}, {"pools", orDash(strings.Join(r.NodePools, ", "))},
		{"outcome", r.Outcome.Words()},
		{"seen", fmt.Sprintf("%s for %s/h, %s of which %d waiting", count(r.Seen.Nodes, "node"), engine.Dollars(r.Seen.PricePerHour), count(r.Seen.Pods, "pod"), r.Seen.Waiting)},
	}
	if r.Kind == journal.Disruption {
		facts = append(facts,
			fact{"price before", engine.Dollars(r.PriceBefore) + "/h"}, fact{"price after", engine.Dollars(r.PriceAfter) + "/h"},
			fact{"expected saving", engine.Dollars(r.SavingPerHour) + "/h"},
			fact{"saved so far", fmt.Sprintf("$%.4f by %s UTC, until its pool buys again for as much", r.Saved, asOf.UTC().Format(journalTime))})
	}
	out.parts = append(out.parts, part{facts: facts})
	if len(r.Machines) > 0 {
		out.parts = append(out.parts, part{title: "Machines:", text: "those that go, and those that come"}, part{rows: machineRows(r), follows: true})
	}
	if len(r.Rejected) > 0 {
		rows := [][]string{{"NOT CHOSEN", "COUNT", "SUCH AS", "BECAUSE"}}
		for _, x := range r.Rejected {
			rows = append(rows, []string{orDash(x.Code), fmt.Sprint(x.Count), orDash(strings.Join(x.Names, ", ")), x.Says})
		}
		out.parts = append(out.parts, part{title: "Not chosen:", text: "what else was possible, and what stays"}, part{rows: rows, follows: true})
	}
	if len(r.Steps) > 0 {
		rows := [][]string{{"TIME (UTC)", "CLAIM", "STEP", "BECAUSE"}}
		for _, s := range r.Steps {
			rows = append(rows, []string{s.Time.UTC().Format(journalTime), orDash(s.Claim), string(s.What), orDash(s.Says)})
		}
		out.parts = append(out.parts, part{title: "What happened:", text: "step by step"}, part{rows: rows, follows: true})
	}
	if r.Pods > 0 {
		names := strings.Join(r.PodNames, ", ")
		if more := r.Pods - len(r.PodNames); more > 0 {
			names += fmt.Sprintf(" and %d more", more)
		}
		out.parts = append(out.parts, part{title: "Pods:", text: names})
	}
	return out
}

func machineRows(r *journal.Record) [][]string {
	rows := [][]string{{"MACHINE", "NODE", "CLAIM", "POOL", "TYPE", "USD/HOUR"}}
	for i := range r.Machines {
		m := &r.Machines[i]
		does, usd := "goes", "-"
		if m.Comes {
			does = "comes"
		}
		if m.PricePerHour != nil {
			usd = money(*m.PricePerHour)
		}
		rows = append(rows, []string{does, orDash(m.Node), orDash(m.Claim), orDash(m.NodePool), orDash(strings.TrimSpace(m.InstanceType + " " + m.Zone + " " + m.CapacityType)), usd})
	}
	return rows
}

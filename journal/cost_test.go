package journal_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tenon.sh/journal"
)

// costsOf returns the costs of records as text, with seconds from their begin.
func costsOf(records ...journal.Record) string {
	var out []string
	for _, c := range journal.Costs(records) {
		out = append(out, fmt.Sprintf("%.0f: %g", c.Time.Sub(morning).Seconds(), c.PricePerHour))
	}
	return strings.Join(out, ", ")
}

var morning = time.Date(2026, 1, 5, 8, 0, 0, 0, time.UTC)

// decided returns a record some seconds after the begin, with steps such as "5 a launched".
func decided(second int, seen float64, machines []journal.Machine, steps ...string) journal.Record {
	r := journal.Record{Time: morning.Add(time.Duration(second) * time.Second), Machines: machines}
	r.Seen.At, r.Seen.PricePerHour = r.Time, seen
	for _, text := range steps {
		var s journal.Step
		after := 0
		_, _ = fmt.Sscan(text, &after, &s.Claim, (*string)(&s.What))
		s.Time = morning.Add(time.Duration(after) * time.Second)
		r.Steps = append(r.Steps, s)
	}
	return r
}

func coming(name string, usd float64) journal.Machine {
	return journal.Machine{Comes: true, Claim: name, PricePerHour: &usd}
}

func going(name string, usd float64) journal.Machine {
	return journal.Machine{Claim: name, PricePerHour: &usd}
}

// Machines that a decision starts and ends count immediately, not only from the next decision on.
func TestCostsStepWhenMachinesStartAndEnd(t *testing.T) {
	t.Parallel()
	two := []journal.Machine{coming("a", 1), coming("b", 2)}
	for name, c := range map[string]struct {
		records []journal.Record
		want    string
	}{
		"no decision comes after":             {[]journal.Record{decided(0, 0, two, "5 a launched", "6 b launched")}, "0: 0, 5: 1, 6: 3"},
		"the next decision sees no nodes yet": {[]journal.Record{decided(0, 0, two, "5 a launched", "5 b launched", "60 a registered", "61 b registered"), decided(20, 0, nil)}, "0: 0, 5: 3, 20: 3, 60: 3, 61: 3"},
		"the next one sees the nodes early":   {[]journal.Record{decided(0, 0, two, "5 a launched", "5 b launched", "60 a registered"), decided(20, 3, nil)}, "0: 0, 5: 3, 20: 3, 60: 3"},
		"one that fails":                      {[]journal.Record{decided(0, 4, two, "5 a launched", "5 b launched", "30 b failed")}, "0: 4, 5: 7, 30: 5"},
		"one that goes":                       {[]journal.Record{decided(0, 4, []journal.Machine{going("x", 3)}, "40 x removed")}, "0: 4, 40: 1"},
		"its node is gone before its claim":   {[]journal.Record{decided(0, 4, []journal.Machine{going("x", 3)}, "40 x removed"), decided(39, 1, nil)}, "0: 4, 39: 4, 40: 1"},
		"what nobody decided":                 {[]journal.Record{decided(0, 4, nil), decided(50, 9, nil)}, "0: 4, 50: 9"},
		"a launch of the same second":         {[]journal.Record{decided(1, 0, two, "0 a launched")}, "1: 1"},
	} {
		if got := costsOf(c.records...); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

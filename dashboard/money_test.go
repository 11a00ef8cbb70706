package dashboard_test

import (
	"strings"
	"testing"
	"time"

	"tenon.sh/dashboard"
)

// Machines that were started after the last decision are drawn from their start on. The charts state the times that they show.
func TestTheChartStepsWhenMachinesStart(t *testing.T) {
	t.Parallel()
	p := withJournal(4)
	begin := p.At.Add(-6 * time.Hour)
	p.Costs = []dashboard.Cost{{Time: begin, PricePerHour: 0}, {Time: begin.Add(time.Hour), PricePerHour: 3}}
	p.Nodes = document(map[string]any{"kind": "Nodes", "pricePerHour": 3.0, "nodes": []any{}})
	page := get(t, serve(t, p), "/money")
	line := between(page, `class="cost" d="`, `"`)
	if len(line) != 1 || line[0] != "M84 192H283V12H1280V12H1280" {
		t.Errorf("the line is %q, want a step an hour after the beginning and none after that", line)
	}
	if times := between(page, `<text class="time`, "</text>"); len(times) != 7 || !strings.HasSuffix(times[0], ">1 Jan 06:00") || !strings.HasSuffix(times[6], ">12:00") {
		t.Errorf("the times of the axis are %q", times)
	}
	if page := get(t, serve(t, p), "/decisions"); len(between(page, `<text class="time`, "</text>")) < 3 {
		t.Error("the timeline has no axis of time")
	}
}

// A plan that costs more saves no money, and is not shown as a negative saving.
func TestThereMayBeNothingToSave(t *testing.T) {
	t.Parallel()
	for planned, want := range map[float64]string{0.5: "$1.5000<small>/h, $1095.00 a month, 75 % of the bill", 2: "Nothing<small>", 3: "Nothing<small>"} {
		p := few()
		p.Savings = func() ([]byte, error) {
			return document(map[string]any{"nowPerHour": 2.0, "plannedPerHour": planned, "starting": 1, "startingPerHour": 0.25}), nil
		}
		page := get(t, serve(t, p), "/money")
		if !strings.Contains(page, `<p class="saving">`+want) || !strings.Contains(page, "Not compared: 1 machine without a node yet ($0.2500/h).") {
			t.Errorf("%v planned: %v", planned, between(page, `<p class="saving">`, "</p>"))
		}
	}
}

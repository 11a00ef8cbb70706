package simulator_test

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"tenon.sh/examples"
	"tenon.sh/scenario"
	"tenon.sh/simulator"
)

// The built-in scenario: a week of about 500 machines. It should take a minute at most.
func BenchmarkAWeekOf500Machines(b *testing.B) {
	file, err := scenario.Parse(examples.Week)
	if err != nil {
		b.Fatal(err)
	}
	// As tenon simulate does it.
	file.Options.Threads, file.Options.Effort = runtime.GOMAXPROCS(0), simulator.UsualEffort
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	for b.Loop() {
		w, err := simulator.New(simulator.Config{
			Snapshot: file.Snapshot, Course: file.Course, Options: file.Options, Seed: 1, WarmUp: time.Hour, For: 7 * 24 * time.Hour,
		})
		if err != nil {
			b.Fatal(err)
		}
		r, err := w.Run(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		machines := 0.0
		for _, h := range r.Hours {
			machines += h.Machines / float64(len(r.Hours))
		}
		b.ReportMetric(machines, "machines")
		b.ReportMetric(float64(r.Counts.Bound), "pods")
		b.ReportMetric(float64(r.Counts.Passes), "passes")
	}
}

// The built-in scenario is read by everybody who types tenon simulate.
func TestTheBuiltInScenarioRuns(t *testing.T) {
	t.Parallel()
	c := config(t, examples.Week)
	c.WarmUp, c.For, c.BoundEvery = 0, 12*time.Minute, time.Hour
	if r := run(t, c); r.AtEnd.Machines < 100 || r.AtEnd.Waiting > 50 {
		t.Errorf("after 12 minutes: %+v", r.AtEnd)
	}
}

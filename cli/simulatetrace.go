package cli

import (
	"fmt"
	"io"
	"time"

	"tenon.sh/simulator"
	"tenon.sh/trace"
)

// addTrace reads the trace. The simulation is as long as the trace unless the user gives a length.
func (o *simulateOptions) addTrace(config *simulator.Config, saysDays bool, stdin io.Reader, notes *terminal) error {
	if o.trace == "" {
		return nil
	}
	t, err := readTrace(o.trace, stdin, trace.Read)
	if err != nil {
		return fmt.Errorf("--trace: %w", err)
	}
	notes.notes(t.Notes)
	span := t.End().Sub(t.Begin())
	switch {
	case !saysDays && span > mostDays*24*time.Hour:
		return fmt.Errorf("--trace %s: it goes on for %.0f days, and %d can be simulated: --days says how many from its beginning", o.trace, span.Hours()/24, mostDays)
	case !saysDays:
		config.For = lengthOf(t)
		o.days = config.For.Hours() / 24
	case span > config.For:
		notes.line("note: %s goes on for %s after the %s of --days: that part is not replayed.", o.trace, (span - config.For).Round(time.Minute), dayWords(o.days))
	}
	s := *config.Snapshot
	if len(s.Pods) > 0 {
		notes.line("note: -f holds %s of its own: they run beside those of the trace.", count(len(s.Pods), "pod"))
	}
	if len(s.Nodes)+len(s.NodeClaims)+len(s.Pods) == 0 {
		s.Now = t.Begin().Add(-config.WarmUp)
	} else {
		notes.line("note: what -f holds is of %s: the trace, which begins at %s, is moved to %s.", s.Now.UTC().Format(time.RFC3339), t.Begin().Format(time.RFC3339), s.Now.Add(config.WarmUp).UTC().Format(time.RFC3339))
	}
	config.Snapshot, config.Trace = &s, t
	return nil
}

// lengthOf returns the default length of a trace's replay.
func lengthOf(t *trace.Trace) time.Duration {
	return max(t.End().Sub(t.Begin()).Round(time.Second), time.Hour)
}

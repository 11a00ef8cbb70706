package simulator

import (
	"slices"
	"testing"
	"time"
)

// Pods that go on coming are planned for together, but the first of them does not wait for ever for the others.
func TestPodsThatGoOnComingArePlannedForEveryTenSeconds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		coming time.Duration // for how long pods come, every two seconds
		want   []int         // when plans are made, in seconds
	}{
		{"once", 0, []int{2}},
		{"for six seconds", 6 * time.Second, []int{8}},
		{"for half a minute", 30 * time.Second, []int{10, 22, 32}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := runningFor(t, 10*time.Minute, "catalog kwok\ncloud fixed30\npool general capacity in (on-demand)\ndeployment huge x1 cpu=10000 mem=1Gi")
			begun, passes := w.agenda.now, w.meter.Passes
			for d := time.Duration(0); d <= c.coming; d += Moment {
				w.agenda.after(d, w.timetable.wantMachines)
			}
			var at []int
			for w.agenda.now.Sub(begun) < time.Minute {
				goOn(t, w, Moment)
				if w.meter.Passes != passes {
					passes, at = w.meter.Passes, append(at, int(w.agenda.now.Sub(begun).Seconds()))
				}
			}
			if !slices.Equal(at, c.want) {
				t.Errorf("plans after %v seconds, want %v", at, c.want)
			}
		})
	}
}

package simulator_test

import (
	"encoding/json"
	"flag"
	"math"
	"os"
	"testing"

	"tenon.sh/engine/enginetest"
	"tenon.sh/simulator"
)

var rewrite = flag.Bool("rewrite", false, "write what is measured into testdata/release.json")

// trace has the figures of one simulated day. The test compares them with those of the last release.
type trace struct {
	MachineHours float64 `json:"machineHours"`
	Cost         float64 `json:"cost"` // in USD
	Evictions    float64 `json:"evictions"`
	Launched     float64 `json:"launched"`
}

// A release that moves more pods than the last one, or runs more machines, should not surprise anybody.
func TestTheTraceIsThatOfTheLastRelease(t *testing.T) {
	enginetest.Long(t)
	t.Parallel()
	const file = "testdata/release.json"
	seeds := enginetest.Few(3)
	if *rewrite {
		seeds = 3
	}
	var got, want []trace
	for seed := range seeds {
		c := config(t, shop)
		c.Seed, c.Audit, c.Options.Effort = seed+1, false, simulator.UsualEffort
		r := run(t, c)
		x := trace{Cost: r.Cost}
		for _, h := range r.Hours {
			x.MachineHours += h.Machines
			x.Evictions += float64(h.Evictions)
			x.Launched += float64(h.Launched)
		}
		got = append(got, x)
	}
	if *rewrite {
		text, err := json.MarshalIndent(got, "", "\t")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, append(text, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatalf("read %s: %v", file, err)
	}
	for i, x := range got {
		for _, c := range []struct {
			name      string
			got, want float64
		}{
			{"machine-hours", x.MachineHours, want[i].MachineHours},
			{"cost", x.Cost, want[i].Cost},
			{"evictions", x.Evictions, want[i].Evictions},
			{"machines launched", x.Launched, want[i].Launched},
		} {
			if !(math.Abs(c.got-c.want) <= 0.02*c.want) {
				t.Errorf("seed %d: %s: %.4g, with the last release %.4g: more than 2 %% apart; if that is meant: go test ./simulator -run Release -rewrite", i+1, c.name, c.got, c.want)
			}
		}
	}
}

package simulator_test

import (
	"encoding/json"
	"flag"
	"math"
	"os"
	"testing"

	"tenon.sh/simulator"
)

var rewrite = flag.Bool("rewrite", false, "write what is measured into testdata/release.json")

// trace is what a release is compared by.
type trace struct {
	MachineHours float64 `json:"machineHours"`
	Cost         float64 `json:"cost"` // in USD
	Evictions    float64 `json:"evictions"`
	Launched     float64 `json:"launched"`
}

// A release that moves more pods than the last one, or runs more machines, should not surprise anybody.
func TestTheTraceIsThatOfTheLastRelease(t *testing.T) {
	t.Parallel()
	const file = "testdata/release.json"
	var got, want trace
	for seed := range uint64(3) {
		c := config(t, shop)
		c.Seed, c.Audit, c.Options.Effort = seed+1, false, simulator.UsualEffort
		r := run(t, c)
		for _, h := range r.Hours {
			got.MachineHours += h.Machines
			got.Evictions += float64(h.Evictions)
			got.Launched += float64(h.Launched)
		}
		got.Cost += r.Cost
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
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"machine-hours", got.MachineHours, want.MachineHours},
		{"cost", got.Cost, want.Cost},
		{"evictions", got.Evictions, want.Evictions},
		{"machines launched", got.Launched, want.Launched},
	} {
		if !(math.Abs(c.got-c.want) <= 0.02*c.want) {
			t.Errorf("%s: %.4g, with the last release %.4g: more than 2 %% apart; if that is meant: go test ./simulator -run Release -rewrite", c.name, c.got, c.want)
		}
	}
}

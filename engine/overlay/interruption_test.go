package overlay_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/overlay"
)

// losses returns the expected losses by interruptions of a pool's offerings, except losses of 0.
func losses(s *engine.Snapshot, pool string) string {
	var out []string
	for _, t := range kube.ClassOf(s, kube.FindPool(s, pool)).InstanceTypes {
		for _, o := range t.Offerings {
			if o.InterruptionLoss != 0 {
				out = append(out, fmt.Sprintf("%s/%s/%s=%.4g", t.Name, o.Zone, o.CapacityType, o.InterruptionLoss))
			}
		}
	}
	return strings.Join(out, " ")
}

func TestInterruptionsCostWhatOverlaysSay(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ overlays, blue, green string }{
		"a rate and a cost":        {"overlay o interruptions=0.01 interruption-cost=2", "one/a/spot=0.02 one/b/spot=0.02", "same"},
		"of machines in a month":   {"overlay o interruptions=73% interruption-cost=2", "one/a/spot=0.002 one/b/spot=0.002", "same"},
		"of one zone":              {"overlay o interruptions=0.01 interruption-cost=2 zone in (b)", "one/b/spot=0.02", "same"},
		"of one pool":              {"overlay o interruptions=0.01 interruption-cost=2 pool in (green)", "", "one/a/spot=0.02 one/b/spot=0.02"},
		"a rate alone":             {"overlay o interruptions=0.01", "", "same"},
		"a cost alone":             {"overlay o interruption-cost=3", "", "same"},
		"each from another one":    {"overlay r interruptions=0.01 zone in (a)\noverlay c interruption-cost=3 pool in (blue)", "one/a/spot=0.03", ""},
		"the heavier one first":    {"overlay a interruptions=0.01 interruption-cost=2\noverlay b interruptions=0.5 zone in (b) weight=5", "one/a/spot=0.02 one/b/spot=1", "same"},
		"of machines on demand":    {"overlay o interruptions=0.01 interruption-cost=2 capacity in (on-demand)", "", "same"},
		"nothing is no cost":       {"overlay o interruptions=0 interruption-cost=2", "", "same"},
		"beside a corrected price": {"overlay o interruptions=0.01 interruption-cost=2 price=1", "one/a/spot=0.02 one/b/spot=0.02", "same"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := cluster(t, market+c.overlays+"\n")
			for _, v := range overlay.Apply(s) {
				if v.Reason != "" {
					t.Errorf("%s: %s", v.Reason, v.Message)
				}
			}
			if got := losses(s, "blue"); got != c.blue {
				t.Errorf("blue: %s, want %s", got, c.blue)
			}
			if want := strings.ReplaceAll(c.green, "same", c.blue); losses(s, "green") != want {
				t.Errorf("green: %s, want %s", losses(s, "green"), want)
			}
			first := losses(s, "blue")
			if overlay.Apply(s); losses(s, "blue") != first {
				t.Errorf("laid once more: %s", losses(s, "blue"))
			}
		})
	}
}

func TestWhatCannotBeReadOfInterruptionsIsInForceNowhere(t *testing.T) {
	t.Parallel()
	for key, values := range map[string][]string{
		"interruptions":     {"often", "-1", "-5%", "1e3", "61", "NaN", "%", "9999999%"},
		"interruption-cost": {"much", "-1", "+2", "20000", "Inf", "5%", "1e300"},
	} {
		for _, value := range values {
			s := cluster(t, market+"overlay o price=1 interruptions=0.01 interruption-cost=2 "+key+"="+value+"\n")
			list := overlay.Apply(s)
			if len(list) != 1 || list[0].Reason != overlay.RuntimeValidation || !strings.Contains(list[0].Message, fmt.Sprintf("is %q: ", value)) {
				t.Errorf("%s=%s: %+v", key, value, list)
			}
			if losses(s, "blue") != "" || strings.Contains(prices(s, "blue"), "=1 ") {
				t.Errorf("%s=%s: half of the overlay is in force: %s %s", key, value, losses(s, "blue"), prices(s, "blue"))
			}
		}
	}
}

func TestOverlaysOfOneWeightConflictAboutInterruptions(t *testing.T) {
	t.Parallel()
	for lines, want := range map[string]string{
		"overlay a interruptions=0.01\noverlay b interruptions=0.01 zone in (b)":                   "with NodeOverlay b, which has the same weight (0) and sets how often machines are interrupted of one/b/spot",
		"overlay a interruption-cost=1\noverlay b interruption-cost=2 interruptions=1 zone in (a)": "sets what an interruption costs of one/a/spot",
		"overlay a interruptions=0.01\noverlay b interruption-cost=2\noverlay c price=1":           "",
		"overlay a interruptions=0.01 zone in (a)\noverlay b interruptions=2 zone in (b)":          "",
		"overlay a interruptions=0.01\noverlay b interruptions=2 weight=3 interruption-cost=1":     "",
		"overlay a interruptions=1\noverlay b interruptions=2 capacity in (on-demand)":             "",
	} {
		s := cluster(t, market+lines+"\n")
		switch list := overlay.Apply(s); {
		case want == "" && list[0].Reason != "":
			t.Errorf("%s: %s", lines, list[0].Message)
		case want != "" && (list[0].Reason != overlay.Conflict || !strings.Contains(list[0].Message, want) || list[1].Reason != ""):
			t.Errorf("%s: %+v, want %q", lines, list, want)
		}
	}
}

func TestOverlaysSayWhatTheySayOfInterruptions(t *testing.T) {
	t.Parallel()
	for lines, want := range map[string]string{
		"overlay o interruptions=0.01 interruption-cost=2": "says of interruptions of 4 spot offerings that there are 0.01 per machine and hour and that each costs 2 USD in 2 NodePools: blue, green",
		"overlay o interruptions=0.01":                     "that there are 0.01 per machine and hour in 2 NodePools: blue, green; that counts for nothing until it is said of the same machines both how often they are",
		"overlay o weight=3":                               "set price, priceAdjustment or capacity, or the annotations tenon.sh/interruption-rate and tenon.sh/interruption-cost",
		"overlay o interruptions=0.01 type in (gpu)":       "it selects no spot machines, or",
	} {
		s := cluster(t, market+lines+"\n")
		if list := overlay.Apply(s); !strings.Contains(list[0].Message, want) || strings.Contains(lines, "cost") && strings.Contains(list[0].Message, "for nothing") {
			t.Errorf("%s: %q, want %q", lines, list[0].Message, want)
		}
	}
}

func TestOverlaysThatSayTheSameOfInterruptions(t *testing.T) {
	t.Parallel()
	rate := map[string]string{v1.InterruptionRateAnnotationKey: "5%"}
	if !overlay.SameInterruptions(nil, map[string]string{"other": "x"}) || !overlay.SameInterruptions(rate, map[string]string{v1.InterruptionRateAnnotationKey: "5%", "other": "x"}) {
		t.Error("what has nothing to do with interruptions counts")
	}
	if overlay.SameInterruptions(nil, rate) || overlay.SameInterruptions(rate, map[string]string{v1.InterruptionRateAnnotationKey: ""}) ||
		overlay.SameInterruptions(rate, map[string]string{v1.InterruptionRateAnnotationKey: "5%", v1.InterruptionCostAnnotationKey: "1"}) {
		t.Error("another rate or cost counts as the same")
	}
	if math.IsNaN((&engine.Offering{Price: 1, InterruptionLoss: 0.5}).NodePrice(0.25)) || (&engine.Offering{Price: 1, InterruptionLoss: 0.5}).NodePrice(0.25) != 1.75 {
		t.Error("a node's price is not the sum of its parts")
	}
}

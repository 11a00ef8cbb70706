package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/simulator"
)

// setting is the setting of one compared world. Fields with a zero value leave the setting to each pool.
type setting struct {
	name    string // name of a setting with a cluster of its own
	cluster *engine.Snapshot
	policy  v1.ConsolidationPolicy
	payback time.Duration
	after   *time.Duration
}

// wholeCurve represents the settings of curve: from an autoscaler that moves no pods to one that moves pods quickly.
const wholeCurve = "curve"

var curve = []string{"Baseline", "WhenEmpty", "Balanced", "payback=1h", "payback=2h", "payback=4h", "payback=8h", "payback=16h"}

// readSetting parses one word of --compare.
func readSetting(text string) (setting, error) {
	out := setting{}
	if text == wholeCurve {
		return out, nil
	}
	policies := []string{string(simulator.Baseline), string(v1.WhenEmpty), string(v1.WhenEmptyOrUnderutilized), string(v1.Balanced)}
	for _, word := range strings.Split(text, "+") {
		key, value, assigns := strings.Cut(word, "=")
		d, err := time.ParseDuration(value)
		switch {
		case !assigns && out.policy == "" && slices.Contains(policies, word):
			out.policy = v1.ConsolidationPolicy(word)
		case assigns && key == "payback" && out.payback == 0 && err == nil && d > 0:
			out.payback = d
		case assigns && key == "after" && out.after == nil && err == nil && d >= 0:
			out.after = &d
		default:
			return out, fmt.Errorf("--compare %s: it is a list of %s, payback=4h, after=10m, or several of them joined by +; or %s", text, strings.Join(policies, ", "), wholeCurve)
		}
	}
	if out.policy == simulator.Baseline && out.payback > 0 {
		return out, fmt.Errorf("--compare %s: %s has no price of moving pods that could be paid back", text, simulator.Baseline)
	}
	return out, nil
}

// settingsOf returns the settings of --compare, which has been checked. For an empty --compare it returns one empty setting.
func settingsOf(compare []string) []setting {
	var out []setting
	for _, text := range compare {
		words := []string{text}
		if text == wholeCurve {
			words = curve
		}
		for _, word := range words {
			x, _ := readSetting(word)
			out = append(out, x)
		}
	}
	if len(out) == 0 {
		out = append(out, setting{})
	}
	return out
}

// settingName returns the name of a world's setting in the form of --compare.
func settingName(r *simulator.Result) string {
	var words []string
	if r.Setting != "" {
		words = append(words, r.Setting)
	}
	if r.Policy != "" {
		words = append(words, string(r.Policy))
	}
	if r.Payback != nil {
		words = append(words, "payback="+engine.DurationText(r.Payback.Duration))
	}
	if r.ConsolidateAfter != nil {
		words = append(words, "after="+engine.DurationText(r.ConsolidateAfter.Duration))
	}
	return strings.Join(words, "+")
}

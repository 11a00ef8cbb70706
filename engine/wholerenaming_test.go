package engine_test

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tenon.sh/engine"
	"tenon.sh/engine/enginetest"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario"
	"tenon.sh/scenario/scenariotest"
)

// renamed reverses the order of the names of types, pools, nodes, groups of pods, disks and DaemonSets.
func renamed(text string) string {
	return regexp.MustCompile(`\b([tpngd])(\d+)\b`).ReplaceAllStringFunc(text, renamedOne)
}

func renamedOne(name string) string {
	n, _ := strconv.Atoi(name[1:])
	return fmt.Sprintf("%sx%03d", name[:1], 999-n)
}

// shapes returns the launches without names.
func shapes(plan *engine.Plan, rename func(string) string) []string {
	var out []string
	for _, l := range plan.Launches {
		var types []string
		for _, t := range l.InstanceTypes {
			types = append(types, rename(t))
		}
		slices.Sort(types)
		out = append(out, fmt.Sprintf("%s %s %.6f: %d pods", rename(l.NodePool), strings.Join(types, ","), l.Price, len(l.Pods)))
	}
	slices.Sort(out)
	return out
}

func TestRenamingGivesTheSamePlanUnderOtherNames(t *testing.T) {
	t.Parallel()
	for seed := range enginetest.Draws(scenariotest.Seeds) {
		words := scenario.RandomText(seed, scenario.Size{Topology: seed%2 == 1})
		plain, err := scenario.Parse(words)
		if err != nil {
			t.Fatal(err)
		}
		other, err := scenario.Parse(renamed(words))
		if err != nil {
			t.Fatal(err)
		}
		a, b := provisioning.Plan(plain.Snapshot, engine.Options{}, nil), provisioning.Plan(other.Snapshot, engine.Options{}, nil)
		want := shapes(a, func(name string) string { return renamed(name) })
		if got := shapes(b, func(name string) string { return name }); !slices.Equal(got, want) {
			t.Errorf("seed %d: under other names\n%s\nnot\n%s", seed, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if len(a.Unplaced) != len(b.Unplaced) || len(a.Placements) != len(b.Placements) {
			t.Errorf("seed %d: under other names %d refused and %d placed, not %d and %d", seed, len(b.Unplaced), len(b.Placements), len(a.Unplaced), len(a.Placements))
		}
	}
}

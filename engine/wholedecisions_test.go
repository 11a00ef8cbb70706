package engine_test

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"tenon.sh/engine"
	"tenon.sh/engine/disruption"
	"tenon.sh/engine/enginetest"
	"tenon.sh/engine/provisioning"
	"tenon.sh/oracle"
	"tenon.sh/scenario"
)

// tableFile holds the engine's decisions for many random clusters, one line each. No rule requires these decisions. If a line changes, the
// change is intended or a mistake. The flag -rewrite writes the file, as it writes scenarios.
const tableFile = "testdata/table/decisions"

// tableKinds holds the kinds of clusters in the table, with their numbers.
var tableKinds = []struct {
	name  string
	count int
	draw  func(seed uint64) (*engine.Snapshot, engine.Options)
}{
	{"plain", 100, func(seed uint64) (*engine.Snapshot, engine.Options) {
		return scenario.Random(seed, scenario.Size{}), engine.Options{}
	}},
	{"ties", 150, func(seed uint64) (*engine.Snapshot, engine.Options) {
		return scenario.Random(seed, scenario.Size{Topology: true}), engine.Options{Preferences: policyOf(seed)}
	}},
	{"wide", 100, func(seed uint64) (*engine.Snapshot, engine.Options) {
		return scenario.Random(seed, scenario.Size{Topology: true, Wide: true, Nodes: 10, Types: 24, Pods: 50}), engine.Options{Preferences: policyOf(seed)}
	}},
	{"drawn", 150, func(seed uint64) (*engine.Snapshot, engine.Options) {
		return oracle.Draw(seed), engine.Options{DefaultConstraints: oracle.Constraints(seed), Preferences: policyOf(seed)}
	}},
}

func policyOf(seed uint64) engine.PreferencePolicy {
	return []engine.PreferencePolicy{engine.Respect, engine.Respect, engine.Weighted, engine.Ignore}[seed%4]
}

func TestDecisionsChangeOnPurposeOnly(t *testing.T) {
	t.Parallel()
	var lines []string
	var work sync.WaitGroup
	for _, kind := range tableKinds {
		from := len(lines)
		lines = append(lines, make([]string, kind.count)...)
		tried := kind.count
		if !*rewrite {
			tried = int(enginetest.Draws(kind.count))
		}
		const threads = 2
		for k := range threads {
			into := lines[from:]
			work.Go(func() {
				for seed := k; seed < tried; seed += threads {
					s, opt := kind.draw(uint64(seed))
					into[seed] = fmt.Sprintf("%s %d: %s", kind.name, seed, decisions(s, opt))
				}
			})
		}
		work.Wait()
	}
	if *rewrite {
		if err := os.WriteFile(tableFile, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	file, err := os.ReadFile(tableFile)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(strings.TrimSuffix(string(file), "\n"), "\n")
	if len(want) != len(lines) {
		t.Fatalf("%s has %d lines, there are %d clusters", tableFile, len(want), len(lines))
	}
	others := 0
	for i, line := range lines {
		if line == "" || line == want[i] { // empty for a cluster that this run leaves out
			continue
		}
		if others++; others <= 5 {
			t.Errorf("decided\n%s\nnot\n%s", line, want[i])
		}
	}
	if others > 0 {
		t.Errorf("%d of %d clusters get other decisions; if that is what you want: go test ./engine -run %s -rewrite", others, len(lines), t.Name())
	}
}

// decisions returns the launches for waiting pods, the refused pods with their reasons, and the nodes that go. The number at the end is a hash
// of the rest of the plan: the places of the pods in their order, and the other offerings of launches.
func decisions(s *engine.Snapshot, opt engine.Options) string {
	digest := fnv.New32a()
	plan := provisioning.Plan(s, opt, nil)
	out := fmt.Sprintf("%.4f/h", plan.Cost.LaunchesPerHour)
	if len(plan.Launches) > 0 {
		out += " " + machineList(plan.Launches)
	}
	note := func(l engine.Launch) {
		fmt.Fprintln(digest, "launch", l.NodePool, l.Labels, l.Pods)
		for _, o := range l.Offerings {
			fmt.Fprintln(digest, o.OfferingID, o.Price)
		}
	}
	for _, l := range plan.Launches {
		note(l)
	}
	fmt.Fprintln(digest, plan.Placements, plan.Sequence)
	out += fmt.Sprintf(", %d placed", len(plan.Placements))
	refused := map[string]int{}
	for _, u := range plan.Unplaced {
		fmt.Fprintln(digest, u.Pod)
		refused[codes(u.Reasons)]++
	}
	if len(refused) > 0 {
		out += ", refused " + tally(refused)
	}
	gone, kept := disruption.Plan(s, opt, nil), map[string]int{}
	for _, d := range gone.Disruptions {
		out += fmt.Sprintf("; %s %s", d.Reason, strings.Join(d.Nodes, "+"))
		if len(d.Replacements) > 0 {
			out += " for " + machineList(d.Replacements)
		}
		out += fmt.Sprintf(" saves %.4f", d.SavingPerHour)
		fmt.Fprintln(digest, d.Claims, d.Pods, d.Moves, d.Held)
		for _, l := range d.Replacements {
			note(l)
		}
	}
	for _, k := range gone.Kept {
		fmt.Fprintln(digest, cmp.Or(k.Node, k.Claim), k.Reason.Code)
		kept[string(k.Reason.Code)]++
	}
	if len(kept) > 0 {
		out += "; kept " + tally(kept)
	}
	fmt.Fprintln(digest, gone.Next)
	return fmt.Sprintf("%s #%08x", out, digest.Sum32())
}

// machineList counts machines by the type, zone and capacity type of their cheapest offering.
func machineList(launches []engine.Launch) string {
	count := map[string]int{}
	for _, l := range launches {
		o := l.Offerings[0]
		count[o.InstanceType+"/"+o.Zone+"/"+o.CapacityType]++
	}
	return tally(count)
}

func codes(reasons []engine.Reason) string {
	var out []string
	for _, r := range reasons {
		out = append(out, string(r.Code))
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), "+")
}

// count returns "2 a, 1 b", sorted by name.
func tally(count map[string]int) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(count)) {
		out = append(out, fmt.Sprintf("%d %s", count[name], name))
	}
	return strings.Join(out, ", ")
}

package packing_test

import (
	"flag"
	"fmt"
	"hash/fnv"
	"os"
	"slices"
	"strings"
	"testing"

	"tenon.sh/engine/enginetest"
	"tenon.sh/engine/packing"
)

var rewrite = flag.Bool("rewrite", false, "write the solutions of today into testdata")

const tableFile = "testdata/solutions"

// The table has the solution of each problem in one line. Other solutions could be correct too, so a changed line is either intended or an error.
func TestSolutionsChangeOnPurposeOnly(t *testing.T) {
	t.Parallel()
	all := uint64(drawnProblems / 2)
	tried := all
	if !*rewrite {
		tried = enginetest.Draws(int(all))
	}
	var lines []string
	for seed := range tried {
		p, _ := drawProblem(seed)
		q := rationed(seed)
		lines = append(lines, fmt.Sprintf("%d: %s", seed, line(p, packing.Solve(p))), fmt.Sprintf("%d with quotas: %s", seed, line(q, packing.Solve(q))))
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
	want, others := strings.Split(strings.TrimSuffix(string(file), "\n"), "\n"), 0
	if len(want) != 2*int(all) {
		t.Fatalf("%s has %d lines, there are %d problems", tableFile, len(want), 2*all)
	}
	for i := range lines {
		if lines[i] != want[i] {
			if others++; others <= 5 {
				t.Errorf("solved as\n%s\nnot\n%s", lines[i], want[i])
			}
		}
	}
	if others > 0 {
		t.Errorf("%d of %d problems have another solution; if that is what you want: go test ./engine/packing -run %s -rewrite", others, len(lines), t.Name())
	}
}

// line describes a solution: the machines, and the number of pods without a place. The number at the end is a digest of the pods' places,
// their order, and the lists of options.
func line(p *packing.Problem, s *packing.Solution) string {
	digest := fnv.New32a()
	fmt.Fprintln(digest, s.OnNodes, s.Left, s.Order)
	machines := map[string]int{}
	var names []string
	for _, m := range s.New {
		o := &p.Pools[m.Pool].Options[m.Chosen]
		name := fmt.Sprintf("p%d/t%d/s%d", m.Pool, o.Type, o.Slot)
		if machines[name]++; machines[name] == 1 {
			names = append(names, name)
		}
		fmt.Fprintln(digest, m.Pool, m.Chosen, m.Listed, m.Free, m.Pods, m.Fitting, m.RunnerUp, m.Relaxed)
	}
	slices.Sort(names)
	for i, name := range names {
		names[i] = fmt.Sprintf("%d %s", machines[name], name)
	}
	left := 0
	for c := range s.Left {
		left += len(s.Left[c])
	}
	return fmt.Sprintf("%.4f of %.4f, %d placed, %d left; %s #%08x", price(p, s), s.Bound, len(s.Order), left, strings.Join(names, ", "), digest.Sum32())
}

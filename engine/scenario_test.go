package engine_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tenon.sh/engine/enginetest"
	"tenon.sh/scenario"
)

var rewrite = flag.Bool("rewrite", false, "write what the engine answers into the scenarios of testdata")

// TestScenarios runs every scenario, of plans and of claims' lives. A file's name is the rule that it protects.
func TestScenarios(t *testing.T) {
	t.Parallel()
	for _, path := range scenarioFiles(t) {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			t.Parallel()
			f := loadScenario(t, path)
			if *rewrite {
				if err := os.WriteFile(path, []byte(f.Run()), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if err := f.Check(); err != nil {
				t.Errorf("%s: %v\n%s", path, err, f.Run())
			}
		})
	}
}

func scenarioFiles(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, pattern := range []string{"testdata/*.txt", "lifecycle/testdata/*.txt"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("no scenarios in %s: %v", pattern, err)
		}
		all = append(all, files...)
	}
	return all
}

// drawnFiles are some scenarios for a law, spread over all.
func drawnFiles(t *testing.T) []string {
	t.Helper()
	all := scenarioFiles(t)
	var out []string
	n := int(enginetest.Draws(len(all)))
	for i := range n {
		out = append(out, all[i*len(all)/n])
	}
	return out
}

func loadScenario(t *testing.T, path string) *scenario.File {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := scenario.Parse(string(text))
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return f
}

package engine_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tenon.sh/scenario/scenariotest"
)

var rewrite = flag.Bool("rewrite", false, "write what the engine answers into the scenarios of testdata")

// TestScenarios runs all scenarios, of plans and of claims' lives. The name of a file is the rule that it protects.
func TestScenarios(t *testing.T) {
	t.Parallel()
	for _, path := range scenariotest.Files(t, ".") {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			t.Parallel()
			f := scenariotest.Load(t, path)
			if !strings.Contains(f.Run(), "\n----\n") {
				t.Fatalf("%s asks nothing: it has to end with a command, such as provision, and a line ----", path)
			}
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

package scenariotest

import (
	"os"
	"path/filepath"
	"testing"

	"tenon.sh/engine/enginetest"
	"tenon.sh/scenario"
)

// Files returns the paths of the scenarios of plans and of claims' lives. folder is the path of package engine, relative to the test.
func Files(t *testing.T, folder string) []string {
	t.Helper()
	var all []string
	for _, pattern := range []string{"testdata/*.txt", "lifecycle/testdata/*.txt"} {
		files, err := filepath.Glob(filepath.Join(folder, pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("no scenarios in %s: %v", pattern, err)
		}
		all = append(all, files...)
	}
	return all
}

// Drawn returns some of the files for a law, spread over all; see enginetest.Draws.
func Drawn(t *testing.T, folder string) []string {
	t.Helper()
	all := Files(t, folder)
	var out []string
	n := int(enginetest.Draws(len(all)))
	for i := range n {
		out = append(out, all[i*len(all)/n])
	}
	return out
}

// Load reads a scenario file.
func Load(t *testing.T, path string) *scenario.File {
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

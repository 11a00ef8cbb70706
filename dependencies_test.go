package main_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestArchitectureRecordsEveryDependency: a module that is required directly has a line that says what for.
func TestArchitectureRecordsEveryDependency(t *testing.T) {
	t.Parallel()
	record, err := os.ReadFile("docs/decisions/dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	required := regexp.MustCompile(`(?m)^\t(\S+) v\S+$`).FindAllStringSubmatch(string(file), -1)
	if len(required) == 0 {
		t.Fatal("go.mod requires nothing: is it read as it is written?")
	}
	for _, r := range required {
		if !strings.Contains(string(record), "`"+r[1]+"`") {
			t.Errorf("docs/decisions/dependencies.md has no line for %s", r[1])
		}
	}
}

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

// TestArchitectureGeneratesPagesWithTheTemplThatItLinks: what one version of templ generates is for the package of the same version.
func TestArchitectureGeneratesPagesWithTheTemplThatItLinks(t *testing.T) {
	t.Parallel()
	version := func(path string) string {
		file, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return regexp.MustCompile(`(?m)^\tgithub.com/a-h/templ v\S+`).FindString(string(file))
	}
	if linked, generates := version("go.mod"), version("tools/go.mod"); linked == "" || generates != linked {
		t.Errorf("go.mod requires %q, tools/go.mod %q: go get the same version in both", linked, generates)
	}
}

// TestArchitectureCompilesWhatTwoModulesShareOnce: the build cache serves the root module and the control plane alike if both require
// the same versions. A module of another version is compiled twice, and so is everything that imports it, client-go for one.
func TestArchitectureCompilesWhatTwoModulesShareOnce(t *testing.T) {
	t.Parallel()
	versions := func(path string) map[string]string {
		file, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]string{}
		for _, r := range regexp.MustCompile(`(?m)^\t(\S+) (v\S+)(?: // indirect)?$`).FindAllStringSubmatch(string(file), -1) {
			found[r[1]] = r[2]
		}
		return found
	}
	root, shared := versions("go.mod"), 0
	for module, version := range versions("controlplane/go.mod") {
		if has, is := root[module]; is {
			shared++
			if has != version && version != "v0.0.0" { // v0.0.0 is replaced
				t.Errorf("go.mod requires %s %s, controlplane/go.mod %s: go get the same version in both", module, has, version)
			}
		}
	}
	if shared < 30 {
		t.Errorf("the modules share %d modules: are the files read as they are written?", shared)
	}
}

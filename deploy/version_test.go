package deploy_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The version is that of the chart karpenter. Every other place that names the newest version names the same one.
func TestAllPlacesNameTheSameVersion(t *testing.T) {
	t.Parallel()
	version := first(t, "charts/karpenter/Chart.yaml", `(?m)^version: (\S+)$`)
	if !regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$`).MatchString(version) {
		t.Errorf("charts/karpenter/Chart.yaml: %q is not a semantic version", version)
	}
	for file, pattern := range map[string]string{
		"charts/karpenter/Chart.yaml":     `(?m)^appVersion: (\S+)$`,
		"charts/karpenter-crd/Chart.yaml": `(?m)^version: (\S+)$`,
		"../CHANGELOG.md":                 `(?m)^## \[(\d\S+)\]`,
		"../docs/guide/upgrade.md":        `(?m)^## To (\S+)$`,
		"../docs/guide/aws.md":            "and version `([^`]+)`",
	} {
		if got := first(t, file, pattern); got != version {
			t.Errorf("%s names version %s, and charts/karpenter/Chart.yaml version %s", file, got, version)
		}
	}
	if got := first(t, "charts/karpenter-crd/Chart.yaml", `(?m)^appVersion: (\S+)$`); got != version {
		t.Errorf("charts/karpenter-crd/Chart.yaml has appVersion %s, and charts/karpenter/Chart.yaml version %s", got, version)
	}
}

func TestTheChangelogBeginsWithChangesThatAreNotReleased(t *testing.T) {
	t.Parallel()
	if got := first(t, "../CHANGELOG.md", `(?m)^## \[([^\]]+)\]`); got != "Unreleased" {
		t.Errorf("the first section is %s, want Unreleased", got)
	}
}

// first returns the group of the pattern's first match in a file: newest sections are first.
func first(t *testing.T, file, pattern string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	match := regexp.MustCompile(pattern).FindStringSubmatch(strings.ReplaceAll(string(text), "\r\n", "\n"))
	if match == nil {
		t.Fatalf("%s: nothing matches %s", file, pattern)
	}
	return match[1]
}

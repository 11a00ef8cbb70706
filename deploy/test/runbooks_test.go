package charttest

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// runbooks is the page with a section for each alert, as a path in the repository.
const runbooks = "docs/guide/runbooks.md"

// A section is a part of the page of runbooks, under its heading.
type section struct{ heading, text string }

// sections returns all sections of the page of runbooks.
func sections(t *testing.T) (out []section) {
	t.Helper()
	page, err := os.ReadFile("../../" + runbooks)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range strings.Split("\n"+string(page), "\n## ")[1:] {
		heading, text, _ := strings.Cut(part, "\n")
		out = append(out, section{heading, text})
	}
	return out
}

// anchorOf returns the anchor that Markdown renderers make of a heading.
func anchorOf(heading string) string {
	return strings.ReplaceAll(strings.ToLower(heading), " ", "-")
}

// The page has the sections of all alerts and no other, in the order of the rules, after two sections for all alerts. Each section answers
// the same questions.
func TestEachAlertHasARunbook(t *testing.T) {
	t.Parallel()
	want := []string{"Where the alerts point", "First steps"}
	for _, a := range alerts(t) {
		want = append(want, a.Alert)
	}
	var have []string
	for i, s := range sections(t) {
		have = append(have, s.heading)
		rest, complete := s.text, true
		for _, part := range []string{"\n**Meaning.** ", "\n**Look at** ", "\n```\n", "\n**Do.**", "\n**Ends** "} {
			_, after, found := strings.Cut(rest, part)
			rest, complete = after, complete && found
		}
		if i >= 2 && !complete {
			t.Errorf("section %s of %s needs the parts Meaning, Look at (with commands), Do and Ends, in this order", s.heading, runbooks)
		}
	}
	if !slices.Equal(have, want) {
		t.Errorf("the sections of %s are\n%q, want\n%q", runbooks, have, want)
	}
}

// The annotation of each alert points to the section of the alert.
func TestAlertsPointToTheirRunbooks(t *testing.T) {
	t.Parallel()
	anchors := map[string]bool{}
	for _, s := range sections(t) {
		anchors[anchorOf(s.heading)] = true
	}
	for _, a := range alerts(t) {
		if have, want := a.Annotations["runbook_url"], runbooks+"#"+anchorOf(a.Alert); have != want {
			t.Errorf("%s: runbook_url is %q, want %q", a.Alert, have, want)
		}
	}
	for _, s := range sections(t) {
		for _, link := range regexp.MustCompile(`\]\(#([^)]*)\)`).FindAllStringSubmatch(s.text, -1) {
			if !anchors[link[1]] {
				t.Errorf("section %s of %s links to #%s, which is no section", s.heading, runbooks, link[1])
			}
		}
	}
}

// The command of the page makes every annotation an address, and the rules stay as they are.
func TestTheRunbooksGetAnAddress(t *testing.T) {
	t.Parallel()
	var command string
	for _, b := range commands(t) {
		if before, _, found := strings.Cut(b.text, " | kubectl apply -f -"); found && "docs/guide/"+b.guide == runbooks {
			command = before
		}
	}
	base := regexp.MustCompile(`https://[^|]*/`).FindString(command)
	if base == "" {
		t.Fatalf("%s has no command that applies the rules with an address", runbooks)
	}
	shell := exec.CommandContext(t.Context(), "sh", "-c", command)
	shell.Dir = "../.."
	text, err := shell.Output()
	if err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	var rule struct {
		Spec struct{ Groups []struct{ Rules []alert } }
	}
	if err := yaml.Unmarshal(text, &rule); err != nil {
		t.Fatal(err)
	}
	var have []alert
	for _, g := range rule.Spec.Groups {
		have = append(have, slices.DeleteFunc(g.Rules, func(a alert) bool { return a.Alert == "" })...)
	}
	want := alerts(t)
	if len(have) != len(want) {
		t.Fatalf("%s leaves %d alerts of %d", command, len(have), len(want))
	}
	for i, a := range want {
		a.Annotations["runbook_url"] = base + a.Annotations["runbook_url"]
		if url := have[i].Annotations["runbook_url"]; url != a.Annotations["runbook_url"] || have[i].Expr != a.Expr {
			t.Errorf("%s: after %s, runbook_url is %q and the query is %q", a.Alert, command, url, have[i].Expr)
		}
	}
}

// A reader finds the page from the start page, and from the page on Prometheus.
func TestTheRunbooksAreLinked(t *testing.T) {
	t.Parallel()
	for page, link := range map[string]string{
		"../../README.md": "](" + runbooks + ")", "../../docs/guide/prometheus.md": "](runbooks.md)", "../monitoring/README.md": "](../../" + runbooks + ")",
	} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), link) {
			t.Errorf("%s does not link to %s", page, runbooks)
		}
	}
}

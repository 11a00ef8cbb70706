package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/utils/clock"

	"tenon.sh/journal"
)

// journalLine is a decision in the form of a journal's file.
const journalLine = `{"version":1,"record":{"id":"20260105T120000-aa","time":"2026-01-05T12:00:00Z","kind":"Disruption","reason":"Underutilized","nodePools":["general"],"says":"Underutilized, saves $3.0000/h","seen":{"at":"2026-01-05T12:00:00Z","nodes":3,"pods":9,"waiting":1,"pricePerHour":6},"machines":[{"claim":"old","node":"node-old","nodePool":"general","instanceType":"large","pricePerHour":4},{"comes":true,"nodePool":"general","instanceType":"small","pricePerHour":1}],"rejected":[{"code":"NoCheaperPlace","says":"no cheaper place <img src=x onerror=alert(1)>","count":2,"names":["node-b"]}],"priceBefore":4,"priceAfter":1,"savingPerHour":3,"pods":2,"podNames":["shop/web-1","shop/\u001b[31mweb-2"],"outcome":"InProgress"}}
{"version":1,"id":"20260105T120000-aa","steps":[{"time":"2026-01-05T12:00:00Z","claim":"new","what":"asked for"},{"time":"2026-01-05T12:01:00Z","claim":"new","what":"launched","machine":{"claim":"new","node":"node-new","nodePool":"general","instanceType":"small","pricePerHour":1}},{"time":"2026-01-05T12:03:00Z","claim":"new","what":"ready"},{"time":"2026-01-05T12:04:00Z","claim":"old","what":"told to go"},{"time":"2026-01-05T12:05:00Z","claim":"old","what":"drain held","says":"PodDisruptionBudget shop/web lets no pod go"},{"time":"2026-01-05T13:01:00Z","claim":"old","what":"removed"}]}
{"version":1,"record":{"id":"20260105T150100-bb","time":"2026-01-05T15:01:00Z","kind":"Refusal","reason":"Unschedulable","nodePools":["gpu"],"says":"nothing can run 1 pod","seen":{"at":"2026-01-05T15:01:00Z","nodes":3,"pods":9,"waiting":1,"pricePerHour":3},"rejected":[{"code":"SoldOut","says":"sold out","count":1}],"priceBefore":0,"priceAfter":0,"savingPerHour":0,"pods":1,"podNames":["ml/train-1"],"outcome":"Done"}}
`

func journalFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	must(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// runJournal runs tenon journal with arguments.
func runJournal(t *testing.T, args ...string) (out, notes string, err error) {
	t.Helper()
	command := newJournal()
	var text, said bytes.Buffer
	command.SetOut(&text)
	command.SetErr(&said)
	command.SetArgs(args)
	err = command.ExecuteContext(t.Context())
	return text.String(), said.String(), err
}

func TestJournalListsTellsAndFilters(t *testing.T) {
	t.Parallel()
	path := journalFile(t, journalLine)
	for _, c := range []struct {
		args          []string
		holds, lacks  []string
		fails, noting string
	}{
		// An hour with both machines costs 1; then two hours save 3.
		{args: []string{}, holds: []string{"20260105T120000-aa", "20260105T150100-bb", "done", "5.00", "$5.00 saved so far"}},
		{args: []string{"--since", "1h"}, holds: []string{"-bb"}, lacks: []string{"-aa"}},
		{args: []string{"--pool", "general"}, holds: []string{"-aa"}, lacks: []string{"-bb"}},
		{args: []string{"--node", "node-new"}, holds: []string{"-aa"}, lacks: []string{"-bb"}},
		{args: []string{"--reason", "Unschedulable"}, holds: []string{"-bb"}, lacks: []string{"-aa"}},
		{args: []string{"--reason", "Drifted"}, holds: []string{"no such decision"}},
		{args: []string{"20260105T12"}, holds: []string{"PodDisruptionBudget shop/web", "node-new", "NoCheaperPlace", "$3.0000/h", "13:01:00", "1 waiting"}, lacks: []string{"\x1b[31m"}},
		{args: []string{"2026"}, fails: "2 decisions begin with 2026"},
		{args: []string{"2027"}, fails: "no decision 2027"},
		{args: []string{"-o", "xml"}, fails: "it is text, json or yaml"},
		{args: []string{"--since", "-1h"}, fails: "not below 0"},
		{args: []string{"-f", filepath.Join(t.TempDir(), "none")}, fails: "no such file"},
		{args: []string{"-f", t.TempDir()}, fails: "a controller that runs with --journal writes journal.jsonl"},
		{args: []string{"-o", "yaml"}, holds: []string{"kind: Journal", "savedSoFar: 5"}},
		{args: []string{"-f", journalFile(t, "no line\n")}, noting: "not lines of a journal were skipped: 1"},
	} {
		out, notes, err := runJournal(t, append([]string{"-f", path}, c.args...)...)
		if c.fails != "" {
			if err == nil || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%q: error %v, want %q", c.args, err, c.fails)
			}
			continue
		}
		must(t, err)
		for _, want := range c.holds {
			if !strings.Contains(out, want) {
				t.Errorf("%q lacks %q:\n%s", c.args, want, out)
			}
		}
		for _, not := range c.lacks {
			if strings.Contains(out, not) {
				t.Errorf("%q has %q:\n%s", c.args, not, out)
			}
		}
		if !strings.Contains(notes, c.noting) {
			t.Errorf("%q notes %q", c.args, notes)
		}
	}
	out, _, err := runJournal(t, "-f", path, "-o", "json")
	must(t, err)
	var d struct {
		Kind    string
		Records []json.RawMessage
	}
	if err := json.Unmarshal([]byte(out), &d); err != nil || d.Kind != "Journal" || len(d.Records) != 2 {
		t.Errorf("%v: %s", err, out)
	}
}

func TestDashboardShowsTheJournalAsTheCommandDoes(t *testing.T) {
	t.Parallel()
	path := journalFile(t, journalLine)
	cluster := filepath.Join("..", "dashboard", "testdata", "cluster.txt")
	o := dashboardOptions{planOptions: planOptions{engineFlags: defaultEngineFlags(), files: []string{cluster}}, journal: []string{path}}
	handler := handlerOf(t, o.source(newDashboard().Flags(), strings.NewReader(""), newTerminal(&bytes.Buffer{})))
	for address, args := range map[string][]string{"/json/journal": {"-o", "json"}, "/json/decision/20260105T120000-aa": {"20260105T120000-aa", "-o", "json"}} {
		want, _, err := runJournal(t, append([]string{"-f", path}, args...)...)
		must(t, err)
		if status, got := pageAt(t, handler, address); status != 200 || got != want {
			t.Errorf("%s: %d\n%s\nwant\n%s", address, status, got, want)
		}
	}
	_, page := pageAt(t, handler, "/decisions/20260105T120000-aa")
	for _, want := range []string{"PodDisruptionBudget shop/web lets no pod go", "$3.0000/h", "node-new", "&lt;img src=x"} {
		if !strings.Contains(page, want) {
			t.Errorf("the decision lacks %q", want)
		}
	}
	o.journal = nil
	handler = handlerOf(t, o.source(newDashboard().Flags(), strings.NewReader(""), newTerminal(&bytes.Buffer{})))
	if _, page := pageAt(t, handler, "/decisions"); !strings.Contains(page, "name one that a controller has kept with --journal") {
		t.Error("a file without a journal does not say so")
	}
	o.journal, o.export = []string{path}, filepath.Join(t.TempDir(), "page.html")
	must(t, o.writeExport(t.Context(), o.source(newDashboard().Flags(), strings.NewReader(""), newTerminal(&bytes.Buffer{}))))
	text, err := os.ReadFile(o.export)
	must(t, err)
	if !strings.Contains(string(text), "Underutilized, saves $3.0000/h") {
		t.Error("the exported page lacks the decisions")
	}
}

func TestQuestionsToTheJournalThatCannotBeUnderstoodAreTheCallersFault(t *testing.T) {
	t.Parallel()
	callers := authenticator.TokenFunc(func(context.Context, string) (*authenticator.Response, bool, error) {
		return &authenticator.Response{User: &caller{DefaultInfo: user.DefaultInfo{Name: "reader"}, reads: true}}, true, nil
	})
	endpoint := newKnownEndpoint(callers, journalPath, journalText(journal.New(clock.RealClock{})))
	for query, want := range map[string]int{"": 200, "?since=2026-01-31T12:00:00Z&most=3": 200, "?since=yesterday": 400, "?most=0": 200, "?most=all": 400, "?most=-1": 400} {
		r := httptest.NewRequest(http.MethodGet, "https://tenon.test"+journalPath+query, nil)
		r.Header.Set("Authorization", "Bearer token")
		w := httptest.NewRecorder()
		endpoint.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("%q: %d %s", query, w.Code, w.Body)
		}
	}
}

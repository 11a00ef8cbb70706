package charttest

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/promqltest"
	"sigs.k8s.io/yaml"
)

// An alert is one rule of deploy/monitoring/alerts.yaml.
type alert struct {
	Alert       string
	Expr        string
	For         string
	Labels      map[string]string
	Annotations map[string]string
}

func alerts(t *testing.T) []alert {
	t.Helper()
	text, err := os.ReadFile("../monitoring/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Name  string
			Rules []alert
		}
	}
	if err := yaml.UnmarshalStrict(text, &file); err != nil {
		t.Fatal(err)
	}
	var out []alert
	for _, g := range file.Groups {
		out = append(out, g.Rules...)
	}
	return out
}

func TestAlertsAskForMetricsThatExist(t *testing.T) {
	t.Parallel()
	all := series(metricsOf(t))
	for _, a := range alerts(t) {
		for _, wrong := range checkQuery(a.Expr, all) {
			t.Errorf("%s: %s", a.Alert, wrong)
		}
		if severity := a.Labels["severity"]; severity != "page" && severity != "ticket" {
			t.Errorf("%s: severity %q", a.Alert, severity)
		}
		if a.Annotations["summary"] == "" || a.Annotations["description"] == "" {
			t.Errorf("%s does not say what it means and what to do", a.Alert)
		}
	}
}

// A trial is a history, and what an alert makes of it.
type trial struct {
	Name   string
	Alert  string
	Series map[string]string // one value a minute, as promtool writes them
	At     string            // since the beginning
	Fires  []string          // the labels of what fires, as {a="b"}; none if empty
}

// Each alert is held against a history in which it has to fire, and one in which it must not.
func TestAlertsFireWhenTheyShould(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var trials []trial
	if err := yaml.UnmarshalStrict(text, &trials); err != nil {
		t.Fatal(err)
	}
	rules := alerts(t)
	fired, quiet := map[string]bool{}, map[string]bool{}
	for _, trial := range trials {
		if len(trial.Fires) > 0 {
			fired[trial.Alert] = true
		} else {
			quiet[trial.Alert] = true
		}
		i := slices.IndexFunc(rules, func(a alert) bool { return a.Alert == trial.Alert })
		if i < 0 {
			t.Errorf("%s: there is no alert %s", trial.Name, trial.Alert)
			continue
		}
		t.Run(trial.Alert+"/"+trial.Name, func(t *testing.T) { trial.run(t, rules[i]) })
	}
	for _, a := range rules {
		if !fired[a.Alert] || !quiet[a.Alert] {
			t.Errorf("%s is not tried out both ways", a.Alert)
		}
	}
}

func (trial trial) run(t *testing.T, a alert) {
	t.Parallel()
	load := "load 1m\n"
	for name, values := range trial.Series {
		load += "  " + name + " " + values + "\n"
	}
	storage := promqltest.LoadedStorage(t, load)
	engine := promqltest.NewTestEngine(t, false, 0, 1_000_000)
	at, wait := duration(t, trial.At), duration(t, a.For)
	var firing map[string]bool // by labels: what has been so at every minute of the wait
	for since := at - wait; since <= at; since += time.Minute {
		now := map[string]bool{}
		query, err := engine.NewInstantQuery(t.Context(), storage, nil, a.Expr, time.Unix(0, 0).Add(since))
		if err != nil {
			t.Fatal(err)
		}
		result := query.Exec(t.Context())
		vector, err := result.Vector()
		if err != nil {
			t.Fatal(err)
		}
		for _, sample := range vector {
			if firing == nil || firing[sample.Metric.String()] {
				now[sample.Metric.String()] = true
			}
			checkTemplates(t, a, sample)
		}
		firing = now
	}
	var got []string
	for labels := range firing {
		got = append(got, labels)
	}
	slices.Sort(got)
	if !slices.Equal(got, trial.Fires) && len(got)+len(trial.Fires) > 0 {
		t.Errorf("fires for %q, want %q", got, trial.Fires)
	}
}

var usedLabel = regexp.MustCompile(`\$labels\.(\w+)`)

// checkTemplates: a label that the text names is one that the alert has.
func checkTemplates(t *testing.T, a alert, sample promql.Sample) {
	for _, match := range usedLabel.FindAllStringSubmatch(fmt.Sprint(a.Annotations), -1) {
		if !sample.Metric.Has(match[1]) {
			t.Errorf("%s names label %s, and has only %s", a.Alert, match[1], sample.Metric)
		}
	}
}

func duration(t *testing.T, text string) time.Duration {
	t.Helper()
	if text == "" {
		return 0
	}
	if days, found := strings.CutSuffix(text, "d"); found {
		text = days + "h"
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		return 24 * d
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

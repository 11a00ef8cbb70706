package charttest

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/promqltest"
	"sigs.k8s.io/yaml"
)

// withPrometheus is a release with the values of the guide, in a cluster that has the kinds of Prometheus's operator.
func withPrometheus() release {
	return release{chart: "../charts/karpenter", name: "karpenter", namespace: "kube-system", set: []string{"settings.cloudProvider=kwok"},
		file: "../../examples/prometheus/values.yaml", apis: []string{"monitoring.coreos.com/v1/ServiceMonitor"}}
}

// The test with Prometheus itself is in another module, without Helm: it applies a copy of what the chart makes. Run make generate.
func TestTheCopyForPrometheusIsWhatTheChartMakes(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	out.WriteString("# What the chart makes with examples/prometheus/values.yaml, as far as Prometheus has to do with it. Made by make generate.\n")
	objects := render(t, withPrometheus())
	for i, kind := range []string{"ServiceAccount", "Service", "Deployment", "ServiceMonitor"} {
		text, err := yaml.Marshal(find(t, objects, kind, "karpenter").Object)
		if err != nil {
			t.Fatal(err)
		}
		if i > 0 {
			out.WriteString("---\n")
		}
		out.Write(text)
	}
	mustBe(t, "../../endtoend/prometheus/testdata/chart.yaml", out.Bytes())
}

// Prometheus's operator takes rules as an object of its own. Run make generate.
func TestTheExampleOfAPrometheusRuleHoldsTheRules(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	out.WriteString(`# The rules of deploy/monitoring for Prometheus's operator. Made by make generate.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: tenon
  namespace: kube-system
  labels:
    release: prometheus # as in values.yaml
spec:
  groups:
`)
	for _, file := range []string{"costs.yaml", "alerts.yaml"} {
		text, err := os.ReadFile(filepath.Join("../monitoring", file))
		if err != nil {
			t.Fatal(err)
		}
		_, groups, found := strings.Cut(string(text), "\ngroups:\n")
		if !found {
			t.Fatalf("%s has no groups", file)
		}
		for line := range strings.Lines(groups) {
			out.WriteString("  " + line)
		}
	}
	mustBe(t, "../../examples/prometheus/rules.yaml", []byte(out.String()))
}

// mustBe compares a generated file with what it has to be, or writes it anew.
func mustBe(t *testing.T, path string, want []byte) {
	t.Helper()
	if *rewrite {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, want) {
		t.Errorf("%s is out of date: run make generate", path)
	}
}

// A recording is one rule of deploy/monitoring/costs.yaml.
type recording struct{ Record, Expr string }

func recordings(t *testing.T) []recording {
	t.Helper()
	text, err := os.ReadFile("../monitoring/costs.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Name  string
			Rules []recording
		}
	}
	if err := yaml.UnmarshalStrict(text, &file); err != nil {
		t.Fatal(err)
	}
	return file.Groups[0].Rules
}

// A rule asks for metrics that exist, or for what rules before it have recorded.
func TestRulesForCostAskForMetricsThatExist(t *testing.T) {
	t.Parallel()
	all := series(metricsOf(t))
	for _, r := range recordings(t) {
		for _, wrong := range checkQuery(r.Expr, all) {
			t.Errorf("%s: %s", r.Record, wrong)
		}
		level, _, _ := strings.Cut(r.Record, ":")
		recorded := metric{kind: "gauge"}
		if level != "cluster" {
			recorded.labels = []string{level}
		}
		all[r.Record] = recorded
	}
}

// TestRulesForCostCountWhatWasSpent: two pools, of which one is there for the last two hours only, and a change of leaders.
func TestRulesForCostCountWhatWasSpent(t *testing.T) {
	t.Parallel()
	load := `load 1m
  karpenter_nodepools_cost_total{nodepool="a", pod="x"} 1x1500
  karpenter_nodepools_cost_total{nodepool="a", pod="y"} 1 stale _x1488 1x10
  karpenter_nodepools_cost_total{nodepool="b", pod="x"} 0 stale _x1378 3x120
  karpenter_nodes_allocatable{nodepool="a", node_name="n", resource_type="cpu"} 10x1500
  karpenter_nodes_total_pod_requests{nodepool="a", node_name="n", resource_type="cpu"} 2x1500
  karpenter_nodes_allocatable{nodepool="a", node_name="n", resource_type="memory"} 100x1500
  karpenter_nodes_total_pod_requests{nodepool="a", node_name="n", resource_type="memory"} 75x1500
`
	rules := recordings(t)
	for _, trial := range []struct {
		record, labels string
		want           float64
	}{
		{"cluster:tenon_cost_dollars_per_hour:sum", "{}", 4},
		{"nodepool:tenon_spent_dollars:sum1d", `{nodepool="a"}`, 24},
		{"nodepool:tenon_spent_dollars:sum1d", `{nodepool="b"}`, 6},
		{"cluster:tenon_spent_dollars:sum1d", "{}", 30},
		{"nodepool:tenon_requested_share:max", `{nodepool="a"}`, 0.75},
		{"nodepool:tenon_unrequested_cost_dollars_per_hour:max", `{nodepool="a"}`, 0.25},
	} {
		i := slices.IndexFunc(rules, func(r recording) bool { return r.Record == trial.record })
		if i < 0 {
			t.Fatalf("there is no rule %s", trial.record)
		}
		query := unfold(rules[i].Expr, rules[:i])
		engine := promqltest.NewTestEngine(t, false, 0, 1_000_000)
		q, err := engine.NewInstantQuery(t.Context(), promqltest.LoadedStorage(t, load), nil, query, time.Unix(1500*60, 0))
		if err != nil {
			t.Fatal(err)
		}
		vector, err := q.Exec(t.Context()).Vector()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, sample := range vector {
			got[sample.Metric.String()] = sample.F
		}
		if v, ok := got[trial.labels]; !ok || math.Abs(v-trial.want) > 0.1 {
			t.Errorf("%s is %v, want %v for %s", trial.record, got, trial.want, trial.labels)
		}
	}
}

// unfold puts what rules record in the place of their names: nothing is recorded here.
func unfold(query string, rules []recording) string {
	for _, r := range slices.Backward(rules) {
		query = strings.ReplaceAll(query, r.Record, "("+strings.TrimSpace(r.Expr)+")")
	}
	return query
}

// metricOfOurs is a name that looks like a metric of ours in the text of a page, or like one that a rule records.
var metricOfOurs = regexp.MustCompile("\\b(?:[a-z]+:)?(?:karpenter|tenon|operator)_[a-z0-9_]+(?::[a-z0-9]+)?")

// Every metric that a page names is served, recorded, or one that the page on migration says what to ask for instead of.
func TestPagesNameMetricsThatExist(t *testing.T) {
	t.Parallel()
	known := series(metricsOf(t))
	for name, m := range metricsOf(t) {
		known[name] = m
	}
	for _, r := range recordings(t) {
		known[r.Record] = metric{}
	}
	migration, err := os.ReadFile("../../docs/guide/migrate.md")
	if err != nil {
		t.Fatal(err)
	}
	old := map[string]bool{}
	said := map[string]string{"karpenter_nodepools_cost_tracker_errors_total": "docs/differences.md"} // not to be served
	for _, row := range regexp.MustCompile("(?m)^\\| `(karpenter_\\w+)` \\|").FindAllStringSubmatch(string(migration), -1) {
		old[row[1]] = true
	}
	var pages []string
	for _, pattern := range []string{"../../*.md", "../../docs/*.md", "../../docs/*/*.md", "../../deploy/*/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	named := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range metricOfOurs.FindAllString(string(text), -1) {
			named++
			if _, ok := known[name]; !ok && !(old[name] && strings.HasSuffix(page, "guide/migrate.md")) && !(said[name] != "" && strings.HasSuffix(page, said[name])) {
				t.Errorf("%s: nobody serves %s", page, name)
			}
		}
	}
	if named < 100 {
		t.Errorf("only %d names were found: is it read as it is written?", named)
	}
}

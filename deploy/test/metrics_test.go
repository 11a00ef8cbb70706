package charttest

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"
)

// A metric is what a query can ask for: its kind, and its labels beside those that every scrape adds.
type metric struct {
	kind   string
	labels []string
}

// ofTheScrape are the labels that Prometheus and its operator add to every series.
var ofTheScrape = []string{"job", "instance", "pod", "namespace", "service", "container", "endpoint"}

// metricsOf reads the generated page of metrics, and the metrics that testdata/metrics.yaml lists because no page is
// generated of them: those of the libraries.
func metricsOf(t *testing.T) map[string]metric {
	t.Helper()
	page, err := os.ReadFile("../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]metric{}
	row := regexp.MustCompile("(?m)^\\| `([a-z0-9_]+)` \\| ([a-z]+) \\| ([a-z_, ]*) \\|")
	for _, match := range row.FindAllStringSubmatch(string(page), -1) {
		out[match[1]] = metric{kind: match[2], labels: strings.Split(match[3], ", ")}
	}
	if len(out) < 60 {
		t.Fatalf("only %d metrics on the page: is it read as it is written?", len(out))
	}
	for _, of := range listedMetrics(t) {
		for name, m := range of {
			if _, twice := out[name]; twice {
				t.Errorf("%s is on the generated page: take it out of testdata/metrics.yaml", name)
			}
			out[name] = m
		}
	}
	return out
}

// listedMetrics are those of testdata/metrics.yaml, by whose they are.
func listedMetrics(t *testing.T) map[string]map[string]metric {
	t.Helper()
	text, err := os.ReadFile("testdata/metrics.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var listed map[string]map[string]struct {
		Kind   string
		Labels []string
	}
	if err := yaml.UnmarshalStrict(text, &listed); err != nil {
		t.Fatal(err)
	}
	out := map[string]map[string]metric{}
	for whose, of := range listed {
		out[whose] = map[string]metric{}
		for name, m := range of {
			out[whose][name] = metric{m.Kind, m.Labels}
		}
	}
	return out
}

// series are the metrics by the names of their series: a histogram has three.
func series(all map[string]metric) map[string]metric {
	out := map[string]metric{}
	for name, m := range all {
		switch m.kind {
		case "histogram":
			out[name+"_bucket"] = metric{m.kind, append(slices.Clone(m.labels), "le")}
			out[name+"_count"], out[name+"_sum"] = m, m
		case "summary":
			out[name] = metric{m.kind, append(slices.Clone(m.labels), "quantile")}
			out[name+"_count"], out[name+"_sum"] = m, m
		default:
			out[name] = m
		}
	}
	return out
}

// checkQuery says what is wrong with a query: that it cannot be read, a metric that nobody has, a label that its metric
// does not have, a counter that is not asked for its increase.
func checkQuery(query string, all map[string]metric) []string {
	expression, err := parser.NewParser(parser.Options{}).ParseExpr(query)
	if err != nil {
		return []string{err.Error()}
	}
	var wrong []string
	parser.Inspect(expression, func(node parser.Node, path []parser.Node) error {
		switch n := node.(type) {
		case *parser.VectorSelector:
			m, ok := all[n.Name]
			if !ok {
				wrong = append(wrong, "there is no metric "+n.Name)
				return nil
			}
			for _, matcher := range n.LabelMatchers {
				if matcher.Name != "__name__" && !slices.Contains(m.labels, matcher.Name) && !slices.Contains(ofTheScrape, matcher.Name) {
					wrong = append(wrong, n.Name+" has no label "+matcher.Name)
				}
			}
			if m.kind == "counter" && !ranged(path) {
				wrong = append(wrong, n.Name+" is a counter and is not asked for its increase")
			}
		case *parser.AggregateExpr:
			for _, label := range n.Grouping {
				if !n.Without && !anyHas(n.Expr, label, all) {
					wrong = append(wrong, "nothing below "+n.String()+" has a label "+label)
				}
			}
		}
		return nil
	})
	return wrong
}

// ranged says whether a selector is part of a range.
func ranged(path []parser.Node) bool {
	return slices.ContainsFunc(path, func(n parser.Node) bool {
		_, is := n.(*parser.MatrixSelector)
		return is
	})
}

func anyHas(expression parser.Node, label string, all map[string]metric) bool {
	found := slices.Contains(ofTheScrape, label)
	parser.Inspect(expression, func(node parser.Node, _ []parser.Node) error {
		if n, ok := node.(*parser.VectorSelector); ok && slices.Contains(all[n.Name].labels, label) {
			found = true
		}
		return nil
	})
	return found
}

func TestTheCheckOfQueriesFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	all := series(metricsOf(t))
	for query, want := range map[string]string{
		`sum(`:                              "parse error",
		`sum(karpenter_nodes_creatd_total)`: "there is no metric karpenter_nodes_creatd_total",
		`sum(rate(karpenter_nodes_created_total{pool="a"}[5m]))`:            "karpenter_nodes_created_total has no label pool",
		`sum by (pool) (rate(karpenter_nodes_created_total[5m]))`:           "has a label pool",
		`karpenter_nodes_created_total`:                                     "is not asked for its increase",
		`rate(karpenter_scheduler_scheduling_duration_seconds[5m])`:         "there is no metric",
		`sum by (le) (rate(karpenter_pods_bound_duration_seconds_sum[5m]))`: "has a label le",
	} {
		if wrong := strings.Join(checkQuery(query, all), "; "); !strings.Contains(wrong, want) {
			t.Errorf("%s: %q does not say: %s", query, wrong, want)
		}
	}
	if wrong := checkQuery(`histogram_quantile(0.9, sum by (le) (rate(karpenter_pods_bound_duration_seconds_bucket[5m])))`, all); wrong != nil {
		t.Error(wrong)
	}
}

// Metrics of libraries are taken from testdata/metrics.yaml on trust, so each of them has a user.
func TestEveryMetricThatIsListedByHandIsUsed(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	for _, query := range allQueries(t) {
		expression, err := parser.NewParser(parser.Options{}).ParseExpr(query)
		if err != nil {
			t.Fatal(err)
		}
		parser.Inspect(expression, func(node parser.Node, _ []parser.Node) error {
			if n, ok := node.(*parser.VectorSelector); ok {
				used[n.Name] = true
			}
			return nil
		})
	}
	for _, of := range listedMetrics(t) {
		for _, name := range slices.Sorted(maps.Keys(of)) {
			if !used[name] && !used[name+"_bucket"] {
				t.Errorf("%s is asked for nowhere", name)
			}
		}
	}
}

func allQueries(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, a := range alerts(t) {
		out = append(out, a.Expr)
	}
	for _, d := range dashboards(t) {
		for _, p := range d.Panels {
			for _, q := range p.Queries {
				out = append(out, plainQuery(q.Expr))
			}
		}
	}
	return out
}

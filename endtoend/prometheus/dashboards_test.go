package prometheus_test

import (
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// dashboard is one of deploy/monitoring/dashboards.yaml, of which the JSON files are made.
type dashboard struct {
	Title  string
	Panels []struct {
		Title   string
		Queries []struct{ Expr string }
	}
}

// dashboards has every query show something, at some time since the beginning.
func (w *world) dashboards(s *server) {
	text, err := os.ReadFile("../../deploy/monitoring/dashboards.yaml")
	w.must(err)
	var all []dashboard
	w.must(yaml.Unmarshal(text, &all))
	// Grafana's $__rate_interval is four scrapes, or more.
	variables := strings.NewReplacer("$__rate_interval", "2m", "$nodepool", ".+")
	clouds, queries := w.metricsOfClouds(), 0
	for _, d := range all {
		for _, p := range d.Panels {
			for _, q := range p.Queries {
				queries++
				if slices.ContainsFunc(metricName.FindAllString(q.Expr, -1), func(name string) bool { return slices.Contains(clouds, base(name)) }) {
					continue
				}
				query, err := shortQuery(variables.Replace(q.Expr))
				w.must(err)
				series, err := s.series(query, s.began, time.Now())
				w.must(err)
				if n := numbers(series); n == 0 {
					w.Errorf("%s, %s: no data: %s", d.Title, p.Title, q.Expr)
				}
			}
		}
	}
	if queries < 50 {
		w.Errorf("only %d queries were found", queries)
	}
}

// numbers counts the values that can be drawn.
func numbers(series map[string][]float64) (n int) {
	for _, values := range series {
		for _, v := range values {
			if !math.IsNaN(v) {
				n++
			}
		}
	}
	return n
}

var (
	metricName = regexp.MustCompile(`\b(?:karpenter|tenon|operator|aws)_\w+`)
	metricRow  = regexp.MustCompile("(?m)^\\| `(\\w+)` \\|")
)

// base is the name of the metric that a series belongs to.
func base(series string) string {
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		series = strings.TrimSuffix(series, suffix)
	}
	return series
}

// metricsOfClouds are those that the page of metrics has under the name of a cloud.
func (w *world) metricsOfClouds() (names []string) {
	w.Helper()
	page, err := os.ReadFile("../../docs/reference/metrics.md")
	w.must(err)
	_, of, found := strings.Cut(string(page), "\n## AWS\n")
	if !found {
		w.Fatal("the page of metrics has no part for AWS")
	}
	for _, row := range metricRow.FindAllStringSubmatch(of, -1) {
		names = append(names, base(row[1]))
	}
	return names
}

// costs has the rules for cost record what tenon nodes says that there is, and what that adds up to.
func (w *world) costs(s *server) {
	now := time.Now()
	for _, record := range []string{
		"nodepool:tenon_cost_dollars_per_hour:max", "cluster:tenon_cost_dollars_per_hour:sum", "cluster:tenon_list_cost_dollars_per_hour:sum",
		"nodepool:tenon_requested_share:max", "nodepool:tenon_unrequested_cost_dollars_per_hour:max", "nodepool:tenon_spent_dollars:sum1d", "cluster:tenon_spent_dollars:sum1d",
	} {
		series, err := s.series(record, s.began, now)
		w.must(err)
		if numbers(series) == 0 {
			w.Errorf("%s records nothing", record)
		}
	}
	// What was spent is the area below what it cost: a minute is a second here.
	rates, err := s.series("cluster:tenon_cost_dollars_per_hour:sum", s.began, now)
	w.must(err)
	spent, err := s.series("cluster:tenon_spent_dollars:sum1d", now, now)
	w.must(err)
	area, most := 0.0, 0.0
	for _, values := range rates {
		for _, v := range values {
			area += v / 60
			most = max(most, v)
		}
	}
	got := 0.0
	for _, values := range spent {
		got += values[len(values)-1]
	}
	w.Logf("machines cost at most $%.2f an hour, and $%.2f in all", most, got)
	if most == 0 || math.Abs(got-area) > 0.1*area {
		w.Errorf("recorded as spent are $%.3f, want $%.3f: %s", got, area, fmt.Sprint(rates))
	}
}

package prometheus_test

import (
	"fmt"
	"math"
	"os"
	"regexp"
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

// dashboards has every query about what the cloud tells show something, at some time since the beginning. A cloud is a part of the
// page of metrics; "" is what all clouds have.
func (w *world) dashboards(s *server, cloud string) {
	text, err := os.ReadFile("../../deploy/monitoring/dashboards.yaml")
	w.must(err)
	var all []dashboard
	w.must(yaml.Unmarshal(text, &all))
	// Grafana's $__rate_interval is four scrapes, or more.
	interval, err := s.pace.scrape("30s")
	w.must(err)
	variables := strings.NewReplacer("$__rate_interval", milliseconds(4*interval), "$nodepool", ".+")
	clouds, queries := w.metricsByCloud(), 0
	for _, d := range all {
		for _, p := range d.Panels {
			for _, q := range p.Queries {
				if cloudOf(q.Expr, clouds) != cloud {
					continue
				}
				queries++
				series, err := s.series(variables.Replace(q.Expr), s.began, time.Now())
				w.must(err)
				if n := numbers(series); n == 0 {
					w.Errorf("%s, %s: no data: %s", d.Title, p.Title, q.Expr)
				}
			}
		}
	}
	w.Logf("%d queries", queries)
	if queries == 0 {
		w.Error("no dashboard asks for anything of the cloud")
	}
}

// cloudOf is the cloud whose metrics a query asks for.
func cloudOf(query string, clouds map[string]string) string {
	for _, word := range words.FindAllString(query, -1) {
		if cloud := clouds[base(word)]; cloud != "" {
			return cloud
		}
	}
	return ""
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
	words     = regexp.MustCompile(`\w+`)
	metricRow = regexp.MustCompile("(?m)^\\| `(\\w+)` \\|")
)

// base is the name of the metric that a series belongs to.
func base(series string) string {
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		series = strings.TrimSuffix(series, suffix)
	}
	return series
}

// metricsByCloud says which part of the page of metrics they stand in, for those of a cloud.
func (w *world) metricsByCloud() map[string]string {
	w.Helper()
	page, err := os.ReadFile("../../docs/reference/metrics.md")
	w.must(err)
	clouds := map[string]string{}
	for i, part := range strings.Split(string(page), "\n## ") {
		title, rows, _ := strings.Cut(part, "\n")
		for _, row := range metricRow.FindAllStringSubmatch(rows, -1) {
			if i > 0 {
				clouds[base(row[1])] = title
			}
		}
	}
	return clouds
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

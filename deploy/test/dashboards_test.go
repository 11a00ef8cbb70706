package charttest

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

var rewrite = flag.Bool("rewrite", false, "write the dashboards anew")

// A dashboard is one of deploy/monitoring/dashboards.yaml.
type dashboard struct {
	File   string
	Title  string
	Panels []panel
}

type panel struct {
	Title   string
	Text    string
	Unit    string
	Kind    string // timeseries if empty
	Stack   bool
	Queries []query
}

type query struct {
	Expr   string
	Legend string
}

func dashboards(t *testing.T) []dashboard {
	t.Helper()
	text, err := os.ReadFile("../monitoring/dashboards.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var out []dashboard
	if err := yaml.UnmarshalStrict(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// plainQuery is the query as Grafana sends it.
func plainQuery(text string) string {
	return strings.NewReplacer("$__rate_interval", "5m", "$nodepool", ".+").Replace(text)
}

func TestDashboardsAskForMetricsThatExist(t *testing.T) {
	t.Parallel()
	all := series(metricsOf(t))
	for _, d := range dashboards(t) {
		for _, p := range d.Panels {
			if len(p.Queries) == 0 {
				t.Errorf("%s: %s shows nothing", d.Title, p.Title)
			}
			for _, q := range p.Queries {
				for _, wrong := range checkQuery(plainQuery(q.Expr), all) {
					t.Errorf("%s: %s: %s", d.Title, p.Title, wrong)
				}
			}
		}
	}
}

// The JSON files are made from the description: run make generate.
func TestTheDashboardsAreThoseOfTheDescription(t *testing.T) {
	t.Parallel()
	var files []string
	for _, d := range dashboards(t) {
		path := filepath.Join("..", "monitoring", "dashboards", d.File+".json")
		files = append(files, path)
		want := d.json(t)
		if *rewrite {
			if err := os.WriteFile(path, want, 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		have, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(have, want) {
			t.Errorf("%s is not what dashboards.yaml says: run make generate", path)
		}
	}
	there, err := filepath.Glob("../monitoring/dashboards/*")
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(files)
	if !slices.Equal(there, files) {
		t.Errorf("there are %q, described are %q", there, files)
	}
}

type object = map[string]any

// json is the dashboard as Grafana imports it.
func (d dashboard) json(t *testing.T) []byte {
	t.Helper()
	source := object{"type": "prometheus", "uid": "${datasource}"}
	var panels []object
	x, y, row := 0, 0, 0 // row is the height of the panels of this row
	for i, p := range d.Panels {
		width, height := 12, 8
		if p.Kind == "stat" {
			width, height = 6, 4
		}
		if x+width > 24 {
			x, y, row = 0, y+row, 0
		}
		row = max(row, height)
		panels = append(panels, p.json(i+1, source, object{"x": x, "y": y, "w": width, "h": height}))
		x += width
	}
	variable := func(name, kind string, more object) object {
		out := object{"name": name, "type": kind, "label": name}
		for key, value := range more {
			out[key] = value
		}
		return out
	}
	text, err := json.MarshalIndent(object{
		"uid": "tenon-" + d.File, "title": d.Title, "tags": []string{"tenon", "karpenter"}, "schemaVersion": 39, "version": 1,
		"editable": true, "refresh": "30s", "time": object{"from": "now-6h", "to": "now"}, "panels": panels,
		"templating": object{"list": []object{
			variable("datasource", "datasource", object{"query": "prometheus"}),
			variable("nodepool", "query", object{
				"datasource": source, "query": "label_values(karpenter_nodepools_cost_total, nodepool)", "refresh": 2,
				"multi": true, "includeAll": true, "allValue": ".+", "current": object{"text": "All", "value": "$__all"},
			}),
		}},
	}, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(text, '\n')
}

func (p panel) json(id int, source, place object) object {
	kind := p.Kind
	if kind == "" {
		kind = "timeseries"
	}
	var targets []object
	for i, q := range p.Queries {
		targets = append(targets, object{"refId": string(rune('A' + i)), "datasource": source, "expr": q.Expr, "legendFormat": q.Legend})
	}
	stacking, fill := "none", 0
	if p.Stack {
		stacking, fill = "normal", 30
	}
	defaults := object{"unit": p.Unit, "custom": object{"stacking": object{"mode": stacking}, "fillOpacity": fill}}
	if p.Unit == "" {
		defaults["unit"] = "short"
	}
	if kind == "stat" {
		delete(defaults, "custom")
	}
	return object{
		"id": id, "type": kind, "title": p.Title, "description": p.Text, "datasource": source, "gridPos": place, "targets": targets,
		"fieldConfig": object{"defaults": defaults, "overrides": []object{}},
	}
}

package api_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	v1 "tenon.sh/api/v1"
	"tenon.sh/scenario/schema"
)

// A server stores objects if they are valid.
type server interface {
	// create returns the error for an invalid object.
	create(obj *unstructured.Unstructured) error
	// update returns the error if obj must not replace old, which is valid.
	update(old, obj *unstructured.Unstructured) error
	// read returns an object as clients see it after its creation.
	read(obj *unstructured.Unstructured) (*unstructured.Unstructured, error)
}

// rules is one file of testdata. nodepool.yaml explains the form.
type rules struct {
	Base  map[string]any `json:"base"`
	Cases []ruleCase     `json:"cases"`
}

type ruleCase struct {
	Rule    string         `json:"rule"`
	At      string         `json:"at"`
	With    map[string]any `json:"with"`
	From    any            `json:"from"`
	Error   string         `json:"error"`
	Accept  []any          `json:"accept"`
	Reject  []any          `json:"reject"`
	Becomes any            `json:"becomes"`

	update bool // the case has a "from", perhaps null
}

func readRules(t *testing.T) map[string]rules {
	t.Helper()
	paths, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no rules in testdata: %v", err)
	}
	out := map[string]rules{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var file rules
		if err := yaml.UnmarshalStrict(text, &file); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		var raw struct {
			Cases []map[string]any `json:"cases"`
		}
		if err := yaml.Unmarshal(text, &raw); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		for i := range file.Cases {
			_, file.Cases[i].update = raw.Cases[i]["from"]
		}
		out[strings.TrimSuffix(filepath.Base(path), ".yaml")] = file
	}
	return out
}

// namer returns a function that returns a different valid name at each call.
func namer(prefix string) func() string {
	n := 0
	return func() string { n++; return fmt.Sprintf("%s-%d", prefix, n) }
}

// object returns the base with the case's additions and one value at the case's path.
func (r rules) object(t *testing.T, c ruleCase, name string, value any, keep bool) *unstructured.Unstructured {
	t.Helper()
	content := clone(t, r.Base)
	merge(content, clone(t, c.With))
	path := strings.Split(c.At, ".")
	if !keep {
		if value == nil {
			unstructured.RemoveNestedField(content, path...)
		} else if err := unstructured.SetNestedField(content, clone(t, map[string]any{"v": value})["v"], path...); err != nil {
			t.Fatalf("%s: %v", c.Rule, err)
		}
	}
	obj := &unstructured.Unstructured{Object: content}
	obj.SetName(name)
	if obj.GetKind() == "CapacityBuffer" {
		obj.SetNamespace("default")
	}
	return obj
}

func clone(t *testing.T, in map[string]any) map[string]any {
	t.Helper()
	text, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// merge merges the fields of change into base; null removes a field.
func merge(base, change map[string]any) {
	for key, value := range change {
		inner, isMap := value.(map[string]any)
		existing, found := base[key].(map[string]any)
		switch {
		case value == nil:
			delete(base, key)
		case isMap && found:
			merge(existing, inner)
		default:
			base[key] = value
		}
	}
}

// checkRules sends each case of each file to the server.
func checkRules(t *testing.T, s server) {
	for name, file := range readRules(t) {
		t.Run(name, func(t *testing.T) {
			newName := namer(name)
			for _, c := range file.Cases {
				t.Run(c.Rule, func(t *testing.T) { checkRule(t, s, file, c, newName) })
			}
		})
	}
}

func checkRule(t *testing.T, s server, file rules, c ruleCase, newName func() string) {
	put := func(value any) error {
		name := newName()
		obj := file.object(t, c, name, value, false)
		if !c.update {
			return s.create(obj)
		}
		return s.update(file.object(t, c, name, c.From, false), obj)
	}
	for _, value := range c.Accept {
		if err := put(value); err != nil {
			t.Errorf("%s = %v was rejected: %v", c.At, value, err)
		}
	}
	want := c.Error
	if want == "" {
		want = c.At
	}
	want = strings.TrimPrefix(want, "status.") // the status subresource omits it in some messages
	for _, value := range c.Reject {
		if err := put(value); err == nil {
			t.Errorf("%s = %v was accepted", c.At, value)
		} else if !containsAll(err.Error(), want) {
			t.Errorf("%s = %v: the message does not name %q: %v", c.At, value, want, err)
		}
	}
	if c.Becomes == nil {
		return
	}
	obj, err := s.read(file.object(t, c, newName(), nil, true))
	if err != nil {
		t.Errorf("without %s: %v", c.At, err)
		return
	}
	got, _, err := unstructured.NestedFieldNoCopy(obj.Object, strings.Split(c.At, ".")...)
	if becomes := clone(t, map[string]any{"v": c.Becomes})["v"]; err != nil || !reflect.DeepEqual(got, becomes) {
		t.Errorf("%s became %v (%v), want %v", c.At, got, err, becomes)
	}
}

// containsAll reports whether the message contains all parts of want, which " ... " separates.
func containsAll(message, want string) bool {
	for part := range strings.SplitSeq(want, " ... ") {
		if !strings.Contains(message, part) {
			return false
		}
	}
	return true
}

// checkCounts checks length limits, whose cases would be long in a file.
func checkCounts(t *testing.T, s server) {
	newName := namer("count")
	list := func(n int, item func(i int) any) any {
		out := []any{}
		for i := range n {
			out = append(out, item(i))
		}
		return out
	}
	labels := func(n int) any {
		out := map[string]any{}
		for i := range n {
			out[fmt.Sprintf("label-%d", i)] = "a"
		}
		return out
	}
	requirement := func(i int) any {
		return map[string]any{"key": fmt.Sprintf("key-%d", i), "operator": "Exists"}
	}
	budget := func(int) any { return map[string]any{"nodes": "1"} }
	value := func(i int) any { return fmt.Sprint(i) }
	key := func(n int) any {
		return []any{map[string]any{"key": strings.Repeat("a", n), "operator": "Exists"}}
	}
	tests := []struct {
		kind, name, at string
		value          any
		valid          bool
	}{
		{"nodeoverlay", "100 requirements", "spec.requirements", list(100, requirement), true},
		{"nodeoverlay", "101 requirements", "spec.requirements", list(101, requirement), false},
		{"nodepool", "100 requirements", "spec.template.spec.requirements", list(100, requirement), true},
		{"nodepool", "101 requirements", "spec.template.spec.requirements", list(101, requirement), false},
		{"nodepool", "more than 50 values", "spec.template.spec.requirements", []any{map[string]any{"key": "team", "operator": "In", "values": list(60, value)}}, true},
		{"nodepool", "50 budgets", "spec.disruption.budgets", list(50, budget), true},
		{"nodepool", "51 budgets", "spec.disruption.budgets", list(51, budget), false},
		{"nodepool", "100 labels", "spec.template.metadata.labels", labels(100), true},
		{"nodepool", "101 labels", "spec.template.metadata.labels", labels(101), false},
		{"nodepool", "key of 316", "spec.template.spec.requirements", key(316), true},
		{"nodepool", "key of 317", "spec.template.spec.requirements", key(317), false},
	}
	for _, test := range tests {
		err := s.create(readRules(t)[test.kind].object(t, ruleCase{Rule: test.name, At: test.at}, newName(), test.value, false))
		if test.valid && err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		if !test.valid && (err == nil || !strings.Contains(err.Error(), test.at)) {
			t.Errorf("%s: error %v, want one naming %s", test.name, err, test.at)
		}
	}
}

// checkProviderLabels compares the lists in Go with the rules in the definitions.
func checkProviderLabels(t *testing.T, s server) {
	file := readRules(t)["nodepool"]
	newName := namer("label")
	for _, domain := range v1.RestrictedDomains() {
		for _, key := range v1.ProviderLabels(domain) {
			label := ruleCase{Rule: key, At: "spec.template.metadata.labels"}
			if err := s.create(file.object(t, label, newName(), map[string]any{key: "a"}, false)); err != nil {
				t.Errorf("label %s: %v", key, err)
			}
			requirement := ruleCase{Rule: key, At: "spec.template.spec.requirements"}
			if err := s.create(file.object(t, requirement, newName(), []any{map[string]any{"key": key, "operator": "Exists"}}, false)); err != nil {
				t.Errorf("requirement on %s: %v", key, err)
			}
		}
	}
}

// inProcess checks objects against the generated definitions, without a server.
type inProcess struct{ schemas *schema.Schemas }

func (s inProcess) create(obj *unstructured.Unstructured) error { return s.schemas.Apply(obj) }

func (s inProcess) update(old, obj *unstructured.Unstructured) error {
	if err := s.schemas.Apply(old); err != nil {
		return fmt.Errorf("before the update: %w", err)
	}
	return s.schemas.Update(obj, old)
}

func (s inProcess) read(obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return obj, s.schemas.Apply(obj)
}

func TestRulesWithoutAServer(t *testing.T) {
	t.Parallel()
	schemas, err := schema.New()
	if err != nil {
		t.Fatal(err)
	}
	s := inProcess{schemas}
	t.Run("cases", func(t *testing.T) { checkRules(t, s) })
	t.Run("counts", func(t *testing.T) { checkCounts(t, s) })
	t.Run("counts of Azure", func(t *testing.T) { checkAzureCounts(t, s) })
	t.Run("zones of DNS", func(t *testing.T) { checkDNSZones(t, s) })
	t.Run("provider labels", func(t *testing.T) { checkProviderLabels(t, s) })
	t.Run("typed", func(t *testing.T) { checkTyped(t, s) })
}

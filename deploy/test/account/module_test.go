package accounttest

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/tryfunc"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

const moduleFolder = "../../terraform/karpenter"

// A module is the Terraform module in a place: enough of Terraform to compute what its resources are made with. What only
// the provider knows, such as ARNs, is made up as AWS would.
type module struct {
	t         *testing.T
	place     place
	blocks    []*hclsyntax.Block
	locals    map[string]hclsyntax.Expression
	variables map[string]cty.Value
	used      map[string]bool // what expressions refer to, such as var.tags
	known     map[string]cty.Value
}

func readModule(t *testing.T, in place, inputs map[string]cty.Value) *module {
	t.Helper()
	m := &module{t: t, place: in, locals: map[string]hclsyntax.Expression{}, variables: map[string]cty.Value{}, used: map[string]bool{}, known: map[string]cty.Value{}}
	files, err := filepath.Glob(moduleFolder + "/*.tf")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files in %s, %v", len(files), moduleFolder, err)
	}
	parser := hclparse.NewParser()
	for _, file := range files {
		parsed, diagnostics := parser.ParseHCLFile(file)
		m.check(diagnostics)
		m.blocks = append(m.blocks, parsed.Body.(*hclsyntax.Body).Blocks...)
	}
	for _, b := range m.blocks {
		switch b.Type {
		case "locals":
			for name, attribute := range b.Body.Attributes {
				m.locals[name] = attribute.Expr
			}
		case "variable":
			name := b.Labels[0]
			value, given := inputs[name]
			if !given {
				if b.Body.Attributes["default"] == nil {
					t.Fatalf("variable %s has neither value nor default", name)
				}
				value = m.value(b.Body.Attributes["default"].Expr, nil)
			}
			m.variables[name] = value
		}
	}
	return m
}

func (m *module) check(diagnostics hcl.Diagnostics) {
	m.t.Helper()
	if diagnostics.HasErrors() {
		m.t.Fatal(diagnostics)
	}
}

// value computes an expression, and all that it refers to first.
func (m *module) value(e hclsyntax.Expression, more map[string]cty.Value) cty.Value {
	m.t.Helper()
	out, diagnostics := e.Value(m.context(e, more))
	m.check(diagnostics)
	return out
}

func (m *module) context(e hclsyntax.Expression, more map[string]cty.Value) *hcl.EvalContext {
	m.t.Helper()
	groups := map[string]map[string]cty.Value{}
	put := func(group, name string, value cty.Value) {
		if groups[group] == nil {
			groups[group] = map[string]cty.Value{}
		}
		groups[group][name] = value
	}
	for _, reference := range e.Variables() {
		root := reference.RootName()
		if _, own := more[root]; own || root == "path" {
			continue
		}
		name := step(reference, 1)
		m.used[root+"."+name] = true
		switch root {
		case "var":
			value, declared := m.variables[name]
			if !declared {
				m.t.Fatalf("%s: there is no variable %s", reference.SourceRange(), name)
			}
			put(root, name, value)
		case "local":
			if m.locals[name] == nil {
				m.t.Fatalf("%s: there is no local %s", reference.SourceRange(), name)
			}
			put(root, name, m.value(m.locals[name], nil))
		case "data":
			m.used["data."+name+"."+step(reference, 2)] = true
			put(root, name, cty.ObjectVal(map[string]cty.Value{step(reference, 2): m.data(name)}))
		default:
			put(root, name, m.resource(root, name))
		}
	}
	out := &hcl.EvalContext{Functions: m.functions(), Variables: map[string]cty.Value{"path": object("module", moduleFolder)}}
	maps.Copy(out.Variables, more)
	for group, values := range groups {
		out.Variables[group] = cty.ObjectVal(values)
	}
	return out
}

func step(reference hcl.Traversal, i int) string {
	if len(reference) <= i {
		return ""
	}
	attribute, _ := reference[i].(hcl.TraverseAttr)
	return attribute.Name
}

func object(pairs ...string) cty.Value {
	out := map[string]cty.Value{}
	for i := 0; i < len(pairs); i += 2 {
		out[pairs[i]] = cty.StringVal(pairs[i+1])
	}
	return cty.ObjectVal(out)
}

// data is what a data source says.
func (m *module) data(kind string) cty.Value {
	m.t.Helper()
	switch kind {
	case "aws_caller_identity":
		return object("account_id", m.place.account)
	case "aws_partition":
		return object("partition", m.place.partition, "dns_suffix", m.place.dnsSuffix)
	case "aws_region":
		return object("id", m.place.region)
	}
	m.t.Fatalf("data source %s is not known here", kind)
	return cty.NilVal
}

// resource is the object of a resource: with count a list of them, with for_each one for each key.
func (m *module) resource(kind, name string) cty.Value {
	m.t.Helper()
	if known, ok := m.known[kind+"."+name]; ok {
		return known
	}
	i := slices.IndexFunc(m.blocks, func(b *hclsyntax.Block) bool {
		return b.Type == "resource" && b.Labels[0] == kind && b.Labels[1] == name
	})
	if i < 0 {
		m.t.Fatalf("there is no resource %s.%s", kind, name)
	}
	body := m.blocks[i].Body
	var out cty.Value
	switch {
	case body.Attributes["count"] != nil:
		count, _ := m.value(body.Attributes["count"].Expr, nil).AsBigFloat().Int64()
		var all []cty.Value
		for range count {
			all = append(all, m.instance(kind, body, nil))
		}
		out = cty.TupleVal(all)
	case body.Attributes["for_each"] != nil:
		all := map[string]cty.Value{}
		for it := m.value(body.Attributes["for_each"].Expr, nil).ElementIterator(); it.Next(); {
			key, value := it.Element()
			all[key.AsString()] = m.instance(kind, body, map[string]cty.Value{"each": cty.ObjectVal(map[string]cty.Value{"key": key, "value": value})})
		}
		out = cty.ObjectVal(all)
	default:
		out = m.instance(kind, body, nil)
	}
	m.known[kind+"."+name] = out
	return out
}

// instance is one object of a resource, with what AWS adds to it.
func (m *module) instance(kind string, body *hclsyntax.Body, more map[string]cty.Value) cty.Value {
	m.t.Helper()
	out := map[string]cty.Value{}
	for name, attribute := range body.Attributes {
		if name != "count" && name != "for_each" {
			out[name] = m.value(attribute.Expr, more)
		}
	}
	for _, b := range body.Blocks { // lifecycle, preconditions
		for _, inner := range b.Body.Blocks {
			if condition := m.value(inner.Body.Attributes["condition"].Expr, more); condition.False() {
				m.t.Fatalf("%s", m.value(inner.Body.Attributes["error_message"].Expr, more).AsString())
			}
		}
	}
	text := func(key string) string {
		if out[key] == cty.NilVal {
			return ""
		}
		return out[key].AsString()
	}
	switch kind {
	case "aws_iam_role":
		out["arn"] = cty.StringVal(fmt.Sprintf("arn:%s:iam::%s:role/%s", m.place.partition, m.place.account, text("name")))
	case "aws_iam_policy":
		out["arn"] = cty.StringVal(fmt.Sprintf("arn:%s:iam::%s:policy/%s", m.place.partition, m.place.account, text("name")))
	case "aws_sqs_queue":
		out["arn"] = cty.StringVal(fmt.Sprintf("arn:%s:sqs:%s:%s:%s", m.place.partition, m.place.region, m.place.account, text("name")))
		out["url"] = cty.StringVal("https://sqs/" + text("name"))
	case "aws_cloudwatch_event_rule":
		out["name"] = cty.StringVal(text("name_prefix") + "1")
	}
	return cty.ObjectVal(out)
}

// functions are those of Terraform that the module uses.
func (m *module) functions() map[string]function.Function {
	return map[string]function.Function{
		"can": tryfunc.CanFunc, "contains": stdlib.ContainsFunc, "element": stdlib.ElementFunc,
		"jsonencode": stdlib.JSONEncodeFunc, "merge": stdlib.MergeFunc, "regex": stdlib.RegexFunc, "split": stdlib.SplitFunc,
		"substr": stdlib.SubstrFunc, "trimprefix": stdlib.TrimPrefixFunc,
		"length": function.New(&function.Spec{
			Params: []function.Parameter{{Name: "of", Type: cty.DynamicPseudoType}}, Type: function.StaticReturnType(cty.Number),
			Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
				if args[0].Type() == cty.String {
					return stdlib.Strlen(args[0])
				}
				return stdlib.Length(args[0])
			},
		}),
		"one": function.New(&function.Spec{
			Params: []function.Parameter{{Name: "list", Type: cty.DynamicPseudoType}}, Type: function.StaticReturnType(cty.DynamicPseudoType),
			Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
				if args[0].LengthInt() == 0 {
					return cty.NullVal(cty.DynamicPseudoType), nil
				}
				return args[0].Index(cty.NumberIntVal(0)), nil
			},
		}),
		"templatefile": function.New(&function.Spec{
			Params: []function.Parameter{{Name: "file", Type: cty.String}, {Name: "values", Type: cty.DynamicPseudoType}},
			Type:   function.StaticReturnType(cty.String),
			Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
				content, err := os.ReadFile(args[0].AsString())
				if err != nil {
					return cty.NilVal, err
				}
				text, diagnostics := hclsyntax.ParseTemplate(content, args[0].AsString(), hcl.InitialPos)
				if diagnostics.HasErrors() {
					return cty.NilVal, diagnostics
				}
				out, diagnostics := text.Value(&hcl.EvalContext{Variables: args[1].AsValueMap()})
				if diagnostics.HasErrors() {
					return cty.NilVal, diagnostics
				}
				return out, nil
			},
		}),
	}
}

// everything computes all resources and outputs of the module.
func (m *module) everything() {
	m.t.Helper()
	for _, b := range m.blocks {
		switch b.Type {
		case "resource":
			m.resource(b.Labels[0], b.Labels[1])
		case "output":
			m.value(b.Body.Attributes["value"].Expr, nil)
		}
	}
}

// refusals are what the module says against the values of its variables.
func (m *module) refusals() (out []string) {
	for _, b := range m.blocks {
		if b.Type != "variable" {
			continue
		}
		for _, rule := range b.Body.Blocks {
			if m.value(rule.Body.Attributes["condition"].Expr, nil).False() {
				out = append(out, m.value(rule.Body.Attributes["error_message"].Expr, nil).AsString())
			}
		}
	}
	return out
}

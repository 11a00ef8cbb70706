package accounttest

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"
)

func TestAnExistingRoleOfMachinesIsUsed(t *testing.T) {
	t.Parallel()
	const role = "arn:aws:iam::111122223333:role/teams/nodes"
	m := readModule(t, places()[0], map[string]cty.Value{
		"cluster_name": cty.StringVal("demo"), "create_node_role": cty.False, "node_role_arn": cty.StringVal(role),
	})
	m.everything()
	if made := m.resource("aws_iam_role", "node").LengthInt(); made != 0 {
		t.Errorf("%d roles are made", made)
	}
	policy := m.resource("aws_iam_policy", "controller").GetAttr("IAMIntegration").GetAttr("policy").AsString()
	if !strings.Contains(policy, `"Resource": "`+role+`"`) {
		t.Errorf("the role, with its path, may not be passed on:\n%s", policy)
	}
	for _, b := range m.blocks {
		if b.Type == "output" && b.Labels[0] == "node_role_name" {
			if name := m.value(b.Body.Attributes["value"].Expr, nil).AsString(); name != "nodes" {
				t.Errorf("classes are told to name role %s", name)
			}
		}
	}
}

// inputs are the variables of the module that mean the same as the parameters of the template.
func inputs(in place) map[string]cty.Value {
	out := map[string]cty.Value{"create_access_entry": cty.False, "controller_role": cty.StringVal("None")}
	for parameter, value := range in.values {
		switch parameter {
		case "ClusterName":
			out["cluster_name"] = cty.StringVal(value)
		case "ControllerRole":
			out["controller_role"] = cty.StringVal(value)
		case "OIDCIssuer":
			out["oidc_issuer"] = cty.StringVal("https://" + value)
		case "NodeAccessEntry":
			out["create_access_entry"] = cty.BoolVal(value == "true")
		}
	}
	return out
}

func TestEverythingThatTheModuleRefersToExistsAndIsUsed(t *testing.T) {
	t.Parallel()
	for _, in := range places() {
		m := readModule(t, in, inputs(in))
		m.everything()
		if refusals := m.refusals(); len(refusals) > 0 {
			t.Errorf("%s: %q", in.partition, refusals)
		}
		for _, b := range m.blocks {
			name := strings.Join(b.Labels, ".")
			switch b.Type {
			case "variable":
				if !m.used["var."+name] {
					t.Errorf("nothing uses variable %s", name)
				}
			case "data":
				if !m.used["data."+name] {
					t.Errorf("nothing uses data source %s", name)
				}
			}
		}
		for name := range m.locals {
			if !m.used["local."+name] {
				t.Errorf("nothing uses local %s", name)
			}
		}
	}
}

func TestTheModuleIsFormatted(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(moduleFolder + "/*.tf")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if string(hclwrite.Format(content)) != string(content) {
			t.Errorf("%s is not as terraform fmt would have it", file)
		}
	}
}

func TestBadValuesOfTheModuleAreRefused(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]map[string]cty.Value{
		"46 characters": {"cluster_name": cty.StringVal(strings.Repeat("x", 47))},
		"letters":       {"cluster_name": cty.StringVal("a/b")},
		"PodIdentity":   {"controller_role": cty.StringVal("Magic")},
	} {
		in := places()[0]
		values := inputs(in)
		maps.Copy(values, change)
		if refusals := readModule(t, in, values).refusals(); len(refusals) != 1 || !strings.Contains(refusals[0], name) {
			t.Errorf("%v: %q", change, refusals)
		}
	}
}

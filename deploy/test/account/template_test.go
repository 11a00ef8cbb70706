package accounttest

import (
	"fmt"
	"iter"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const templateFile = "../../cloudformation/karpenter.yaml"

// A place is where an installation is made.
type place struct {
	partition, region, dnsSuffix, account string
	values                                map[string]string // of parameters
}

// places are one in each kind of partition.
func places() []place {
	return []place{
		{"aws", "us-west-2", "amazonaws.com", "111122223333", map[string]string{"ClusterName": "demo"}},
		{"aws-us-gov", "us-gov-west-1", "amazonaws.com", "111122223333", map[string]string{"ClusterName": "demo", "ControllerRole": "PodIdentity"}},
		{"aws-cn", "cn-north-1", "amazonaws.com.cn", "111122223333", map[string]string{
			"ClusterName": "demo", "ControllerRole": "IRSA", "OIDCIssuer": "oidc.eks.cn-north-1.amazonaws.com.cn/id/0123ABCD", "NodeAccessEntry": "true",
		}},
	}
}

// A template is a CloudFormation template in a place, with what its functions are worth there.
type template struct {
	place
	root     *yaml.Node
	sections map[string]map[string]*yaml.Node
	used     map[string]bool // names that something refers to
	problems []string
}

func readTemplate(t *testing.T, in place) *template {
	t.Helper()
	content, err := os.ReadFile(templateFile)
	if err != nil {
		t.Fatal(err)
	}
	out := &template{place: in, root: &yaml.Node{}, sections: map[string]map[string]*yaml.Node{}, used: map[string]bool{}}
	if err := yaml.Unmarshal(content, out.root); err != nil {
		t.Fatal(err)
	}
	for name, section := range entries(out.root.Content[0]) {
		out.sections[name] = maps.Collect(entries(section))
	}
	return out
}

// entries are the keys and values of a mapping; nothing else has any.
func entries(n *yaml.Node) iter.Seq2[string, *yaml.Node] {
	return func(yield func(string, *yaml.Node) bool) {
		for i := 0; n.Kind == yaml.MappingNode && i < len(n.Content); i += 2 {
			if !yield(n.Content[i].Value, n.Content[i+1]) {
				return
			}
		}
	}
}

func (x *template) problem(at *yaml.Node, format string, args ...any) string {
	x.problems = append(x.problems, fmt.Sprintf("line %d: %s", at.Line, fmt.Sprintf(format, args...)))
	return ""
}

// value is what a node is worth, with all functions carried out.
func (x *template) value(n *yaml.Node) any {
	switch n.Tag {
	case "!Ref":
		return x.ref(n, n.Value)
	case "!GetAtt":
		return x.attribute(n, n.Value)
	case "!Sub":
		return x.substitute(n)
	case "!If":
		first, second := x.value(n.Content[1]), x.value(n.Content[2]) // both, to find what is wrong with either
		if x.condition(n, n.Content[0].Value) {
			return first
		}
		return second
	case "!Equals":
		return x.value(n.Content[0]) == x.value(n.Content[1])
	case "!Not":
		return x.value(n.Content[0]) != true
	}
	switch {
	case strings.HasPrefix(n.Tag, "!") && !strings.HasPrefix(n.Tag, "!!"):
		return x.problem(n, "function %s is not known here", n.Tag)
	case n.Kind == yaml.SequenceNode:
		return x.list(n)
	case n.Kind == yaml.MappingNode:
		out := map[string]any{}
		for key, value := range entries(n) {
			out[key] = x.value(value)
		}
		return out
	}
	return n.Value
}

func (x *template) list(n *yaml.Node) (out []any) {
	for _, element := range n.Content {
		out = append(out, x.value(element))
	}
	return out
}

// ref is what !Ref is worth: a parameter, one of CloudFormation's own, or the name of a resource.
func (x *template) ref(at *yaml.Node, name string) string {
	x.used[name] = true
	if own, ok := map[string]string{
		"AWS::Partition": x.partition, "AWS::Region": x.region, "AWS::AccountId": x.account, "AWS::URLSuffix": x.dnsSuffix,
	}[name]; ok {
		return own
	}
	if parameter, ok := x.sections["Parameters"][name]; ok {
		return x.parameter(at, name, parameter)
	}
	if resource, ok := x.sections["Resources"][name]; ok {
		properties := maps.Collect(entries(maps.Collect(entries(resource))["Properties"]))
		if policy, ok := properties["ManagedPolicyName"]; ok { // which goes by its ARN, others by their name
			return fmt.Sprintf("arn:%s:iam::%s:policy/%v", x.partition, x.account, x.value(policy))
		}
		return "name of " + name
	}
	return x.problem(at, "%s is neither a parameter nor a resource", name)
}

func (x *template) parameter(at *yaml.Node, name string, declared *yaml.Node) string {
	var p struct {
		Default        *string  `yaml:"Default"`
		AllowedValues  []string `yaml:"AllowedValues"`
		AllowedPattern string   `yaml:"AllowedPattern"`
	}
	if err := declared.Decode(&p); err != nil {
		return x.problem(declared, "%v", err)
	}
	value, given := x.values[name]
	if !given && p.Default == nil {
		return x.problem(at, "parameter %s has neither value nor default", name)
	}
	if !given {
		value = *p.Default
	}
	if len(p.AllowedValues) > 0 && !slices.Contains(p.AllowedValues, value) {
		return x.problem(at, "parameter %s is %q, allowed are %q", name, value, p.AllowedValues)
	}
	return value
}

// attribute is what !GetAtt is worth. Only what a kind of resource has can be asked for.
func (x *template) attribute(at *yaml.Node, text string) string {
	name, attribute, _ := strings.Cut(text, ".")
	x.used[name] = true
	resource, ok := x.sections["Resources"][name]
	if !ok {
		return x.problem(at, "%s: there is no resource %s", text, name)
	}
	var r struct {
		Type       string               `yaml:"Type"`
		Properties map[string]yaml.Node `yaml:"Properties"`
	}
	if err := resource.Decode(&r); err != nil {
		return x.problem(resource, "%v", err)
	}
	property := func(key string) string {
		node := r.Properties[key]
		text, _ := x.value(&node).(string)
		return text
	}
	switch r.Type + " " + attribute {
	case "AWS::IAM::Role Arn":
		return fmt.Sprintf("arn:%s:iam::%s:role%s%s", x.partition, x.account, property("Path"), property("RoleName"))
	case "AWS::SQS::Queue Arn":
		return fmt.Sprintf("arn:%s:sqs:%s:%s:%s", x.partition, x.region, x.account, property("QueueName"))
	case "AWS::SQS::Queue QueueName":
		return property("QueueName")
	}
	return x.problem(at, "%s: a resource of type %s has no attribute %s that this test knows", text, r.Type, attribute)
}

var placeholder = regexp.MustCompile(`\$\{([^}]*)\}`)

func (x *template) substitute(n *yaml.Node) string {
	return placeholder.ReplaceAllStringFunc(n.Value, func(match string) string {
		name := placeholder.FindStringSubmatch(match)[1]
		if strings.Contains(name, ".") {
			return x.attribute(n, name)
		}
		return x.ref(n, name)
	})
}

func (x *template) condition(at *yaml.Node, name string) bool {
	x.used[name] = true
	node, ok := x.sections["Conditions"][name]
	if !ok {
		x.problem(at, "there is no condition %s", name)
		return false
	}
	return x.value(node) == true
}

// resources are the properties of the resources that are made, by name.
func (x *template) resources() map[string]map[string]any {
	out := map[string]map[string]any{}
	for name, node := range x.sections["Resources"] {
		all := x.value(node).(map[string]any)
		made := true
		if condition, ok := all["Condition"].(string); ok {
			made = x.condition(node, condition)
		}
		if made {
			out[name] = all["Properties"].(map[string]any)
		}
	}
	return out
}

func TestEverythingThatTheTemplateRefersToExists(t *testing.T) {
	t.Parallel()
	for _, in := range places() {
		x := readTemplate(t, in)
		x.resources()
		for _, section := range []string{"Outputs", "Rules"} {
			for _, node := range x.sections[section] {
				all := x.value(node).(map[string]any)
				if condition, ok := all["Condition"].(string); ok {
					x.condition(node, condition)
				}
			}
		}
		for _, p := range x.problems {
			t.Errorf("%s: %s", in.partition, p)
		}
		for _, section := range []string{"Parameters", "Conditions"} {
			for _, name := range slices.Sorted(maps.Keys(x.sections[section])) {
				if !x.used[name] {
					t.Errorf("%s: nothing refers to %s of %s", in.partition, name, section)
				}
			}
		}
		for section := range x.sections {
			if !slices.Contains([]string{"AWSTemplateFormatVersion", "Description", "Parameters", "Rules", "Conditions", "Resources", "Outputs"}, section) {
				t.Errorf("CloudFormation knows no section %s", section)
			}
		}
	}
}

// documents are the policies of a template's resources, by the resource's name.
func (x *template) documents() map[string]string {
	out := map[string]string{}
	for name, properties := range x.resources() {
		for _, key := range []string{"PolicyDocument", "AssumeRolePolicyDocument"} {
			if text, ok := properties[key].(string); ok {
				out[name] = text
			}
		}
	}
	return out
}

func TestThePoliciesOfTheTemplateAreInOrderInEveryPartition(t *testing.T) {
	t.Parallel()
	for _, in := range places() {
		documents := readTemplate(t, in).documents()
		if len(documents) < 8 {
			t.Errorf("%s: only %v", in.partition, slices.Sorted(maps.Keys(documents)))
		}
		for name, text := range documents {
			checkDocument(t, in, name, text)
		}
	}
}

// checkDocument: IAM would take the policy, and it means the partition that it is in.
func checkDocument(t *testing.T, in place, name, text string) {
	t.Helper()
	d, err := parsePolicy(text)
	if err != nil {
		t.Errorf("%s: %s: %v\n%s", in.partition, name, err, text)
		return
	}
	if left := placeholder.FindString(text); left != "" {
		t.Errorf("%s: %s: %s is left open", in.partition, name, left)
	}
	for _, arn := range regexp.MustCompile(`arn:[^:"]*:`).FindAllString(text, -1) {
		if arn != "arn:"+in.partition+":" {
			t.Errorf("%s: %s speaks of %s", in.partition, name, arn)
		}
	}
	// IAM counts no white space.
	if size := len(strings.Join(strings.Fields(text), "")); size > 6144 {
		t.Errorf("%s: %s has %d characters, IAM takes 6144", in.partition, name, size)
	}
	sids := map[string]bool{}
	for _, s := range d.Statement {
		if sids[s.Sid] && s.Sid != "" {
			t.Errorf("%s: two statements %s", name, s.Sid)
		}
		sids[s.Sid] = true
	}
}

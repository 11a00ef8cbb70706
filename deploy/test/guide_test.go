package charttest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"helm.sh/helm/v3/pkg/strvals"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"tenon.sh/cli"
	"tenon.sh/cluster"
	"tenon.sh/playground/playgroundtest"
)

// A block is a piece of a guide that its reader copies.
type block struct{ guide, language, text string }

// blocks are all of a language in all guides; those without one have "".
func blocks(t *testing.T, languages ...string) (out []block) {
	t.Helper()
	guides, err := filepath.Glob("../../docs/guide/*.md")
	if err != nil || len(guides) == 0 {
		t.Fatalf("%d guides, %v", len(guides), err)
	}
	fence := regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$")
	for _, guide := range guides {
		content, err := os.ReadFile(guide)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range fence.FindAllStringSubmatch(string(content), -1) {
			if slices.Contains(languages, match[1]) {
				out = append(out, block{filepath.Base(guide), match[1], match[2]})
			}
		}
	}
	return out
}

// commands are the lines of all shell blocks, put together where a backslash parts them.
func commands(t *testing.T) (out []block) {
	t.Helper()
	for _, b := range blocks(t, "sh", "") {
		for line := range strings.Lines(strings.ReplaceAll(b.text, "\\\n", " ")) {
			out = append(out, block{b.guide, b.language, strings.TrimSpace(line)})
		}
	}
	return out
}

// The API server takes every manifest of the guides.
func TestTheAPIServerTakesTheManifestsOfTheGuides(t *testing.T) {
	t.Parallel()
	if err := cluster.ApplyCRDs(t.Context(), playgroundtest.Get(t).RESTConfig()); err != nil {
		t.Fatal(err)
	}
	c := client.WithFieldValidation(admin(t), metav1.FieldValidationStrict)
	taken := 0
	for _, b := range blocks(t, "yaml") {
		for document := range strings.SplitSeq(b.text, "\n---\n") {
			o := newObject()
			if err := yaml.UnmarshalStrict([]byte(document), &o.Object); err != nil {
				t.Errorf("%s: %v\n%s", b.guide, err, document)
				continue
			}
			if o.GetKind() == "" || o.GetKind() == "ProvisioningRequest" || strings.HasPrefix(o.GetAPIVersion(), "eksctl.io/") || strings.HasPrefix(o.GetAPIVersion(), "kueue.x-k8s.io/") { // the definitions are others'
				continue
			}
			taken++
			if err := c.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(o), client.ForceOwnership, client.FieldOwner("guide"), client.DryRunAll); err != nil {
				t.Errorf("%s: %s %s: %v", b.guide, o.GetKind(), o.GetName(), err)
			}
		}
	}
	if taken < 5 {
		t.Errorf("only %d objects were tried", taken)
	}
}

// Every value that a guide sets is one of the charts'.
func TestTheValuesOfTheGuidesAreThoseOfTheCharts(t *testing.T) {
	t.Parallel()
	var defaults []map[string]any
	for _, name := range []string{"karpenter", "karpenter-crd"} {
		c, err := release{chart: "../charts/" + name}.load()
		if err != nil {
			t.Fatal(err)
		}
		defaults = append(defaults, c.Values)
	}
	guides, err := filepath.Glob("../../docs/guide/*.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, guide := range guides {
		content, err := os.ReadFile(guide)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range regexp.MustCompile("--set (\"[^\"]+\"|[^\\s`]+)").FindAllStringSubmatch(string(content), -1) {
			found++
			set := map[string]any{}
			if err := strvals.ParseInto(strings.ReplaceAll(match[1], `"`, ""), set); err != nil {
				t.Errorf("%s: %s: %v", guide, match[0], err)
			}
			if !slices.ContainsFunc(defaults, func(d map[string]any) bool { return known(set, d) }) {
				t.Errorf("%s: %s: no chart has that value", guide, match[0])
			}
		}
	}
	if found < 10 {
		t.Errorf("only %d values were found", found)
	}
}

// known reports whether all keys are among the defaults; an empty map is open to any.
func known(set, defaults map[string]any) bool {
	for key, value := range set {
		standard, ok := defaults[key]
		inner, nested := value.(map[string]any)
		open, isMap := standard.(map[string]any)
		if !ok || nested && !isMap || nested && len(open) > 0 && !known(inner, open) {
			return false
		}
	}
	return true
}

// Every subcommand of tenon in the guides exists, with its flags.
func TestTheCommandsOfTheGuidesExist(t *testing.T) {
	t.Parallel()
	found := 0
	for _, b := range commands(t) {
		match := regexp.MustCompile(`(?:^|\| |-- )(?:bin/)?tenon ([a-z][^|>#]*)`).FindStringSubmatch(b.text)
		if match == nil {
			continue
		}
		found++
		words := strings.Fields(match[1])
		command, _, err := cli.New().Find(words)
		if err != nil || !command.HasParent() {
			t.Errorf("%s: %q: there is no such command: %v", b.guide, b.text, err)
			continue
		}
		for _, word := range words {
			name, isFlag := strings.CutPrefix(word, "--")
			name, _, _ = strings.Cut(name, "=")
			if isFlag && command.Flags().Lookup(name) == nil && command.InheritedFlags().Lookup(name) == nil {
				t.Errorf("%s: %q: there is no flag --%s", b.guide, b.text, name)
			}
		}
	}
	if found < 10 {
		t.Errorf("only %d commands were found", found)
	}
}

// What commands of the guides take from the repository is there.
func TestTheFilesOfTheGuidesExist(t *testing.T) {
	t.Parallel()
	found := 0
	for _, b := range commands(t) {
		for _, file := range regexp.MustCompile(`(?:^| )((?:deploy|examples)/\S+)`).FindAllStringSubmatch(b.text, -1) {
			found++
			if _, err := os.Stat("../../" + file[1]); err != nil {
				t.Errorf("%s: %v", b.guide, err)
			}
		}
	}
	if found < 5 {
		t.Errorf("only %d files were found", found)
	}
}

// What the guide says to CloudFormation and eksctl, the template has.
func TestTheGuideFitsTheTemplate(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("../cloudformation/karpenter.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var template struct{ Parameters, Resources map[string]any }
	if err := yaml.Unmarshal(content, &template); err != nil {
		t.Fatal(err)
	}
	parameters := 0
	for _, b := range commands(t) {
		_, overrides, _ := strings.Cut(b.text, "--parameter-overrides ")
		for word := range strings.FieldsSeq(overrides) {
			parameters++
			if name, _, _ := strings.Cut(word, "="); template.Parameters[name] == nil {
				t.Errorf("%s: %q: the template has no parameter %s", b.guide, b.text, name)
			}
		}
	}
	arn := regexp.MustCompile(`arn:aws:iam::\d+:(policy/(Karpenter\w+)-my-cluster|role/(Karpenter\w+)-my-cluster)`)
	var policies, roles int
	for _, b := range blocks(t, "yaml") {
		for _, match := range arn.FindAllStringSubmatch(b.text, -1) {
			name := match[2] + match[3]
			if template.Resources[name] == nil {
				t.Errorf("%s: the template makes no %s", b.guide, name)
			}
			if match[2] != "" {
				policies++
			} else {
				roles++
			}
		}
	}
	if parameters < 5 || policies != 12 || roles != 1 {
		t.Errorf("%d parameters, %d policies and %d roles were looked at", parameters, policies, roles)
	}
}

// What the guide gives the Terraform module are variables, and what it takes are outputs.
func TestTheGuideFitsTheModule(t *testing.T) {
	t.Parallel()
	parser := hclparse.NewParser()
	files, err := filepath.Glob("../terraform/karpenter/*.tf")
	if err != nil {
		t.Fatal(err)
	}
	variables, outputs := map[string]bool{}, map[string]bool{} // of a variable, whether it has to be given
	for _, file := range files {
		parsed, diagnostics := parser.ParseHCLFile(file)
		if diagnostics.HasErrors() {
			t.Fatal(diagnostics)
		}
		for _, b := range parsed.Body.(*hclsyntax.Body).Blocks {
			switch b.Type {
			case "variable":
				variables[b.Labels[0]] = b.Body.Attributes["default"] == nil
			case "output":
				outputs[b.Labels[0]] = true
			}
		}
	}
	modules := 0
	for i, b := range blocks(t, "hcl") {
		parsed, diagnostics := parser.ParseHCL([]byte(b.text), fmt.Sprintf("%s-%d", b.guide, i))
		if diagnostics.HasErrors() {
			t.Errorf("%s: %v", b.guide, diagnostics)
			continue
		}
		for _, found := range parsed.Body.(*hclsyntax.Body).Blocks {
			if found.Type == "module" {
				modules++
				checkArguments(t, found, variables)
			}
		}
		for _, match := range regexp.MustCompile(`module\.karpenter\.(\w+)`).FindAllStringSubmatch(b.text, -1) {
			if !outputs[match[1]] {
				t.Errorf("%s: the module has no output %s", b.guide, match[1])
			}
		}
	}
	if modules != 2 {
		t.Errorf("%d uses of the module were looked at", modules)
	}
}

// checkArguments: a use of the module gives it what it takes, and all that it has to be given.
func checkArguments(t *testing.T, module *hclsyntax.Block, variables map[string]bool) {
	t.Helper()
	source, _ := module.Body.Attributes["source"].Expr.Value(&hcl.EvalContext{})
	if _, err := os.Stat("../../" + source.AsString()); err != nil {
		t.Error(err)
	}
	for name := range module.Body.Attributes {
		if _, ok := variables[name]; !ok && name != "source" {
			t.Errorf("the module has no variable %s", name)
		}
	}
	for name, required := range variables {
		if required && module.Body.Attributes[name] == nil {
			t.Errorf("the module is not given %s", name)
		}
	}
}

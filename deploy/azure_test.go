package deploy_test

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func read(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// The roles of the template are those of the files, which people give to az role definition create.
func TestTheTemplateOfAzureMakesTheRolesOfTheFiles(t *testing.T) {
	t.Parallel()
	var roles struct {
		Resources []struct {
			Type       string
			Properties struct {
				RoleName, Description string
				Permissions           []struct{ Actions, NotActions []string }
			}
		}
	}
	read(t, "azure/template.json", &roles)
	made := map[string][]string{}
	for _, r := range roles.Resources {
		if r.Type == "Microsoft.Authorization/roleDefinitions" {
			made[r.Properties.Description] = r.Properties.Permissions[0].Actions
		}
	}
	for _, file := range []string{"azure/role.json", "azure/role-subscription.json"} {
		var role struct {
			Name, Description string
			IsCustom          bool
			Actions           []string
			AssignableScopes  []string
		}
		read(t, file, &role)
		if !role.IsCustom || role.Name == "" || !slices.Equal(role.AssignableScopes, []string{"/subscriptions/SUBSCRIPTION"}) {
			t.Errorf("%s: %+v", file, role)
		}
		if !slices.IsSorted(role.Actions) || len(slices.Compact(slices.Clone(role.Actions))) != len(role.Actions) {
			t.Errorf("%s: actions are not in order, or there twice", file)
		}
		if !slices.Equal(made[role.Description], role.Actions) {
			t.Errorf("%s is not the role of the template, %q", file, made[role.Description])
		}
	}
	if len(made) != 2 {
		t.Errorf("the template makes %d roles", len(made))
	}
}

var expression = regexp.MustCompile(`(parameters|variables)\('([^']*)'\)`)

// No account of Azure is asked: what a template speaks of has to be declared in it, and what is declared used.
func TestTheTemplateOfAzureHangsTogether(t *testing.T) {
	t.Parallel()
	var whole map[string]any
	read(t, "azure/template.json", &whole)
	checkNames(t, "the template", whole)
}

func checkNames(t *testing.T, where string, it map[string]any) {
	t.Helper()
	declared, used := map[string]bool{}, map[string]bool{}
	for _, of := range []string{"parameters", "variables"} {
		names, _ := it[of].(map[string]any)
		for name := range names {
			declared[of+" "+name] = true
		}
	}
	var walk func(value any)
	walk = func(value any) {
		switch v := value.(type) {
		case map[string]any:
			for _, key := range slices.Sorted(maps.Keys(v)) {
				if inner, nested := v[key].(map[string]any); nested && key == "template" {
					checkNames(t, where+" / "+v["mode"].(string), inner)
					given, _ := v["parameters"].(map[string]any)
					wanted, _ := inner["parameters"].(map[string]any)
					if !slices.Equal(slices.Sorted(maps.Keys(given)), slices.Sorted(maps.Keys(wanted))) {
						t.Errorf("%s: a template within it is given %v and wants %v", where, given, wanted)
					}
					continue
				}
				walk(v[key])
			}
		case []any:
			for _, each := range v {
				walk(each)
			}
		case string:
			if !strings.HasPrefix(v, "[") {
				return
			}
			if !strings.HasSuffix(v, "]") || strings.Count(v, "(") != strings.Count(v, ")") || strings.Count(v, "[") != strings.Count(v, "]") || strings.Count(v, "'")%2 != 0 {
				t.Errorf("%s: %s is not well formed", where, v)
			}
			for _, m := range expression.FindAllStringSubmatch(v, -1) {
				used[m[1]+" "+m[2]] = true
			}
		}
	}
	walk(it)
	if !maps.Equal(declared, used) {
		t.Errorf("%s declares %v and uses %v", where, slices.Sorted(maps.Keys(declared)), slices.Sorted(maps.Keys(used)))
	}
}

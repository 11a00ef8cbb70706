package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// The workflow has the rights that its jobs need and no others. It runs no code of others that somebody could exchange, and the name of a tag
// never becomes part of a script.
func TestTheWorkflowHasFewRights(t *testing.T) {
	t.Parallel()
	var workflow struct {
		Permissions *map[string]string
		Jobs        map[string]struct {
			Permissions map[string]string
			Steps       []struct{ Uses, Run string }
		}
	}
	if err := yaml.Unmarshal(must(os.ReadFile("../../.github/workflows/release.yml"))(t), &workflow); err != nil {
		t.Fatal(err)
	}
	if workflow.Permissions == nil || len(*workflow.Permissions) > 0 {
		t.Errorf("jobs have the rights %v unless they say otherwise", workflow.Permissions)
	}
	makefile := string(must(os.ReadFile("../../Makefile"))(t))
	targets := map[string]bool{}
	for name, job := range workflow.Jobs {
		want := map[string]string{"test": "read", "release": "write"}[name]
		if len(job.Permissions) != 1 || job.Permissions["contents"] != want {
			t.Errorf("job %s has the rights %v, want contents: %s", name, job.Permissions, want)
		}
		for _, step := range job.Steps {
			if step.Uses != "" && !regexp.MustCompile(`@[0-9a-f]{40}$`).MatchString(step.Uses) {
				t.Errorf("job %s uses %s, which can be exchanged: name its commit", name, step.Uses)
			}
			if strings.Contains(step.Run, "${{") {
				t.Errorf("job %s puts a text into a script; give it as a variable:\n%s", name, step.Run)
			}
			if output, err := exec.Command("bash", "-n", "-c", step.Run).CombinedOutput(); err != nil {
				t.Errorf("job %s: %v\n%s\n%s", name, err, output, step.Run)
			}
			for _, match := range regexp.MustCompile(`(?m)^ *make ([a-z-]+)`).FindAllStringSubmatch(step.Run, -1) {
				targets[match[1]] = true
				if !strings.Contains(makefile, "\n"+match[1]+":") {
					t.Errorf("job %s makes %s, which the Makefile does not", name, match[1])
				}
			}
		}
	}
	for _, target := range []string{"check", "test", "vuln", "release", "verify"} {
		if !targets[target] {
			t.Errorf("no job makes %s", target)
		}
	}
}

// The forge shows no form at all, and no error, if one of its fields is missing.
func TestTheFormsForIssuesAreComplete(t *testing.T) {
	t.Parallel()
	files := must(filepath.Glob("../../.github/ISSUE_TEMPLATE/*.yml"))(t)
	forms := 0
	for _, file := range files {
		if filepath.Base(file) == "config.yml" {
			continue
		}
		forms++
		var form struct {
			Name, Description string
			Body              []struct {
				Type, ID   string
				Attributes struct {
					Label, Value string
					Options      []string
				}
			}
		}
		if err := yaml.Unmarshal(must(os.ReadFile(file))(t), &form); err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if form.Name == "" || form.Description == "" || len(form.Body) == 0 {
			t.Errorf("%s needs a name, a description and a body", file)
		}
		seen := map[string]bool{}
		for _, field := range form.Body {
			complete := map[string]bool{"markdown": field.Attributes.Value != "", "textarea": field.Attributes.Label != "" && field.ID != "",
				"dropdown": field.Attributes.Label != "" && field.ID != "" && len(field.Attributes.Options) > 1}[field.Type]
			if !complete || field.ID != "" && seen[field.ID] {
				t.Errorf("%s: field %+v lacks something, or its ID is there twice", file, field)
			}
			seen[field.ID] = true
		}
	}
	if forms < 3 {
		t.Errorf("there are %d forms", forms)
	}
}

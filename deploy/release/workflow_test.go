package main

import (
	"os"
	"os/exec"
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

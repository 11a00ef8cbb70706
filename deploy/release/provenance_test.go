package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// Tools of others read these names, so the test reads plain JSON.
func TestTheProvenanceIsThatOfSLSA(t *testing.T) {
	t.Parallel()
	text := must(os.ReadFile(filepath.Join(must(released())(t).folder, provenanceFile)))(t)
	var statement struct {
		Type          string `json:"_type"`
		PredicateType string
		Subject       []struct {
			Name   string
			Digest map[string]string
		}
		Predicate struct {
			BuildDefinition struct {
				BuildType            string
				ExternalParameters   map[string]any
				ResolvedDependencies []struct{ Digest map[string]string }
			}
			RunDetails struct {
				Builder struct {
					ID      string
					Version map[string]string
				}
			}
		}
	}
	if err := json.Unmarshal(text, &statement); err != nil {
		t.Fatal(err)
	}
	if statement.Type != "https://in-toto.io/Statement/v1" || statement.PredicateType != "https://slsa.dev/provenance/v1" {
		t.Errorf("%s with %s", statement.Type, statement.PredicateType)
	}
	subjects := map[string]string{}
	for _, s := range statement.Subject {
		subjects[s.Name] = s.Digest["sha256"]
	}
	for _, name := range []string{"tenon-0.1.0-windows-amd64.tar.gz", "tenon-0.1.0-windows-amd64.cdx.json", "karpenter-0.1.0.tgz", "image/0.1.0", "charts/karpenter-0.1.0", "charts/karpenter-crd-0.1.0"} {
		if len(subjects[name]) != 64 {
			t.Errorf("%s has the SHA-256 %q", name, subjects[name])
		}
	}
	build, builder := statement.Predicate.BuildDefinition, statement.Predicate.RunDetails.Builder
	if build.BuildType != "https://tenon.sh/release/v1" || build.ExternalParameters["version"] != version || build.ExternalParameters["sourceDateEpoch"] != "0" ||
		len(build.ExternalParameters["platforms"].([]any)) != 3 || len(build.ResolvedDependencies) != 1 || build.ResolvedDependencies[0].Digest["gitCommit"] != revision {
		t.Errorf("%+v", build)
	}
	if builder.ID != "https://tenon.sh/release/test" || builder.Version["go"] != runtime.Version() {
		t.Errorf("%+v", builder)
	}
}

// The library writes other spaces in every other program, on purpose.
func TestTheProvenanceHasOneForm(t *testing.T) {
	t.Parallel()
	text := must(os.ReadFile(filepath.Join(must(released())(t).folder, provenanceFile)))(t)
	var fields any
	if err := json.Unmarshal(text, &fields); err != nil {
		t.Fatal(err)
	}
	if want := string(must(json.MarshalIndent(fields, "", "  "))(t)) + "\n"; string(text) != want {
		t.Errorf("it is\n%s\nwant\n%s", text, want)
	}
}

package scenario_test

import (
	"os"
	"path/filepath"
	"testing"

	"tenon.sh/scenario"
)

// Whatever is written in a scenario, it is read or refused.
func FuzzParseNeverPanics(f *testing.F) {
	files, _ := filepath.Glob("../engine/testdata/*.txt")
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Add("pool p\nyaml\nkind: NodePool\napiVersion: karpenter.sh/v1\nend\n")
	f.Fuzz(func(t *testing.T, text string) {
		_, _ = scenario.Parse(text)
	})
}

// Whatever is in a file of objects, it is read or refused.
func FuzzReadNeverPanics(f *testing.F) {
	for _, text := range []string{
		"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a}]}\n",
		"apiVersion: v1\nkind: List\nitems: [{kind: Node, apiVersion: v1, metadata: x}, 3]\n",
		"apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: a, resourceVersion: '1'}\nspec: {template: {spec: {requirements: []}}}\n",
		"apiVersion: karpenter.sh/v1\nkind: NodeClaim\nmetadata: {name: a, resourceVersion: '1'}\n",
		"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {replicas: -1, template: {spec: {containers: [{}]}}}\n",
		"apiVersion: v1\nkind: ReplicationController\nmetadata: {name: a}\nspec: {replicas: 2}\n",
		"apiVersion: tenon.sh/v1alpha1\nkind: Catalog\nclasses: [{ref: {kind: x}}]\n",
		"{\"apiVersion\": \"v1\", \"kind\": \"Pod\"}{",
		"apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {name: a}\nstatus: {conditions: [3, {type: Ready}]}\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		documents, err := scenario.Documents(scenario.Source{Name: "f", Data: data})
		if err != nil {
			return
		}
		_, _ = scenario.Read(scenario.Input{Documents: documents})
	})
}

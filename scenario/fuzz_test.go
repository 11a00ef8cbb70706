package scenario_test

import (
	"os"
	"path/filepath"
	"testing"

	"tenon.sh/engine"
	"tenon.sh/engine/disruption"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario"
)

// Every text of a scenario is read or refused.
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
	for seed := range uint64(5) {
		f.Add(scenario.RandomText(seed, scenario.Size{Topology: true}))
	}
	f.Add("volume v zone=a claim=d attached=n\ndisk e volume=v rwop\npod p spread=(zone min=2 of=*) apart=(hostname all-ns weight=3) port=1/udp@x\n")
	f.Fuzz(func(t *testing.T, text string) {
		_, _ = scenario.Parse(text)
	})
}

// For every scenario, the steps of claims' lives can be taken.
func FuzzLifeNeverPanics(f *testing.F) {
	files, _ := filepath.Glob("../engine/lifecycle/testdata/*.txt")
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		file, err := scenario.Parse(text)
		if err == nil && len(file.Snapshot.Pods) < 100 && len(file.Snapshot.Nodes) < 100 {
			file.Run()
		}
	})
}

// Every file of objects is read or refused.
func FuzzReadNeverPanics(f *testing.F) {
	for _, text := range []string{
		"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a}]}\n",
		"apiVersion: v1\nkind: List\nitems: [{kind: Node, apiVersion: v1, metadata: x}, 3]\n",
		"apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: a, resourceVersion: '1'}\nspec: {template: {spec: {requirements: []}}}\n",
		"apiVersion: karpenter.sh/v1\nkind: NodeClaim\nmetadata: {name: a, resourceVersion: '1'}\n",
		"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {replicas: -1, template: {spec: {containers: [{}]}}}\n",
		"apiVersion: v1\nkind: ReplicationController\nmetadata: {name: a}\nspec: {replicas: 2}\n",
		"apiVersion: tenon.sh/v1alpha1\nkind: Catalog\nclasses: [{ref: {kind: x}}]\n",
		"apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: a}\nspec: {volumeName: v}\n---\napiVersion: v1\nkind: PersistentVolume\nmetadata: {name: v}\n",
		"apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: a}\nspec: {volumeClaimTemplates: [{}], template: {spec: {containers: [{}], volumes: [{name: x, ephemeral: {}}]}}}\n",
		"apiVersion: v1\nkind: ReplicationController\nmetadata: {name: a}\nspec: {replicas: 2}\n",
		"apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: a}\nallowedTopologies: [{}]\n",
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

// For every cluster in a scenario, the engine answers in limited time and without a panic. It launches machines for and places only pods of
// the cluster, each once.
func FuzzPlanNeverPanics(f *testing.F) {
	files, _ := filepath.Glob("../engine/testdata/*.txt")
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	for seed := range uint64(20) {
		f.Add(scenario.RandomText(seed, scenario.Size{Topology: true, Pods: 12, Types: 4, Pools: 2, Nodes: 2}))
	}
	f.Fuzz(func(t *testing.T, text string) {
		file, err := scenario.Parse(text)
		if err != nil || len(file.Snapshot.Pods) > 100 || len(file.Snapshot.Nodes) > 100 {
			return
		}
		opt := file.Options
		opt.Effort = 200
		plan := provisioning.Plan(file.Snapshot, opt, nil)
		seen := map[engine.PodID]bool{}
		once := func(id engine.PodID) {
			if seen[id] {
				t.Errorf("%s has two places", id)
			}
			seen[id] = true
		}
		for _, l := range plan.Launches {
			for _, id := range l.Pods {
				once(id)
			}
		}
		for _, p := range plan.Placements {
			once(p.Pod)
		}
		disruption.Plan(file.Snapshot, opt, nil)
	})
}

package scenario_test

import (
	"slices"
	"strings"
	"testing"

	"tenon.sh/engine"
	"tenon.sh/engine/provisioning"
)

// A PodGroup of either version has the same meaning, and one of another version is read with a note: four pods that start together in one
// zone and are evicted only all together.
func TestPodGroupsOfBothVersionsSayTheSame(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`
apiVersion: scheduling.k8s.io/v1alpha2
kind: PodGroup
metadata: {name: train, namespace: ml}
spec:
  podGroupTemplateRef: {workload: {workloadName: w, podGroupTemplateName: t}}
  schedulingPolicy: {gang: {minCount: 4}}
  schedulingConstraints: {topology: [{key: topology.kubernetes.io/zone}]}
  disruptionMode: PodGroup
  priority: 7
`, `
apiVersion: scheduling.k8s.io/v1alpha3
kind: PodGroup
metadata: {name: train, namespace: ml}
spec:
  schedulingPolicy: {gang: {minCount: 4}}
  schedulingConstraints: {topology: [{key: topology.kubernetes.io/zone}]}
  disruptionMode: {all: {}}
  priority: 7
`, `
apiVersion: scheduling.k8s.io/v1
kind: PodGroup
metadata: {name: train, namespace: ml}
spec:
  schedulingPolicy: {gang: {minCount: 4}}
  schedulingConstraints: {topology: [{key: topology.kubernetes.io/zone}]}
  disruptionMode: {all: {}}
  priority: 7
`} {
		reading := readBack(t, []byte(text))
		groups := reading.Snapshot.PodGroups
		if len(groups) != 1 {
			t.Fatalf("%d PodGroups in %s", len(groups), text)
		}
		g := groups[0]
		if g.Namespace != "ml" || g.MinCount() != 4 || g.TopologyKey() != "topology.kubernetes.io/zone" || !g.MovesWhole() || *g.Spec.Priority != 7 {
			t.Errorf("%+v of %s", g.Spec, text)
		}
		if got := strings.Join(reading.Notes, "\n"); strings.Contains(got, "version") != strings.Contains(text, "/v1\n") {
			t.Errorf("notes on %s: %s", text, got)
		}
	}
}

// Deployments of a file make the pods of a gang.
func TestGangsOfFilesStartWhole(t *testing.T) {
	t.Parallel()
	s := parse(t, `
pool general limits=cpu:6
type two cpu=2 mem=8Gi zones=a price=0.1
yaml
apiVersion: scheduling.k8s.io/v1alpha3
kind: PodGroup
metadata: {name: train}
spec: {schedulingPolicy: {gang: {minCount: 4}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: train}
spec:
  replicas: 4
  selector: {matchLabels: {app: train}}
  template:
    metadata: {labels: {app: train}}
    spec:
      schedulingGroup: {podGroupName: train}
      containers: [{name: a, resources: {requests: {cpu: 1500m}}}]
end
`).Snapshot
	plan := provisioning.Plan(s, engine.Options{}, nil)
	if len(plan.Launches) > 0 || len(plan.Unplaced) != 4 || !slices.ContainsFunc(plan.Unplaced[0].Reasons, func(r engine.Reason) bool { return r.Code == engine.GangIncomplete }) {
		t.Errorf("launches %v, without a place %v", plan.Launches, plan.Unplaced)
	}
}

package scenario_test

import (
	"fmt"
	"strings"
	"testing"

	policyv1 "k8s.io/api/policy/v1"

	"tenon.sh/scenario"
)

// budgetIn reads the objects, with a PodDisruptionBudget named b over the pods of app a, and returns its status and the notes.
func budgetIn(t *testing.T, spec, status, objects string) (policyv1.PodDisruptionBudgetStatus, string) {
	t.Helper()
	text := "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: b, namespace: d, generation: 2}\nspec: {" + spec +
		", selector: {matchLabels: {app: a}}}\n" + status + objects
	documents, err := scenario.Documents(scenario.Source{Name: "file", Data: []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	r, err := scenario.Read(scenario.Input{Documents: documents})
	if err != nil {
		t.Fatal(err)
	}
	return r.Snapshot.PodDisruptionBudgets[0].Status, strings.Join(r.Notes, "\n")
}

// runningPods returns n running pods of the owner. The first is ready or not.
func runningPods(n int, owner string, firstReady bool) (out string) {
	for i := range n {
		ready := "True"
		if i == 0 && !firstReady {
			ready = "False"
		}
		references := ""
		if kind, name, ok := strings.Cut(owner, "/"); ok {
			references = ", ownerReferences: [{apiVersion: any/v1, kind: " + kind + ", name: " + name + ", uid: u, controller: true}]"
		}
		out += fmt.Sprintf("---\napiVersion: v1\nkind: Pod\nmetadata: {name: p%d, namespace: d, labels: {app: a, pod-template-hash: x1}%s}\n"+
			"spec: {nodeName: node-1, containers: [{name: c}]}\nstatus: {phase: Running, conditions: [{type: Ready, status: \"%s\"}]}\n", i, references, ready)
	}
	return out
}

func replicated(kind, name, more string, replicas int) string {
	return fmt.Sprintf("---\napiVersion: apps/v1\nkind: %s\nmetadata: {name: %s, namespace: d%s}\n"+
		"spec: {replicas: %d, selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}}, spec: {containers: [{name: c}]}}}\n", kind, name, more, replicas)
}

func TestABudgetWithoutAStatusIsCounted(t *testing.T) {
	t.Parallel()
	const ofShop = ", ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: shop, uid: s, controller: true}]"
	set := replicated("ReplicaSet", "s", "", 3)
	for _, test := range []struct {
		name, spec, status, objects  string
		allowed, healthy, want, know int32
		note                         string
	}{
		{"maxUnavailable", "maxUnavailable: 1", "", set + runningPods(3, "ReplicaSet/s", true), 1, 3, 2, 3, ""},
		{"maxUnavailable, one is not ready", "maxUnavailable: 1", "", set + runningPods(3, "ReplicaSet/s", false), 0, 2, 2, 3, ""},
		{"maxUnavailable, more are wanted", "maxUnavailable: 1", "", replicated("StatefulSet", "s", "", 5) + runningPods(3, "StatefulSet/s", true), 0, 3, 4, 5, ""},
		{"a share, rounded up", "maxUnavailable: 34%", "", set + runningPods(3, "ReplicaSet/s", true), 2, 3, 1, 3, ""},
		{"minAvailable", "minAvailable: 2", "", runningPods(3, "", true), 1, 3, 2, 3, ""},
		{"a share that stays", "minAvailable: 50%", "", set + runningPods(3, "ReplicaSet/s", true), 1, 3, 2, 3, ""},
		{"a Deployment", "maxUnavailable: 1", "", replicated("Deployment", "shop", "", 2) + replicated("ReplicaSet", "old", ofShop, 1) + runningPods(2, "ReplicaSet/old", true), 1, 2, 1, 2, ""},
		{"a Deployment without its ReplicaSet", "maxUnavailable: 1", "", replicated("Deployment", "shop", "", 2) + runningPods(2, "ReplicaSet/shop-x1", true), 1, 2, 1, 2, ""},
		{"bare pods", "maxUnavailable: 1", "", runningPods(3, "", true), 0, 3, 0, 0, ""},
		{"a Job", "maxUnavailable: 1", "", runningPods(3, "Job/j", true), 0, 3, 0, 0, "p0 belongs to a Job, which has no scale"},
		{"an owner that is not there", "maxUnavailable: 1", "", runningPods(3, "Workflow/w", true), 1, 3, 2, 3, "Workflow d/w is not in the files: taken to want the pods that are there"},
		{"zeros of an object that was not sent", "minAvailable: 2", "status: {currentHealthy: 0, desiredHealthy: 0, disruptionsAllowed: 0, expectedPods: 0}\n", runningPods(3, "", true), 1, 3, 2, 3, ""},
		{"a status", "minAvailable: 2", "status: {currentHealthy: 2, desiredHealthy: 2, disruptionsAllowed: 0, expectedPods: 3}\n", runningPods(3, "", true), 0, 2, 2, 3, ""},
		{"a word of the status", "minAvailable: 2", "status: {disruptionsAllowed: 0}\n", runningPods(3, "", true), 0, 0, 0, 0, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, notes := budgetIn(t, test.spec, test.status, test.objects)
			if got.DisruptionsAllowed != test.allowed || got.CurrentHealthy != test.healthy || got.DesiredHealthy != test.want || got.ExpectedPods != test.know {
				t.Errorf("%d may go of %d healthy ones, of %d that are expected %d have to stay", got.DisruptionsAllowed, got.CurrentHealthy, got.ExpectedPods, got.DesiredHealthy)
			}
			if test.status == "" && got.ObservedGeneration != 2 {
				t.Errorf("generation %d was looked at", got.ObservedGeneration)
			}
			if said := strings.Contains(notes, "PodDisruptionBudget"); said != (test.note != "") || !strings.Contains(notes, test.note) {
				t.Errorf("said: %s", notes)
			}
		})
	}
}

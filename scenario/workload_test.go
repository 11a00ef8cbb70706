package scenario_test

import (
	"strings"
	"testing"
)

func TestNoPodsArePlannedForOwnersThatMakeNone(t *testing.T) {
	t.Parallel()
	const template = "template: {metadata: {labels: {app: a}}, spec: {restartPolicy: Never, containers: [{name: c}]}}"
	job := func(more string) string {
		return "---\napiVersion: batch/v1\nkind: Job\nmetadata: {name: j, namespace: d}\nspec: {" + more + template + "}\n"
	}
	deployment := func(spec, status string) string {
		return "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: w, namespace: d}\nspec: {" + spec + "selector: {matchLabels: {app: a}}, " + template + "}\nstatus: {" + status + "}\n"
	}
	const set = "---\napiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: w-1, namespace: d, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: w, uid: w, controller: true}]}\n" +
		"spec: {replicas: 1, selector: {matchLabels: {app: a}}, " + template + "}\n"
	for _, test := range []struct{ name, objects, pods, note string }{
		{"a Job of another controller", job("managedBy: queue.example.com/far, "), "", "Job d/j: it is managed by queue.example.com/far, so no pods are planned for it"},
		{"a Job of the Job controller", job("managedBy: kubernetes.io/job-controller, "), "j-1", ""},
		{"a Job of another controller that asks for none", job("managedBy: queue.example.com/far, suspend: true, "), "", ""},
		{"a paused Deployment", deployment("paused: true, ", ""), "", "Deployment d/w: it is paused, so no pods are planned for it"},
		{"a paused Deployment that has pods", deployment("paused: true, ", "replicas: 1"), "w-1", ""},
		{"a paused Deployment with its ReplicaSet", deployment("paused: true, ", "") + set, "w-1-1", ""},
		{"a Deployment with its ReplicaSet", deployment("", "") + set, "w-1", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			pods, _, notes := waitingIn(t, test.objects)
			if strings.Join(pods, " ") != test.pods || strings.Contains(notes, "no pods are planned") != (test.note != "") || !strings.Contains(notes, test.note) {
				t.Errorf("pods %v, said: %s", pods, notes)
			}
		})
	}
}

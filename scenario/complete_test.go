package scenario_test

import (
	"strings"
	"testing"

	"tenon.sh/engine/provisioning"
)

func TestAffinityFindsTheNameOfANamespaceThatIsNotInTheFiles(t *testing.T) {
	t.Parallel()
	const objects = "---\napiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus: {capacity: {cpu: 4, memory: 8Gi, pods: 9}}\n" +
		"---\napiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: d, labels: {app: a}}\nspec: {nodeName: n1, containers: [{name: c}]}\n" +
		"---\napiVersion: v1\nkind: Pod\nmetadata: {name: b, namespace: e}\nspec: {containers: [{name: c}], affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: " +
		"[{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: a}}, namespaceSelector: {matchLabels: {KEY: d}}}]}}}\n"
	for key, placed := range map[string]int{"kubernetes.io/metadata.name": 1, "team": 0} {
		r := readBack(t, []byte(strings.Replace(objects, "KEY", key, 1)))
		if plan := provisioning.Plan(r.Snapshot, r.Options, nil); len(plan.Placements) != placed {
			t.Errorf("%s: %d pods placed, want %d", key, len(plan.Placements), placed)
		}
		const want = "Namespace d is not in the files: pods whose affinity selects namespaces by labels find only its name"
		if notes := strings.Join(r.Notes, "\n"); strings.Contains(notes, want) != (placed == 0) {
			t.Errorf("%s: said %s", key, notes)
		}
	}
}

func TestANodeWithoutANumberOfPodsRunsAsManyAsAKubeletDoes(t *testing.T) {
	t.Parallel()
	const pod = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: d}\nspec: {containers: [{name: c}]}\n"
	for _, test := range []struct {
		node, note string
		placed     int
	}{
		{"status: {capacity: {cpu: 4, memory: 8Gi}}\n", "Node n1: its status does not say how many pods it runs: taken to run 110", 1},
		{"status: {capacity: {cpu: 4, memory: 8Gi, pods: 9}}\n", "", 1},
		{"", "Node n1: its status has no capacity, so no pod fits it: add what kubectl get node n1 -o yaml prints", 0},
	} {
		r := readBack(t, []byte("---\napiVersion: v1\nkind: Node\nmetadata: {name: n1}\n"+test.node+pod))
		notes := strings.Join(r.Notes, "\n")
		if plan := provisioning.Plan(r.Snapshot, r.Options, nil); len(plan.Placements) != test.placed || !strings.Contains(notes, test.note) || strings.Contains(notes, "Node n1") != (test.note != "") {
			t.Errorf("%s: %d pods placed, want %d; said %s", test.node, len(plan.Placements), test.placed, notes)
		}
	}
}

func TestPriorityClassesOfEveryClusterNeedNotBeInTheFiles(t *testing.T) {
	t.Parallel()
	_, pods, notes := waitingIn(t, podWith("a", "priorityClassName: system-node-critical, containers: [{name: c}]")+
		podWith("b", "priorityClassName: system-cluster-critical, containers: [{name: c}]")+podWith("c", "priorityClassName: system-own, containers: [{name: c}]"))
	if a, b := pods["a"].Spec.Priority, pods["b"].Spec.Priority; a == nil || *a != 2000001000 || b == nil || *b != 2000000000 {
		t.Errorf("priorities %v and %v", a, b)
	}
	if !strings.Contains(notes, "Pod d/c: its priority class system-own is not in the files") || strings.Contains(notes, "critical") {
		t.Errorf("said: %s", notes)
	}
}

func TestKindsWhosePodsAreNotPlannedAreNamed(t *testing.T) {
	t.Parallel()
	const template = "template: {spec: {containers: [{name: c, image: x}]}}"
	for object, want := range map[string]string{
		"apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: a}\nspec: {schedule: x, jobTemplate: {spec: {" + template + "}}}\n":                    "1 of kind CronJob ignored: its pods are not planned, because their number is known to its controller alone",
		"apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: a}\nspec: {replicatedJobs: [{template: {spec: {" + template + "}}}]}\n": "1 of kind JobSet ignored: its pods are not planned",
		"apiVersion: argoproj.io/v1alpha1\nkind: Rollout\nmetadata: {name: a, resourceVersion: '1'}\nspec: {" + template + "}\n":                      "1 of kind Rollout ignored: no decision depends on this kind",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n":                                                                                      "1 of kind ConfigMap ignored: no decision depends on this kind",
		"apiVersion: autoscaling.k8s.io/v1\nkind: VerticalPodAutoscaler\nmetadata: {name: a}\nspec: {targetRef: {kind: Deployment, name: w}}\n":       "1 of kind VerticalPodAutoscaler ignored: it may change what pods request",
	} {
		if notes := strings.Join(readBack(t, []byte(object)).Notes, "\n"); !strings.Contains(notes, want) {
			t.Errorf("%s\nsaid %s", object, notes)
		}
	}
}

package scenario_test

import (
	"fmt"
	"strings"
	"testing"

	"tenon.sh/scenario"
)

func deploymentOf(metadata, spec string) string {
	return "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: w, namespace: d" + metadata + "}\n" +
		"spec: {" + spec + "selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}}, spec: {containers: [{name: c, image: x}]}}}\n"
}

func hpaOf(version, spec, status string) string {
	return "---\napiVersion: autoscaling/" + version + "\nkind: HorizontalPodAutoscaler\nmetadata: {name: h, namespace: d}\n" +
		"spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: w}, " + spec + "}\nstatus: {" + status + "}\n"
}

func scaledObjectOf(annotations, spec string) string {
	return "---\napiVersion: keda.sh/v1alpha1\nkind: ScaledObject\nmetadata: {name: s, namespace: d, annotations: {" + annotations + "}}\n" +
		"spec: {scaleTargetRef: {name: w}" + spec + ", triggers: [{type: cron}]}\n"
}

func TestAutoscalersSayHowManyPodsArePlanned(t *testing.T) {
	t.Parallel()
	const said, hpa = "Deployment d/w: HorizontalPodAutoscaler d/h may ask for ", "minReplicas: 3, maxReplicas: 10"
	running := func(n int) (out string) {
		for i := range n {
			out += fmt.Sprintf("---\napiVersion: v1\nkind: Pod\nmetadata: {name: r%d, namespace: d, labels: {app: a}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: w-1, uid: u, controller: true}]}\n"+
				"spec: {nodeName: n1, containers: [{name: c}]}\nstatus: {phase: Running}\n", i)
		}
		return out
	}
	for _, test := range []struct {
		name, objects string
		pods          int
		note          string // the only note about autoscalers; "" for none
	}{
		{"no number in the manifest", deploymentOf("", "") + hpaOf("v2", hpa, ""), 3, said + "3 to 10 pods: planned with 3"},
		{"the autoscaler stands first", hpaOf("v2", hpa, "") + deploymentOf("", ""), 3, said + "3 to 10 pods: planned with 3"},
		{"version 1, without a minimum", deploymentOf("", "") + hpaOf("v1", "maxReplicas: 10", ""), 1, said + "1 to 10 pods: planned with 1"},
		{"a number in between", deploymentOf("", "replicas: 5, ") + hpaOf("v2", hpa, ""), 5, said + "3 to 10 pods: planned with 5"},
		{"a number above", deploymentOf("", "replicas: 50, ") + hpaOf("v2", hpa, ""), 10, said + "3 to 10 pods: planned with 10"},
		{"a status", deploymentOf("", "replicas: 5, ") + hpaOf("v2", hpa, "currentReplicas: 6, desiredReplicas: 7"), 7, said + "3 to 10 pods, and its status asks for 7: planned with 7"},
		{"a status without a wish", deploymentOf("", "") + hpaOf("v1", hpa, "currentReplicas: 6, desiredReplicas: 0"), 6, said + "3 to 10 pods, and its status asks for 6: planned with 6"},
		{"a Deployment of a cluster", deploymentOf(", resourceVersion: '1'", "replicas: 8, ") + hpaOf("v2", hpa, "desiredReplicas: 7"), 8, said + "3 to 10 pods: planned with 8"},
		{"one number only", deploymentOf("", "") + hpaOf("v2", "minReplicas: 4, maxReplicas: 4", ""), 4, ""},
		{"nothing to scale", deploymentOf("", "replicas: 0, ") + hpaOf("v2", hpa, ""), 0, "Deployment d/w: its spec.replicas is 0, which turns HorizontalPodAutoscaler d/h off, so no pods are planned for it"},
		{"pods that are there", deploymentOf("", "") + hpaOf("v2", hpa, "") + running(2), 2, ""},
		{"a paused Deployment", deploymentOf("", "paused: true, ") + hpaOf("v2", hpa, ""), 0, ""},
		{"another target", hpaOf("v2", hpa, ""), 0, "HorizontalPodAutoscaler d/h: its target Deployment d/w is not in the files, so no pods are planned for it"},
		{"two of them", deploymentOf("", "replicas: 2, ") + hpaOf("v2", hpa, "") + strings.Replace(hpaOf("v1", "maxReplicas: 9", ""), "name: h,", "name: i,", 1), 2,
			"Deployment d/w: HorizontalPodAutoscaler d/h and HorizontalPodAutoscaler d/i scale the same pods, so Kubernetes heeds neither (AmbiguousSelector): planned with 2"},
		{"KEDA", deploymentOf("", "") + scaledObjectOf("", ", minReplicaCount: 2"), 2, "Deployment d/w: ScaledObject d/s may ask for 2 to 100 pods: planned with 2"},
		{"KEDA without a minimum", deploymentOf("", "") + scaledObjectOf("", ", maxReplicaCount: 7"), 1, "Deployment d/w: ScaledObject d/s may ask for 0 to 7 pods: planned with 1"},
		{"KEDA from zero", deploymentOf("", "replicas: 0, ") + scaledObjectOf("", ", maxReplicaCount: 7"), 0, "Deployment d/w: ScaledObject d/s may ask for 0 to 7 pods: planned with 0"},
		{"KEDA held", deploymentOf("", "") + scaledObjectOf("autoscaling.keda.sh/paused-replicas: '4'", ""), 4, ""},
		{"KEDA paused", deploymentOf("", "replicas: 3, ") + scaledObjectOf("autoscaling.keda.sh/paused: 'true'", ", minReplicaCount: 5"), 3, ""},
		{"KEDA with its HorizontalPodAutoscaler", deploymentOf("", "") + scaledObjectOf("", "") + hpaOf("v2", hpa, "desiredReplicas: 6"), 6, said + "3 to 10 pods, and its status asks for 6: planned with 6"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			pods, _, notes := waitingIn(t, test.objects)
			var said []string
			for line := range strings.Lines(notes) {
				if strings.Contains(line, "HorizontalPodAutoscaler") || strings.Contains(line, "ScaledObject") {
					said = append(said, strings.TrimSpace(line))
				}
			}
			if len(pods) != test.pods || strings.Join(said, "|") != test.note {
				t.Errorf("pods %v, said: %s", pods, notes)
			}
		})
	}
}

func TestAutoscalersThatNoClusterTakesAreRefused(t *testing.T) {
	t.Parallel()
	for object, want := range map[string]string{
		hpaOf("v2", "minReplicas: 3, maxReplicas: 2", ""):                         "HorizontalPodAutoscaler d/h: spec.maxReplicas is 2, less than spec.minReplicas, which is 3: write as many at least",
		hpaOf("v2", "minReplicas: 300000, maxReplicas: 300000", ""):               "spec.minReplicas is 300000: from 0 to 200000 pods can be planned",
		hpaOf("v1", "minReplicas: x, maxReplicas: 2", ""):                         "spec.minReplicas",
		scaledObjectOf("", ", minReplicaCount: -1"):                               "ScaledObject d/s: spec.minReplicaCount is -1",
		scaledObjectOf("", ", minReplicaCount: [1]"):                              "spec.minReplicaCount",
		scaledObjectOf("autoscaling.keda.sh/paused-replicas: few", ""):            `annotation autoscaling.keda.sh/paused-replicas is "few": write a number of pods`,
		"apiVersion: keda.sh/v1alpha1\nkind: ScaledObject\nmetadata: {name: s}\n": "spec.scaleTargetRef.name is missing",
	} {
		documents, err := scenario.Documents(scenario.Source{Name: "file", Data: []byte(object)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err = scenario.Read(scenario.Input{Documents: documents}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\nrefused with %v, want %q", object, err, want)
		}
	}
}

// The disruption controller reads the wanted number of pods from a Deployment's scale, which is the autoscaler's number.
func TestAPodDisruptionBudgetCountsThePodsThatAnAutoscalerAsksFor(t *testing.T) {
	t.Parallel()
	objects := deploymentOf("", "") + hpaOf("v2", "minReplicas: 2, maxReplicas: 10", "") +
		"---\napiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: b, namespace: d}\nspec: {minAvailable: 50%, selector: {matchLabels: {app: a}}}\n" +
		"---\napiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: w-1, namespace: d, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: w, uid: w, controller: true}]}\n" +
		"spec: {replicas: 4, selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}}, spec: {containers: [{name: c}]}}}\n"
	for i := range 4 {
		objects += fmt.Sprintf("---\napiVersion: v1\nkind: Pod\nmetadata: {name: r%d, namespace: d, labels: {app: a}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: w-1, uid: u, controller: true}]}\n"+
			"spec: {nodeName: n1, containers: [{name: c}]}\nstatus: {phase: Running}\n", i)
	}
	documents, err := scenario.Documents(scenario.Source{Name: "file", Data: []byte(objects)})
	if err != nil {
		t.Fatal(err)
	}
	r, err := scenario.Read(scenario.Input{Documents: documents})
	if err != nil {
		t.Fatal(err)
	}
	if s := r.Snapshot.PodDisruptionBudgets[0].Status; s.ExpectedPods != 4 || s.DisruptionsAllowed != 2 {
		t.Errorf("of %d pods %d may be evicted, want 2 of 4", s.ExpectedPods, s.DisruptionsAllowed)
	}
}

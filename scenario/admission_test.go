package scenario_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/engine/kube"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario"
)

// waitingIn reads objects at noon and returns the names of the pods, and the notes.
func waitingIn(t *testing.T, objects string) (pods []string, byName map[string]*corev1.Pod, notes string) {
	t.Helper()
	documents, err := scenario.Documents(scenario.Source{Name: "file", Data: []byte(objects)})
	if err != nil {
		t.Fatal(err)
	}
	r, err := scenario.Read(scenario.Input{Documents: documents, Now: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)})
	if err != nil {
		t.Fatal(err)
	}
	byName = map[string]*corev1.Pod{}
	for _, p := range r.Snapshot.Pods {
		pods, byName[p.Name] = append(pods, p.Name), p
	}
	return pods, byName, strings.Join(r.Notes, "\n")
}

func podWith(name, spec string) string {
	return "---\napiVersion: v1\nkind: Pod\nmetadata: {name: " + name + ", namespace: d}\nspec: {" + spec + "}\n"
}

func asking(requests, limits string) string {
	return "containers: [{name: c, resources: {requests: {" + requests + "}, limits: {" + limits + "}}}]"
}

func TestARuntimeClassGivesPodsWhatAdmissionDoes(t *testing.T) {
	t.Parallel()
	const classes = `
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: boxed}
handler: runc
overhead: {podFixed: {cpu: "2"}}
scheduling: {nodeSelector: {disk: ssd}, tolerations: [{key: boxed, operator: Exists}]}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent, namespace: d}
spec: {template: {spec: {runtimeClassName: boxed, containers: [{name: c, resources: {requests: {cpu: 1}}}]}}}
`
	pods, byName, notes := waitingIn(t, classes+podWith("p", "runtimeClassName: boxed, nodeSelector: {a: b}, "+asking("cpu: 1", ""))+
		podWith("torn", "runtimeClassName: boxed, nodeSelector: {disk: hdd}, "+asking("cpu: 1", ""))+
		podWith("more", "runtimeClassName: boxed, overhead: {cpu: 3}, "+asking("cpu: 1", ""))+
		podWith("stray", "runtimeClassName: other, "+asking("cpu: 1", ""))+podWith("plain", asking("cpu: 1", "")))
	if strings.Join(pods, " ") != "p stray plain" {
		t.Errorf("let in: %v", pods)
	}
	p := byName["p"]
	if cpu := kube.PodRequests(p)[corev1.ResourceCPU]; cpu.String() != "3" || p.Spec.NodeSelector["disk"] != "ssd" || p.Spec.NodeSelector["a"] != "b" || len(p.Spec.Tolerations) != 1 {
		t.Errorf("the pod asks for %s cpu, nodes with %v, tolerates %v", cpu.String(), p.Spec.NodeSelector, p.Spec.Tolerations)
	}
	for _, want := range []string{
		"Pod d/torn is left out, since the API server would not take its pod: it asks for nodes with disk=hdd, and RuntimeClass boxed for disk=ssd",
		"Pod d/more is left out, since the API server would not take its pod: its overhead is not that of RuntimeClass boxed",
		"Pod d/stray: its RuntimeClass other is not in the files",
	} {
		if !strings.Contains(notes, want) {
			t.Errorf("%q is not in\n%s", want, notes)
		}
	}
	documents, _ := scenario.Documents(scenario.Source{Name: "file", Data: []byte(classes)})
	r, err := scenario.Read(scenario.Input{Documents: documents})
	if err != nil {
		t.Fatal(err)
	}
	if all := r.Snapshot.RuntimeClasses; len(all) != 1 || all[0].Name != "boxed" { // the engine applies it to the DaemonSet's pods
		t.Errorf("the snapshot has the classes %v", all)
	}
}

func TestALimitRangeLetsPodsInOrNot(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ limits, requests, limit, want string }{
		{"{type: Pod, max: {cpu: 3}}", "cpu: 2", "cpu: 3", ""},
		{"{type: Pod, max: {cpu: 3}}", "cpu: 2", "cpu: 8", "a pod must have a limit of at most 3 cpu, and it is 8"},
		{"{type: Pod, max: {cpu: 3}}", "cpu: 2", "", "a pod must have a limit of at most 3 cpu, and it is not given"},
		{"{type: Pod, min: {cpu: 3}}", "cpu: 2", "", "a pod must have a request of at least 3 cpu, and it is 2"},
		{"{type: Pod, min: {memory: 1Gi}}", "cpu: 2", "", "a pod must have a request of at least 1Gi memory, and it is not given"},
		{"{type: Container, max: {cpu: 3}}", "cpu: 2", "", ""}, // the limit is set
		{"{type: Container, max: {cpu: 3}}", "cpu: 4", "cpu: 4", "a container must have a limit of at most 3 cpu, and it is 4"},
		{"{type: Container, min: {cpu: 500m}}", "cpu: 100m", "", "a container must have a request of at least 500m cpu, and it is 100m"},
		{"{type: Container, min: {cpu: 500m}}", "", "", ""}, // the request is set
		{"{type: Container, maxLimitRequestRatio: {cpu: 2}}", "cpu: 1", "cpu: 2", ""},
		{"{type: Container, maxLimitRequestRatio: {cpu: 2}}", "cpu: 1", "cpu: 3", "a container must have a limit of cpu that is at most 2 times its request, and it is 3 for 1"},
		{"{type: PersistentVolumeClaim, max: {storage: 1Gi}}", "cpu: 1", "", ""},
	} {
		pods, _, notes := waitingIn(t, "apiVersion: v1\nkind: LimitRange\nmetadata: {name: lr, namespace: d}\nspec: {limits: ["+test.limits+"]}\n"+podWith("p", asking(test.requests, test.limit)))
		if (len(pods) == 1) != (test.want == "") || test.want != "" && !strings.Contains(notes, "LimitRange lr: "+test.want) {
			t.Errorf("%s, requests {%s}, limits {%s}: let in %v, want %q:\n%s", test.limits, test.requests, test.limit, pods, test.want, notes)
		}
	}
}

func TestAQuotaLetsInAsManyPodsAsItAllows(t *testing.T) {
	t.Parallel()
	many := "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: many, namespace: d}\nspec: {replicas: 5, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {" + asking("cpu: 1, memory: 1Gi, example.com/gpu: 1", "example.com/gpu: 1") + "}}}\n"
	running := "---\napiVersion: v1\nkind: Pod\nmetadata: {name: runs, namespace: d}\nspec: {nodeName: n1, " + asking("cpu: 2", "") + "}\nstatus: {phase: Running}\n"
	over := strings.NewReplacer("runs", "over", "Running", "Succeeded").Replace(running)
	for _, test := range []struct {
		quota, more string
		want        int
		note        string
	}{
		{"hard: {requests.cpu: 3}", "", 3, "Deployment d/many: 2 of 5 pods are left out, since the API server would not take them: ResourceQuota q allows 3 requests.cpu, 3 is used, and each asks for 1"},
		{"hard: {cpu: 3}", running + over, 1, "allows 3 cpu, 3 is used"},
		{"hard: {memory: 2Gi}", "", 2, "allows 2Gi memory"},
		{"hard: {pods: 4}", running + over, 3, "allows 4 pods"},
		{"hard: {count/pods: 0}", "", 0, "allows 0 count/pods"},
		{"hard: {requests.example.com/gpu: 2}", "", 2, "allows 2 requests.example.com/gpu"},
		{"hard: {limits.cpu: 9}", "", 0, "wants every container to say its limits.cpu"},
		{"hard: {services: 0, requests.storage: 0}", "", 5, ""},
		{"hard: {pods: 1}, scopes: [BestEffort]", "", 5, ""},
		{"hard: {pods: 1}, scopes: [NotBestEffort]", "", 1, "allows 1 pods"},
		{"hard: {pods: 1}, scopes: [Terminating]", "", 5, ""},
		{"hard: {pods: 1}, scopes: [NotTerminating]", "", 1, "allows 1 pods"},
		{"hard: {pods: 1}, scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: In, values: [high]}]}", "", 5, ""},
		{"hard: {pods: 1}, scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: NotIn, values: [high]}]}", "", 1, "allows 1 pods"},
		{"hard: {pods: 1}, scopes: [CrossNamespacePodAffinity]", "", 5, ""},
	} {
		for where, objects := range map[string]string{
			"":      "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: q, namespace: d}\nspec: {" + test.quota + "}\n",
			"other": "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: q, namespace: other}\nspec: {" + test.quota + "}\n",
		} {
			pods, _, notes := waitingIn(t, objects+test.more+many)
			n, want := strings.Count(strings.Join(pods, " "), "many-"), test.want
			if where == "other" {
				want = 5
			} else if !strings.Contains(notes, test.note) {
				t.Errorf("%s: %q is not in\n%s", test.quota, test.note, notes)
			}
			if n != want {
				t.Errorf("%s in namespace %q: %d pods are let in, want %d", test.quota, where, n, want)
			}
		}
	}
	// The used amount comes from the quota's status, if its pods are not in the files.
	used := "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: q, namespace: d}\nspec: {hard: {pods: 10}}\nstatus: {used: {pods: 8}}\n"
	if pods, _, _ := waitingIn(t, used+many); len(pods) != 2 {
		t.Errorf("8 of 10 are used, and %d are let in", len(pods))
	}
}

func TestAJobHasThePodsThatAreLeftToDo(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		spec, status string
		want         int
	}{
		{"parallelism: 3, completions: 5", "", 3},
		{"parallelism: 3, completions: 2", "", 2},
		{"parallelism: 3, completions: 5", "succeeded: 4", 1},
		{"parallelism: 3, completions: 5", "succeeded: 2, uncountedTerminatedPods: {succeeded: [x]}", 2},
		{"parallelism: 3, completions: 5", "succeeded: 5", 0},
		{"parallelism: 3", "", 3},
		{"parallelism: 3", "succeeded: 1", 0},
		{"parallelism: 0, completions: 5", "", 0},
		{"completions: 5", "", 1},
		{"parallelism: 3, suspend: true", "", 0},
		{"parallelism: 3, suspend: false", "conditions: [{type: Suspended, status: 'True'}]", 3},
		{"backoffLimit: 0", "failed: 1, conditions: [{type: Failed, status: 'True'}]", 0},
		{"backoffLimit: 3", "failed: 4", 0},
		{"backoffLimit: 3", "failed: 3", 1},
		{"parallelism: 2", "failed: 7", 0},
		{"", "conditions: [{type: FailureTarget, status: 'True'}]", 0},
		{"", "conditions: [{type: SuccessCriteriaMet, status: 'True'}]", 0},
		{"", "conditions: [{type: Failed, status: 'False'}]", 1},
		{"", "completionTime: '2026-01-01T00:00:00Z'", 0},
		{"activeDeadlineSeconds: 60", "startTime: '2026-01-01T11:00:00Z'", 0},
		{"activeDeadlineSeconds: 7200", "startTime: '2026-01-01T11:00:00Z'", 1},
		{"completionMode: Indexed, parallelism: 9, completions: 9", "succeeded: 4, completedIndexes: '0-2,5'", 5},
		{"completionMode: Indexed, parallelism: 9, completions: 9, backoffLimitPerIndex: 1", "failed: 8, completedIndexes: '0-2,5', failedIndexes: '3,4'", 3},
	} {
		pods, _, _ := waitingIn(t, "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j, namespace: d}\nspec: {template: {spec: {restartPolicy: Never, containers: [{name: c}]}}, "+test.spec+"}\nstatus: {"+test.status+"}\n")
		if len(pods) != test.want {
			t.Errorf("{%s}, {%s}: %d pods, want %d", test.spec, test.status, len(pods), test.want)
		}
	}
}

func TestNoPodIsMadeInANamespaceThatEnds(t *testing.T) {
	t.Parallel()
	pods, _, notes := waitingIn(t, "apiVersion: v1\nkind: Namespace\nmetadata: {name: d}\nstatus: {phase: Terminating}\n"+podWith("p", asking("cpu: 1", "")))
	if len(pods) != 0 || !strings.Contains(notes, "Pod d/p is left out, since the API server would not take its pod: its namespace is being deleted") {
		t.Errorf("let in: %v\n%s", pods, notes)
	}
}

func TestAClaimThatDoesNotSayItsLifeHasItsPools(t *testing.T) {
	t.Parallel()
	claim := func(life string) string {
		return "---\napiVersion: karpenter.sh/v1\nkind: NodeClaim\nmetadata: {name: c, labels: {karpenter.sh/nodepool: p}}\nspec: {requirements: [], nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}" + life + "}\n"
	}
	pool := poolOf("p", "{group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}", "")
	for _, test := range []struct{ objects, want string }{
		{pool + "      expireAfter: 48h\n" + claim(""), "48h0m0s"},
		{pool + "      expireAfter: 48h\n" + claim(", expireAfter: 24h"), "24h0m0s"},
		{pool + "      expireAfter: Never\n" + claim(""), "Never"},
		{pool + claim(""), "Never"},
		{claim(""), "Never"},
	} {
		documents, err := scenario.Documents(scenario.Source{Name: "file", Data: []byte(test.objects)})
		if err != nil {
			t.Fatal(err)
		}
		r, err := scenario.Read(scenario.Input{Documents: documents})
		if err != nil {
			t.Fatal(err)
		}
		got := "Never"
		if d := r.Snapshot.NodeClaims[0].Spec.ExpireAfter.Duration; d != nil {
			got = d.String()
		}
		if got != test.want {
			t.Errorf("it lives %s, want %s:\n%s", got, test.want, test.objects)
		}
	}
}

// A pod that a user wrote with only the phase Pending waits. A pod with more status from a cluster has that status.
func TestAPodThatIsJustPendingWaits(t *testing.T) {
	t.Parallel()
	pool := poolOf("p", "{group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}", "")
	for status, want := range map[string]bool{
		"{phase: Pending}": true,
		"{phase: Pending, conditions: [{type: PodScheduled, status: 'True'}]}": false,
		"{phase: Succeeded}": false,
	} {
		documents, err := scenario.Documents(scenario.Source{Name: "file", Data: []byte(podWith("p", asking("cpu: 1", "")) + "status: " + status + "\n" + pool)})
		if err != nil {
			t.Fatal(err)
		}
		r, err := scenario.Read(scenario.Input{Documents: documents})
		if err != nil {
			t.Fatal(err)
		}
		launches := len(provisioning.Plan(r.Snapshot, r.Options, nil).Launches)
		if noted := strings.Contains(strings.Join(r.Notes, "\n"), "Pod d/p: its status says Pending and no more"); (launches == 1) != want || noted != want {
			t.Errorf("%s: %d launches, noted %v", status, launches, noted)
		}
	}
}

package cli

import (
	"fmt"
	"maps"
	"strings"
	"testing"
)

// machineDeployments returns the answers of an API server with Cluster API: a node of MachineDeployment dear with two pods, and
// MachineDeployment cheap, whose template describes its machines.
func machineDeployments() map[string]string {
	list := func(items ...string) string {
		return `{"kind":"List","apiVersion":"v1","metadata":{},"items":[` + strings.Join(items, ",") + `]}`
	}
	deployment := func(name, price, more string) string {
		return fmt.Sprintf(`{"metadata":{"name":%q,"namespace":"default","annotations":{"cluster.x-k8s.io/machine-current-price":%q%s}},"spec":{"clusterName":"prod",`+
			`"template":{"spec":{"infrastructureRef":{"apiGroup":"infrastructure.cluster.x-k8s.io","kind":"DevMachineTemplate","name":%q}}}}}`, name, price, more, name)
	}
	resource := func(name, kind string) string {
		return fmt.Sprintf(`{"name":%q,"singularName":"","namespaced":true,"kind":%q,"verbs":["list"]}`, name, kind)
	}
	resources := func(group, version string, all ...string) string {
		return fmt.Sprintf(`{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"%s/%s","resources":[%s]}`, group, version, strings.Join(all, ","))
	}
	group := func(name, version string) string {
		return fmt.Sprintf(`{"name":%[1]q,"versions":[{"groupVersion":"%[1]s/%[2]s","version":%[2]q}],"preferredVersion":{"groupVersion":"%[1]s/%[2]s","version":%[2]q}}`, name, version)
	}
	const cluster, infrastructure = "cluster.x-k8s.io", "infrastructure.cluster.x-k8s.io"
	all := resources(cluster, "v1beta1", resource("machinedeployments", "MachineDeployment"), resource("clusters", "Cluster"), resource("machines", "Machine"), resource("machinesets", "MachineSet"))
	return map[string]string{
		"/apis":            `{"kind":"APIGroupList","apiVersion":"v1","groups":[` + group(cluster, "v1beta1") + "," + group(infrastructure, "v1beta2") + `]}`,
		"/apis/" + cluster: group(cluster, "v1beta1"), "/apis/" + cluster + "/v1beta1": all,
		"/apis/" + infrastructure: group(infrastructure, "v1beta2"), "/apis/" + infrastructure + "/v1beta2": resources(infrastructure, "v1beta2", resource("devmachinetemplates", "DevMachineTemplate")),

		"/apis/" + cluster + "/v1beta1/machinedeployments": list(
			deployment("dear", "1", `,"capacity.cluster-autoscaler.kubernetes.io/cpu":"16","capacity.cluster-autoscaler.kubernetes.io/memory":"64Gi"`), deployment("cheap", "0.15", "")),
		"/apis/" + cluster + "/v1beta1/machinesets": list(), "/apis/" + cluster + "/v1beta1/clusters": list(`{"metadata":{"name":"prod","namespace":"default"}}`),
		"/apis/" + cluster + "/v1beta1/machines": list(
			`{"metadata":{"name":"dear-1","namespace":"default","labels":{"cluster.x-k8s.io/deployment-name":"dear"}},"spec":{"clusterName":"prod","providerID":"metal://1"}}`),
		"/apis/" + infrastructure + "/v1beta2/devmachinetemplates": list(
			`{"metadata":{"name":"dear","namespace":"default"}}`, `{"metadata":{"name":"cheap","namespace":"default"},"status":{"capacity":{"cpu":"4","memory":"16Gi"}}}`),
		"/api/v1/nodes": list(`{"metadata":{"name":"n1"},"spec":{"providerID":"metal://1"},"status":{"allocatable":{"cpu":"16","memory":"64Gi","pods":"110"},"capacity":{"cpu":"16","memory":"64Gi","pods":"110"}}}`),
	}
}

func TestSavingsOfALiveClusterAreThoseOfItsMachineDeployments(t *testing.T) {
	t.Parallel()
	all := machineDeployments()
	nodes, objects := map[string]string{"/api/v1/nodes": all["/api/v1/nodes"]}, maps.Clone(all)
	delete(objects, "/api/v1/nodes")
	for name, args := range map[string][]string{
		"in the cluster itself":      {"--kubeconfig", startBare(t, all)},
		"in another one, without it": {"--kubeconfig", startBare(t, nodes), "--cluster-api-kubeconfig", startBare(t, objects)},
	} {
		out, notes, err := run(t, append([]string{"savings"}, args...)...)
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, notes)
		}
		if !strings.HasPrefix(out, "Now $1.0000/h") || !strings.Contains(out, "costs $0.1500/h") {
			t.Errorf("%s: it does not say $1.00 now and $0.15 then:\n%s\n%s", name, out, notes)
		}
		if !strings.Contains(notes, "each MachineDeployment counts as a pool") || strings.Contains(notes, "not in the files") {
			t.Errorf("%s: the notes are\n%s", name, notes)
		}
	}
}

// Without a controller, the plan depends on the objects in the cluster.
func TestPlansOfALiveClusterKnowTheMachineDeploymentsThatAClassSelects(t *testing.T) {
	t.Parallel()
	all := machineDeployments()
	list := func(item string) string {
		return `{"kind":"List","apiVersion":"v1","metadata":{},"items":[` + item + `]}`
	}
	deployments := "/apis/cluster.x-k8s.io/v1beta1/machinedeployments"
	all[deployments] = strings.ReplaceAll(all[deployments], `"namespace":"default",`, `"namespace":"default","labels":{"node.cluster.x-k8s.io/karpenter-member":""},`)
	all["/apis/karpenter.cluster.x-k8s.io/v1alpha1/clusterapinodeclasses"] = list(`{"metadata":{"name":"default"},"spec":{"clusterName":"prod"}}`)
	all["/apis/karpenter.sh/v1/nodepools"] = list(`{"metadata":{"name":"general"},"spec":{"template":{"spec":{"requirements":[],` +
		`"nodeClassRef":{"group":"karpenter.cluster.x-k8s.io","kind":"ClusterAPINodeClass","name":"default"}}}}}`)
	all["/api/v1/pods"] = list(`{"metadata":{"name":"web","namespace":"default","uid":"1"},"spec":{"containers":[{"name":"web","resources":{"requests":{"cpu":"3"}}}]},` +
		`"status":{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable"}]}}`)
	all["/api/v1/nodes"] = list("")
	out, notes, err := run(t, "plan", "--kubeconfig", startBare(t, all), "--catalog-url", "none")
	if err != nil || !strings.Contains(out, "1 machine to start for 1 pod") || !strings.Contains(out, " 0.1500 ") {
		t.Errorf("%v: it says\n%s\n%s", err, out, notes)
	}
}

func TestMachineDeploymentsThatMayNotBeListedAreNoted(t *testing.T) {
	t.Parallel()
	for resource, c := range map[string]struct{ note, says string }{
		"cluster.x-k8s.io/v1beta1/machinedeployments":                 {"note: objects of kind MachineDeployment are not read: it is forbidden", ""},
		"infrastructure.cluster.x-k8s.io/v1beta2/devmachinetemplates": {"note: objects of kind DevMachineTemplate are not read: it is forbidden", "Now $1.0000/h"},
	} {
		answers := machineDeployments()
		answers["/apis/"+resource] = ""
		out, notes, err := run(t, "savings", "--kubeconfig", startBare(t, answers))
		if err != nil {
			t.Fatalf("%s: %v\n%s", resource, err, notes)
		}
		if !strings.Contains(notes, c.note) || !strings.HasPrefix(out, c.says) {
			t.Errorf("%s: it says\n%s\n%s", resource, out, notes)
		}
	}
}

package clusterapi_test

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tenon.sh/playground/playgroundtest"
)

const (
	clusterPatience = 5 * time.Minute // how long a control plane may take
	machinePatience = 3 * time.Minute // how long machines may take to come or go
)

//go:embed testdata/cluster.yaml
var clusterManifests string

// capiCluster is a Cluster with a control plane that runs.
type capiCluster struct {
	*world
	name, namespace, version string
}

// cluster is a Cluster that tests share: making one takes half a minute.
func (w *world) cluster() *capiCluster {
	w.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.sharedCluster == nil {
		w.sharedCluster = w.newCluster("shared", "shared")
	}
	c := *w.sharedCluster
	c.world = w
	return &c
}

// newCluster makes a Cluster in the namespace, which is made if there is none, and waits for its control plane.
func (w *world) newCluster(namespace, name string) *capiCluster {
	w.Helper()
	version, err := kubernetes.NewForConfigOrDie(w.playground.RESTConfig()).Discovery().ServerVersion()
	w.must(err)
	c := &capiCluster{world: w, name: name, namespace: namespace, version: version.GitVersion}
	w.must(client.IgnoreAlreadyExists(w.Create(w, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})))
	c.machineTemplate(name+"-control-plane", sized("4", "8Gi"))
	manifests := strings.NewReplacer("NAMESPACE", namespace, "NAME", name, "VERSION", c.version,
		"PORT", fmt.Sprint(playgroundtest.FreePort(w.TB))).Replace(clusterManifests)
	objects, err := parseObjects([]byte(manifests))
	w.must(err)
	for _, o := range objects {
		w.must(w.Create(w, o))
	}
	w.until(clusterPatience, func() (bool, string) {
		var cluster clusterv1.Cluster
		w.must(w.Get(w, client.ObjectKey{Namespace: namespace, Name: name}, &cluster))
		return meta.IsStatusConditionTrue(cluster.Status.Conditions, clusterv1.ClusterControlPlaneAvailableCondition), fmt.Sprintf("%+v", cluster.Status.Conditions)
	})
	return c
}

// hardware is what a machine is, whatever its MachineDeployment says about it: what its kubelet and its cloud's controller write
// on its Node.
type hardware struct {
	Capacity    corev1.ResourceList `json:"capacity"`
	Allocatable corev1.ResourceList `json:"allocatable"`
	Labels      map[string]string   `json:"labels,omitempty"`
	Taints      []corev1.Taint      `json:"taints,omitempty"`
}

// hardwareAnnotation holds it on infrastructure machines, which have it from their template.
const hardwareAnnotation = "tenon.sh/test-hardware"

// sized is a machine of that size that keeps nothing back.
func sized(cpu, memory string) hardware {
	resources := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory), corev1.ResourcePods: resource.MustParse("110"),
	}
	return hardware{Capacity: resources, Allocatable: resources}
}

// machineTemplate makes a template of infrastructure machines that start within two seconds.
func (c *capiCluster) machineTemplate(name string, h hardware) {
	c.Helper()
	encoded, err := json.Marshal(h)
	c.must(err)
	starts := map[string]any{"provisioning": map[string]any{"startupDuration": "1s"}}
	c.make("infrastructure.cluster.x-k8s.io/v1beta2", "DevMachineTemplate", name, map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{hardwareAnnotation: string(encoded)}},
		"spec":     map[string]any{"backend": map[string]any{"inMemory": map[string]any{"vm": starts, "node": starts}}},
	})
}

// make creates an object whose spec is a template.
func (c *capiCluster) make(apiVersion, kind, name string, template map[string]any) {
	c.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"template": template}}}
	object.SetAPIVersion(apiVersion)
	object.SetKind(kind)
	object.SetNamespace(c.namespace)
	object.SetName(name)
	c.must(c.Create(c, object))
}

// machineDeployment makes a MachineDeployment of such machines, with 0 replicas unless changed. When the test ends it goes, and
// its machines and nodes.
func (c *capiCluster) machineDeployment(name string, h hardware, change func(*clusterv1.MachineDeployment)) *clusterv1.MachineDeployment {
	c.Helper()
	c.machineTemplate(name, h)
	c.make("bootstrap.cluster.x-k8s.io/v1beta2", "KubeadmConfigTemplate", name, map[string]any{"spec": map[string]any{"preKubeadmCommands": []any{"true"}}})
	md := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: name}}
	md.Spec.ClusterName = c.name
	md.Spec.Replicas = ptr.To[int32](0)
	md.Spec.Template.Spec.ClusterName = c.name
	md.Spec.Template.Spec.Version = c.version
	md.Spec.Template.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{APIGroup: "bootstrap.cluster.x-k8s.io", Kind: "KubeadmConfigTemplate", Name: name}
	md.Spec.Template.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.cluster.x-k8s.io", Kind: "DevMachineTemplate", Name: name}
	if change != nil {
		change(md)
	}
	c.must(c.Create(c, md))
	c.Cleanup(func() { c.removeMachineDeployment(md) })
	return md
}

func (c *capiCluster) removeMachineDeployment(md *clusterv1.MachineDeployment) {
	c.must(client.IgnoreNotFound(c.Delete(c, md)))
	c.until(machinePatience, func() (bool, string) {
		err := c.Get(c, client.ObjectKeyFromObject(md), &clusterv1.MachineDeployment{})
		machines, nodes := c.machines(md), c.nodes(md)
		return apierrors.IsNotFound(err) && len(machines)+len(nodes) == 0, fmt.Sprintf("%s goes: %d machines, %d nodes: %v", md.Name, len(machines), len(nodes), err)
	})
	c.removeTemplate("infrastructure", "DevMachineTemplate", md.Namespace, md.Name)
	c.removeTemplate("bootstrap", "KubeadmConfigTemplate", md.Namespace, md.Name)
}

func (c *capiCluster) removeTemplate(group, kind, namespace, name string) {
	template := &unstructured.Unstructured{}
	template.SetAPIVersion(group + ".cluster.x-k8s.io/v1beta2")
	template.SetKind(kind)
	template.SetNamespace(namespace)
	template.SetName(name)
	c.must(client.IgnoreNotFound(c.Delete(c, template)))
}

// scale sets the replicas as a client of the scale subresource does.
func (c *capiCluster) scale(md *clusterv1.MachineDeployment, replicas int32) {
	c.Helper()
	body := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: replicas}}
	c.must(c.SubResource("scale").Update(c, md.DeepCopy(), client.WithSubResourceBody(body)))
}

// machines are those of the MachineDeployment, by name.
func (c *capiCluster) machines(md *clusterv1.MachineDeployment) []clusterv1.Machine {
	c.Helper()
	var list clusterv1.MachineList
	c.must(c.List(c, &list, client.InNamespace(md.Namespace), client.MatchingLabels{clusterv1.MachineDeploymentNameLabel: md.Name}))
	return list.Items
}

// nodes are those of its machines, by name.
func (c *capiCluster) nodes(md *clusterv1.MachineDeployment) []corev1.Node {
	c.Helper()
	var list corev1.NodeList
	c.must(c.List(c, &list))
	return slices.DeleteFunc(list.Items, func(n corev1.Node) bool {
		return n.Annotations[clusterv1.ClusterNamespaceAnnotation] != md.Namespace || !strings.HasPrefix(n.Name, md.Name+"-")
	})
}

// running waits until the MachineDeployment has n machines, all of which run and have a node that is ready, and no other.
func (c *capiCluster) running(md *clusterv1.MachineDeployment, n int) []clusterv1.Machine {
	c.Helper()
	var machines []clusterv1.Machine
	c.until(machinePatience, func() (bool, string) {
		machines = c.machines(md)
		ready := map[string]bool{}
		for _, node := range c.nodes(md) {
			ready[node.Spec.ProviderID] = slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
				return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
			})
		}
		var lines []string
		running := 0
		for _, m := range machines {
			if m.DeletionTimestamp == nil && m.Status.Phase == string(clusterv1.MachinePhaseRunning) && ready[m.Spec.ProviderID] {
				running++
			}
			lines = append(lines, fmt.Sprintf("%s %s %s, node ready: %v", m.Name, m.Status.Phase, m.Spec.ProviderID, ready[m.Spec.ProviderID]))
		}
		return running == n && len(machines) == n && len(ready) == n, fmt.Sprintf("%d of %d machines run:\n%s", running, n, strings.Join(lines, "\n"))
	})
	return machines
}

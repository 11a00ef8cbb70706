package clusterapi_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tenon.sh/api/clusterapiv1alpha1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/cluster"
	"tenon.sh/playground"
)

// another is a view of a control plane of its own, on which no Cluster API runs.
func another(t testing.TB, w *world) *world {
	t.Helper()
	p, err := playground.Start(w, playground.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	})
	w.must(cluster.ApplyCRDs(w, p.RESTConfig()))
	c, err := newClient(p)
	w.must(err)
	return &world{TB: t, Context: w.Context, Client: c, playground: p}
}

// The controller runs in one cluster and takes its machines from another. While that cannot be reached, nothing is started and
// nothing is lost.
func TestTheManagementClusterMayBeAnother(t *testing.T) {
	management := newWorld(t).newCluster("apart", "another")
	workload := another(t, management.world)
	management.mirror.elsewhere(management.name, workload.Client)
	md := management.member("apart", "2", "8Gi", "0.10", nil)
	here := &capiCluster{world: workload, name: management.name, namespace: management.namespace}
	here.pool("apart")
	way := startProxy(management.world, management.account(false, true))
	here.tenon(here.account(true, false), "--cluster-api-kubeconfig", way.kubeconfig)
	balanced := func(n int) {
		t.Helper()
		here.until(2*machinePatience, func() (bool, string) {
			machines, nodes, claims := len(management.machines(md)), len(here.nodes(md)), len(here.claims())
			return machines == n && nodes == n && claims == n, fmt.Sprintf("%d Machines, %d nodes, %d NodeClaims, want %d", machines, nodes, claims, n)
		})
	}
	web := here.pods("apart", 2, "1500m")
	here.run(web, 2)
	balanced(2)

	way.cut()
	here.until(machinePatience, func() (bool, string) {
		class := &clusterapiv1alpha1.ClusterAPINodeClass{}
		here.must(here.Get(here, client.ObjectKey{Name: "apart"}, class))
		c := v1.GetCondition(class, clusterapiv1alpha1.ConditionManagementClusterReady)
		return c != nil && c.Status == metav1.ConditionFalse, fmt.Sprintf("the class says %+v", class.Status.Conditions)
	})
	here.resize(web, 4)
	here.until(machinePatience, func() (bool, string) {
		var pods corev1.PodList
		here.must(here.List(here, &pods, client.MatchingLabels{"app": web.Name}))
		return len(pods.Items) == 4, fmt.Sprintf("%d pods", len(pods.Items))
	})
	if machines, claims := len(management.machines(md)), here.claims(); machines != 2 || len(claims) < 2 {
		t.Errorf("%d Machines and %d NodeClaims while the management cluster was out of reach, want the 2 that were there", machines, len(claims))
	}
	way.mend()
	here.run(web, 4)
	balanced(4)
	here.resize(web, 0)
	balanced(0)
}

// A management cluster of an older release serves one version only, the older one, and nothing converts.
func TestTheOlderContractIsEnough(t *testing.T) {
	w := another(t, newWorld(t))
	modules, err := moduleFolders("sigs.k8s.io/cluster-api")
	w.must(err)
	definitions, err := readDefinitions(filepath.Join(modules[0], "core/config"), endpoint{})
	w.must(err)
	for _, d := range definitions {
		w.must(w.Create(w, onlyIn("v1beta1", d)))
	}
	for _, d := range definitions {
		w.until(machinePatience, func() (bool, string) { return established(w, w.Client, d) })
	}
	object := func(kind, name, text string) *unstructured.Unstructured {
		t.Helper()
		objects, err := parseObjects([]byte(fmt.Sprintf("apiVersion: cluster.x-k8s.io/v1beta1\nkind: %s\nmetadata: {name: %s, namespace: default}\n%s", kind, name, text)))
		w.must(err)
		w.must(w.Create(w, objects[0]))
		return objects[0]
	}
	object("Cluster", "older", "spec: {infrastructureRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: DevCluster, name: older}}")
	md := object("MachineDeployment", "older", `spec:
  clusterName: older
  replicas: 0
  selector: {matchLabels: {}}
  template:
    spec:
      clusterName: older
      bootstrap: {dataSecretName: none}
      infrastructureRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: DevMachineTemplate, name: older}
`)
	before := client.MergeFrom(md.DeepCopy())
	md.SetLabels(map[string]string{"node.cluster.x-k8s.io/karpenter-member": ""})
	md.SetAnnotations(map[string]string{
		"capacity.cluster-autoscaler.kubernetes.io/cpu": "2", "capacity.cluster-autoscaler.kubernetes.io/memory": "8Gi", "cluster.x-k8s.io/machine-current-price": "0.10",
	})
	w.must(w.Patch(w, md, before))
	c := &capiCluster{world: w, name: "older", namespace: metav1.NamespaceDefault}
	c.pool("older")
	c.tenon(c.account(true, true))
	replicas := func(want int64) {
		t.Helper()
		w.until(machinePatience, func() (bool, string) {
			w.must(w.Get(w, client.ObjectKeyFromObject(md), md))
			n, _, _ := unstructured.NestedInt64(md.Object, "spec", "replicas")
			return n == want, fmt.Sprintf("%d replicas, want %d", n, want)
		})
	}
	web := c.pods("older", 1, "1500m")
	replicas(1)

	// What Cluster API and the machine would do.
	machine := object("Machine", "older-1", `spec:
  clusterName: older
  providerID: older://1
  bootstrap: {dataSecretName: none}
  infrastructureRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: DevMachine, name: older-1}
`)
	before = client.MergeFrom(machine.DeepCopy())
	machine.SetLabels(map[string]string{clusterv1.ClusterNameLabel: "older", clusterv1.MachineDeploymentNameLabel: "older", clusterv1.MachineSetNameLabel: "older-1"})
	w.must(w.Patch(w, machine, before))
	hardware := sized("2", "8Gi")
	w.must(w.Create(w, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "older-1", Annotations: map[string]string{fakeKey: "fake"}, Labels: map[string]string{corev1.LabelHostname: "older-1"}},
		Spec:       corev1.NodeSpec{ProviderID: "older://1"},
		Status:     corev1.NodeStatus{Capacity: hardware.Capacity, Allocatable: hardware.Allocatable},
	}))
	c.run(web, 1)

	c.resize(web, 0)
	replicas(0)
	w.must(w.Get(w, client.ObjectKeyFromObject(machine), machine))
	if _, marked := machine.GetAnnotations()[clusterv1.DeleteMachineAnnotation]; !marked {
		t.Errorf("the Machine is not marked as the one to go: %v", machine.GetAnnotations())
	}
}

// onlyIn is a definition that serves and stores one version, so that nothing converts it.
func onlyIn(version string, definition *unstructured.Unstructured) *unstructured.Unstructured {
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	for _, v := range versions {
		if v := v.(map[string]any); v["name"] == version || len(versions) == 1 {
			v["served"], v["storage"] = true, true
			_ = unstructured.SetNestedSlice(definition.Object, []any{v}, "spec", "versions") // it is an object: it was read from YAML
		}
	}
	unstructured.RemoveNestedField(definition.Object, "spec", "conversion")
	return definition
}

// proxy is a way to an API server that can be cut.
type proxy struct {
	testing.TB
	kubeconfig  string
	at, to      string
	mu          sync.Mutex // guards the two below
	listener    net.Listener
	connections []net.Conn
}

// startProxy makes a way to the API server of a kubeconfig.
func startProxy(w *world, kubeconfig string) *proxy {
	w.Helper()
	config, err := clientcmd.LoadFromFile(kubeconfig)
	w.must(err)
	p := &proxy{TB: w.TB, kubeconfig: filepath.Join(w.TempDir(), "kubeconfig"), at: "127.0.0.1:0"}
	for _, c := range config.Clusters {
		server, err := url.Parse(c.Server)
		w.must(err)
		p.to = server.Host
	}
	p.mend()
	for _, c := range config.Clusters {
		c.Server = "https://" + p.at
	}
	w.must(clientcmd.WriteToFile(*config, p.kubeconfig))
	w.Cleanup(p.cut)
	return p
}

// mend lets connections through.
func (p *proxy) mend() {
	p.Helper()
	listener, err := net.Listen("tcp", p.at)
	if err != nil {
		p.Fatal(err)
	}
	p.mu.Lock()
	p.listener, p.at = listener, listener.Addr().String()
	p.mu.Unlock()
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", p.to)
			if err != nil {
				_ = from.Close()
				continue
			}
			p.mu.Lock()
			p.connections = append(p.connections, from, to)
			p.mu.Unlock()
			go pass(from, to)
			go pass(to, from)
		}
	}()
}

func pass(from, to net.Conn) {
	_, _ = io.Copy(to, from)
	_ = errors.Join(from.Close(), to.Close())
}

// cut ends all connections and refuses new ones.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.listener.Close()
	for _, c := range p.connections {
		_ = c.Close()
	}
	p.connections = nil
}

package clusterapi_test

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"tenon.sh/api/clusterapiv1alpha1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/deploy"
	"tenon.sh/playground/playgroundtest"
)

// asTenon makes this test binary behave as the tenon command, so that the controller is a process of its own.
const asTenon = "TENON_CLUSTERAPI_COMMAND"

// tenon is a running controller.
type tenon struct {
	*exec.Cmd
	ended chan struct{} // closed when the process has ended
	log   string
}

// tenon runs a controller until it is stopped or the test ends.
func (w *world) tenon() *tenon {
	w.Helper()
	health := strconv.Itoa(playgroundtest.FreePort(w.TB))
	dir := os.Getenv("TENON_LOGS")
	if dir == "" {
		dir = w.TempDir()
	}
	file, err := os.Create(filepath.Join(dir, "tenon-"+health+".log"))
	w.must(err)
	defer file.Close()
	c := exec.Command(os.Args[0], "controller", "--cloud-provider", "clusterapi", "--kubeconfig", w.account(),
		"--leader-election-namespace", deploy.Namespace, "--metrics-port", "-1", "--health-probe-port", health)
	c.Env = append(os.Environ(), asTenon+"=1")
	c.Stdout, c.Stderr = file, file
	w.must(c.Start())
	t := &tenon{Cmd: c, ended: make(chan struct{}), log: file.Name()}
	go func() {
		_ = c.Wait()
		close(t.ended)
	}()
	w.Cleanup(func() {
		t.end(syscall.SIGTERM)
		if w.Failed() {
			text, _ := os.ReadFile(t.log)
			lines := strings.Split(strings.TrimSpace(string(text)), "\n")
			w.Logf("the end of the controller's log:\n%s", strings.Join(lines[max(0, len(lines)-25):], "\n"))
		}
	})
	w.until(time.Minute, func() (bool, string) {
		response, err := http.Get("http://127.0.0.1:" + health + "/readyz")
		if err != nil {
			return false, err.Error()
		}
		defer response.Body.Close()
		return response.StatusCode == http.StatusOK, response.Status
	})
	return t
}

func (t *tenon) end(signal syscall.Signal) {
	_ = t.Process.Signal(signal)
	<-t.ended
}

// account is a kubeconfig with the rights that a controller has where one cluster is both.
func (w *world) account() string {
	w.Helper()
	account := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: deploy.Namespace, Name: deploy.ServiceAccount}
	usual, err := deploy.RBAC.ReadFile("rbac/rbac.yaml")
	w.must(err)
	management, err := os.ReadFile("../../deploy/clusterapi/rbac.yaml")
	w.must(err)
	for _, text := range strings.Split(string(usual)+"\n---\n"+string(management), "\n---\n") {
		object := &unstructured.Unstructured{}
		w.must(yaml.Unmarshal([]byte(text), &object.Object))
		w.must(w.Apply(w, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("test"), client.ForceOwnership))
	}
	classes := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "cluster-api-classes"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{clusterapiv1alpha1.GroupVersion.Group}, Resources: []string{"clusterapinodeclasses"}, Verbs: []string{"list", "watch"}},
		{APIGroups: []string{clusterapiv1alpha1.GroupVersion.Group}, Resources: []string{"clusterapinodeclasses/status"}, Verbs: []string{"patch"}},
	}}
	w.must(client.IgnoreAlreadyExists(w.Create(w, classes)))
	for _, role := range []string{classes.Name, "karpenter-cluster-api"} {
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "test-" + role}, Subjects: []rbacv1.Subject{account},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		}
		w.must(client.IgnoreAlreadyExists(w.Create(w, binding)))
	}
	path, err := w.playground.UserKubeconfig("system:serviceaccount:"+deploy.Namespace+":"+deploy.ServiceAccount, "system:serviceaccounts")
	w.must(err)
	return path
}

// member is a MachineDeployment for the controller: what its machines are said to be is what they are.
func (c *capiCluster) member(name, cpu, memory, price string, change func(*clusterv1.MachineDeployment)) *clusterv1.MachineDeployment {
	c.Helper()
	return c.machineDeployment(name, sized(cpu, memory), func(md *clusterv1.MachineDeployment) {
		md.Labels = map[string]string{"node.cluster.x-k8s.io/karpenter-member": ""}
		md.Annotations = map[string]string{
			"capacity.cluster-autoscaler.kubernetes.io/cpu": cpu, "capacity.cluster-autoscaler.kubernetes.io/memory": memory,
			"cluster.x-k8s.io/machine-current-price": price,
		}
		if change != nil {
			change(md)
		}
	})
}

// pool makes a class of the Cluster's MachineDeployments and a pool of it. Their end is the test's.
func (c *capiCluster) pool(name string) {
	c.Helper()
	class := &clusterapiv1alpha1.ClusterAPINodeClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
	class.Spec.ClusterName, class.Spec.Namespaces = c.name, []string{c.namespace}
	c.must(c.Create(c, class))
	pool := &v1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	pool.Spec.Template.Spec.NodeClassRef = &v1.NodeClassReference{Group: clusterapiv1alpha1.GroupVersion.Group, Kind: "ClusterAPINodeClass", Name: name}
	pool.Spec.Template.Spec.Requirements = []v1.Requirement{}
	pool.Spec.Disruption.Budgets = []v1.Budget{{Nodes: "100%"}}
	pool.Spec.Disruption.ConsolidateAfter = v1.NillableDuration{Duration: ptr.To(5 * time.Second)}
	c.must(c.Create(c, pool))
	c.Cleanup(func() {
		for _, o := range []client.Object{pool, class} {
			c.must(client.IgnoreNotFound(c.Delete(c, o)))
		}
	})
}

// pods runs so many pods of a Deployment, which goes with the test.
func (w *world) pods(name string, n int32, cpu string) *appsv1.Deployment {
	w.Helper()
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}}
	labels := map[string]string{"app": name}
	d.Spec.Replicas, d.Spec.Selector = &n, &metav1.LabelSelector{MatchLabels: labels}
	d.Spec.Template.Labels = labels
	d.Spec.Template.Spec.TerminationGracePeriodSeconds = ptr.To[int64](0)
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "pause", Image: "registry.k8s.io/pause:3.10", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)},
	}}}
	w.must(w.Create(w, d))
	w.Cleanup(func() { w.must(client.IgnoreNotFound(w.Delete(w, d))) })
	return d
}

// run waits until so many pods of the Deployment run, and no more are there.
func (w *world) run(d *appsv1.Deployment, n int) {
	w.Helper()
	w.until(machinePatience, func() (bool, string) {
		var pods corev1.PodList
		w.must(w.List(w, &pods, client.MatchingLabels{"app": d.Name}))
		running := 0
		for i := range pods.Items {
			if pods.Items[i].Status.Phase == corev1.PodRunning && pods.Items[i].DeletionTimestamp == nil {
				running++
			}
		}
		return running == n && len(pods.Items) == n, fmt.Sprintf("%d of %d pods run, want %d", running, len(pods.Items), n)
	})
}

// resize sets the replicas of a Deployment.
func (w *world) resize(d *appsv1.Deployment, n int32) {
	w.Helper()
	before := client.MergeFrom(d.DeepCopy())
	d.Spec.Replicas = &n
	w.must(w.Patch(w, d, before))
}

// balanced waits until there are as many claims, Machines and nodes as given, by MachineDeployment, and nothing else is on its way.
func (c *capiCluster) balanced(want map[*clusterv1.MachineDeployment]int) {
	c.Helper()
	c.until(machinePatience, func() (bool, string) {
		var claims v1.NodeClaimList
		c.must(c.List(c, &claims))
		total, ok, lines := 0, true, []string{}
		for md, n := range want {
			now := &clusterv1.MachineDeployment{}
			c.must(c.Get(c, client.ObjectKeyFromObject(md), now))
			machines, nodes := len(c.machines(md)), len(c.nodes(md))
			total += n
			ok = ok && machines == n && nodes == n && ptr.Deref(now.Spec.Replicas, -1) == int32(n)
			lines = append(lines, fmt.Sprintf("%s: %d replicas, %d Machines, %d nodes, want %d", md.Name, ptr.Deref(now.Spec.Replicas, -1), machines, nodes, n))
		}
		slices.Sort(lines)
		return ok && len(claims.Items) == total, fmt.Sprintf("%d NodeClaims, want %d; %s", len(claims.Items), total, strings.Join(lines, "; "))
	})
}

func TestPodsScaleMachineDeploymentsUpAndDown(t *testing.T) {
	c := newWorld(t).cluster()
	small, large := c.member("small", "2", "8Gi", "0.10", nil), c.member("large", "16", "64Gi", "1.50", nil)
	c.pool("general")
	c.tenon()
	web := c.pods("web", 20, "1500m")
	c.run(web, 20)
	c.balanced(map[*clusterv1.MachineDeployment]int{small: 20, large: 0})
	for _, m := range c.machines(small) {
		if m.Annotations[v1.MachineClaimAnnotationKey] == "" {
			t.Errorf("Machine %s belongs to no NodeClaim", m.Name)
		}
	}
	c.resize(web, 5)
	c.run(web, 5)
	c.balanced(map[*clusterv1.MachineDeployment]int{small: 5, large: 0})
	c.resize(web, 0)
	c.balanced(map[*clusterv1.MachineDeployment]int{small: 0, large: 0})
}

package clusterapi_test

import (
	"fmt"
	"math/rand/v2"
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
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

// tenon runs a controller with a kubeconfig until it is stopped or the test ends.
func (w *world) tenon(kubeconfig string, args ...string) *tenon {
	w.Helper()
	health := strconv.Itoa(playgroundtest.FreePort(w.TB))
	dir := os.Getenv("TENON_LOGS")
	if dir == "" {
		dir = w.TempDir()
	}
	file, err := os.Create(filepath.Join(dir, "tenon-"+health+".log"))
	w.must(err)
	defer file.Close()
	c := exec.Command(os.Args[0], append([]string{"controller", "--cloud-provider", "clusterapi", "--kubeconfig", kubeconfig,
		"--leader-election-namespace", deploy.Namespace, "--metrics-port", "-1", "--health-probe-port", health}, args...)...)
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

// account is a kubeconfig with the rights that a controller has in a cluster: those of the workload cluster, of the management
// cluster, or both.
func (w *world) account(workload, management bool) string {
	w.Helper()
	account := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: deploy.Namespace, Name: deploy.ServiceAccount}
	text := ""
	var roles []string
	if workload {
		usual, err := deploy.RBAC.ReadFile("rbac/rbac.yaml")
		w.must(err)
		text += string(usual) + "\n---\n" + classRole
		roles = append(roles, "cluster-api-classes")
	}
	if management {
		theirs, err := os.ReadFile("../../deploy/clusterapi/rbac.yaml")
		w.must(err)
		text += "\n---\n" + string(theirs)
		roles = append(roles, "karpenter-cluster-api")
	}
	objects, err := parseObjects([]byte(text))
	w.must(err)
	for _, object := range objects {
		w.must(w.Apply(w, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("test"), client.ForceOwnership))
	}
	for _, role := range roles {
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

// classRole is what the chart adds to the usual rights in the workload cluster.
const classRole = `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: cluster-api-classes}
rules:
- {apiGroups: [karpenter.cluster.x-k8s.io], resources: [clusterapinodeclasses], verbs: [list, watch]}
- {apiGroups: [karpenter.cluster.x-k8s.io], resources: [clusterapinodeclasses/status], verbs: [patch]}
`

// member is a MachineDeployment for the controller: what its machines are said to be is what they are.
func (c *capiCluster) member(name, cpu, memory, price string, change func(*clusterv1.MachineDeployment)) *clusterv1.MachineDeployment {
	c.Helper()
	return c.machineDeployment(name, sized(cpu, memory), func(md *clusterv1.MachineDeployment) {
		md.Labels = map[string]string{"node.cluster.x-k8s.io/karpenter-member": ""}
		md.Annotations = map[string]string{
			"capacity.cluster-autoscaler.kubernetes.io/cpu": cpu, "capacity.cluster-autoscaler.kubernetes.io/memory": memory,
			priceAnnotation: price,
		}
		if change != nil {
			change(md)
		}
	})
}

// pool makes a class of the Cluster's MachineDeployments and a pool of it. Their end is the test's.
func (c *capiCluster) pool(name string, changes ...func(*v1.NodePool)) {
	c.Helper()
	class := &clusterapiv1alpha1.ClusterAPINodeClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
	class.Spec.ClusterName, class.Spec.Namespaces = c.name, []string{c.namespace}
	c.must(c.Create(c, class))
	pool := &v1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	pool.Spec.Template.Spec.NodeClassRef = &v1.NodeClassReference{Group: clusterapiv1alpha1.GroupVersion.Group, Kind: "ClusterAPINodeClass", Name: name}
	pool.Spec.Template.Spec.Requirements = []v1.Requirement{}
	pool.Spec.Disruption.Budgets = []v1.Budget{{Nodes: "100%"}}
	pool.Spec.Disruption.ConsolidateAfter = v1.NillableDuration{Duration: ptr.To(5 * time.Second)}
	for _, change := range changes {
		change(pool)
	}
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
		launched := 0
		for i := range claims.Items {
			if claims.Items[i].Status.ProviderID != "" {
				launched++
			}
		}
		return ok && len(claims.Items) == total && launched == total,
			fmt.Sprintf("%d NodeClaims, %d of them launched, want %d; %s", len(claims.Items), launched, total, strings.Join(lines, "; "))
	})
}

// nodesOf are the names of the nodes that the Deployment's pods run on, each once.
func (w *world) nodesOf(d *appsv1.Deployment) []string {
	w.Helper()
	var pods corev1.PodList
	w.must(w.List(w, &pods, client.MatchingLabels{"app": d.Name}))
	var names []string
	for i := range pods.Items {
		names = append(names, pods.Items[i].Spec.NodeName)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// A journey, which make demo-capi shows: machines come from the MachineDeployment that is cheapest for what waits, exactly those go
// that nobody needs, what is left on dear machines moves to cheap ones, and in the end nothing is left.
func TestMachineDeploymentsFollowThePods(t *testing.T) {
	w := newWorld(t)
	w.say("Cluster API's core, bootstrap, control plane and infrastructure controllers run")
	c := w.cluster()
	w.say("Cluster %s has a control plane", c.name)
	small, medium, large := c.member("small", "2", "8Gi", "0.10", nil), c.member("medium", "4", "16Gi", "0.40", nil), c.member("large", "16", "64Gi", "1.50", nil)
	c.pool("general")
	w.say("MachineDeployments small (2 cpu, $0.10 an hour), medium (4 cpu, $0.40) and large (16 cpu, $1.50), a ClusterAPINodeClass and a NodePool")
	c.tenon(c.account(true, true))
	web := c.pods("web", 20, "1500m")
	w.say("20 pods wait for 1.5 cpu each")
	c.run(web, 20)
	c.balanced(map[*clusterv1.MachineDeployment]int{small: 20, medium: 0, large: 0})
	w.say("they run on 20 Machines of small, $%.2f an hour; the others have none", c.bill(small))

	c.resize(web, 5)
	c.run(web, 5)
	needed := c.nodesOf(web)
	c.balanced(map[*clusterv1.MachineDeployment]int{small: 5, medium: 0, large: 0})
	var left []string
	for _, m := range c.machines(small) {
		left = append(left, m.Status.NodeRef.Name)
	}
	if slices.Sort(left); !slices.Equal(left, needed) {
		t.Errorf("Machines of the nodes %v are left, want those of %v, where pods run", left, needed)
	}
	w.say("15 pods have gone, and 15 Machines: the five that are left are those that pods run on")

	c.resize(web, 0)
	c.consolidates(small, medium, large)
}

// consolidates is the part of the journey in which three nodes that are half empty become cheaper ones. It begins with no pods.
func (c *capiCluster) consolidates(small, medium, large *clusterv1.MachineDeployment) {
	c.Helper()
	batch := c.pods("batch", 3, "2500m")
	c.say("these five pods go too; 3 pods of 2.5 cpu wait, for which small is too small")
	c.run(batch, 3)
	c.balanced(map[*clusterv1.MachineDeployment]int{small: 0, medium: 3, large: 0})
	// Each finds room beside one of the batch, and nowhere else. They are of three owners, because in an hour no more than half of an
	// owner's pods are moved.
	var light []*appsv1.Deployment
	for _, name := range []string{"light-a", "light-b", "light-c"} {
		light = append(light, c.pods(name, 1, "1500m"))
	}
	for _, d := range light {
		c.run(d, 1)
	}
	c.balanced(map[*clusterv1.MachineDeployment]int{small: 0, medium: 3, large: 0})
	c.say("they run on 3 Machines of medium, $%.2f an hour, with 3 pods of 1.5 cpu, of three Deployments, that found room there; small has none left", c.bill(medium))

	c.resize(batch, 0)
	c.say("the pods of 2.5 cpu have gone: three nodes of medium are more than half empty")
	c.balanced(map[*clusterv1.MachineDeployment]int{small: 3, medium: 0, large: 0})
	for _, d := range light {
		c.run(d, 1)
	}
	bill, plan := c.bill(small, medium, large), c.planned("general", light, small, medium, large)
	if !within(0.01, bill, plan) {
		c.Errorf("the nodes cost %.4f USD per hour, want the %.4f of a plan for these pods alone, within 1 %%", bill, plan)
	}
	if now, planned := c.savings(); !within(0.01, now, bill) || !within(0.01, planned, plan) {
		c.Errorf("tenon savings says %.4f USD per hour now and %.4f planned, want %.4f and %.4f", now, planned, bill, plan)
	}
	c.say("the pods of 1.5 cpu have moved to 3 Machines of small, $%.2f an hour; for these pods alone tenon plan starts machines for $%.2f", bill, plan)

	for _, d := range light {
		c.resize(d, 0)
	}
	c.balanced(map[*clusterv1.MachineDeployment]int{small: 0, medium: 0, large: 0})
	c.say("no pods, no Machines")
}

// say tells a journey: on the terminal in the demo, else in the test's log.
func (w *world) say(format string, values ...any) {
	w.Helper()
	text := fmt.Sprintf("%6.1f s  ", time.Since(began).Seconds()) + fmt.Sprintf(format, values...)
	if os.Getenv("TENON_DEMO") == "" {
		w.Log(text)
		return
	}
	fmt.Println(text)
}

// began is when the tests did.
var began = time.Now()

// emptied takes all pods away and waits for the machines to go, which nobody would do after the controller.
func (c *capiCluster) emptied(d *appsv1.Deployment, md *clusterv1.MachineDeployment) {
	c.Helper()
	c.resize(d, 0)
	c.balanced(map[*clusterv1.MachineDeployment]int{md: 0})
}

// claims are those that are not on their way out, by name.
func (w *world) claims() []v1.NodeClaim {
	w.Helper()
	var list v1.NodeClaimList
	w.must(w.List(w, &list))
	return slices.DeleteFunc(list.Items, func(c v1.NodeClaim) bool { return c.DeletionTimestamp != nil })
}

// While a Cluster is paused, replicas that are taken away twice would take a healthy machine along.
func TestDeletionsWhileAClusterIsPausedTakeTheirOwnMachines(t *testing.T) {
	c := newWorld(t).cluster()
	md := c.member("paused", "2", "8Gi", "0.10", nil)
	c.pool("paused", func(pool *v1.NodePool) { pool.Spec.Disruption.ConsolidateAfter.Duration = nil }) // nothing goes but what the test deletes
	c.tenon(c.account(true, true))
	web := c.pods("paused", 3, "1500m")
	c.run(web, 3)
	c.balanced(map[*clusterv1.MachineDeployment]int{md: 3})

	c.pause(true)
	defer c.pause(false)
	claims := c.claims()
	stays := claims[2].Status.ProviderID
	c.resize(web, 1)
	for i := range claims[:2] {
		c.must(c.Delete(c, &claims[i]))
	}
	c.until(machinePatience, func() (bool, string) {
		marked := 0
		for _, m := range c.machines(md) {
			if _, ok := m.Annotations[clusterv1.DeleteMachineAnnotation]; ok {
				marked++
			}
		}
		return marked == 2, fmt.Sprintf("%d Machines are marked, want 2", marked)
	})
	now := &clusterv1.MachineDeployment{}
	c.must(c.Get(c, client.ObjectKeyFromObject(md), now))
	if n := ptr.Deref(now.Spec.Replicas, -1); n != 3 {
		c.Errorf("%d replicas although the Cluster is paused, want 3", n)
	}
	c.pause(false)
	c.balanced(map[*clusterv1.MachineDeployment]int{md: 1})
	if left := c.machines(md)[0]; left.Spec.ProviderID != stays {
		t.Errorf("%s is left, want %s", left.Spec.ProviderID, stays)
	}
	c.resize(web, 0)
	c.must(c.Delete(c, &claims[2]))
	c.balanced(map[*clusterv1.MachineDeployment]int{md: 0})
}

func (c *capiCluster) pause(paused bool) {
	c.Helper()
	cluster := &clusterv1.Cluster{}
	c.must(c.Get(c, client.ObjectKey{Namespace: c.namespace, Name: c.name}, cluster))
	before := client.MergeFrom(cluster.DeepCopy())
	cluster.Spec.Paused = &paused
	c.must(c.Patch(c, cluster, before))
}

// A Machine that somebody deletes, as a MachineHealthCheck does, is replaced by Cluster API at once, and its pods by the controller.
func TestAMachineThatIsDeletedIsReplacedOnce(t *testing.T) {
	c := newWorld(t).cluster()
	md := c.member("deleted", "2", "8Gi", "0.10", nil)
	c.pool("deleted")
	c.tenon(c.account(true, true))
	web := c.pods("deleted", 3, "1500m")
	c.run(web, 3)
	c.balanced(map[*clusterv1.MachineDeployment]int{md: 3})
	victim := c.machines(md)[0]
	c.must(c.Delete(c, &victim))
	c.until(machinePatience, func() (bool, string) {
		gone := !slices.ContainsFunc(c.machines(md), func(m clusterv1.Machine) bool { return m.Name == victim.Name })
		return gone, victim.Name + " is still there"
	})
	c.run(web, 3)
	c.balanced(map[*clusterv1.MachineDeployment]int{md: 3})
	c.emptied(web, md)
}

// Whenever the controller dies, and whichever part of Cluster API, nothing is doubled and nothing is lost.
func TestNothingIsDoubledOrLostByKills(t *testing.T) {
	c := newWorld(t).cluster()
	md := c.member("killed", "2", "8Gi", "0.10", nil)
	c.pool("killed")
	web := c.pods("killed", 8, "1500m")
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("TENON_KILL_SEED"); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		c.must(err)
	}
	t.Logf("seed %d: TENON_KILL_SEED repeats it", seed)
	draw := rand.New(rand.NewPCG(seed, 0))
	kills := func(n int) {
		for range n {
			running := c.tenon(c.account(true, true), "--disable-leader-election")
			moment := time.NewTimer(time.Duration(draw.IntN(4000)) * time.Millisecond)
			select {
			case <-moment.C:
			case <-running.ended:
				t.Fatal("the controller ended by itself")
			}
			running.end(syscall.SIGKILL)
			if draw.IntN(3) == 0 {
				c.must(c.restart(c, c.controllers()[draw.IntN(4)]))
			}
		}
	}
	kills(5)
	last := c.tenon(c.account(true, true), "--disable-leader-election")
	c.run(web, 8)
	c.balanced(map[*clusterv1.MachineDeployment]int{md: 8})
	last.end(syscall.SIGKILL)
	c.resize(web, 2)
	kills(5)
	c.tenon(c.account(true, true), "--disable-leader-election")
	c.run(web, 2)
	c.balanced(map[*clusterv1.MachineDeployment]int{md: 2})
	c.emptied(web, md)
}

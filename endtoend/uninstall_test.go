package endtoend_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tenon.sh/api/kwokv1alpha1"
	v1 "tenon.sh/api/v1"
)

// uninstall runs tenon uninstall as whoever owns the cluster, and returns what it says and its exit status.
func (w *world) uninstall(args ...string) (text string, status int) {
	w.Helper()
	c, out := w.uninstaller(w, args...)
	err := c.Run()
	if _, failed := err.(*exec.ExitError); err != nil && !failed {
		w.Fatal(err)
	}
	w.Logf("tenon uninstall %s (%d):\n%s", strings.Join(args, " "), c.ProcessState.ExitCode(), out)
	return out.String(), c.ProcessState.ExitCode()
}

func (w *world) uninstaller(ctx context.Context, args ...string) (*exec.Cmd, *bytes.Buffer) {
	var out bytes.Buffer
	c := exec.CommandContext(ctx, os.Args[0], append([]string{"uninstall", "--kubeconfig", w.playground.Kubeconfig(), "--timeout=5m"}, args...)...)
	c.Env = append(append(os.Environ(), asTenon+"=1"), w.environment...)
	c.Stdout, c.Stderr = &out, &out
	return c, &out
}

// said checks that a text holds all parts.
func (w *world) said(text string, parts ...string) {
	w.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			w.Errorf("%q is not said", part)
		}
	}
}

// installed is a cluster with a pool and some machines that run pods. Its controller is still running.
func installed(t *testing.T) (*world, *tenon) {
	t.Helper()
	w := newWorld(t)
	controller := w.start()
	w.pool("general", func(p *v1.NodePool) {
		p.Spec.Template.Spec.Requirements = append(p.Spec.Template.Spec.Requirements, v1.Requirement{Key: "karpenter.kwok.sh/instance-cpu", Operator: v1.In, Values: []string{"4"}})
	})
	w.deploy("web", 6, "1500m", "256Mi")
	w.running(6, 2*time.Minute)
	w.until(time.Minute, func() (bool, string) {
		for _, c := range w.claims() {
			if !v1.IsTrue(&c, v1.ConditionInitialized) {
				return false, "claim " + c.Name + " is not initialized"
			}
		}
		return true, ""
	})
	return w, controller
}

// bare checks that nothing of the autoscaler is left in the API server but what may stay.
func (w *world) bare(nodes int) {
	w.Helper()
	var pools v1.NodePoolList
	var classes kwokv1alpha1.KWOKNodeClassList
	w.must(w.List(w, &pools))
	w.must(w.List(w, &classes))
	if n := len(pools.Items) + len(classes.Items) + len(w.claims()); n > 0 {
		w.Errorf("%d pools, %d classes, %d claims are left", len(pools.Items), len(classes.Items), len(w.claims()))
	}
	if n := len(w.nodes()); n != nodes {
		w.Errorf("%d nodes, want %d", n, nodes)
	}
	for _, n := range w.nodes() {
		if len(n.Finalizers)+len(n.OwnerReferences)+len(n.Spec.Taints) > 0 || n.DeletionTimestamp != nil {
			w.Errorf("node %s is held or closed: %v %v %v", n.Name, n.Finalizers, n.OwnerReferences, n.Spec.Taints)
		}
	}
}

func TestUninstallSaysWhatItWouldDoAndDoesNothingWithoutYes(t *testing.T) {
	w, _ := installed(t)
	text, status := w.uninstall()
	w.said(text, "delete 1 NodePool: general", "drain and terminate the machines of 3 NodeClaims: $", "KWOKNodeClass default", "drains and terminates", "add --yes")
	if status != 1 || len(w.claims()) != 3 || w.claims()[0].DeletionTimestamp != nil {
		t.Errorf("status %d, %d claims", status, len(w.claims()))
	}
}

func TestUninstallLeavesNothingBehindWhileTheControllerRuns(t *testing.T) {
	w, controller := installed(t)
	text, status := w.uninstall("--yes")
	if status != 0 {
		t.Errorf("status %d\n%s", status, controller.tail())
	}
	w.said(text, "NodePool, NodeClaim, node class or finalizer of the autoscaler is left, and no machine")
	w.bare(0)
	w.watchFor(5*time.Second, func() { // pods are pending, and a controller runs
		if n := len(w.claims()); n > 0 {
			t.Fatalf("%d machines were started again", n)
		}
	})
}

// The command is killed at several moments, and run again; nobody else drains.
func TestUninstallDoesTheWorkItselfAndCanBeKilledMidway(t *testing.T) {
	w, controller := installed(t)
	controller.end(syscall.SIGTERM)
	w.hold("web", 2) // one node can be drained, and one cannot
	for _, moment := range []func() bool{
		func() bool { return w.claims()[0].DeletionTimestamp != nil },
		func() bool { return len(w.claims()) < 3 },
	} {
		c, out := w.uninstaller(w, "--yes")
		w.must(c.Start())
		// A budget that was charged for an eviction that the kill cut off lets nobody go for two minutes.
		w.until(3*time.Minute, func() (bool, string) { return moment(), "the moment did not come" })
		w.must(c.Process.Kill())
		_ = c.Wait()
		w.Logf("killed after it had said:\n%s", out)
		w.forgetLease()
	}
	text, status := w.uninstall("--yes", "--drain-timeout=10s")
	if status != 0 {
		t.Errorf("status %d", status)
	}
	w.said(text, "No controller runs: this command does it", "and no machine")
	w.bare(0)
}

// hold lets no more than what is above so many pods be away.
func (w *world) hold(app string, atLeast int) {
	w.Helper()
	w.corner = app
	w.budget(6 - atLeast)
	w.corner = ""
	w.Cleanup(w.in(w.TB, app).leave)
}

// forgetLease frees the lease of a process that was killed, which would otherwise take a while.
func (w *world) forgetLease() {
	w.Helper()
	var leases coordinationv1.LeaseList
	w.must(w.List(w, &leases, client.MatchingFields{"metadata.name": "karpenter-leader-election"}))
	for i := range leases.Items {
		w.must(client.IgnoreNotFound(w.Delete(w, &leases.Items[i])))
	}
}

func TestMachinesThatAreKeptRunOnAndBelongToNobody(t *testing.T) {
	w, controller := installed(t)
	controller.end(syscall.SIGTERM)
	pods := w.podsByName()
	c, _ := w.uninstaller(w, "--keep-machines", "--yes")
	w.must(c.Start())
	w.until(time.Minute, func() (bool, string) { return len(w.claims()) < 3, "no claim was let go" })
	w.must(c.Process.Kill())
	_ = c.Wait()
	w.forgetLease()

	text, status := w.uninstall("--keep-machines", "--yes")
	if status != 0 {
		t.Errorf("status %d", status)
	}
	w.said(text, "Nobody replaces, repairs or stops these machines any more ($0.33 per hour)")
	w.bare(3)
	if now := w.podsByName(); fmt.Sprint(now) != fmt.Sprint(pods) {
		t.Errorf("pods ran on %v, and run on %v", pods, now)
	}
	// A controller that is installed later leaves them alone.
	next := w.start()
	w.pool("later", nil)
	w.poolReady("later")
	w.watchFor(10*time.Second, func() {
		if n := len(w.nodes()); n != 3 {
			t.Fatalf("%d nodes are left of 3\n%s", n, next.tail())
		}
	})
	w.must(w.DeleteAllOf(w, &appsv1.Deployment{}, client.InNamespace(metav1.NamespaceDefault), client.PropagationPolicy(metav1.DeletePropagationBackground)))
	w.must(w.DeleteAllOf(w, &corev1.Node{}))
}

// podsByName says where pods run.
func (w *world) podsByName() map[string]string {
	w.Helper()
	out := map[string]string{}
	for _, p := range w.pods() {
		out[p.Name] = p.Spec.NodeName
	}
	return out
}

// A controller that runs would terminate machines that lose their claims: it is scaled down first.
func TestKeepingMachinesStopsTheControllerFirst(t *testing.T) {
	w, controller := installed(t)
	d := w.deploymentOf(controller)
	stopped := make(chan struct{})
	go func() { // what a kubelet would do
		defer close(stopped)
		for w.Err() == nil {
			var now appsv1.Deployment
			if err := w.Get(w, client.ObjectKeyFromObject(d), &now); err == nil && *now.Spec.Replicas == 0 {
				controller.end(syscall.SIGTERM)
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
	}()
	text, status := w.uninstall("--keep-machines", "--yes")
	<-stopped
	if status != 0 {
		t.Errorf("status %d", status)
	}
	w.said(text, "scaled Deployment kube-system/karpenter to 0", "helm uninstall karpenter -n kube-system")
	w.bare(3)
	w.must(w.DeleteAllOf(w, &appsv1.Deployment{}, client.InNamespace(metav1.NamespaceDefault), client.PropagationPolicy(metav1.DeletePropagationBackground)))
	w.must(w.DeleteAllOf(w, &corev1.Node{}))
}

// deploymentOf makes the Deployment that would run a controller.
func (w *world) deploymentOf(*tenon) *appsv1.Deployment {
	w.Helper()
	labels := map[string]string{"app.kubernetes.io/name": "karpenter", "app.kubernetes.io/instance": "karpenter"}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "karpenter", Labels: labels}}
	d.Spec.Replicas, d.Spec.Selector = new(int32), &metav1.LabelSelector{MatchLabels: labels}
	*d.Spec.Replicas = 1
	d.Spec.Template.Labels = labels
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "controller", Image: "controller"}}
	w.must(w.Create(w, d))
	w.Cleanup(func() { w.must(client.IgnoreNotFound(w.Delete(w, d))) })
	return d
}

// changeDeployment names the service account of a Deployment.
func (w *world) changeDeployment(d *appsv1.Deployment, account string) {
	w.Helper()
	before := client.MergeFrom(d.DeepCopy())
	d.Spec.Template.Spec.ServiceAccountName = account
	w.must(w.Patch(w, d, before))
}

func TestUninstallNamesWhatOthersHold(t *testing.T) {
	w, _ := installed(t)
	const theirs = "example.com/hold"
	held := w.claims()[0]
	before := client.MergeFrom(held.DeepCopy())
	held.Finalizers = append(held.Finalizers, theirs)
	w.must(w.Patch(w, &held, before))
	text, status := w.uninstall("--yes")
	w.said(text, "NodeClaim "+held.Name+", which is held by "+theirs)
	if status != 1 {
		t.Errorf("status %d", status)
	}
	w.must(w.Get(w, client.ObjectKeyFromObject(&held), &held))
	if len(held.Finalizers) != 1 || held.Finalizers[0] != theirs {
		t.Errorf("finalizers %q", held.Finalizers)
	}
	before = client.MergeFrom(held.DeepCopy())
	held.Finalizers = nil
	w.must(w.Patch(w, &held, before))
}

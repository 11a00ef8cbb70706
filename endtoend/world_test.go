package endtoend_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"tenon.sh/api/kwokv1alpha1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/cli"
	"tenon.sh/cluster"
	"tenon.sh/deploy"
	"tenon.sh/playground"
	"tenon.sh/playground/playgroundtest"
	"tenon.sh/provider/aws/awstest"
)

// asTenon makes this test binary behave as the tenon command, so that the controller is a process of its own.
const asTenon = "TENON_ENDTOEND_COMMAND"

// logsIn names a folder that keeps the controllers' logs; without it they go with the test.
const logsIn = "TENON_LOGS"

func TestMain(m *testing.M) {
	playgroundtest.KeepProgram()
	if os.Getenv(asTenon) != "" {
		os.Exit(cli.Main())
	}
	os.Exit(awstest.Run(withControlPlane{m}))
}

// withControlPlane runs the tests with a control plane for those that ask for one.
type withControlPlane struct{ *testing.M }

// Run runs them. What controllers ask for is audited, unless something is measured.
func (m withControlPlane) Run() int {
	flag.Parse()
	return playgroundtest.RunWith(m.M, playground.Config{Audit: flag.Lookup("test.bench").Value.String() == ""})
}

// world is the shared control plane, seen by one test.
type world struct {
	testing.TB
	context.Context
	client.Client
	playground *playground.Playground
	// corner names the pool to which this view of the world is confined; empty for the whole.
	corner string
	// environment is what commands find in theirs beside that of the test.
	environment []string
	// program is what controllers run, this test binary by default.
	program string
}

func newWorld(t testing.TB) *world {
	t.Helper()
	return worldOn(t, playgroundtest.Get(t))
}

// worldOn is the world of another control plane than the shared one.
func worldOn(t testing.TB, p *playground.Playground) *world {
	t.Helper()
	patience := 10 * time.Minute
	if _, measures := t.(*testing.B); measures {
		patience = 4 * time.Hour
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	if err := cluster.ApplyCRDs(ctx, p.RESTConfig()); err != nil {
		t.Fatal(err)
	}
	scheme := cluster.Scheme()
	if err := errors.Join(batchv1.AddToScheme(scheme), schedulingv1.AddToScheme(scheme), rbacv1.AddToScheme(scheme), admissionv1.AddToScheme(scheme), discoveryv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(p.RESTConfig(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{TB: t, Context: ctx, Client: c, playground: p, program: os.Args[0]}
	t.Cleanup(w.clear)
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// until waits for the condition, and fails with what it says if it does not come true in time. Looking takes a fifth of the time
// at most: what is looked at shall not be busy with being looked at.
func (w *world) until(patience time.Duration, condition func() (bool, string)) {
	w.Helper()
	start := time.Now()
	for {
		began := time.Now()
		ok, state := condition()
		if ok {
			return
		}
		if waited := time.Since(start); waited > patience || w.Err() != nil {
			w.Fatalf("after %v: %s", waited.Round(time.Second), state)
		}
		select {
		case <-w.Done():
		case <-time.After(max(50*time.Millisecond, 4*time.Since(began))):
		}
	}
}

// play does again and again, until the test ends, what some part of a cluster does that is not there. An error fails the test and ends it.
func (w *world) play(what string, step func() error) {
	end, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-end:
				return
			case <-time.After(200 * time.Millisecond):
			}
			if err := step(); err != nil && w.Err() == nil {
				w.Errorf("%s: %v", what, err)
				return
			}
		}
	}()
	w.Cleanup(func() { close(end); <-done })
}

// tenon is a running controller.
type tenon struct {
	*exec.Cmd
	ended   chan struct{} // closed when the process has ended
	log     string
	metrics string
	health  string
}

// start runs a controller, with the rights of its settings, until it is stopped or the test ends. It returns when the controller is ready.
func (w *world) start(args ...string) *tenon {
	w.Helper()
	t := w.launch(w.account(args...), args...)
	w.until(time.Minute, func() (bool, string) {
		select {
		case <-t.ended:
			w.Fatalf("the controller ended before it was ready:\n%s", t.tail())
		default:
		}
		response, err := http.Get(t.health + "/readyz")
		if err != nil {
			return false, err.Error() + "\n" + t.tail()
		}
		defer response.Body.Close()
		return response.StatusCode == http.StatusOK, response.Status + "\n" + t.tail()
	})
	return t
}

// launch is start with a kubeconfig of any rights, for a controller that may never be ready.
func (w *world) launch(kubeconfig string, args ...string) *tenon {
	w.Helper()
	metrics, health := strconv.Itoa(playgroundtest.FreePort(w.TB)), strconv.Itoa(playgroundtest.FreePort(w.TB))
	dir := os.Getenv(logsIn)
	if dir == "" {
		dir = w.TempDir()
	}
	file, err := os.Create(filepath.Join(dir, "tenon-"+metrics+".log"))
	w.must(err)
	defer file.Close()
	all := append([]string{"controller", "--kubeconfig", kubeconfig, "--leader-election-namespace", deploy.Namespace,
		"--metrics-port", metrics, "--health-probe-port", health}, args...)
	c := exec.Command(w.program, all...)
	c.Env = append(append(os.Environ(), asTenon+"=1"), w.environment...)
	c.Stdout, c.Stderr = file, file
	w.must(c.Start())
	t := &tenon{Cmd: c, ended: make(chan struct{}), log: file.Name(), metrics: "http://127.0.0.1:" + metrics, health: "http://127.0.0.1:" + health}
	go func() {
		_ = c.Wait()
		close(t.ended)
	}()
	w.Cleanup(func() {
		t.end(syscall.SIGTERM)
		if w.Failed() {
			w.Logf("the end of the controller's log:\n%s", t.tail())
		}
	})
	return t
}

// account is a kubeconfig with the rights that Tenon has in a real cluster, where it is started with these flags.
func (w *world) account(args ...string) string {
	w.Helper()
	for _, file := range []string{"rbac/rbac.yaml", "rbac/settings.yaml"} {
		manifests, err := deploy.RBAC.ReadFile(file)
		w.must(err)
		for _, text := range strings.Split(string(manifests), "\n---\n") {
			object := &unstructured.Unstructured{}
			w.must(yaml.Unmarshal([]byte(text), &object.Object))
			if setting, labelled := object.GetLabels()[deploy.RightsFor]; labelled && !needsRights(args, setting) { // an earlier controller may have had them
				w.must(client.IgnoreNotFound(w.Delete(w, object)))
				continue
			}
			w.must(w.Apply(w, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("test"), client.ForceOwnership))
		}
	}
	path, err := w.playground.UserKubeconfig("system:serviceaccount:"+deploy.Namespace+":"+deploy.ServiceAccount, "system:serviceaccounts")
	w.must(err)
	return path
}

// needsRights reports whether a controller with these flags needs the rights for a setting.
func needsRights(args []string, setting string) bool {
	flag := map[string]string{"Devices": "--ignore-dra-requests=false", "ClusterAutoscaler": "--cluster-autoscaler-grace="}[setting]
	return strings.Contains(strings.Join(args, " "), cmp.Or(flag, setting+"=true"))
}

// end sends the signal and waits for the process to end.
func (t *tenon) end(signal syscall.Signal) {
	_ = t.Process.Signal(signal)
	<-t.ended
}

func (t *tenon) tail() string {
	text, _ := os.ReadFile(t.log)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-25):], "\n")
}

// pool makes a node class and a pool of machines below 32 cpu, on-demand.
func (w *world) pool(name string, change func(*v1.NodePool)) {
	w.Helper()
	class := &kwokv1alpha1.KWOKNodeClass{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	w.must(client.IgnoreAlreadyExists(w.Create(w, class)))
	pool := &v1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: w.cornerLabels()}}
	pool.Spec.Template.Spec.NodeClassRef = &v1.NodeClassReference{Group: "karpenter.kwok.sh", Kind: "KWOKNodeClass", Name: "default"}
	pool.Spec.Template.Spec.Requirements = []v1.Requirement{
		{Key: corev1.LabelOSStable, Operator: v1.In, Values: []string{"linux"}},
		{Key: corev1.LabelArchStable, Operator: v1.In, Values: []string{"amd64"}},
		{Key: v1.CapacityTypeLabelKey, Operator: v1.In, Values: []string{"on-demand"}},
		{Key: "karpenter.kwok.sh/instance-cpu", Operator: v1.Lt, Values: []string{"32"}},
	}
	pool.Spec.Disruption.ConsolidateAfter = v1.DurationOf(30 * time.Second)
	pool.Spec.Disruption.Budgets = []v1.Budget{{Nodes: "100%"}}
	if change != nil {
		change(pool)
	}
	w.must(w.Create(w, pool))
}

// deploy makes a Deployment of pause pods.
func (w *world) deploy(name string, replicas int32, cpu, memory string) {
	w.Helper()
	labels := map[string]string{"app": name}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
	d.Spec.Replicas = &replicas
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	d.Spec.Template.Labels = maps.Clone(labels)
	w.settle(d)
	grace := int64(0)
	d.Spec.Template.Spec.TerminationGracePeriodSeconds = &grace
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "pause", Image: "registry.k8s.io/pause:3.10", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)},
	}}}
	w.must(w.Create(w, d))
}

func (w *world) scale(name string, replicas int32) {
	w.Helper()
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
	w.must(w.Patch(w, d, client.RawPatch("application/merge-patch+json", patch)))
}

func (w *world) pods() []corev1.Pod {
	w.Helper()
	var list corev1.PodList
	w.must(w.List(w, &list, append(w.cornerOnly(&list), client.InNamespace("default"))...))
	return list.Items
}

func (w *world) claims() []v1.NodeClaim {
	w.Helper()
	var list v1.NodeClaimList
	w.must(w.List(w, &list, w.cornerOnly(&list)...))
	return list.Items
}

func (w *world) nodes() []corev1.Node {
	w.Helper()
	var list corev1.NodeList
	w.must(w.List(w, &list, w.cornerOnly(&list)...))
	return list.Items
}

// running waits until n pods are there and all of them run.
func (w *world) running(n int, patience time.Duration) {
	w.Helper()
	w.until(patience, func() (bool, string) {
		running := 0
		for _, pod := range w.pods() {
			if pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil {
				running++
			}
		}
		if running == n {
			return true, ""
		}
		return false, fmt.Sprintf("%d of %d pods run, on %d nodes for %d claims\n%s", running, n, len(w.nodes()), len(w.claims()), w.waiting(3))
	})
}

// waiting describes some of the pods that do not run.
func (w *world) waiting(n int) string {
	var lines []string
	for _, pod := range w.pods() {
		if pod.Status.Phase == corev1.PodRunning || len(lines) == n {
			continue
		}
		lines = append(lines, fmt.Sprintf("%s %s: on %q, nominated to %q, %+v", pod.Name, pod.Status.Phase, pod.Spec.NodeName, pod.Status.NominatedNodeName, pod.Status.Conditions))
	}
	return strings.Join(lines, "\n")
}

// clear removes everything that the test made, with the help of a controller if there are machines left.
func (w *world) clear() {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	w.Context = ctx
	background := client.PropagationPolicy(metav1.DeletePropagationBackground)
	w.must(w.DeleteAllOf(w, &appsv1.Deployment{}, client.InNamespace("default"), background))
	w.must(w.DeleteAllOf(w, &v1.NodePool{}, background))
	w.must(w.DeleteAllOf(w, &v1.NodeClaim{}))
	if len(w.claims()) > 0 || len(w.nodes()) > 0 {
		helper := w.start()
		defer helper.end(syscall.SIGTERM)
	}
	w.until(2*time.Minute, func() (bool, string) {
		pods, nodes, claims := len(w.pods()), len(w.nodes()), len(w.claims())
		return pods+nodes+claims == 0, fmt.Sprintf("%d pods, %d nodes, %d claims are left", pods, nodes, claims)
	})
	var classes kwokv1alpha1.KWOKNodeClassList
	w.must(w.List(w, &classes))
	for i := range classes.Items { // nobody need be there to take their finalizers off
		class := &classes.Items[i]
		before := client.MergeFrom(class.DeepCopy())
		class.Finalizers = nil
		w.must(client.IgnoreNotFound(w.Patch(w, class, before)))
		w.must(client.IgnoreNotFound(w.Delete(w, class)))
	}
}

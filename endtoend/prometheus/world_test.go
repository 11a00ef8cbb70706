package prometheus_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "tenon.sh/api/v1"
	"tenon.sh/cli"
	"tenon.sh/cluster"
	"tenon.sh/deploy"
	"tenon.sh/playground"
	"tenon.sh/playground/playgroundtest"
	"tenon.sh/provider/aws/awstest"
)

const (
	// asTenon makes this test binary behave as the tenon command, so that the controller is a process of its own.
	asTenon = "TENON_ENDTOEND_COMMAND"
	// logsIn names a folder that keeps the logs; without it they go with the test.
	logsIn = "TENON_LOGS"
)

func TestMain(m *testing.M) {
	playgroundtest.KeepProgram()
	if os.Getenv(asTenon) != "" {
		os.Exit(cli.Main())
	}
	flag.Parse()
	// Troubles take their time and little else, and are all there at once.
	if err := flag.Set("test.parallel", "20"); err != nil {
		panic(err)
	}
	os.Exit(awstest.Run(withControlPlane{m}))
}

// withControlPlane runs the tests with a control plane for those that ask for one.
type withControlPlane struct{ *testing.M }

// Run runs them.
func (m withControlPlane) Run() int { return playgroundtest.Run(m.M) }

// world is the shared control plane, seen by one test.
type world struct {
	testing.TB
	context.Context
	client.Client
	playground *playground.Playground
}

func newWorld(t testing.TB) *world {
	t.Helper()
	p := playgroundtest.Get(t)
	ctx, cancel := context.WithTimeout(context.Background(), 8*time.Minute)
	t.Cleanup(cancel)
	if err := cluster.ApplyCRDs(ctx, p.RESTConfig()); err != nil {
		t.Fatal(err)
	}
	scheme := cluster.Scheme()
	if err := rbacv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(p.RESTConfig(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{TB: t, Context: ctx, Client: c, playground: p}
	w.host()
	return w
}

// in is the same world, seen by a part of the test.
func (w *world) in(t testing.TB) *world {
	part := *w
	part.TB = t
	return &part
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// until waits for the condition, and fails with what it says if it does not come true in time.
func (w *world) until(patience time.Duration, condition func() (bool, string)) {
	w.Helper()
	for deadline := time.Now().Add(patience); ; {
		ok, state := condition()
		if ok {
			return
		}
		if time.Now().After(deadline) || w.Err() != nil {
			w.Fatalf("after %v: %s", patience, state)
		}
		select {
		case <-w.Done():
		case <-time.After(300 * time.Millisecond):
		}
	}
}

// pause lets the trouble go on before there is more of it.
func (w *world) pause(d time.Duration) {
	select {
	case <-w.Done():
	case <-time.After(d):
	}
}

// logFile is where a program writes its log.
func (w *world) logFile(name string) string {
	dir := os.Getenv(logsIn)
	if dir == "" {
		dir = w.TempDir()
	}
	return filepath.Join(dir, name)
}

// host makes the node that Tenon's own pod runs on, which is nobody's machine.
func (w *world) host() {
	w.Helper()
	amounts := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("16Gi"), corev1.ResourcePods: resource.MustParse("10")}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "host", Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"},
		Labels: map[string]string{corev1.LabelHostname: "host", corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64", corev1.LabelTopologyZone: "system-1"},
	}}
	node.Spec.Taints = []corev1.Taint{{Key: "CriticalAddonsOnly", Effect: corev1.TaintEffectNoSchedule}}
	node.Status.Capacity, node.Status.Allocatable = amounts, amounts
	w.must(client.IgnoreAlreadyExists(w.Create(w, node.DeepCopy())))
	w.until(30*time.Second, func() (bool, string) {
		var got corev1.Node
		w.must(w.Get(w, client.ObjectKeyFromObject(node), &got))
		for _, c := range got.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
				return true, ""
			}
		}
		return false, fmt.Sprintf("node host is not ready: %+v", got.Status.Conditions)
	})
}

// tenon is a controller that can be killed and started again.
type tenon struct {
	*playgroundtest.Program
	metrics int // port
}

// startTenon runs a controller with the rights that it has in a real cluster, until the test ends.
func (w *world) startTenon(flags ...string) *tenon {
	w.Helper()
	for _, o := range w.readObjects("../../deploy/rbac/rbac.yaml") {
		w.apply(o)
	}
	account, err := w.playground.UserKubeconfig("system:serviceaccount:"+deploy.Namespace+":"+deploy.ServiceAccount, "system:serviceaccounts")
	w.must(err)
	return w.startController(append(flags, "--kubeconfig", account), nil)
}

// startController is startTenon with any account, and with further variables.
func (w *world) startController(flags, variables []string) *tenon {
	w.Helper()
	metrics, health := playgroundtest.FreePort(w.TB), strconv.Itoa(playgroundtest.FreePort(w.TB))
	t := &tenon{metrics: metrics, Program: &playgroundtest.Program{
		Name: "tenon", Path: os.Args[0], Env: append(variables, asTenon+"=1"), Log: w.logFile(fmt.Sprintf("tenon-%d.log", metrics)), Health: "http://127.0.0.1:" + health + "/readyz",
		Args: append([]string{"controller", "--leader-election-namespace", deploy.Namespace, "--metrics-port", strconv.Itoa(metrics), "--health-probe-port", health}, flags...),
	}}
	w.must(w.again(t))
	w.Cleanup(t.Kill)
	return t
}

// again starts the controller again.
func (w *world) again(t *tenon) error {
	ctx, cancel := context.WithTimeout(w, time.Minute)
	defer cancel()
	return t.Start(ctx)
}

// claims lists the machines of a pool.
func (w *world) claims(pool string) []v1.NodeClaim {
	w.Helper()
	var list v1.NodeClaimList
	w.must(w.List(w, &list, client.MatchingLabels{v1.NodePoolLabelKey: pool}))
	return list.Items
}

// awaitPods waits until n pods of an app are there and all of them run.
func (w *world) awaitPods(app string, n int, patience time.Duration) {
	w.Helper()
	w.until(patience, func() (bool, string) {
		var pods corev1.PodList
		w.must(w.List(w, &pods, client.InNamespace("default"), client.MatchingLabels{"app": app}))
		running := 0
		for _, p := range pods.Items {
			if p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
				running++
			}
		}
		return running == n && len(pods.Items) == n, fmt.Sprintf("%d of %d pods of %s run, %d are there", running, n, app, len(pods.Items))
	})
}

// linesWith are the lines of a log that hold the text.
func (w *world) linesWith(log, text string) (lines []string) {
	w.Helper()
	all, err := os.ReadFile(log)
	w.must(err)
	for line := range strings.Lines(string(all)) {
		if strings.Contains(line, text) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

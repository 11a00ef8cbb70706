package keda_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "tenon.sh/api/v1"
	"tenon.sh/cli"
	"tenon.sh/cluster"
	"tenon.sh/playground"
	"tenon.sh/playground/playgroundtest"
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
	os.Exit(playgroundtest.Run(m))
}

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
	ctx, cancel := context.WithTimeout(context.Background(), 6*time.Minute)
	t.Cleanup(cancel)
	if err := cluster.ApplyCRDs(ctx, p.RESTConfig()); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(p.RESTConfig(), client.Options{Scheme: cluster.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	return &world{TB: t, Context: ctx, Client: c, playground: p}
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
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// startTenon runs a controller with EC2's machines until the test ends, and returns the path of its log when it is ready.
func (w *world) startTenon() (log string) {
	w.Helper()
	health := strconv.Itoa(playgroundtest.FreePort(w.TB))
	dir := os.Getenv(logsIn)
	if dir == "" {
		dir = w.TempDir()
	}
	p := &playgroundtest.Program{
		Name: "tenon", Path: os.Args[0], Env: []string{asTenon + "=1"}, Log: filepath.Join(dir, "tenon-"+health+".log"), Health: "http://127.0.0.1:" + health + "/readyz",
		Args: []string{
			"controller", "--kubeconfig", w.playground.Kubeconfig(), "--disable-leader-election",
			"--metrics-port", "0", "--health-probe-port", health, "--catalog", "aws", "--boot-delay", "3s",
		},
	}
	ctx, cancel := context.WithTimeout(w, time.Minute)
	defer cancel()
	w.must(p.Start(ctx))
	w.Cleanup(p.Kill)
	return p.Log
}

// tenonNodes is what tenon nodes prints.
func (w *world) tenonNodes() string {
	w.Helper()
	c := exec.Command(os.Args[0], "nodes", "--kubeconfig", w.playground.Kubeconfig())
	c.Env = append(os.Environ(), asTenon+"=1")
	out, err := c.Output()
	w.must(err)
	return string(out)
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
		return running == n && len(pods.Items) == n, fmt.Sprintf("%d of %d pods of %s run, %d are there; machines: %d", running, n, app, len(pods.Items), len(w.claims("queue")))
	})
}

// errorsIn are the lines of errors in Tenon's log.
func (w *world) errorsIn(log string) (lines []string) {
	w.Helper()
	text, err := os.ReadFile(log)
	w.must(err)
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, `"level":"ERROR"`) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

package clusterautoscaler_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "tenon.sh/api/v1"
	"tenon.sh/cli"
	"tenon.sh/cluster"
	"tenon.sh/deploy"
	"tenon.sh/playground"
	"tenon.sh/playground/playgroundtest"
)

const (
	// asTenon makes this test binary behave as the tenon command, so that the controller is a process of its own.
	asTenon = "TENON_ENDTOEND_COMMAND"
	// logsIn names a folder that keeps the logs; without it they go with the test.
	logsIn = "TENON_LOGS"
	// account is what Tenon runs as.
	account = "system:serviceaccount:" + deploy.Namespace + ":" + deploy.ServiceAccount
)

// snapshotAccount is what the chart makes with snapshotAccount.create: commands read the controller's catalog with it.
const snapshotAccount = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: tenon-snapshot, namespace: kube-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: tenon-snapshot}
rules: [{nonResourceURLs: [/snapshot/catalog], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: tenon-snapshot}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: tenon-snapshot}
subjects: [{kind: ServiceAccount, name: tenon-snapshot, namespace: kube-system}]
`

func TestMain(m *testing.M) {
	playgroundtest.KeepProgram()
	if os.Getenv(asTenon) != "" {
		os.Exit(cli.Main())
	}
	os.Exit(playgroundtest.RunWith(m, playground.Config{Audit: true}))
}

// world is the shared control plane, seen by one test.
type world struct {
	testing.TB
	context.Context
	client.Client
	playground *playground.Playground
	catalog    string // where the controller serves it
}

func newWorld(t testing.TB) *world {
	t.Helper()
	p := playgroundtest.Get(t)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
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

// startTenon runs a controller with EC2's machines and the rights of the manifests until the test ends, and returns the path of its
// log when it is ready.
func (w *world) startTenon(args ...string) (log string) {
	w.Helper()
	manifests, err := deploy.RBAC.ReadFile("rbac/rbac.yaml")
	w.must(err)
	w.applyAll(w.objectsIn(manifests))
	w.applyAll(w.objectsIn([]byte(snapshotAccount)))
	kubeconfig, err := w.playground.UserKubeconfig(account, "system:serviceaccounts")
	w.must(err)
	metrics, health := strconv.Itoa(playgroundtest.FreePort(w.TB)), strconv.Itoa(playgroundtest.FreePort(w.TB))
	dir := os.Getenv(logsIn)
	if dir == "" {
		dir = w.TempDir()
	}
	p := &playgroundtest.Program{
		Name: "tenon", Path: os.Args[0], Env: []string{asTenon + "=1"}, Log: filepath.Join(dir, "tenon-"+health+".log"), Health: "http://127.0.0.1:" + health + "/readyz",
		Args: append([]string{
			"controller", "--kubeconfig", kubeconfig, "--leader-election-namespace", deploy.Namespace,
			"--metrics-port", metrics, "--health-probe-port", health, "--catalog", "aws", "--boot-delay", "3s",
		}, args...),
	}
	ctx, cancel := context.WithTimeout(w, time.Minute)
	defer cancel()
	w.must(p.Start(ctx))
	w.Cleanup(func() {
		p.Kill()
		// A killed leader's Lease lasts for a while: the next test's controller need not wait for that.
		w.must(w.DeleteAllOf(w, &coordinationv1.Lease{}, client.InNamespace(deploy.Namespace), client.MatchingFields{"metadata.name": "karpenter-leader-election"}))
	})
	w.catalog = "https://127.0.0.1:" + metrics + "/snapshot/catalog"
	return p.Log
}

// tenon is what a command says that reads the cluster and the controller's catalog, whatever its exit status.
func (w *world) tenon(args ...string) string {
	w.Helper()
	var out bytes.Buffer
	c := exec.CommandContext(w, os.Args[0], append(args, "--kubeconfig", w.playground.Kubeconfig(), "--catalog-url", w.catalog)...)
	c.Env = append(os.Environ(), asTenon+"=1")
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	if _, failed := errors.AsType[*exec.ExitError](err); err != nil && !failed {
		w.Fatal(err)
	}
	w.Logf("tenon %s:\n%s", strings.Join(args, " "), &out)
	return out.String()
}

// wants fails if a text lacks any of the words.
func (w *world) wants(text string, words ...string) {
	w.Helper()
	for _, word := range words {
		if !strings.Contains(text, word) {
			w.Errorf("%q is not in:\n%s", word, text)
		}
	}
}

// example is what a file of the guide holds.
func (w *world) example(file string) []*unstructured.Unstructured {
	w.Helper()
	text, err := os.ReadFile(filepath.Join("../../examples/cluster-autoscaler", file))
	w.must(err)
	return w.objectsIn(text)
}

func (w *world) objectsIn(text []byte) (objects []*unstructured.Unstructured) {
	w.Helper()
	for decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
		o := &unstructured.Unstructured{}
		if err := decoder.Decode(&o.Object); errors.Is(err, io.EOF) {
			return objects
		} else if err != nil {
			w.Fatal(err)
		}
		if len(o.Object) > 0 {
			objects = append(objects, o)
		}
	}
}

// applyAll applies objects as kubectl apply --server-side does.
func (w *world) applyAll(objects []*unstructured.Unstructured) {
	w.Helper()
	for _, o := range objects {
		if err := w.Apply(w, client.ApplyConfigurationFromUnstructured(o.DeepCopy()), client.FieldOwner("test"), client.ForceOwnership); err != nil {
			w.Fatalf("apply %s %s: %v", o.GetKind(), o.GetName(), err)
		}
	}
}

// removeAll deletes objects while the controller runs, and waits until they are gone.
func (w *world) removeAll(objects []*unstructured.Unstructured) {
	w.Helper()
	for _, o := range slices.Backward(objects) {
		w.must(client.IgnoreNotFound(w.Delete(w, o.DeepCopy())))
		w.until(time.Minute, func() (bool, string) {
			err := w.Get(w, client.ObjectKeyFromObject(o), o.DeepCopy())
			return apierrors.IsNotFound(err), fmt.Sprintf("%s %s is still there", o.GetKind(), o.GetName())
		})
	}
}

func (w *world) scale(deployment string, replicas int32) {
	w.Helper()
	d := &appsv1.Deployment{}
	w.must(w.Get(w, client.ObjectKey{Namespace: "default", Name: deployment}, d))
	before := d.DeepCopy()
	d.Spec.Replicas = &replicas
	w.must(w.Patch(w, d, client.MergeFrom(before)))
}

// claims lists the machines of a pool.
func (w *world) claims(pool string) []v1.NodeClaim {
	w.Helper()
	var list v1.NodeClaimList
	w.must(w.List(w, &list, client.MatchingLabels{v1.NodePoolLabelKey: pool}))
	return list.Items
}

// pods are those of an app that are not going, by name.
func (w *world) pods(app string) (out []corev1.Pod) {
	w.Helper()
	var list corev1.PodList
	w.must(w.List(w, &list, client.InNamespace("default"), client.MatchingLabels{"app": app}))
	for _, p := range list.Items {
		if p.DeletionTimestamp == nil {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// waiting are the names of the app's pods that kube-scheduler has found no node for.
func (w *world) waiting(app string) (names []string) {
	w.Helper()
	for _, p := range w.pods(app) {
		if p.Spec.NodeName == "" && unschedulable(&p) {
			names = append(names, p.Name)
		}
	}
	return names
}

// awaitWaiting waits until n pods of an app wait for a node.
func (w *world) awaitWaiting(app string, n int) {
	w.Helper()
	w.until(time.Minute, func() (bool, string) {
		got := w.waiting(app)
		return len(got) == n, fmt.Sprintf("of %s wait %v, want %d", app, got, n)
	})
}

// awaitRunning waits until the app has n pods and all of them run, all on nodes whose name begins so.
func (w *world) awaitRunning(app string, n int, patience time.Duration) {
	w.Helper()
	w.until(patience, func() (bool, string) {
		pods := w.pods(app)
		running := 0
		for _, p := range pods {
			if p.Status.Phase == corev1.PodRunning {
				running++
			}
		}
		return running == n && len(pods) == n, fmt.Sprintf("%d of %d pods of %s run, %d are there", running, n, app, len(pods))
	})
}

// audited is how long the audit log is.
func (w *world) audited() int64 {
	w.Helper()
	file, err := os.Stat(w.playground.AuditLog())
	if errors.Is(err, os.ErrNotExist) {
		return 0
	}
	w.must(err)
	return file.Size()
}

// written are the nodes that Tenon's account has written since the audit log was so long, and what it was refused.
func (w *world) written(since int64) (nodes map[string]bool, refused []string) {
	w.Helper()
	file, err := os.Open(w.playground.AuditLog())
	w.must(err)
	defer file.Close()
	_, err = file.Seek(since, io.SeekStart)
	w.must(err)
	nodes = map[string]bool{}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e auditv1.Event
		w.must(json.Unmarshal(lines.Bytes(), &e))
		if e.User.Username != account || e.ObjectRef == nil {
			continue
		}
		if e.Annotations["authorization.k8s.io/decision"] != "allow" {
			refused = append(refused, e.Verb+" "+e.ObjectRef.Resource)
		}
		if e.ObjectRef.Resource == "nodes" && slices.Contains([]string{"create", "patch", "update", "delete"}, e.Verb) {
			nodes[e.ObjectRef.Name] = true
		}
	}
	w.must(lines.Err())
	return nodes, refused
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

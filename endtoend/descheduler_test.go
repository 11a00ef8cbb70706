package endtoend_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tenon.sh/playground/playgroundtest"
)

// The descheduler looks every few seconds. Whether it spreads or packs, it and consolidation come to rest: after the number of pods has
// changed, each is moved twice at most on average, and then none is.
func TestTheDeschedulerAndConsolidationComeToRest(t *testing.T) {
	for _, policy := range []string{"low", "high"} {
		t.Run(policy, func(t *testing.T) {
			w := newWorld(t)
			w.start()
			w.applyFile("../examples/descheduler/nodepool.yaml")
			web := w.applyFile("../examples/descheduler/web.yaml")
			t.Cleanup(func() { _ = w.Delete(w, web[1]) }) // its budget
			w.running(24, 2*time.Minute)
			descheduler := w.startDescheduler("../examples/descheduler/" + policy + ".yaml")
			made := w.countMade("web")
			for _, n := range []int32{48, 12} {
				before, evicted := made(), w.evictedBy(descheduler)
				added := max(0, int(n)-len(w.pods()))
				w.scale("web", n)
				w.running(int(n), time.Minute)
				w.quiet(15*time.Second, 90*time.Second)
				moved := made() - before - added
				t.Logf("%d pods on %d machines: %d were moved, %d of them by the descheduler", n, len(w.claims()), moved, w.evictedBy(descheduler)-evicted)
				if moved > 2*int(n) {
					t.Errorf("pods were moved %d times, more than twice each", moved)
				}
				w.watchFor(12*time.Second, func() {
					if now := made() - before - added; now != moved {
						t.Fatalf("%d pods were moved, and then %d more", moved, now-moved)
					}
				})
			}
		})
	}
}

// countMade counts the pods of an app that are made from now on.
func (w *world) countMade(app string) func() int {
	w.Helper()
	var mu sync.Mutex
	made := 0
	w.follow(&corev1.PodList{}, func(kind watch.EventType, o client.Object) {
		if kind == watch.Added && o.GetLabels()["app"] == app {
			mu.Lock()
			defer mu.Unlock()
			made++
		}
	})
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return made
	}
}

// evictedBy is how many pods the descheduler has evicted, by its log.
func (w *world) evictedBy(p *playgroundtest.Program) int {
	w.Helper()
	text, err := os.ReadFile(p.Log)
	w.must(err)
	return strings.Count(string(text), `"Evicted pod"`)
}

// applyFile applies the documents of a file.
func (w *world) applyFile(file string) []*unstructured.Unstructured {
	w.Helper()
	objects := w.manifests(file)
	for _, o := range objects {
		if kind := o.GetKind(); (kind == "Role" || kind == "RoleBinding") && o.GetNamespace() == "" {
			o.SetNamespace("kube-system") // as the descheduler's kustomization says
		}
		w.must(w.Apply(w, client.ApplyConfigurationFromUnstructured(o.DeepCopy()), client.FieldOwner("kubectl"), client.ForceOwnership))
	}
	return objects
}

// startDescheduler runs the descheduler every 5 s until the test ends, with the rights that its manifests grant and a policy.
func (w *world) startDescheduler(file string) *playgroundtest.Program {
	w.Helper()
	command := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/descheduler")
	command.Dir = "descheduler/program"
	folder, err := command.Output()
	w.must(err)
	w.applyFile(filepath.Join(strings.TrimSpace(string(folder)), "kubernetes/base/rbac.yaml"))
	text, _, err := unstructured.NestedString(w.applyFile(file)[0].Object, "data", "policy.yaml")
	w.must(err)
	dir := w.TempDir()
	policy := filepath.Join(dir, "policy.yaml")
	w.must(os.WriteFile(policy, []byte(text), 0o600))
	kubeconfig, err := w.playground.UserKubeconfig("system:serviceaccount:kube-system:descheduler-sa", "system:serviceaccounts")
	w.must(err)
	path, err := playgroundtest.FindProgram("..", "descheduler", "descheduler")
	w.must(err)
	port := playgroundtest.FreePort(w.TB)
	p := &playgroundtest.Program{
		Name: "descheduler", Path: path, Log: filepath.Join(dir, "descheduler.log"), Health: fmt.Sprintf("https://127.0.0.1:%d/healthz", port),
		Args: []string{"--client-connection-kubeconfig", kubeconfig, "--policy-config-file", policy, "--descheduling-interval", "5s", "--v", "1",
			"--bind-address", "127.0.0.1", "--secure-port", fmt.Sprint(port), "--cert-dir", dir},
	}
	ctx, cancel := context.WithTimeout(w, time.Minute)
	defer cancel()
	w.must(p.Start(ctx))
	w.Cleanup(p.Kill)
	return p
}

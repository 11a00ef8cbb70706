package azure_test

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	v1 "tenon.sh/api/v1"
	"tenon.sh/cli"
	kinds "tenon.sh/cluster"
	"tenon.sh/playground"
	"tenon.sh/playground/playgroundtest"
	"tenon.sh/provider/azure/azuretest"
)

func TestMain(m *testing.M) {
	if os.Getenv(asTenon) != "" {
		os.Exit(cli.Main())
	}
	os.Exit(playgroundtest.Run(m))
}

// world is a control plane and a subscription of Azure.
type world struct {
	testing.TB
	context.Context
	client.Client
	*azuretest.Subscription
	playground *playground.Playground
	joiner     *joiner
	subnet     string
	version    string // of the API server
	// flags and variables are those of controllers beside the ones that all have.
	flags, variables []string
}

func newWorld(t testing.TB) *world {
	t.Helper()
	p := playgroundtest.Get(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	t.Cleanup(cancel)
	if os.Getenv(demo) != "" { // so that Ctrl-C leaves nothing running
		ctx, cancel = signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
		t.Cleanup(cancel)
	}
	if err := kinds.ApplyCRDs(ctx, p.RESTConfig()); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(p.RESTConfig(), client.Options{Scheme: kinds.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{TB: t, Context: ctx, Client: c, playground: p, Subscription: azuretest.New(t, clock.RealClock{})}
	w.ForbidAKS()
	w.Take(azuretest.Timing{Create: 400 * time.Millisecond, Delete: 400 * time.Millisecond, Lists: 200 * time.Millisecond, Graph: 500 * time.Millisecond})
	w.subnet = w.AddSubnet(azuretest.Group, "network", "machines", "10.1.0.0/16")
	w.AddImage(azuretest.Image{
		ID:       "/subscriptions/" + w.ID + "/resourceGroups/" + azuretest.Group + "/providers/Microsoft.Compute/galleries/own/images/ubuntu",
		Versions: []azuretest.Version{{Name: "1.0.0", Published: time.Now().Add(-time.Hour)}},
	})
	version, err := discovery.NewDiscoveryClientForConfigOrDie(p.RESTConfig()).ServerVersion()
	w.must(err)
	w.version = strings.TrimPrefix(version.GitVersion, "v")
	w.flags = []string{"--provision-mode", "userdata", "--join-tokens", "--cluster-endpoint", p.RESTConfig().Host}
	w.apply(kubeadmRights)
	w.joiner = join(w)
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// until waits for the condition, and fails with what it says if it does not come true in time.
func (w *world) until(patience time.Duration, condition func() (state string, ok bool)) {
	w.Helper()
	for deadline := time.Now().Add(patience); ; {
		state, ok := condition()
		if ok {
			return
		}
		if w.Err() != nil {
			w.Fatalf("interrupted: %s", state)
		}
		if time.Now().After(deadline) {
			w.Fatalf("after %v: %s", patience, state)
		}
		select {
		case <-w.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// apply applies manifests.
func (w *world) apply(manifests string) {
	w.Helper()
	for text := range strings.SplitSeq(manifests, "\n---\n") {
		object := &unstructured.Unstructured{}
		w.must(yaml.Unmarshal([]byte(text), &object.Object))
		w.must(w.Apply(w, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("test"), client.ForceOwnership))
	}
}

// applyFile applies the manifests of a file of this folder.
func (w *world) applyFile(path string) {
	w.Helper()
	text, err := os.ReadFile(path)
	w.must(err)
	w.apply(string(text))
}

func merge(patch string) client.Patch {
	return client.RawPatch(types.MergePatchType, []byte(patch))
}

func deployment(name string) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
}

func (w *world) scale(name string, replicas int) {
	w.Helper()
	w.must(w.Patch(w, deployment(name), merge(fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas))))
}

// pods lists those of a Deployment, all if it is "".
func (w *world) pods(app string) []corev1.Pod {
	w.Helper()
	var list corev1.PodList
	options := []client.ListOption{client.InNamespace("default")}
	if app != "" {
		options = append(options, client.MatchingLabels{"app": app})
	}
	w.must(w.List(w, &list, options...))
	return list.Items
}

// running lists the pods of a Deployment that run and stay.
func (w *world) running(app string) (out []corev1.Pod) {
	w.Helper()
	for _, p := range w.pods(app) {
		if p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
			out = append(out, p)
		}
	}
	return out
}

func (w *world) claims() []v1.NodeClaim {
	w.Helper()
	var list v1.NodeClaimList
	w.must(w.List(w, &list))
	return list.Items
}

func (w *world) nodes() []corev1.Node {
	w.Helper()
	var list corev1.NodeList
	w.must(w.List(w, &list))
	return list.Items
}

// machine is a machine by its name, nil if there is none.
func (w *world) machine(name string) *azuretest.Machine {
	for _, m := range w.Machines() {
		if m.Name == name {
			return &m
		}
	}
	return nil
}

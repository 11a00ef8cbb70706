package aws_test

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"tenon.sh/api/awsv1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/cli"
	"tenon.sh/cluster"
	"tenon.sh/playground"
	"tenon.sh/playground/playgroundtest"
	"tenon.sh/provider/aws/awstest"
)

// withCloud runs the tests with moto for those that ask.
type withCloud struct{ *testing.M }

func (w withCloud) Run() int { return awstest.Run(w.M) }

func TestMain(m *testing.M) {
	if os.Getenv(asTenon) != "" {
		os.Exit(cli.Main())
	}
	os.Exit(playgroundtest.Run(withCloud{m}))
}

// world is the shared control plane and an account of AWS of its own, seen by one test. Tests run one after another: every
// controller looks after all pods.
type world struct {
	testing.TB
	context.Context
	client.Client
	playground *playground.Playground
	// account is what the controller speaks to, observer the same without being counted.
	account, observer *awstest.Account
	queue             string // URL
}

func newWorld(t testing.TB) *world {
	t.Helper()
	account := awstest.New(t)
	p := playgroundtest.Get(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	t.Cleanup(cancel)
	if os.Getenv(demo) != "" { // so that Ctrl-C leaves nothing running
		ctx, cancel = signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
		t.Cleanup(cancel)
	}
	if err := cluster.ApplyCRDs(ctx, p.RESTConfig()); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(p.RESTConfig(), client.Options{Scheme: cluster.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{TB: t, Context: ctx, Client: c, playground: p, account: account, observer: account.Observer()}
	t.Cleanup(w.clear)
	w.queue = w.observer.Furnish()
	account.Join(p.RESTConfig())
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

// applyFile applies the manifests of a file of this repository. Tests run in the folder of their package.
func (w *world) applyFile(path string) {
	w.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", path))
	w.must(err)
	w.apply(string(text))
}

// mustBeReady waits for a class, and for the pools that use it.
func (w *world) mustBeReady(name string) {
	w.Helper()
	class, p := &awsv1.EC2NodeClass{}, pool(name)
	w.until(2*time.Minute, func() (string, bool) {
		w.must(w.Get(w, client.ObjectKey{Name: name}, class))
		w.must(w.Get(w, client.ObjectKey{Name: name}, p))
		return fmt.Sprintf("class and pool %s say %+v, %+v", name, class.Status.Conditions, p.Status.Conditions), v1.IsTrue(class, v1.ConditionReady) && v1.IsTrue(p, v1.ConditionReady)
	})
}

func pool(name string) *v1.NodePool {
	return &v1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func merge(patch string) client.Patch {
	return client.RawPatch(types.MergePatchType, []byte(patch))
}

func (w *world) scale(name string, replicas int) {
	w.Helper()
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	w.must(w.Patch(w, d, merge(fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas))))
}

func (w *world) pods() []corev1.Pod {
	w.Helper()
	var list corev1.PodList
	w.must(w.List(w, &list, client.InNamespace("default")))
	return list.Items
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

// running lists the pods that run and stay.
func (w *world) running() (out []corev1.Pod) {
	w.Helper()
	for _, p := range w.pods() {
		if p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
			out = append(out, p)
		}
	}
	return out
}

// clear removes everything from the cluster, in spite of finalizers: there is no controller any more, and the account goes too.
func (w *world) clear() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	w.Context = ctx
	w.must(w.DeleteAllOf(w, &appsv1.Deployment{}, client.InNamespace("default"), client.PropagationPolicy("Background")))
	w.must(w.DeleteAllOf(w, &corev1.Pod{}, client.InNamespace("default"), client.GracePeriodSeconds(0)))
	w.until(time.Minute, func() (string, bool) {
		left := 0
		for _, list := range []client.ObjectList{&v1.NodePoolList{}, &v1.NodeClaimList{}, &awsv1.EC2NodeClassList{}, &corev1.NodeList{}} {
			left += w.remove(list)
		}
		left += len(w.pods())
		return fmt.Sprintf("%d objects are left", left), left == 0
	})
}

// remove deletes all objects of a kind, and returns how many there were.
func (w *world) remove(list client.ObjectList) (n int) {
	w.Helper()
	w.must(w.List(w, list))
	w.must(meta.EachListItem(list, func(item runtime.Object) error {
		n++
		o := item.(client.Object)
		err := client.IgnoreNotFound(w.Delete(w, o, client.GracePeriodSeconds(0)))
		if err == nil && len(o.GetFinalizers()) > 0 {
			err = client.IgnoreNotFound(w.Patch(w, o, merge(`{"metadata":{"finalizers":null}}`)))
		}
		return err
	}))
	return n
}

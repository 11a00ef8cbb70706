package cli

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"tenon.sh/api/kwokv1alpha1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/cluster"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
	"tenon.sh/playground/playgroundtest"
)

// live is a local cluster with a controller, for commands that read one.
type live struct {
	kubeconfig string
	api        client.Client
	kube       kubernetes.Interface
}

func startLive(t *testing.T) live {
	t.Helper()
	pg := playgroundtest.Get(t)
	config := pg.RESTConfig()
	ctx := t.Context()
	must(t, cluster.ApplyCRDs(ctx, config))
	must(t, cluster.ApplyCRDs(ctx, config)) // a second call changes nothing
	must(t, allowSnapshots(ctx, config, "kube-system"))
	options := DefaultControllerOptions()
	options.MetricsPort, options.HealthProbePort, options.DisableLeaderElection = 0, -1, true // it finds its catalog by itself
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- RunController(running, config, options, io.Discard) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	api, err := client.New(config, client.Options{Scheme: cluster.Scheme()})
	must(t, err)
	return live{pg.Kubeconfig(), api, kubernetes.NewForConfigOrDie(config)}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// run executes tenon and returns its output.
func run(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, errs bytes.Buffer
	command := New()
	command.SetArgs(args)
	command.SetOut(&out)
	command.SetErr(&errs)
	err = command.ExecuteContext(t.Context())
	return out.String(), errs.String(), err
}

func (l live) fill(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	must(t, l.api.Create(ctx, &kwokv1alpha1.KWOKNodeClass{ObjectMeta: metav1.ObjectMeta{Name: "replay"}}))
	pool := &v1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "replay"}}
	pool.Spec.Template.Labels = map[string]string{"example.com/replay": "yes"}
	pool.Spec.Template.Spec.Requirements = []v1.Requirement{}
	pool.Spec.Template.Spec.NodeClassRef = &v1.NodeClassReference{Group: "karpenter.kwok.sh", Kind: "KWOKNodeClass", Name: "replay"}
	must(t, l.api.Create(ctx, pool))
	must(t, l.api.Create(ctx, &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "replay"}, Provisioner: "disk.example.com", Parameters: map[string]string{"password": "secret-parameter"},
	}))
	must(t, l.api.Create(ctx, &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "none", Namespace: "default"}, Spec: appsv1.ReplicaSetSpec{
		Replicas: ptr.To(int32(0)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "none"}},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "none"}}, Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "app", Image: "secret-image", Command: []string{"secret-template"}}}}},
	}}))
	for name, cpu := range map[string]string{"fits": "1", "huge": "1000"} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
		pod.Spec.NodeSelector = map[string]string{"example.com/replay": "yes"}
		pod.Spec.Containers = []corev1.Container{{
			Name: "app", Image: "app", Command: []string{"secret-command"}, Args: []string{"secret-argument"},
			Env:       []corev1.EnvVar{{Name: "PASSWORD", Value: "secret-value"}},
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}},
		}}
		must(t, l.api.Create(ctx, pod))
	}
	// The state is final when one pod runs and kube-scheduler has found no node for the other.
	for deadline := time.Now().Add(90 * time.Second); ; pause(ctx, 100*time.Millisecond) {
		fits, err := l.kube.CoreV1().Pods("default").Get(ctx, "fits", metav1.GetOptions{})
		must(t, err)
		huge, err := l.kube.CoreV1().Pods("default").Get(ctx, "huge", metav1.GetOptions{})
		must(t, err)
		if fits.Status.Phase == corev1.PodRunning && kube.IsPending(huge) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after 90 s pod fits is %s, pod huge %+v", fits.Status.Phase, huge.Status)
		}
	}
}

func TestReplayingASnapshotGivesThePlanOfTheLiveCluster(t *testing.T) {
	l := startLive(t)
	l.fill(t)
	file := filepath.Join(t.TempDir(), "s.yaml")
	if _, notes, err := run(t, "snapshot", "--kubeconfig", l.kubeconfig, "-o", file); err != nil {
		t.Fatalf("snapshot: %v\n%s", err, notes)
	}
	want, notes, err := run(t, "plan", "--kubeconfig", l.kubeconfig, "-o", "json")
	if err != errUnplaced {
		t.Fatalf("plan: %v\n%s", err, notes)
	}
	got, notes, err := run(t, "plan", "-f", file, "-o", "json")
	if err != errUnplaced || got != want {
		t.Errorf("plan of the file: %v\n%s\n%s\nnot\n%s", err, notes, got, want)
	}
	if !strings.Contains(got, `"default/huge"`) || strings.Contains(got, "default/fits") {
		t.Errorf("the plan must refuse huge and nothing else:\n%s", got)
	}
	content, err := os.ReadFile(file)
	must(t, err)
	for _, hidden := range []string{"secret-", "managedFields", "kind: Secret"} {
		if strings.Contains(string(content), hidden) {
			t.Errorf("the snapshot holds %q", hidden)
		}
	}
	for _, shown := range []string{"StorageClass", "ReplicaSet", "Namespace", "Service"} {
		if !strings.Contains(string(content), "\nkind: "+shown+"\n") {
			t.Errorf("the snapshot holds no %s", shown)
		}
	}
	for _, kind := range []string{"Launch", "Refusal"} { // the journal of the leading controller
		out, notes, err := run(t, "journal", "--kubeconfig", l.kubeconfig, "-o", "json")
		if err != nil || !strings.Contains(out, `"kind": "`+kind+`"`) {
			t.Errorf("the journal has no %s: %v %s\n%s", kind, err, notes, out)
		}
	}
	parts := strings.Split(string(content), "\n---\n")
	document := engine.CatalogDocument{}
	must(t, yaml.Unmarshal([]byte(parts[len(parts)-1]), &document))
	if document.Kind != engine.CatalogKind || len(document.Classes) == 0 || len(document.Classes[0].InstanceTypes) == 0 {
		t.Errorf("the last document is %s %s with %d classes", document.APIVersion, document.Kind, len(document.Classes))
	}
}

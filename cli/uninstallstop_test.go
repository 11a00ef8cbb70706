package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"tenon.sh/cluster"
)

// stopping is a winder for a controller that has one pod. The pod ends at the given look at pods, never if that is 0.
func stopping(t *testing.T, timeout time.Duration, endsAt int) (*winder, *bytes.Buffer) {
	t.Helper()
	labels := map[string]string{"app.kubernetes.io/name": "karpenter"}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "tools", Name: "karpenter"}}
	d.Spec.Selector, d.Spec.Template.Labels = &metav1.LabelSelector{MatchLabels: labels}, labels
	pod := func(namespace, name string, phase corev1.PodPhase, labels map[string]string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}, Status: corev1.PodStatus{Phase: phase}}
	}
	leads := pod("tools", "leads", corev1.PodRunning, labels)
	looks := 0
	c := fake.NewClientBuilder().WithScheme(cluster.Scheme()).
		WithObjects(d, leads, pod("tools", "failed", corev1.PodFailed, labels), pod("tools", "other", corev1.PodRunning, nil), pod("elsewhere", "same", corev1.PodRunning, labels)).
		WithInterceptorFuncs(interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if _, isPods := list.(*corev1.PodList); isPods {
				if looks++; looks == endsAt {
					if err := c.Delete(ctx, leads); err != nil {
						t.Error(err)
					}
				}
			}
			return c.List(ctx, list, options...)
		}}).Build()
	out := &bytes.Buffer{}
	return &winder{options: &uninstallOptions{keep: true, timeout: timeout}, stock: stock{c}, in: &installation{deployment: d}, out: newTerminal(out), began: time.Now()}, out
}

// A controller may lead by a Lease of another name, or without one. Then no Lease shows that it still runs.
func TestKeepingMachinesWaitsForAControllerThatLeadsWithoutTheLease(t *testing.T) {
	t.Parallel()
	w, out := stopping(t, time.Hour, 2)
	if err := w.stopController(t.Context()); err != nil {
		t.Fatal(err)
	}
	var d appsv1.Deployment
	if err := w.stock.Get(t.Context(), client.ObjectKeyFromObject(w.in.deployment), &d); err != nil || *d.Spec.Replicas != 0 {
		t.Errorf("replicas %v, %v", d.Spec.Replicas, err)
	}
	if want := "scaled Deployment tools/karpenter to 0\nwaiting for 1 pod of Deployment tools/karpenter to end: leads\n"; out.String() != want {
		t.Errorf("said %q, want %q", out, want)
	}
}

// A controller that was scaled down a moment ago may still run.
func TestKeepingMachinesGivesUpIfTheControllerDoesNotEnd(t *testing.T) {
	t.Parallel()
	w, _ := stopping(t, time.Nanosecond, 0)
	w.in.deployment.Spec.Replicas = new(int32)
	if err := w.stopController(t.Context()); err == nil || !strings.Contains(err.Error(), "1 pod of Deployment tools/karpenter to end: leads") {
		t.Errorf("%v", err)
	}
}

// The Lease shows the end of its holder, so a pod on a lost node delays nothing.
func TestKeepingMachinesLeavesTheHolderToTheLease(t *testing.T) {
	t.Parallel()
	w, _ := stopping(t, time.Nanosecond, 0)
	w.in.holder = "leads_0b5ad7a0"
	if err := w.stopController(t.Context()); err != nil {
		t.Error(err)
	}
}

// A Lease without a holder does not show the place of the controller.
func TestTheControllerIsFoundBesideALeaseThatNobodyHolds(t *testing.T) {
	t.Parallel()
	of := func(namespace, name string) appsv1.Deployment {
		d := appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "d"}}
		d.Spec.Template.Labels = map[string]string{"app.kubernetes.io/name": name}
		return d
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system"}}
	both := []appsv1.Deployment{of("a", "web"), of("tools", "karpenter"), of("kube-system", "karpenter")}
	for name, c := range map[string]struct {
		in   installation
		list []appsv1.Deployment
		want string
	}{
		"beside the Lease":                {installation{lease: lease}, both, "kube-system"},
		"elsewhere":                       {installation{lease: lease}, both[:2], "tools"},
		"elsewhere, and one that is held": {installation{lease: lease, holder: "x"}, both[:2], ""},
		"no Lease":                        {installation{}, both, "tools"},
	} {
		got := c.in.labelled(c.list)
		if (got == nil) != (c.want == "") || got != nil && got.Namespace != c.want {
			t.Errorf("%s: %v, want %q", name, got, c.want)
		}
	}
}

package provision_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	v1 "tenon.sh/api/v1"
	"tenon.sh/cluster/clustertest"
	"tenon.sh/controller/provision"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
)

func newReconciler(w *clustertest.World) *provision.Reconciler {
	return provision.New(provision.Config{Cluster: w.Cluster, Recorder: w.Recorder, Metrics: w.Metrics})
}

func TestAPendingPodGetsAClaimOnce(t *testing.T) {
	pool := clustertest.Pool("general")
	w := clustertest.New(t, interceptor.Funcs{}, pool, clustertest.Pending("web", "500m"))
	r := newReconciler(w)
	for range 5 {
		w.Must(r.Reconcile(w))
		w.Clock.Step(10 * time.Second)
	}
	claims := w.Claims()
	if len(claims) != 1 {
		t.Fatalf("%d claims, want 1", len(claims))
	}
	claim := claims[0]
	if !slices.Contains(claim.Finalizers, v1.TerminationFinalizer) {
		t.Error("the claim has no finalizer")
	}
	if len(claim.OwnerReferences) != 1 || claim.OwnerReferences[0].UID != pool.UID || !*claim.OwnerReferences[0].BlockOwnerDeletion {
		t.Errorf("owners %+v", claim.OwnerReferences)
	}
	if got := kube.PlannedPods(&claim); !slices.Equal(got, []string{"pod-web"}) {
		t.Errorf("planned pods %v", got)
	}
	if got := w.Events()["Pod Nominated"]; got == 0 {
		t.Error("the pod was not told")
	}
}

func TestANewProcessStartsNoSecondMachineForThePod(t *testing.T) {
	w := clustertest.New(t, interceptor.Funcs{}, clustertest.Pool("general"), clustertest.Pending("web", "500m"))
	w.Must(newReconciler(w).Reconcile(w))
	w.Must(newReconciler(w).Reconcile(w))
	if claims := w.Claims(); len(claims) != 1 {
		t.Errorf("%d claims, want 1", len(claims))
	}
}

func TestOneLaunchThatFailsDoesNotStopTheOthers(t *testing.T) {
	broken := errors.New("the API server refuses")
	creates := 0
	w := clustertest.New(t, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if claim, ok := o.(*v1.NodeClaim); ok && claim.Labels[v1.NodePoolLabelKey] == "broken" {
				creates++
				return broken
			}
			return c.Create(ctx, o, opts...)
		},
	}, tainted(clustertest.Pool("broken")), clustertest.Pool("general"), clustertest.Pending("web", "500m"), tolerating("batch"))
	err := newReconciler(w).Reconcile(w)
	if !errors.Is(err, broken) {
		t.Errorf("error %v, want that of the failed launch", err)
	}
	if claims := w.Claims(); len(claims) != 1 || creates != 1 {
		t.Errorf("%d claims after %d failures, want 1 after 1", len(claims), creates)
	}
}

// tainted keeps other pods out of the pool, and makes it the only one for pods that ask for it.
func tainted(pool *v1.NodePool) *v1.NodePool {
	pool.Spec.Template.Labels = map[string]string{"team": "batch"}
	pool.Spec.Template.Spec.Taints = []v1.Taint{{Key: "batch", Effect: corev1.TaintEffectNoSchedule}}
	return pool
}

func tolerating(name string) *corev1.Pod {
	pod := clustertest.Pending(name, "500m")
	pod.Spec.NodeSelector = map[string]string{"team": "batch"}
	pod.Spec.Tolerations = []corev1.Toleration{{Key: "batch", Operator: corev1.TolerationOpExists}}
	return pod
}

func TestAPodThatFitsNothingIsToldNowAndThen(t *testing.T) {
	w := clustertest.New(t, interceptor.Funcs{}, clustertest.Pool("general"), clustertest.Pending("huge", "5000"))
	r := newReconciler(w)
	for range 6 { // a minute
		w.Must(r.Reconcile(w))
		w.Clock.Step(10 * time.Second)
	}
	if claims := w.Claims(); len(claims) != 0 {
		t.Errorf("%d claims for a pod that fits nothing", len(claims))
	}
	if got := w.Events()["Pod FailedScheduling"]; got != 1 {
		t.Errorf("told %d times in a minute, want once", got)
	}
	w.Clock.Step(5 * time.Minute)
	w.Must(r.Reconcile(w))
	if got := w.Events()["Pod FailedScheduling"]; got != 2 {
		t.Errorf("told %d times in six minutes, want twice", got)
	}
}

func TestAPoolWithoutItsClassDoesNotHoldUpTheOthers(t *testing.T) {
	lost := clustertest.Pool("lost")
	lost.Spec.Template.Spec.NodeClassRef.Name = "missing"
	w := clustertest.New(t, interceptor.Funcs{}, lost, clustertest.Pool("general"), clustertest.Pending("web", "500m"))
	w.Must(newReconciler(w).Reconcile(w))
	if claims := w.Claims(); len(claims) != 1 || claims[0].Labels[v1.NodePoolLabelKey] != "general" {
		t.Errorf("got %d claims, want one of pool general", len(claims))
	}
}

func nominated(w *clustertest.World, name string) string {
	w.Helper()
	pod := &corev1.Pod{}
	w.Must(w.Client.Get(w, client.ObjectKey{Namespace: "default", Name: name}, pod))
	return pod.Status.NominatedNodeName
}

func TestPodsAreNotPointedAtANodeThatIsStillStarting(t *testing.T) {
	pool := clustertest.Pool("general")
	claim, node := clustertest.Machine(pool, "general-a", time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)) // minutes ago
	delete(node.Labels, v1.InitializedLabelKey)
	v1.SetCondition(claim, v1.ConditionInitialized, metav1.ConditionUnknown, "NodeNotReady", "", claim.CreationTimestamp.Time)
	w := clustertest.New(t, interceptor.Funcs{}, pool, claim, node, clustertest.Pending("web", "500m"))
	r := newReconciler(w)
	w.Must(r.Reconcile(w))
	if got := nominated(w, "web"); got != "" {
		t.Errorf("nominated to %q: the next attempt to place the pod would fail and drop that", got)
	}
	if claims := w.Claims(); len(claims) != 1 {
		t.Errorf("%d claims, want no new one", len(claims))
	}
	w.Clock.Step(20 * time.Minute) // it should have been ready by then
	w.Must(r.Reconcile(w))
	if claims := w.Claims(); len(claims) != 2 {
		t.Errorf("%d claims once the machine is late, want another one", len(claims))
	}
}

func TestAPodThatFitsAnExistingNodeIsPointedAtIt(t *testing.T) {
	pool := clustertest.Pool("general")
	claim, node := clustertest.Machine(pool, "general-a", time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	w := clustertest.New(t, interceptor.Funcs{}, pool, claim, node, clustertest.Pending("web", "500m"))
	r := newReconciler(w)
	w.Must(r.Reconcile(w))
	if got := nominated(w, "web"); got != "general-a" {
		t.Fatalf("nominated to %q, want general-a", got)
	}
	if claims := w.Claims(); len(claims) != 1 {
		t.Errorf("%d claims, want no new one", len(claims))
	}

	w.Must(w.Client.Get(w, client.ObjectKeyFromObject(node), node))
	node.Spec.Taints = []corev1.Taint{v1.DisruptedTaint()}
	w.Must(w.Client.Update(w, node))
	w.Must(r.Reconcile(w))
	if got := nominated(w, "web"); got != "" {
		t.Errorf("still nominated to %q, which takes no pods any more", got)
	}
}

func TestANominationToANodeThatIsGoneIsTakenBackByAnybody(t *testing.T) {
	pod := clustertest.Pending("web", "500m")
	pod.Status.NominatedNodeName = "gone"
	w := clustertest.New(t, interceptor.Funcs{}, clustertest.Pool("general"), pod)
	w.Must(newReconciler(w).Reconcile(w))
	if got := nominated(w, "web"); got != "" {
		t.Errorf("still nominated to %q", got)
	}
}

func TestPodsAreNotPointedAnywhereIfTheFlagSaysSo(t *testing.T) {
	pool := clustertest.Pool("general")
	claim, node := clustertest.Machine(pool, "general-a", time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	w := clustertest.New(t, interceptor.Funcs{}, pool, claim, node, clustertest.Pending("web", "500m"))
	r := provision.New(provision.Config{Cluster: w.Cluster, Recorder: w.Recorder, Metrics: w.Metrics, Options: engine.Options{NoNominations: true}})
	w.Must(r.Reconcile(w))
	if got := nominated(w, "web"); got != "" {
		t.Errorf("nominated to %q", got)
	}
}

func TestANominationThatIsNotFollowedIsTakenBack(t *testing.T) {
	pool := clustertest.Pool("general")
	claim, node := clustertest.Machine(pool, "general-a", time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	for _, c := range []struct {
		name string
		with *corev1.Pod // on the node
		want string
	}{
		{name: "kube-scheduler refuses", with: clustertest.Bound("other", "100m", "general-a")},
		{name: "the room is not free yet", with: stopping("other", "general-a"), want: "general-a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			pod := clustertest.Pending("web", "500m")
			pod.Status.NominatedNodeName = "general-a"
			w := clustertest.New(t, interceptor.Funcs{}, pool.DeepCopy(), claim.DeepCopy(), node.DeepCopy(), pod, c.with)
			r := newReconciler(w)
			w.Must(r.Reconcile(w))
			if got := nominated(w, "web"); got != "general-a" {
				t.Fatalf("nominated to %q at once", got)
			}
			w.Clock.Step(16 * time.Second)
			w.Must(r.Reconcile(w))
			if got := nominated(w, "web"); got != c.want {
				t.Errorf("nominated to %q, want %q", got, c.want)
			}
		})
	}
}

func stopping(name, node string) *corev1.Pod {
	pod := clustertest.Bound(name, "100m", node)
	at := metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	pod.DeletionTimestamp, pod.Finalizers = &at, []string{"test/hold"}
	return pod
}

func TestAPodGetsNoSecondMachineWhileItsFirstOpens(t *testing.T) {
	pool := clustertest.Pool("general")
	claim, node := clustertest.Machine(pool, "general-a", time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	claim.Annotations = map[string]string{kube.PlannedPodsAnnotation: "pod-web"}
	w := clustertest.New(t, interceptor.Funcs{}, pool, node, clustertest.Pending("web", "3"), clustertest.Bound("thief", "3", "general-a"))
	v1.GetCondition(claim, v1.ConditionInitialized).LastTransitionTime = metav1.NewTime(w.Clock.Now())
	w.Must(w.Client.Create(w, claim))
	r := newReconciler(w)
	w.Must(r.Reconcile(w))
	if claims := w.Claims(); len(claims) != 1 {
		t.Fatalf("%d claims: its room was taken just now, and more may change", len(claims))
	}
	w.Clock.Step(11 * time.Second)
	w.Must(r.Reconcile(w))
	if claims := w.Claims(); len(claims) != 2 {
		t.Errorf("%d claims, want another one for the pod whose room was taken", len(claims))
	}
}

func TestWhoeverWantsToKnowHearsAsWhatLaunchesWereAskedFor(t *testing.T) {
	w := clustertest.New(t, interceptor.Funcs{}, clustertest.Pool("general"), clustertest.Pending("web", "500m"))
	var told [][]string
	r := provision.New(provision.Config{Cluster: w.Cluster, Recorder: w.Recorder, Metrics: w.Metrics,
		Begun: func(_ *engine.Snapshot, plan *engine.Plan, claims []string) { told = append(told, claims) }})
	w.Must(r.Reconcile(w))
	w.Must(r.Reconcile(w))
	if claims := w.Claims(); len(told) != 2 || !slices.Equal(told[0], []string{claims[0].Name}) || len(told[1]) != 0 {
		t.Errorf("told %q of %d claims", told, len(claims))
	}
}

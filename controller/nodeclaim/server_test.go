package nodeclaim_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"tenon.sh/api/kwokv1alpha1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/cluster"
	"tenon.sh/controller/nodeclaim"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
	"tenon.sh/playground/playgroundtest"
	"tenon.sh/provider"
	"tenon.sh/provider/catalog"
	"tenon.sh/provider/kwok"
	"tenon.sh/provider/simulated"
	"tenon.sh/report"
)

func TestMain(m *testing.M) { os.Exit(playgroundtest.Run(m)) }

// server is a real control plane with KWOK's kubelets, and the reconcilers as the program runs them.
type server struct {
	client   client.Client
	api      client.Reader // past the cache
	provider *kwok.Provider
	events   *heard
}

// TestOnARealControlPlane runs whole lives: real API server, scheduler and controller manager, simulated cloud.
func TestOnARealControlPlane(t *testing.T) {
	s := startServer(t)
	for name, test := range map[string]func(*testing.T, *server){
		"planned pods start on the node that was started for them": plannedPodsStart,
		"a budget holds the drain until it allows":                 budgetHoldsDrain,
		"the deadline ends all patience":                           deadlineEndsPatience,
		"a pod has all its grace period to end":                    slowPodHoldsNode,
		"deleting the node removes claim and machine":              deletingTheNode,
		"thirty claims come and go, machines equal claims":         manyClaims,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, s)
		})
	}
}

func startServer(t *testing.T) *server {
	t.Helper()
	ctx, rest := t.Context(), playgroundtest.Get(t).RESTConfig()
	rest.QPS = -1
	must(t, cluster.ApplyCRDs(ctx, rest))
	ctrl.SetLogger(newLogger())
	noNames := true
	mgr, err := ctrl.NewManager(rest, ctrl.Options{
		Scheme: cluster.Scheme(), Cache: cluster.CacheOptions(), Metrics: metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: &noNames},
	})
	must(t, err)
	must(t, cluster.AddIndexes(ctx, mgr.GetFieldIndexer()))
	cloud, err := simulated.NewCloud(simulated.Config{Seed: 1, Clock: clock.RealClock{}, Catalog: catalog.KWOK(), IDPrefix: kwok.IDPrefix})
	must(t, err)
	kwoked, err := kwok.New(kwok.Config{Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Clock: clock.RealClock{}, Cloud: cloud})
	must(t, err)
	must(t, mgr.Add(kwoked))
	s := &server{client: mgr.GetClient(), api: mgr.GetAPIReader(), provider: kwoked, events: &heard{}}
	mirror := cluster.New(cluster.Config{Client: mgr.GetClient(), API: mgr.GetAPIReader(), Informers: mgr.GetCache(), Provider: kwoked, Clock: clock.RealClock{}})
	reconciler := nodeclaim.New(nodeclaim.Config{Cluster: mirror, Recorder: s.events, Metrics: report.NewMetrics(prometheus.NewRegistry(), "test")})
	must(t, reconciler.Register(mgr))
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(run) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	if !mgr.GetCache().WaitForCacheSync(ctx) {
		t.Fatal("the caches did not fill")
	}
	must(t, client.IgnoreAlreadyExists(s.client.Create(ctx, &kwokv1alpha1.KWOKNodeClass{ObjectMeta: metav1.ObjectMeta{Name: "default"}})))
	return s
}

// newLogger writes to where a test's goroutines may write even after its end.
func newLogger() logr.Logger {
	return funcr.New(func(prefix, line string) {
		if testing.Verbose() {
			fmt.Fprintln(os.Stderr, prefix, line)
		}
	}, funcr.Options{Verbosity: 1})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually polls the caches until what is asked for holds; it fails after a minute.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not after a minute", what)
		}
	}
}

// claim creates a claim whose node only pods of the same test tolerate, and returns it.
func (s *server) claim(t *testing.T, name string, change ...func(*v1.NodeClaim)) *v1.NodeClaim {
	t.Helper()
	claim := newClaim(name, change...)
	claim.UID, claim.CreationTimestamp = "", metav1.Time{}
	claim.Spec.Taints = []v1.Taint{{Key: "test", Value: name, Effect: corev1.TaintEffectNoSchedule}}
	must(t, s.client.Create(t.Context(), claim))
	return claim
}

func (s *server) ready(t *testing.T, claim *v1.NodeClaim) string {
	t.Helper()
	eventually(t, "claim "+claim.Name+" ready", func() bool {
		return s.client.Get(t.Context(), client.ObjectKeyFromObject(claim), claim) == nil && v1.IsTrue(claim, v1.ConditionReady)
	})
	return claim.Status.NodeName
}

// gone waits until claim, node and machine are gone.
func (s *server) gone(t *testing.T, claim *v1.NodeClaim, node string) {
	t.Helper()
	eventually(t, "claim "+claim.Name+" gone", func() bool {
		err := s.client.Get(t.Context(), client.ObjectKeyFromObject(claim), &v1.NodeClaim{})
		nodeErr := s.client.Get(t.Context(), client.ObjectKey{Name: node}, &corev1.Node{})
		_, machineErr := s.provider.Machine(t.Context(), engine.MachineID(claim.Status.ProviderID))
		return apierrors.IsNotFound(err) && apierrors.IsNotFound(nodeErr) && errors.Is(machineErr, provider.ErrGone)
	})
}

// pod creates a pod that runs only on the node of the claim of that name.
func (s *server) pod(t *testing.T, name, claim string, change ...func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	pod := newPod(name, "", change...)
	pod.UID = ""
	pod.Labels = map[string]string{"app": claim}
	pod.Spec.Tolerations = []corev1.Toleration{{Key: "test", Value: claim}}
	pod.Spec.NodeSelector = map[string]string{v1.NodePoolLabelKey: "general"}
	must(t, s.client.Create(t.Context(), pod))
	return pod
}

func (s *server) running(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	eventually(t, "pod "+pod.Name+" running", func() bool {
		return s.client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod) == nil && pod.Status.Phase == corev1.PodRunning
	})
}

func plannedPodsStart(t *testing.T, s *server) {
	var uids []string
	var pods []*corev1.Pod
	for i := range 5 {
		pod := s.pod(t, fmt.Sprintf("planned-%d", i), "planned-1")
		eventually(t, "pod unschedulable", func() bool {
			return s.client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod) == nil && kube.IsPending(pod)
		})
		pods, uids = append(pods, pod), append(uids, string(pod.UID))
	}
	claim := s.claim(t, "planned-1", func(c *v1.NodeClaim) {
		c.Annotations = map[string]string{kube.PlannedPodsAnnotation: strings.Join(uids, ",")}
		c.Spec.Resources.Requests = nil
	})
	node := s.ready(t, claim)
	for _, pod := range pods {
		s.running(t, pod)
		if pod.Spec.NodeName != node {
			t.Errorf("pod %s runs on %s, was planned on %s", pod.Name, pod.Spec.NodeName, node)
		}
	}
	eventually(t, "pod event recorded", func() bool {
		return s.client.Get(t.Context(), client.ObjectKeyFromObject(claim), claim) == nil && !claim.Status.LastPodEventTime.IsZero()
	})
	must(t, s.client.Delete(t.Context(), pods[0])) // it has lived for less than 5 minutes
	eventually(t, "leaving of a brief pod recorded", func() bool {
		return s.client.Get(t.Context(), client.ObjectKeyFromObject(claim), claim) == nil && claim.Annotations[v1.BriefPodLeftAnnotationKey] != ""
	})
	must(t, s.client.Delete(t.Context(), claim))
	s.gone(t, claim, node)
}

func budgetHoldsDrain(t *testing.T, s *server) {
	claim := s.claim(t, "budget-1")
	node := s.ready(t, claim)
	pod := s.pod(t, "budget", "budget-1")
	s.running(t, pod)
	one := intstr.FromInt32(1)
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "budget"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: &one, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "budget-1"}},
		},
	}
	must(t, s.client.Create(t.Context(), budget))
	eventually(t, "budget counted", func() bool {
		return s.client.Get(t.Context(), client.ObjectKeyFromObject(budget), budget) == nil && budget.Status.CurrentHealthy == 1
	})
	must(t, s.client.Delete(t.Context(), claim))
	eventually(t, "refusal told", func() bool {
		return s.events.tells(report.FailedDraining, "default/budget", "violates a PDB")
	})
	began := time.Now()
	eventually(t, "the claim says which pod and which budget hold it", func() bool {
		must(t, s.client.Get(t.Context(), client.ObjectKeyFromObject(claim), claim))
		c := v1.GetCondition(claim, v1.ConditionDrained)
		return c != nil && strings.Contains(c.Message, "PodDisruptionBudget default/budget allows no eviction of pod default/budget now")
	})
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the claim says what holds its drain after %v", took)
	}
	eventually(t, "an event on the claim", func() bool { return s.events.tells(report.FailedDraining, claim.Name, "default/budget") })
	must(t, s.client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod))
	if pod.DeletionTimestamp != nil {
		t.Error("the pod was deleted against its budget")
	}
	must(t, s.client.Delete(t.Context(), budget))
	s.gone(t, claim, node)
}

func deadlineEndsPatience(t *testing.T, s *server) {
	claim := s.claim(t, "deadline-1", func(c *v1.NodeClaim) {
		c.Spec.TerminationGracePeriod = &metav1.Duration{Duration: 3 * time.Second}
	})
	node := s.ready(t, claim)
	two := int64(2)
	pod := s.pod(t, "deadline", "deadline-1", func(p *corev1.Pod) {
		p.Annotations = map[string]string{v1.DoNotDisruptAnnotationKey: "true"}
		p.Spec.TerminationGracePeriodSeconds = &two
	})
	s.running(t, pod)
	must(t, s.client.Delete(t.Context(), claim))
	s.gone(t, claim, node)
	if !s.events.tells(report.Disrupted, "deadline", "") {
		t.Error("no event tells that the pod was forced")
	}
}

// slowPodHoldsNode has a pod with a preStop hook that takes three seconds: node and machine are there for as long as it is.
func slowPodHoldsNode(t *testing.T, s *server) {
	const grace, takes = 20, "3s"
	claim := s.claim(t, "slow-1")
	node := s.ready(t, claim)
	pod := s.pod(t, "slow", "slow-1", func(p *corev1.Pod) {
		seconds := int64(grace)
		p.Spec.TerminationGracePeriodSeconds = &seconds
		p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"sleep", takes}}}}
		p.Annotations = map[string]string{"pod-delete.stage.kwok.x-k8s.io/delay": takes} // KWOK's kubelet runs no hooks
	})
	s.running(t, pod)
	must(t, s.client.Delete(t.Context(), claim))
	ending := false
	eventually(t, "the pod has ended", func() bool {
		machine, machineErr := s.provider.Machine(t.Context(), engine.MachineID(claim.Status.ProviderID))
		nodeErr := s.api.Get(t.Context(), client.ObjectKey{Name: node}, &corev1.Node{})
		err := s.api.Get(t.Context(), client.ObjectKeyFromObject(pod), pod) // after its node: what was gone by then went too early
		if apierrors.IsNotFound(err) {
			return true
		}
		must(t, err)
		if machineErr != nil || machine.Leaving || nodeErr != nil {
			t.Fatalf("the pod is there yet; its machine: leaving %v, %v, its node: %v", machine.Leaving, machineErr, nodeErr)
		}
		if pod.DeletionTimestamp == nil || ending { // once it has ended, KWOK's kubelet gives it no more time
			return false
		}
		if ending = true; *pod.DeletionGracePeriodSeconds != grace {
			t.Fatalf("the pod got %d s to end, want %d", *pod.DeletionGracePeriodSeconds, grace)
		}
		return false
	})
	if !ending {
		t.Error("the pod was never seen ending")
	}
	s.gone(t, claim, node)
}

func deletingTheNode(t *testing.T, s *server) {
	claim := s.claim(t, "node-1")
	node := s.ready(t, claim)
	pod := s.pod(t, "node", "node-1")
	s.running(t, pod)
	must(t, s.client.Delete(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}))
	s.gone(t, claim, node)
}

func manyClaims(t *testing.T, s *server) {
	var claims []*v1.NodeClaim
	began := time.Now()
	for i := range 30 {
		claims = append(claims, s.claim(t, fmt.Sprintf("many-%d", i)))
	}
	nodes := map[string]bool{}
	for _, c := range claims {
		nodes[s.ready(t, c)] = true
	}
	t.Logf("30 claims ready after %s", time.Since(began).Round(time.Millisecond))
	if len(nodes) != len(claims) {
		t.Errorf("%d nodes for %d claims", len(nodes), len(claims))
	}
	for _, c := range claims {
		must(t, s.client.Delete(t.Context(), c))
	}
	for _, c := range claims {
		s.gone(t, c, c.Status.NodeName)
	}
}

func (h *heard) tells(reason, key, text string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.events {
		if e.Reason == reason && (e.Key == key || e.Object.GetName() == key) && strings.Contains(e.Message, text) {
			return true
		}
	}
	return false
}

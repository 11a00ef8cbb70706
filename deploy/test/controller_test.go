package charttest

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/yaml"

	"tenon.sh/cli"
	"tenon.sh/cluster"
	"tenon.sh/playground/playgroundtest"
)

// refusals notes what the API server forbids.
type refusals struct {
	mu    sync.Mutex // guards lines
	lines []string
}

func (r *refusals) watch(config *rest.Config) {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			response, err := next.RoundTrip(request)
			if err == nil && response.StatusCode == http.StatusForbidden {
				r.mu.Lock()
				defer r.mu.Unlock()
				r.lines = append(r.lines, request.Method+" "+request.URL.Path)
			}
			return response, err
		})
	})
}

func (r *refusals) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.lines...)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

const pool = `
apiVersion: karpenter.kwok.sh/v1alpha1
kind: KWOKNodeClass
metadata: {name: rights}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: rights}
spec:
  template:
    metadata: {labels: {test: rights}}
    spec:
      requirements: [{key: kubernetes.io/arch, operator: In, values: [amd64]}]
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: rights}
      expireAfter: Never
  disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 0s}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: rights, namespace: default}
spec:
  replicas: 2
  selector: {matchLabels: {app: rights}}
  template:
    metadata: {labels: {app: rights}}
    spec:
      terminationGracePeriodSeconds: 0
      nodeSelector: {test: rights}
      containers: [{name: c, image: pause, resources: {requests: {cpu: "1"}}}]
`

// The controller takes a pod's machine through its life with the rights of the chart, and nothing that it asks for is
// forbidden.
func TestTheControllerWorksWithTheRightsOfTheChart(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	local := playgroundtest.Get(t)
	c, err := client.New(local.RESTConfig(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	if err := cluster.ApplyCRDs(t.Context(), local.RESTConfig()); err != nil {
		t.Fatal(err)
	}
	r := gettingStarted().with("settings.cloudProvider=kwok", "replicas=0")
	r.name, r.namespace = "karpenter-rights", "rights"
	makeNamespace(t, c, r.namespace)
	install(t, helm(t, r.namespace), r)

	refused := &refusals{}
	startController(t, r, refused, cli.DefaultControllerOptions())
	applyAll(t, c, pool)
	eventually(t, "two pods run", func(ctx context.Context) (string, bool) {
		d := &appsv1.Deployment{}
		err := c.Get(ctx, types.NamespacedName{Namespace: "default", Name: "rights"}, d)
		return fmt.Sprintf("%d ready, %v", d.Status.ReadyReplicas, err), d.Status.ReadyReplicas == 2
	})
	if err := c.Delete(t.Context(), &appsv1.Deployment{ObjectMeta: objectMeta("default", "rights")}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the nodes are gone", func(ctx context.Context) (string, bool) {
		nodes := &corev1.NodeList{}
		err := c.List(ctx, nodes, client.MatchingLabels{"test": "rights"})
		return fmt.Sprintf("%d nodes, %v", len(nodes.Items), err), err == nil && len(nodes.Items) == 0
	})
	if lines := refused.all(); len(lines) > 0 {
		t.Errorf("forbidden:\n%s", strings.Join(lines, "\n"))
	}
	checkLibraryMetrics(t)
}

// checkLibraryMetrics: a controller that runs exports the metrics of libraries that dashboards ask for.
func checkLibraryMetrics(t *testing.T) {
	t.Helper()
	families, err := ctrlmetrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	exported := map[string]bool{}
	for _, f := range families {
		exported[f.GetName()] = true
	}
	for _, name := range slices.Sorted(maps.Keys(listedMetrics(t)["libraries"])) {
		if !exported[name] {
			t.Errorf("testdata/metrics.yaml lists %s, and a controller does not export it", name)
		}
	}
}

// A variable that no flag reads would be a setting without effect.
func TestTheControllerKnowsWhatTheChartTellsIt(t *testing.T) {
	t.Parallel()
	command, _, err := cli.New().Find([]string{"controller"})
	if err != nil {
		t.Fatal(err)
	}
	// Read from the environment in other ways, or accepted because Karpenter's chart sets it.
	others := []string{"SYSTEM_NAMESPACE", "KUBERNETES_MIN_VERSION"}
	r := gettingStarted().with("settings.cloudProvider=kwok", "settings.schedulerConfig=x", "settings.disableClusterStateObservability=true")
	for name := range environment(deployment(t, r, "karpenter")) {
		flag := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(name, "TENON_"), "_", "-"))
		if command.Flags().Lookup(flag) == nil && !slices.Contains(others, name) {
			t.Errorf("%s: there is no flag --%s", name, flag)
		}
	}
}

// startController runs it as the chart's service account until the test ends.
func startController(t *testing.T, r release, refused *refusals, options cli.ControllerOptions) {
	t.Helper()
	local := playgroundtest.Get(t)
	account, err := local.UserConfig("system:serviceaccount:"+r.namespace+":"+r.name, "system:serviceaccounts", "system:serviceaccounts:"+r.namespace)
	if err != nil {
		t.Fatal(err)
	}
	refused.watch(account)
	options.MetricsPort, options.HealthProbePort = -1, -1
	options.LeaderElectionNamespace = r.namespace
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- cli.RunController(ctx, account, options, io.Discard) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// eventually waits until something is so, which takes the control plane and no clock of ours.
func eventually(t *testing.T, what string, so func(context.Context) (string, bool)) {
	t.Helper()
	var seen string
	err := wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
		var done bool
		seen, done = so(ctx)
		return done, nil
	})
	if err != nil {
		t.Fatalf("waiting until %s: last seen: %s", what, seen)
	}
}

// The chart's bindings name the account that its Deployment runs as.
func TestEveryBindingIsForTheAccountOfTheDeployment(t *testing.T) {
	t.Parallel()
	for _, set := range []string{"replicas=1", "serviceAccount.name=other", "fullnameOverride=f"} {
		objects := render(t, gettingStarted().with(set))
		var account string
		for _, o := range objects {
			if o.GetKind() == "Deployment" {
				account = deployment(t, gettingStarted().with(set), o.GetName()).Spec.Template.Spec.ServiceAccountName
			}
		}
		for _, o := range objects {
			if !strings.HasSuffix(o.GetKind(), "Binding") {
				continue
			}
			binding := &rbacv1.RoleBinding{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, binding); err != nil {
				t.Fatal(err)
			}
			if len(binding.Subjects) != 1 || binding.Subjects[0].Name != account || binding.Subjects[0].Namespace != "kube-system" {
				t.Errorf("%s: %s %s is for %v, the Deployment runs as %s", set, o.GetKind(), o.GetName(), binding.Subjects, account)
			}
			find(t, objects, binding.RoleRef.Kind, binding.RoleRef.Name)
		}
	}
}

func applyAll(t *testing.T, c client.Client, manifests string) {
	t.Helper()
	for document := range strings.SplitSeq(manifests, "\n---\n") {
		o := newObject()
		if err := yaml.Unmarshal([]byte(document), &o.Object); err != nil {
			t.Fatal(err)
		}
		if err := c.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
}

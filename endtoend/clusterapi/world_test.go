package clusterapi_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tenon.sh/cli"
	"tenon.sh/cluster"
	"tenon.sh/playground"
	"tenon.sh/playground/playgroundtest"
)

func TestMain(m *testing.M) {
	playgroundtest.KeepProgram()
	if os.Getenv(asTenon) != "" {
		os.Exit(cli.Main())
	}
	// The loggers of the libraries belong to the process.
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	os.Exit(playgroundtest.Run(withControllers{m}))
}

// withControllers runs the tests with Cluster API for those that ask, and ends it before the control plane.
type withControllers struct{ *testing.M }

func (w withControllers) Run() int {
	defer shared.end()
	return w.M.Run()
}

// shared is the Cluster API of this test binary. It is a package variable because testing offers no other way from TestMain to
// the tests.
var shared sharedClusterAPI

type sharedClusterAPI struct {
	start sync.Once
	api   *clusterAPI
	err   error
}

// get returns it, started by the first test that asks.
func (s *sharedClusterAPI) get(start func() (*clusterAPI, error)) (*clusterAPI, error) {
	s.start.Do(func() {
		s.err = errors.New("the first test that asked for it ended before it was started")
		s.api, s.err = start()
	})
	return s.api, s.err
}

func (s *sharedClusterAPI) end() {
	if s.api != nil {
		s.api.end()
	}
}

// world is a test's view of the control plane, on which Cluster API runs. It is the management cluster and, with a node for each
// machine that Cluster API has started, also the workload cluster.
type world struct {
	testing.TB
	context.Context
	client.Client
	playground *playground.Playground
	*clusterAPI
}

func newWorld(t testing.TB) *world {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	t.Cleanup(cancel)
	p := playgroundtest.Get(t)
	if err := cluster.ApplyCRDs(ctx, p.RESTConfig()); err != nil {
		t.Fatal(err)
	}
	c, err := newClient(p)
	if err != nil {
		t.Fatal(err)
	}
	api, err := shared.get(func() (*clusterAPI, error) {
		dir, err := os.MkdirTemp(p.Dir(), "cluster-api-")
		if err != nil {
			return nil, err
		}
		return startClusterAPI(t, ctx, p, c, dir)
	})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{TB: t, Context: ctx, Client: c, playground: p, clusterAPI: api}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the node mirror's last error: %v", w.mirror.lastError())
			for _, c := range w.controllers() {
				t.Logf("the end of the log of %s:\n%s", c.Name, c.LogEnd())
			}
		}
	})
	return w
}

// newClient is the administrator's client for the kinds of Cluster API, Tenon and Kubernetes.
func newClient(p *playground.Playground) (client.Client, error) {
	scheme := cluster.Scheme()
	if err := errors.Join(clusterv1.AddToScheme(scheme), autoscalingv1.AddToScheme(scheme), rbacv1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	return client.New(p.RESTConfig(), client.Options{Scheme: scheme})
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// until waits for the condition, and fails the test with what it says if it does not come true in time.
func (w *world) until(patience time.Duration, condition func() (bool, string)) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w, patience)
	defer cancel()
	w.must(eventually(ctx, condition))
}

// eventually looks at the condition again and again until it is true. If that does not happen while the context lasts, the error
// is what the condition said last.
func eventually(ctx context.Context, condition func() (bool, string)) error {
	start := time.Now()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		ok, state := condition()
		if ok {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("after %v: %s", time.Since(start).Round(time.Second), state)
		case <-ticker.C:
		}
	}
}

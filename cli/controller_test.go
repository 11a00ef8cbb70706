package cli_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"tenon.sh/cli"
	"tenon.sh/cluster"
	"tenon.sh/playground"
	"tenon.sh/playground/playgroundtest"
)

// running is a controller in this process.
type running struct {
	testing.TB
	metrics, health, page int
	stop                  func() error
	log                   *text
}

// text is a log that may be read while it is written.
type text struct {
	mu sync.Mutex
	bytes.Buffer
}

func (x *text) Write(p []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.Buffer.Write(p)
}

func (x *text) String() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.Buffer.String()
}

func startController(t testing.TB, config *rest.Config) *running {
	t.Helper()
	opt := cli.DefaultControllerOptions()
	opt.LeaderElectionNamespace = "default"
	opt.MetricsPort, opt.HealthProbePort, opt.DashboardPort = playgroundtest.FreePort(t), playgroundtest.FreePort(t), playgroundtest.FreePort(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	r := &running{TB: t, metrics: opt.MetricsPort, health: opt.HealthProbePort, page: opt.DashboardPort, log: &text{}}
	go func() { ended <- cli.RunController(ctx, config, opt, r.log) }()
	r.stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() { _ = r.stop() })
	return r
}

func (r *running) get(port int, path string) (int, string) {
	response, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d%s", port, path))
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(body)
}

// becomes waits for an answer with the status and all the parts.
func (r *running) becomes(port int, path string, want int, parts ...string) string {
	r.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		status, body := r.get(port, path)
		missing := slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(body, part) })
		if status == want && !missing {
			return body
		}
		if time.Now().After(deadline) {
			r.Fatalf("%s answers %d %s, want %d with %q\n%s", path, status, body, want, parts, r.log)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

const catalog = "/snapshot/catalog"

func TestAControllerWaitsForItsKindsLeadsAndHandsOver(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	p, err := playground.Start(ctx, playground.Config{Components: []string{playground.Etcd, playground.APIServer}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop()

	first := startController(t, p.RESTConfig())
	if why := first.becomes(first.health, "/readyz", http.StatusServiceUnavailable); !strings.Contains(why, "NodePool") && !strings.Contains(why, "waiting") {
		t.Errorf("not ready because of %q", why)
	}
	first.becomes(first.health, "/healthz", http.StatusOK)
	if err := cluster.ApplyCRDs(ctx, p.RESTConfig()); err != nil {
		t.Fatal(err)
	}
	first.becomes(first.health, "/readyz", http.StatusOK)
	first.becomes(first.metrics, catalog, http.StatusUnauthorized) // it leads: it serves the catalog, to those who may

	second := startController(t, p.RESTConfig())
	second.becomes(second.health, "/readyz", http.StatusOK)
	second.becomes(second.metrics, catalog, http.StatusServiceUnavailable) // it follows
	first.becomes(first.page, "/", http.StatusUnauthorized, "use https")
	second.becomes(second.page, "/", http.StatusServiceUnavailable)

	first.becomes(first.metrics, "/metrics", http.StatusOK, "karpenter_cluster_state_synced 1", "karpenter_build_info", "leader_election_master_status")
	if body := second.becomes(second.metrics, "/metrics", http.StatusOK); strings.Contains(body, "karpenter_cluster_state_synced") {
		t.Error("a follower exports the state of the cluster as well")
	}

	if err := first.stop(); err != nil {
		t.Errorf("the first controller ended with %v", err)
	}
	handedOver := time.Now()
	second.becomes(second.metrics, catalog, http.StatusUnauthorized)
	if took := time.Since(handedOver); took > 10*time.Second {
		t.Errorf("the second controller took over after %v: the lease was not released", took)
	}
	if strings.Count(first.log.String(), `"message":"waiting"`) != 1 {
		t.Errorf("the wait for the kinds was not logged once a minute:\n%s", first.log)
	}
}

func TestAControllerWaitsForTheAPIServer(t *testing.T) {
	t.Parallel()
	r := startController(t, &rest.Config{Host: fmt.Sprintf("https://127.0.0.1:%d", playgroundtest.FreePort(t))})
	r.becomes(r.health, "/readyz", http.StatusServiceUnavailable)
	r.becomes(r.health, "/healthz", http.StatusOK)
	if err := r.stop(); err != nil {
		t.Errorf("ended with %v", err)
	}
}

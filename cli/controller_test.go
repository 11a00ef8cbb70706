package cli_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
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
func (r *running) becomes(port int, path string, want int, parts ...string) (body string) {
	r.Helper()
	r.until(func() (bool, string) {
		status, said := r.get(port, path)
		body = said
		missing := slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(body, part) })
		return status == want && !missing, fmt.Sprintf("%s answers %d %s, want %d with %q", path, status, body, want, parts)
	})
	return body
}

// until waits for the condition. It fails with the condition's text if the condition does not become true in time.
func (r *running) until(condition func() (bool, string)) {
	r.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		ok, says := condition()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			r.Fatalf("%s\n%s", says, r.log)
		}
	}
}

// shows waits until the dashboard shows an address to the owner of a token.
func (r *running) shows(path, token string) (body string) {
	r.Helper()
	secure := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	r.until(func() (bool, string) {
		request, err := http.NewRequest(http.MethodGet, fmt.Sprintf("https://127.0.0.1:%d%s", r.page, path), nil)
		if err != nil {
			r.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+token)
		response, err := secure.Do(request)
		if err != nil {
			return false, "the dashboard does not answer: " + err.Error()
		}
		defer response.Body.Close()
		text, _ := io.ReadAll(response.Body) // the received part is in the message
		body = string(text)
		return response.StatusCode == http.StatusOK, "the dashboard shows " + response.Status + " " + body
	})
	return body
}

// readerToken returns a token of an account that may read everything.
func readerToken(ctx context.Context, t *testing.T, config *rest.Config) string {
	t.Helper()
	kube := kubernetes.NewForConfigOrDie(config)
	meta := metav1.ObjectMeta{Name: "page-reader"}
	_, err := kube.CoreV1().ServiceAccounts("default").Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{})
	if err == nil {
		_, err = kube.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: meta.Name}},
		}, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	answer, err := kube.CoreV1().ServiceAccounts("default").CreateToken(ctx, meta.Name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return answer.Status.Token
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
	first.becomes(first.metrics, catalog, http.StatusUnauthorized) // it leads: it serves the catalog to authorized callers

	second := startController(t, p.RESTConfig())
	second.becomes(second.health, "/readyz", http.StatusOK)
	second.becomes(second.metrics, catalog, http.StatusServiceUnavailable) // it follows
	first.becomes(first.page, "/", http.StatusUnauthorized, "use https")
	second.becomes(second.page, "/", http.StatusUnauthorized, "use https")
	reader := readerToken(ctx, t, p.RESTConfig())
	led := first.shows("/json/nodes", reader)
	if follows := second.shows("/json/nodes", reader); follows != led {
		t.Errorf("the follower's page has\n%s\nthe leader's\n%s", follows, led)
	}

	first.becomes(first.metrics, "/metrics", http.StatusOK, "karpenter_cluster_state_synced 1", "karpenter_build_info", "leader_election_master_status")
	if body := second.becomes(second.metrics, "/metrics", http.StatusOK); strings.Contains(body, "karpenter_cluster_state_synced") {
		t.Error("a follower exports the state of the cluster as well")
	}

	if err := first.stop(); err != nil {
		t.Errorf("the first controller ended with %v", err)
	}
	handedOver := time.Now()
	second.becomes(second.metrics, catalog, http.StatusUnauthorized)
	second.shows("/json/nodes", reader)
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

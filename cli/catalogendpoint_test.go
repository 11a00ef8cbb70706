package cli

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/time/rate"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tenon.sh/cluster"
	"tenon.sh/engine"
	"tenon.sh/playground/playgroundtest"
)

// An office is the API server of the endpoint. It counts the requests.
type office struct {
	client.Client
	kube           kubernetes.Interface
	tokens, access atomic.Int64
}

func newOffice(t *testing.T) *office {
	t.Helper()
	config := playgroundtest.Get(t).RESTConfig()
	o := &office{kube: kubernetes.NewForConfigOrDie(config)}
	must(t, allowSnapshots(t.Context(), config, "kube-system"))
	asks := rest.CopyConfig(config)
	asks.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return tripper(func(r *http.Request) (*http.Response, error) {
			switch {
			case strings.HasSuffix(r.URL.Path, "/tokenreviews"):
				o.tokens.Add(1)
			case strings.HasSuffix(r.URL.Path, "/subjectaccessreviews"):
				o.access.Add(1)
			}
			return next.RoundTrip(r)
		})
	})
	var err error
	o.Client, err = client.New(asks, client.Options{Scheme: cluster.Scheme()})
	must(t, err)
	return o
}

type tripper func(*http.Request) (*http.Response, error)

func (f tripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// token returns a token of a service account. Without an audience it is for the API server.
func (o *office) token(t *testing.T, account string, audience ...string) string {
	t.Helper()
	answer, err := o.kube.CoreV1().ServiceAccounts("kube-system").CreateToken(t.Context(), account,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audience}}, metav1.CreateOptions{})
	must(t, err)
	return answer.Status.Token
}

// startEndpoint serves the catalog on a port of this machine and returns its host and its certificate.
func startEndpoint(t *testing.T, o *office) (host string, trust *tls.Config) {
	t.Helper()
	return startEndpointOn(t, o, "127.0.0.1")
}

func startEndpointOn(t *testing.T, o *office, address string) (host string, trust *tls.Config) {
	t.Helper()
	var callers authenticator.Token
	if o != nil {
		callers = newCallers(o, catalogAudience, catalogPath)
	}
	e, err := listen(ControllerOptions{ListenAddress: address, HealthProbePort: -1})
	must(t, err)
	var handler http.Handler = &knownEndpoint{
		callers: callers, path: catalogPath, rate: rate.NewLimiter(rate.Inf, 0),
		document: catalogText(func(context.Context) (engine.CatalogDocument, error) {
			return engine.CatalogDocument{Kind: engine.CatalogKind}, nil
		}),
	}
	e.catalogHandler.Store(&handler)
	var metrics http.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "up 1") })
	e.metricsHandler.Store(&metrics)
	e.serve(t.Context(), false)
	trust, err = trustOnly(certificateText(e.certificate.Leaf))
	must(t, err)
	return net.JoinHostPort(address, strconv.Itoa(portOf(e.metrics))), trust
}

func get(t *testing.T, client *http.Client, url, token string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	must(t, err)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := client.Do(request)
	must(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	must(t, err)
	return response.StatusCode, string(body)
}

func TestTheCatalogIsForKnownReadersWithATokenForItOverTLS(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	host, trust := startEndpoint(t, o)
	secure := &http.Client{Transport: &http.Transport{TLSClientConfig: trust}}
	good := o.token(t, snapshotAccount, catalogAudience)
	for _, c := range []struct {
		url, token string
		want       int
	}{
		{"https://" + host + catalogPath, "", http.StatusUnauthorized},
		{"https://" + host + catalogPath, o.token(t, snapshotAccount), http.StatusUnauthorized},
		{"https://" + host + catalogPath, "stranger", http.StatusUnauthorized},
		{"https://" + host + catalogPath, o.token(t, "default", catalogAudience), http.StatusForbidden},
		{"https://" + host + catalogPath, good, http.StatusOK},
		{"https://" + host + "/metrics", "", http.StatusOK},
		{"http://" + host + "/metrics", "", http.StatusOK},
	} {
		if got, body := get(t, secure, c.url, c.token); got != c.want {
			t.Errorf("%s with token %q: %d, want %d: %s", c.url, c.token, got, c.want, body)
		}
	}
	seen := o.tokens.Load()
	if got, body := get(t, http.DefaultClient, "http://"+host+catalogPath, "never.seen.before"); got != http.StatusUnauthorized || !strings.Contains(body, "https") {
		t.Errorf("in clear text: %d %s", got, body)
	}
	if o.tokens.Load() != seen {
		t.Error("a token that came in clear text was looked at")
	}
}

func TestManyBadTokensAskTheAPIServerAHandfulOfTimes(t *testing.T) {
	t.Parallel()
	for name, token := range map[string]func(i int) string{
		"all the same":  func(int) string { return "bad" },
		"all different": func(i int) string { return fmt.Sprint("bad-", i) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOffice(t)
			host, trust := startEndpoint(t, o)
			secure := &http.Client{Transport: &http.Transport{TLSClientConfig: trust, MaxIdleConnsPerHost: 10}}
			good := o.token(t, snapshotAccount, catalogAudience)
			if got, body := get(t, secure, "https://"+host+catalogPath, good); got != http.StatusOK {
				t.Fatalf("%d %s", got, body)
			}
			var group sync.WaitGroup
			for worker := range 10 {
				group.Go(func() {
					for i := range 300 {
						if got, body := get(t, secure, "https://"+host+catalogPath, token(300*worker+i)); got != http.StatusUnauthorized && got != http.StatusTooManyRequests {
							t.Errorf("%d %s", got, body)
							return
						}
					}
				})
			}
			group.Wait()
			if n := o.tokens.Load(); n > 10 {
				t.Errorf("3,000 bad tokens made %d reviews", n)
			}
			if got, body := get(t, secure, "https://"+host+catalogPath, good); got != http.StatusOK {
				t.Errorf("who was known before is not served any more: %d %s", got, body)
			}
			if n := o.access.Load(); n != 1 {
				t.Errorf("the API server was asked %d times what one reader may do", n)
			}
		})
	}
}

func TestASilentClientDoesNotKeepOthersFromBeingServed(t *testing.T) {
	t.Parallel()
	host, _ := startEndpoint(t, nil)
	for range 20 {
		c, err := net.Dial("tcp", host)
		must(t, err)
		defer c.Close()
	}
	if got, body := get(t, http.DefaultClient, "http://"+host+"/metrics", ""); got != http.StatusOK {
		t.Errorf("%d %s", got, body)
	}
}

func TestLongHeadersAreRefused(t *testing.T) {
	t.Parallel()
	host, _ := startEndpoint(t, nil)
	c, err := net.Dial("tcp", host)
	must(t, err)
	defer c.Close()
	_, _ = fmt.Fprintf(c, "GET /metrics HTTP/1.1\r\nHost: x\r\nX-Long: %s\r\n\r\n", strings.Repeat("x", 40<<10))
	answer, err := bufio.NewReader(c).ReadString('\n')
	if err != nil || !strings.Contains(answer, "431") {
		t.Errorf("%q %v", answer, err)
	}
}

// A client must never send its token unencrypted, nor to a server that is not the one on the Lease.
func TestAClientShowsItsTokenToNobodyElse(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	host, trust := startEndpoint(t, o)
	_, other := startEndpoint(t, nil)
	if _, err := (leaderClient{path: catalogPath}).fromURL(t.Context(), "http://"+host+catalogPath, nil); err == nil || !strings.Contains(err.Error(), "https://") {
		t.Errorf("over plain HTTP: %v", err)
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{certificateAnnotation: "no certificate"}}}
	if _, err := (leaderClient{path: catalogPath}).fromURL(t.Context(), "https://"+host+catalogPath, lease); err == nil || !strings.Contains(err.Error(), certificateAnnotation) {
		t.Errorf("with a certificate that is none: %v", err)
	}
	good := o.token(t, snapshotAccount, catalogAudience)
	for name, wrong := range map[string]*tls.Config{"another controller's certificate": other, "the system's roots": {}} {
		if _, err := ask(t.Context(), "https://"+host+catalogPath, good, wrong); err == nil || o.tokens.Load() != 0 {
			t.Errorf("%s: %v, %d tokens seen", name, err, o.tokens.Load())
		}
	}
	text, err := ask(t.Context(), "https://"+host+catalogPath, good, trust)
	must(t, err)
	if document, err := readCatalog(text); err != nil || document.Kind != engine.CatalogKind {
		t.Errorf("%v, %v", document, err)
	}
}

// crowd sends unknown tokens until the endpoint refuses further ones. It returns the time to wait.
func crowd(t *testing.T, host string, trust *tls.Config) (again string) {
	t.Helper()
	secure := &http.Client{Transport: &http.Transport{TLSClientConfig: trust}}
	for i := range 1000 {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+host+catalogPath, nil)
		must(t, err)
		request.Header.Set("Authorization", fmt.Sprint("Bearer crowd-", i))
		response, err := secure.Do(request)
		must(t, err)
		must(t, response.Body.Close())
		if response.StatusCode == http.StatusTooManyRequests {
			return response.Header.Get("Retry-After")
		}
	}
	t.Fatal("1,000 unknown tokens are not too many")
	return ""
}

// Each command has a token of its own, which the controller does not know yet. So several commands in a row are many unknown tokens.
func TestACommandWaitsWhenManyOthersAsk(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	host, trust := startEndpoint(t, o)
	good := o.token(t, snapshotAccount, catalogAudience)
	if again := crowd(t, host, trust); again != "2" {
		t.Errorf("Retry-After is %q", again)
	}
	_, err := ask(t.Context(), "https://"+host+catalogPath, good, trust)
	must(t, err)
}

func TestACommandWaitsForNoAnswerBeyondItsPatience(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.Header().Set("Retry-After", strconv.Itoa(int(patience.Seconds())+1))
		http.Error(w, "too many", http.StatusTooManyRequests)
	}))
	t.Cleanup(server.Close)
	trust := server.Client().Transport.(*http.Transport).TLSClientConfig
	if _, err := ask(t.Context(), server.URL, "token", trust); err == nil || !strings.Contains(err.Error(), "429 Too Many Requests: too many") || asked.Load() != 1 {
		t.Errorf("asked %d times: %v", asked.Load(), err)
	}
}

// The API server removes the usual header and forwards the client's request to the pod, by TLS too.
func TestThroughTheAPIServerTheCatalogIsReadByTLS(t *testing.T) {
	t.Parallel()
	address := ""
	addresses, err := net.InterfaceAddrs()
	must(t, err)
	for _, a := range addresses {
		if network, ok := a.(*net.IPNet); ok && network.IP.IsGlobalUnicast() {
			address = network.IP.String()
		}
	}
	if address == "" && os.Getenv("CI") != "" {
		t.Fatal("this machine has no address beside loopback, where an API server asks no pod")
	}
	if address == "" {
		t.Skip("an API server asks no pod on loopback, and this machine has no other address")
	}
	o := newOffice(t)
	host, trust := startEndpointOn(t, o, address)
	_, port, err := net.SplitHostPort(host)
	must(t, err)
	number, err := strconv.Atoi(port)
	must(t, err)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "leader", Namespace: "kube-system"}}
	pod.Spec.NodeName = "none"
	pod.Spec.Containers = []corev1.Container{{Name: "c", Image: "c", Ports: []corev1.ContainerPort{{Name: "http-metrics", ContainerPort: int32(number)}}}}
	pod, err = o.kube.CoreV1().Pods("kube-system").Create(t.Context(), pod, metav1.CreateOptions{})
	must(t, err)
	pod.Status.PodIP, pod.Status.PodIPs = address, []corev1.PodIP{{IP: address}}
	pod, err = o.kube.CoreV1().Pods("kube-system").UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
	must(t, err)
	crowd(t, host, trust) // the command then waits, as without an API server in between
	text, err := leaderClient{api: o.kube, path: catalogPath}.fromPod(t.Context(), pod)
	must(t, err)
	document, err := readCatalog(text)
	if err != nil || document.Kind != engine.CatalogKind {
		t.Errorf("%v, %v", document, err)
	}
}

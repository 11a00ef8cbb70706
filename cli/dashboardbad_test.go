package cli

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/keyutil"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tenon.sh/dashboard"
	"tenon.sh/playground/playgroundtest"
)

// linked is what pages link to.
var linked = regexp.MustCompile(`href="(/[^"]*)"`)

// walk visits the addresses that links reach from the given ones, and calls visit with each answer.
func walk(t *testing.T, handler http.Handler, most int, from []string, visit func(address string, w *httptest.ResponseRecorder)) (visited int) {
	t.Helper()
	seen := map[string]bool{}
	for queue := from; len(queue) > 0 && len(seen) < most; queue = queue[1:] {
		address := queue[0]
		if seen[address] || strings.HasPrefix(address, "/assets/") {
			continue
		}
		seen[address] = true
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost"+address, nil))
		for _, m := range linked.FindAllStringSubmatch(w.Body.String(), -1) {
			queue = append(queue, html.UnescapeString(m[1]))
		}
		visit(address, w)
	}
	return len(seen)
}

// markup matches the parts of the hostile cluster that a browser would execute.
var markup = regexp.MustCompile(`(?i)<img|<script>|="[^"]*" onerror=`)

// Texts of a cluster or a journal are plain text on each page, in the exported file, and in the answers of the editor.
func TestMarkupInAClusterIsTextEverywhere(t *testing.T) {
	t.Parallel()
	o := dashboardOptions{planOptions: planOptions{engineFlags: defaultEngineFlags(), files: []string{"../dashboard/testdata/hostile.yaml"}}, journal: []string{"../dashboard/testdata/hostile.jsonl"}}
	source := o.source(newDashboard().Flags(), strings.NewReader(""), newTerminal(&bytes.Buffer{}))
	handler, shown := handlerOf(t, source), 0
	visited := walk(t, handler, 150, []string{"/", "/waiting", "/why", "/why?q=img", "/decisions", "/money", "/whatif", "/?filter=%3Cimg+src%3Dx%3E"}, func(address string, w *httptest.ResponseRecorder) {
		body := w.Body.String()
		if kind := w.Header().Get("Content-Type"); strings.HasPrefix(kind, "text/html") && markup.MatchString(body) {
			t.Errorf("%s has markup of somebody else in it: %q", address, markup.FindString(body))
		} else if kind == "" || w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s could be taken for a page: %q", address, kind)
		}
		if strings.Contains(body, "&lt;img src=x") {
			shown++
		}
	})
	if visited < 25 || shown < 15 {
		t.Errorf("%d addresses were found, of which %d show the names", visited, shown)
	}
	for _, change := range []string{`kind: <img src=x onerror=alert(1)>`, "apiVersion: v1\nkind: '<img src=x onerror=alert(1)>'\nmetadata: {name: x}", "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: '<img src=x onerror=alert(1)>'}\nspec: {'<img src=x onerror=alert(1)>': 1}"} {
		r := httptest.NewRequest(http.MethodPost, "http://localhost/whatif", strings.NewReader(url.Values{"text": {change}, "from": {change}}.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		if handler.ServeHTTP(w, r); w.Code != http.StatusOK || markup.MatchString(w.Body.String()) || !strings.Contains(w.Body.String(), "Nothing was planned") {
			t.Errorf("%s: %d %q", change, w.Code, markup.FindString(w.Body.String()))
		}
	}
	picture, err := source(t.Context())
	must(t, err)
	file, err := dashboard.Export(picture)
	must(t, err)
	if markup.Match(file) || !strings.Contains(string(file), "&lt;img src=x") {
		t.Errorf("the exported file: %q", markup.FindString(string(file)))
	}
}

// livePage returns the page of a cluster behind a kubeconfig, as tenon dashboard serves it.
func livePage(t *testing.T, kubeconfig string) http.Handler {
	t.Helper()
	o := dashboardOptions{planOptions: planOptions{engineFlags: defaultEngineFlags()}}
	o.kubeconfig = kubeconfig
	return handlerOf(t, o.source(newDashboard().Flags(), strings.NewReader(""), newTerminal(&bytes.Buffer{})))
}

// A cluster without Tenon, without Karpenter's kinds, without metrics and even without nodes has a page on each screen.
func TestBareClustersHaveAPage(t *testing.T) {
	t.Parallel()
	const none = `{"kind":"List","apiVersion":"v1","metadata":{},"items":[]}`
	for name, c := range map[string]struct {
		answers map[string]string
		shows   map[string]string
	}{
		"node groups alone": {nil, map[string]string{"/": "n1", "/why/node/n1": "the node has no NodeClaim", "/decisions": "There is no journal to show", "/money": "m5.4xlarge", "/waiting": "No pod waits", "/whatif": "Begin with"}},
		"nothing at all":    {map[string]string{"/api/v1/nodes": none, "/api/v1/pods": none}, map[string]string{"/": "There are no nodes", "/why": "There is no NodePool", "/decisions": "no controller is running", "/money": "No pod runs on a node", "/waiting": "No pod waits"}},
	} {
		handler := livePage(t, startBare(t, c.answers))
		for address, want := range c.shows {
			if code, page := pageAt(t, handler, address); code != http.StatusOK || !strings.Contains(page, want) {
				t.Errorf("%s: %s does not say %q: %d %s", name, address, want, code, pageWords(page))
			}
		}
	}
}

// A snapshot of an older Tenon lacks newer fields, and a snapshot of a newer one has more.
func TestSnapshotsOfOtherVersionsHaveAPage(t *testing.T) {
	t.Parallel()
	written, err := os.ReadFile(snapshotFile(t, whatIfCluster))
	must(t, err)
	for name, change := range map[string]func(string) string{
		"an older one": func(text string) string {
			return regexp.MustCompile(`(?m)^(  (spotToSpot|threads|nodeOverheadPrice|largestCPU|preferenceShare|minValuesPolicy|preferencePolicy)|earlierPasses|scaleUps|unpriced|noticed):.*\n(^ {2,}.*\n)*`).ReplaceAllString(text, "")
		},
		"a newer one": func(text string) string {
			return strings.Replace(text, "kind: Catalog\n", "kind: Catalog\nfromTheFuture: {deep: [1, 2]}\n", 1)
		},
	} {
		text := change(string(written))
		file := filepath.Join(t.TempDir(), "snapshot.yaml")
		must(t, os.WriteFile(file, []byte(text), 0o600))
		handler := pageOf(t, file)
		for address, want := range map[string]string{"/": "n1", "/waiting": "late", "/why/pool/general": "general", "/money": "shop", "/whatif": "NodePool/general"} {
			if code, page := pageAt(t, handler, address); code != http.StatusOK || !strings.Contains(page, want) {
				t.Errorf("%s: %s: %d %.300s", name, address, code, pageWords(page))
			}
		}
	}
}

// The page only reads from the API server, whatever users view or try. It creates only short-lived tokens for the leader's documents.
func TestThePageOnlyReadsTheCluster(t *testing.T) {
	t.Parallel()
	config := playgroundtest.Get(t).RESTConfig()
	transport, err := rest.TransportFor(config)
	must(t, err)
	target, err := url.Parse(config.Host)
	must(t, err)
	var mu sync.Mutex
	var asked []string
	proxy := &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, r.In.Method+" "+r.In.URL.Path)
		r.SetURL(target)
	}}
	server := httptest.NewServer(proxy)
	defer server.Close()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, os.WriteFile(kubeconfig, fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Config","current-context":"x","contexts":[{"name":"x","context":{"cluster":"x","user":"x"}}],`+
		`"clusters":[{"name":"x","cluster":{"server":%q}}],"users":[{"name":"x","user":{}}]}`, server.URL), 0o600))
	handler := livePage(t, kubeconfig)
	walk(t, handler, 40, []string{"/", "/waiting", "/why", "/decisions", "/money", "/whatif", "/json/plan", "/json/savings"}, func(string, *httptest.ResponseRecorder) {})
	for _, change := range []string{"apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: tried}\nspec: {template: {spec: {requirements: [], nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}}}}", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: tried}\nspec: {replicas: 3, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a}]}}}"} {
		if code, answer := askWhatIf(t, handler, change); code != http.StatusOK && code != http.StatusUnprocessableEntity {
			t.Errorf("%d %s", code, answer)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(asked) < 10 {
		t.Errorf("the API server was asked %q alone", asked)
	}
	for _, a := range asked {
		if !strings.HasPrefix(a, "GET ") && !regexp.MustCompile(`^POST /api/v1/namespaces/[^/]+/serviceaccounts/[^/]+/token$`).MatchString(a) {
			t.Errorf("the page asked for %s", a)
		}
	}
}

// signedAgain returns a service account's token with other times, as if the API server had signed it then.
func signedAgain(t *testing.T, token string, by time.Duration) string {
	t.Helper()
	parts := strings.Split(token, ".")
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	must(t, err)
	claims := map[string]any{}
	must(t, json.Unmarshal(text, &claims))
	for _, name := range []string{"iat", "nbf", "exp"} {
		claims[name] = claims[name].(float64) + by.Seconds()
	}
	text, err = json.Marshal(claims)
	must(t, err)
	signed := parts[0] + "." + base64.RawURLEncoding.EncodeToString(text)
	file, err := os.ReadFile(filepath.Join(filepath.Dir(playgroundtest.Get(t).Kubeconfig()), "pki", "service-account.key"))
	must(t, err)
	key, err := keyutil.ParsePrivateKeyPEM(file)
	must(t, err)
	sum := sha256.Sum256([]byte(signed))
	r, s, err := ecdsa.Sign(rand.Reader, key.(*ecdsa.PrivateKey), sum[:])
	must(t, err)
	return signed + "." + base64.RawURLEncoding.EncodeToString(append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...))
}

// Tokens that the API server no longer accepts do not open the page: expired tokens, and tokens of a deleted account.
func TestOldTokensDoNotOpenThePage(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	token := o.allow(t, "page-leaver", getsDashboard, listsPods)
	page := handlerOnly(pageOfLeader(t, o, "../dashboard/testdata/cluster.txt"))
	for by, want := range map[time.Duration]int{0: http.StatusOK, -100 * time.Hour: http.StatusUnauthorized} {
		if w := look(page, somewhere+"/", signedAgain(t, token, by)); w.Code != want {
			t.Errorf("a token of %s ago: %d %s", -by, w.Code, w.Body)
		}
	}
	must(t, o.kube.CoreV1().ServiceAccounts("kube-system").Delete(t.Context(), "page-leaver", metav1.DeleteOptions{}))
	if w := look(page, somewhere+"/", token); w.Code != http.StatusUnauthorized {
		t.Errorf("a token of nobody: %d %s", w.Code, w.Body)
	}
}

// slowReviews is an API server that answers TokenReviews slowly.
type slowReviews struct {
	client.Client
	hold    atomic.Pointer[chan struct{}] // until the channel is closed
	entered chan struct{}
}

// Create delays the answers of TokenReviews.
func (s *slowReviews) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	if hold := s.hold.Load(); hold != nil && isTokenReview(o) {
		s.entered <- struct{}{}
		<-*hold
	}
	return s.Client.Create(ctx, o, opts...)
}

// While the API server answers slowly, callers whose review is done continue, and callers that disconnect are not waited for.
func TestASlowReviewHoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	known, unknown := o.allow(t, "page-known", getsDashboard, listsPods), o.allow(t, "page-slow", getsDashboard, listsPods)
	slow := &slowReviews{Client: o, entered: make(chan struct{}, 1)}
	page := handlerOnly(pageOfLeader(t, slow, "../dashboard/testdata/cluster.txt"))
	if w := look(page, somewhere+"/", known); w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	hold := make(chan struct{})
	slow.hold.Store(&hold)
	ctx, leave := context.WithCancel(t.Context())
	answered := make(chan int)
	go func() {
		r := httptest.NewRequest(http.MethodGet, somewhere+"/", nil).WithContext(ctx)
		r.Header.Set("Authorization", "Bearer "+unknown)
		w := httptest.NewRecorder()
		page.ServeHTTP(w, r)
		answered <- w.Code
	}()
	<-slow.entered
	if w := look(page, somewhere+"/waiting", known); w.Code != http.StatusOK {
		t.Errorf("somebody who is known: %d %s", w.Code, w.Body)
	}
	leave()
	if code := <-answered; code == http.StatusOK {
		t.Error("somebody sees the page before it is known who they are")
	}
	slow.hold.Store(nil)
	close(hold)
	deadline := time.Now().Add(time.Minute)
	for look(page, somewhere+"/", unknown).Code != http.StatusOK {
		if time.Now().After(deadline) {
			t.Fatal("who went away once stays out")
		}
		pause(t.Context(), 50*time.Millisecond)
	}
}

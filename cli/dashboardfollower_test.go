package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// knownPods are the pods of a namespace in a controller's cache.
type knownPods struct {
	client.Reader
	pods map[string]*corev1.Pod
}

// Get finds a pod.
func (k knownPods) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	pod := k.pods[key.Name]
	if pod == nil || key.Namespace != "kube-system" {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, key.Name)
	}
	pod.DeepCopyInto(into.(*corev1.Pod))
	return nil
}

func podOf(account, ip string) *corev1.Pod {
	return &corev1.Pod{Spec: corev1.PodSpec{ServiceAccountName: account}, Status: corev1.PodStatus{PodIP: ip}}
}

// leaderWith serves a page like a controller, and returns its Lease.
func leaderWith(t *testing.T, page http.Handler) *coordinationv1.Lease {
	t.Helper()
	e, err := listen(ControllerOptions{ListenAddress: "127.0.0.1", MetricsPort: -1, HealthProbePort: -1})
	must(t, err)
	e.pageHandler.Store(&page)
	e.serve(t.Context(), false)
	lease, holder := &coordinationv1.Lease{}, "leads_uid"
	lease.Spec.HolderIdentity = &holder
	lease.Annotations = map[string]string{dashboardPortAnnotation: strconv.Itoa(portOf(e.dashboard)), certificateAnnotation: certificateText(e.certificate.Leaf)}
	return lease
}

func followerOf(lease *coordinationv1.Lease) *follower {
	return &follower{
		lease: func(context.Context) (*coordinationv1.Lease, error) { return lease, nil }, namespace: "kube-system", host: "follows", inPod: true,
		pods: knownPods{pods: map[string]*corev1.Pod{"leads": podOf("karpenter", "127.0.0.1"), "follows": podOf("karpenter", "127.0.0.2"), "stranger": podOf("default", "127.0.0.1"), "new": podOf("karpenter", "")}},
	}
}

// Two replicas show the same page to authorized users: the leader's page, with its decisions.
func TestAFollowerShowsTheLeadersPage(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	reads, lacks := o.allow(t, "page-follower", getsDashboard, listsPods), o.allow(t, "page-follower-stranger", listsPods)
	page, _ := pageOfLeader(t, o, "../dashboard/testdata/cluster.txt")
	var asked atomic.Int32
	lease := leaderWith(t, page)
	follows := followerOf(lease)
	follows.lease = func(context.Context) (*coordinationv1.Lease, error) { asked.Add(1); return lease, nil }
	for _, c := range []struct {
		address, token string
		want           int
	}{
		{"/json/nodes", reads, http.StatusOK}, {"/decisions/20260105T120000-aa", reads, http.StatusOK}, {"/json/journal", reads, http.StatusOK},
		{"/why/node/missing", reads, http.StatusNotFound}, {"/", lacks, http.StatusForbidden}, {"/", "", http.StatusUnauthorized}, {"/", "stranger", http.StatusUnauthorized},
	} {
		led, followed := look(page, somewhere+c.address, c.token), look(follows, somewhere+c.address, c.token)
		if followed.Code != c.want || followed.Body.String() != led.Body.String() || followed.Header().Get("Content-Security-Policy") != led.Header().Get("Content-Security-Policy") {
			t.Errorf("%s: the follower answers %d %.200s, the leader %d %.200s", c.address, followed.Code, followed.Body, led.Code, led.Body)
		}
	}
	for origin, want := range map[string]int{somewhere: http.StatusOK, "https://evil.example.com": http.StatusForbidden} {
		r := httptest.NewRequest(http.MethodPost, somewhere+"/whatif", strings.NewReader(url.Values{"text": {"kind: 1"}}.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", origin)
		r.Header.Set(tokenHeader, reads)
		w := httptest.NewRecorder()
		if follows.ServeHTTP(w, r); w.Code != want {
			t.Errorf("a question of a page of %s: %d %.200s", origin, w.Code, w.Body)
		}
	}
	if n := asked.Load(); n > 2 { // it is requested again after 5 s
		t.Errorf("the Lease was read %d times", n)
	}
}

// A token is sent only to the leader, and requests that cannot be forwarded are refused.
func TestAFollowerShowsTokensToTheLeaderAlone(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	counts := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) })
	other, err := newCertificate()
	must(t, err)
	for name, change := range map[string]func(*coordinationv1.Lease){
		"nobody holds it":                   func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = nil },
		"a pod of another account holds it": func(l *coordinationv1.Lease) { *l.Spec.HolderIdentity = "stranger_uid" },
		"no pod holds it":                   func(l *coordinationv1.Lease) { *l.Spec.HolderIdentity = "laptop_uid" },
		"a pod without an address holds it": func(l *coordinationv1.Lease) { *l.Spec.HolderIdentity = "new_uid" },
		"it names no port":                  func(l *coordinationv1.Lease) { delete(l.Annotations, dashboardPortAnnotation) },
		"it names no such port":             func(l *coordinationv1.Lease) { l.Annotations[dashboardPortAnnotation] = "127.0.0.1:80" },
		"it names no certificate":           func(l *coordinationv1.Lease) { delete(l.Annotations, certificateAnnotation) },
		"it names another certificate":      func(l *coordinationv1.Lease) { l.Annotations[certificateAnnotation] = certificateText(other.Leaf) },
	} {
		lease := leaderWith(t, counts)
		change(lease)
		w := look(followerOf(lease), somewhere+"/", "token")
		if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), "does not lead") || asked.Load() > 0 {
			t.Errorf("%s: %d %s, and the leader was asked %d times", name, w.Code, w.Body, asked.Load())
		}
	}
	follows := followerOf(leaderWith(t, counts))
	if w := look(follows, strings.Replace(somewhere, "https", "http", 1)+"/", "token"); w.Code != http.StatusUnauthorized || !strings.Contains(w.Body.String(), "use https") || asked.Load() > 0 {
		t.Errorf("in clear text: %d %s", w.Code, w.Body)
	}
	if w := look(followerOf(leaderWith(t, follows)), somewhere+"/", "token"); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "nobody leads") || asked.Load() > 0 {
		t.Errorf("by two followers: %d %s", w.Code, w.Body)
	}
	if w := look(follows, somewhere+"/", "token"); w.Code != http.StatusOK || asked.Load() != 1 {
		t.Errorf("by one: %d %s", w.Code, w.Body)
	}
}

// certificateFiles writes a certificate for a name, and returns the pool that browsers must trust.
func certificateFiles(t *testing.T, folder, name string) *x509.CertPool {
	t.Helper()
	certificate, key, err := cert.GenerateSelfSignedCertKey(name, nil, nil)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(folder, "tls.crt"), certificate, 0o600))
	must(t, os.WriteFile(filepath.Join(folder, "tls.key"), key, 0o600))
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(certificate)
	return roots
}

func TestBrowsersAreShownTheCertificateOfTheFiles(t *testing.T) {
	t.Parallel()
	folder, page := t.TempDir(), http.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "the page") }))
	roots := certificateFiles(t, folder, "page.example.com")
	opt := ControllerOptions{ListenAddress: "127.0.0.1", MetricsPort: -1, HealthProbePort: -1, DashboardCertFile: filepath.Join(folder, "tls.crt"), DashboardKeyFile: filepath.Join(folder, "tls.key")}
	e, err := listen(opt)
	must(t, err)
	e.pageHandler.Store(&page)
	e.serve(t.Context(), false)
	visit := func(name string, roots *x509.CertPool) error {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: name}}}
		response, err := client.Get("https://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(portOf(e.dashboard))))
		if err != nil {
			return err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err == nil && string(body) != "the page" {
			err = fmt.Errorf("it is %q", body)
		}
		return err
	}
	must(t, visit("page.example.com", roots))
	own := x509.NewCertPool()
	own.AddCert(e.certificate.Leaf)
	if err := visit(certificateName, own); err != nil {
		t.Errorf("followers: %v", err)
	}
	must(t, os.WriteFile(opt.DashboardKeyFile, []byte("no key"), 0o600))
	if err := e.shown.ReadCertificate(); err == nil {
		t.Error("no key is read as a key")
	}
	if err := visit("page.example.com", roots); err != nil {
		t.Errorf("while the files are broken: %v", err)
	}
	roots = certificateFiles(t, folder, "page.example.com")
	for deadline := time.Now().Add(time.Minute); visit("page.example.com", roots) != nil; pause(t.Context(), 50*time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a new certificate is not shown")
		}
	}
	opt.DashboardKeyFile = filepath.Join(folder, "none")
	if _, err := listen(opt); err == nil || !strings.Contains(err.Error(), "--dashboard-tls-private-key-file") || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("a file that is not there: %v", err)
	}
	whole := DefaultControllerOptions()
	whole.DashboardCertFile = opt.DashboardCertFile
	if err := whole.check(); err == nil || !strings.Contains(err.Error(), "give both files or none") {
		t.Errorf("one file alone: %v", err)
	}
}

package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"tenon.sh/engine"
)

const (
	// catalogAnnotation, on the leader's Lease, is the address of the catalog of a controller that is no pod. certificateAnnotation is the
	// server's certificate.
	catalogAnnotation     = "tenon.sh/catalog-url"
	certificateAnnotation = "tenon.sh/catalog-certificate"
	// snapshotAccount is the service account in the Lease's namespace that may only read the catalog and the journal.
	snapshotAccount = "tenon-snapshot"
	leaseName       = "karpenter-leader-election"
	// tokenSeconds is the shortest lifetime of tokens that an API server issues.
	tokenSeconds = 600
)

// fetchCatalog gets the leader's catalog, from the given address or from the address on its Lease.
func fetchCatalog(ctx context.Context, config *rest.Config, where leaderAddress) (*engine.CatalogDocument, error) {
	text, err := askLeader(ctx, config, where, catalogPath)
	if err != nil {
		return nil, err
	}
	return readCatalog(text)
}

// askLeader gets the leader's document at a path. If the address of its catalog is given, askLeader uses that. If not, it uses the address on the
// leader's Lease. If there is none, it asks the leader's pod through the API server.
func askLeader(ctx context.Context, config *rest.Config, where leaderAddress, path string, query ...string) ([]byte, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	c := leaderClient{api: client, path: path, query: url.Values{}}
	for i := 0; i+1 < len(query); i += 2 {
		c.query.Set(query[i], query[i+1])
	}
	lease, others, err := findLease(ctx, client, where.controllerNamespace)
	if where.catalogURL != "" {
		return c.fromURL(ctx, where.catalogURL, lease) // the server may be trusted without a Lease
	}
	if err != nil {
		return nil, err
	}
	if lease == nil && len(others) > 0 {
		return nil, fmt.Errorf("find the controller: Lease %s exists in namespace %s, but users of a namespace can create one, and no service account there "+
			"is known to have a controller's rights (to check that you need to list serviceaccounts and to create subjectaccessreviews); "+
			"name the controller's namespace with --controller-namespace", leaseName, strings.Join(others[:min(len(others), 5)], ", "))
	}
	if lease == nil {
		return nil, fmt.Errorf("there is no Lease %s: no controller is running", leaseName)
	}
	if announced := lease.Annotations[catalogAnnotation]; announced != "" {
		return c.announced(ctx, announced, lease)
	}
	pod, err := c.leader(ctx, lease)
	if err != nil {
		return nil, err
	}
	return c.fromPod(ctx, pod)
}

func localCatalog(port int) string {
	return "https://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) + catalogPath
}

// leaderClient reads a document from a controller. It sends a token that is only for documents of controllers, never the user's own token, and only
// over TLS.
type leaderClient struct {
	api   kubernetes.Interface
	path  string
	query url.Values
}

// leader returns the pod that holds the Lease. Holders have the name of their host, which for a pod is the pod's name.
func (c leaderClient) leader(ctx context.Context, lease *coordinationv1.Lease) (*corev1.Pod, error) {
	if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
		return nil, fmt.Errorf("nobody holds Lease %s/%s: no controller is running", lease.Namespace, lease.Name)
	}
	host, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_")
	pod, err := c.api.CoreV1().Pods(lease.Namespace).Get(ctx, host, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("%s, which holds Lease %s/%s, is no pod, and the Lease does not say where it serves its catalog", host, lease.Namespace, lease.Name)
	}
	if err != nil {
		return nil, fmt.Errorf("look for the leader: %w", err)
	}
	return pod, nil
}

// fromPod asks a pod through the API server. The API server removes the usual header, so the token is in our own header. The API server
// connects to the pod by TLS.
func (c leaderClient) fromPod(ctx context.Context, pod *corev1.Pod) ([]byte, error) {
	request := c.api.CoreV1().RESTClient().Get().Namespace(pod.Namespace).Resource("pods").
		Name("https:" + pod.Name + ":" + strconv.Itoa(metricsPortOf(pod))).SubResource("proxy").Suffix(c.path)
	if u := request.URL(); u.Scheme != "https" && !isLoopback(u) {
		return nil, fmt.Errorf("the kubeconfig reaches the API server by %s://%s, where a token could be read on its way: use https", u.Scheme, u.Host)
	}
	token, err := c.token(ctx, pod.Namespace, pod.Spec.ServiceAccountName)
	if err != nil {
		return nil, err
	}
	for name := range c.query {
		request = request.Param(name, c.query.Get(name))
	}
	text, err := request.SetHeader(tokenHeader, token).DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return text, nil
}

// metricsPortOf returns the pod's port with the name http-metrics, or the default one.
func metricsPortOf(pod *corev1.Pod) int {
	for _, container := range pod.Spec.Containers {
		for _, port := range container.Ports {
			if port.Name == "http-metrics" {
				return int(port.ContainerPort)
			}
		}
	}
	return 8080
}

// announced asks at an address that an object of the cluster names. The address must be on this machine, because other addresses cannot be
// trusted.
func (c leaderClient) announced(ctx context.Context, address string, lease *coordinationv1.Lease) ([]byte, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("annotation %s: %w", catalogAnnotation, err)
	}
	if !isLoopback(u) {
		return nil, fmt.Errorf("annotation %s names %s, which is another machine: if that is right, say --catalog-url %s", catalogAnnotation, u.Host, address)
	}
	return c.fromURL(ctx, address, lease)
}

func isLoopback(u *url.URL) bool {
	ip := net.ParseIP(u.Hostname())
	return ip != nil && ip.IsLoopback()
}

// fromURL asks at an address. It trusts the certificate on the Lease; without one, it verifies the server as browsers do.
func (c leaderClient) fromURL(ctx context.Context, address string, lease *coordinationv1.Lease) ([]byte, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("--catalog-url: %w", err)
	}
	if u.Scheme != "https" {
		return nil, fmt.Errorf("ask the controller at %s: a token could be read on its way there: name an address that begins with https://", address)
	}
	namespace, trust := metav1.NamespaceSystem, &tls.Config{MinVersion: tls.VersionTLS13}
	if lease != nil {
		namespace = lease.Namespace
		if announced := lease.Annotations[certificateAnnotation]; announced != "" {
			if trust, err = trustOnly(announced); err != nil {
				return nil, fmt.Errorf("annotation %s of Lease %s/%s: %w", certificateAnnotation, lease.Namespace, lease.Name, err)
			}
		}
	}
	token, err := c.token(ctx, namespace, "")
	if err != nil {
		return nil, err
	}
	u.Path, u.RawQuery = c.path, c.query.Encode()
	return ask(ctx, u.String(), token, trust)
}

// ask sends the token to the trusted server, and follows no redirect. If the server has too many callers, ask repeats the call after the
// server's time, like client-go, until patience ends.
func ask(ctx context.Context, address, token string, trust *tls.Config) ([]byte, error) {
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	for {
		text, again, err := askOnce(ctx, address, token, trust)
		if deadline, _ := ctx.Deadline(); again <= 0 || time.Until(deadline) < again {
			return text, err
		}
		select {
		case <-time.After(again):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// askOnce returns the time until the next attempt in `again`. This time is 0 if the server gives none.
func askOnce(ctx context.Context, address, token string, trust *tls.Config) (text []byte, again time.Duration, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, 0, fmt.Errorf("--catalog-url: %w", err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	client := &http.Client{
		Timeout: patience, Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: trust, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, 0, fmt.Errorf("ask the controller: %w", err)
	}
	defer response.Body.Close()
	text, err = io.ReadAll(response.Body)
	if err != nil {
		return nil, 0, fmt.Errorf("ask the controller at %s: %w", address, err)
	}
	if response.StatusCode != http.StatusOK {
		if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil && response.StatusCode == http.StatusTooManyRequests {
			again = time.Duration(seconds) * time.Second
		}
		return nil, again, fmt.Errorf("ask the controller at %s: %s: %s", address, response.Status, strings.TrimSpace(string(text)))
	}
	return text, 0, nil
}

func readCatalog(text []byte) (*engine.CatalogDocument, error) {
	document := &engine.CatalogDocument{}
	if err := yaml.Unmarshal(text, document); err != nil {
		return nil, fmt.Errorf("read the controller's catalog: %w", err)
	}
	if document.Kind != engine.CatalogKind {
		return nil, errors.New("the server at this address is no Tenon controller")
	}
	return document, nil
}

// token gets a token of a service account that may read the catalog. It tries snapshotAccount first. If that fails, it tries the controller's own
// account.
func (c leaderClient) token(ctx context.Context, namespace, account string) (string, error) {
	asked := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		Audiences: []string{catalogAudience}, ExpirationSeconds: ptr.To[int64](tokenSeconds),
	}}
	var failed error
	for _, name := range []string{snapshotAccount, account} {
		if name == "" {
			continue
		}
		answer, err := c.api.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, asked, metav1.CreateOptions{})
		if err == nil {
			return answer.Status.Token, nil
		}
		failed = errors.Join(failed, err)
	}
	return "", fmt.Errorf("get a token for the catalog of a service account that may read it: %w", failed)
}

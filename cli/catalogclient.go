package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"tenon.sh/engine"
)

const (
	// catalogAnnotation, on the leader's Lease, says where a controller that is no pod serves its catalog.
	catalogAnnotation = "tenon.sh/catalog-url"
	// snapshotAccount is the service account in the Lease's namespace that users without a token of their own borrow to
	// read the catalog.
	snapshotAccount = "tenon-snapshot"
	leaseName       = "karpenter-leader-election"
)

// fetchCatalog asks the leader for its catalog: at the address given, or where its Lease says it is.
func fetchCatalog(ctx context.Context, config *rest.Config, address string) (*engine.CatalogDocument, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	c := catalogClient{config: config, api: client}
	if address != "" {
		return c.fromURL(ctx, address, "kube-system")
	}
	lease, err := c.lease(ctx)
	if err != nil {
		return nil, err
	}
	if lease == nil {
		return c.fromURL(ctx, localCatalog(8080), "kube-system")
	}
	if announced := lease.Annotations[catalogAnnotation]; announced != "" {
		return c.announced(ctx, announced, lease.Namespace)
	}
	pod, err := c.leader(ctx, lease)
	if err != nil {
		return nil, err
	}
	if pod == nil {
		return c.fromURL(ctx, localCatalog(8080), lease.Namespace)
	}
	return c.fromPod(ctx, pod)
}

func localCatalog(port int) string {
	return "http://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) + catalogPath
}

// catalogClient reads a catalog from a controller.
type catalogClient struct {
	config *rest.Config
	api    kubernetes.Interface
}

// lease finds the leader's Lease, whatever its namespace; nil if there is none. Of several the one that was renewed
// last counts.
func (c catalogClient) lease(ctx context.Context) (*coordinationv1.Lease, error) {
	list, err := c.api.CoordinationV1().Leases("").List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + leaseName})
	if err != nil {
		return nil, fmt.Errorf("look for the leader's Lease: %w", err)
	}
	var found *coordinationv1.Lease
	for i := range list.Items {
		l := &list.Items[i]
		if found == nil || l.Spec.RenewTime != nil && (found.Spec.RenewTime == nil || found.Spec.RenewTime.Before(l.Spec.RenewTime)) {
			found = l
		}
	}
	return found, nil
}

// leader is the pod that holds the Lease, nil if the holder is no pod. Holders are named after their host, which a
// pod's name is.
func (c catalogClient) leader(ctx context.Context, lease *coordinationv1.Lease) (*corev1.Pod, error) {
	if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
		return nil, fmt.Errorf("nobody holds Lease %s/%s: no controller is running", lease.Namespace, lease.Name)
	}
	host, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_")
	pod, err := c.api.CoreV1().Pods(lease.Namespace).Get(ctx, host, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for the leader: %w", err)
	}
	return pod, nil
}

// fromPod asks a pod through the API server, which takes the usual header away, so the token goes in one of our own.
func (c catalogClient) fromPod(ctx context.Context, pod *corev1.Pod) (*engine.CatalogDocument, error) {
	token, err := c.token(ctx, pod.Namespace, pod.Spec.ServiceAccountName)
	if err != nil {
		return nil, err
	}
	text, err := c.api.CoreV1().RESTClient().Get().Namespace(pod.Namespace).Resource("pods").
		Name(pod.Name+":"+strconv.Itoa(metricsPortOf(pod))).SubResource("proxy").Suffix(catalogPath).
		SetHeader(tokenHeader, token).DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return readCatalog(text)
}

// metricsPortOf is the port that the pod calls http-metrics, or the default one.
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

// announced asks at an address that an object of the cluster names. It must be on this machine: the token that is sent
// there is the user's.
func (c catalogClient) announced(ctx context.Context, address, namespace string) (*engine.CatalogDocument, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("annotation %s: %w", catalogAnnotation, err)
	}
	if ip := net.ParseIP(u.Hostname()); ip == nil || !ip.IsLoopback() {
		return nil, fmt.Errorf("annotation %s names %s, which is another machine: if that is right, say --catalog-url %s", catalogAnnotation, u.Host, address)
	}
	return c.fromURL(ctx, address, namespace)
}

func (c catalogClient) fromURL(ctx context.Context, address, namespace string) (*engine.CatalogDocument, error) {
	token, err := c.token(ctx, namespace, "")
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, fmt.Errorf("--catalog-url: %w", err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	client := &http.Client{Timeout: patience}
	response, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask the controller: %w", err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("ask the controller at %s: %w", address, err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("ask the controller at %s: %s: %s", address, response.Status, strings.TrimSpace(string(text)))
	}
	return readCatalog(text)
}

func readCatalog(text []byte) (*engine.CatalogDocument, error) {
	document := &engine.CatalogDocument{}
	if err := yaml.Unmarshal(text, document); err != nil {
		return nil, fmt.Errorf("read the controller's catalog: %w", err)
	}
	if document.Kind != engine.CatalogKind {
		return nil, errors.New("what answers there is no Tenon controller")
	}
	return document, nil
}

// token is the user's own, or one of a service account that may read the catalog for users who identify themselves by
// a certificate.
func (c catalogClient) token(ctx context.Context, namespace, account string) (string, error) {
	own, err := ownToken(c.config)
	if own != "" || err != nil {
		return own, err
	}
	var failed error
	for _, name := range []string{snapshotAccount, account} {
		if name == "" {
			continue
		}
		answer, err := c.api.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		if err == nil {
			return answer.Status.Token, nil
		}
		failed = errors.Join(failed, err)
	}
	return "", fmt.Errorf("the kubeconfig has no token to show to the controller, and none can be had of a service account: %w", failed)
}

// ownToken is the token that the kubeconfig has, or that its plugin gets.
func ownToken(config *rest.Config) (string, error) {
	if config.BearerTokenFile != "" {
		text, err := os.ReadFile(config.BearerTokenFile)
		return strings.TrimSpace(string(text)), err
	}
	if config.BearerToken != "" {
		return config.BearerToken, nil
	}
	if config.ExecProvider == nil && config.AuthProvider == nil {
		return "", nil
	}
	seen := &headerCatcher{}
	quiet := rest.CopyConfig(config)
	quiet.TLSClientConfig = rest.TLSClientConfig{}
	quiet.Transport = seen
	transport, err := rest.TransportFor(quiet)
	if err != nil {
		return "", fmt.Errorf("ask the kubeconfig's plugin for a token: %w", err)
	}
	request, err := http.NewRequest(http.MethodGet, config.Host, nil)
	if err != nil {
		return "", err
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return "", fmt.Errorf("ask the kubeconfig's plugin for a token: %w", err)
	}
	_ = response.Body.Close()
	return strings.TrimPrefix(seen.authorization, "Bearer "), nil
}

// headerCatcher answers requests itself and keeps the header that would have been sent.
type headerCatcher struct{ authorization string }

// RoundTrip never leaves this process.
func (h *headerCatcher) RoundTrip(request *http.Request) (*http.Response, error) {
	h.authorization = request.Header.Get("Authorization")
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: request}, nil
}

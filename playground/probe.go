package playground

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const (
	// readyPatience is the longest time until a component is healthy. One or two seconds are usual. Minutes are possible if other processes
	// keep all cores busy. If the component's process ends, the wait ends immediately.
	readyPatience = 5 * time.Minute
	probeInterval = 25 * time.Millisecond
	probeTimeout  = 5 * time.Second
)

// A probe returns nil once its condition holds.
type probe func(ctx context.Context) error

// probeClient returns an HTTP client that trusts both authorities and has a certificate for etcd. The API server's health needs no
// certificate.
func (p *Playground) probeClient() (*http.Client, error) {
	id, err := p.etcd.client("probe")
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(id.certPEM, id.keyPEM)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AddCert(p.cluster.certificate)
	roots.AddCert(p.etcd.certificate)
	config := &tls.Config{RootCAs: roots, GetClientCertificate: func(request *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		if request.SupportsCertificate(&pair) == nil {
			return &pair, nil
		}
		return &tls.Certificate{}, nil
	}}
	// The client keeps no connections: the probes are few, and no connection must stay open when the playground ends.
	return &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}, Timeout: probeTimeout}, nil
}

// answers returns a probe that requests a page and expects status 200.
func answers(client *http.Client, url string) probe {
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode == http.StatusOK {
			return nil
		}
		body, _ := io.ReadAll(io.LimitReader(response.Body, 2<<10))
		return fmt.Errorf("%s answers %s: %s", url, response.Status, strings.TrimSpace(string(body)))
	}
}

// waitFor repeats the probe until it succeeds. It gives up when the context ends or after readyPatience.
func waitFor(ctx context.Context, ask probe) error {
	patience, cancel := context.WithTimeoutCause(ctx, readyPatience, fmt.Errorf("gave up after %s", readyPatience))
	defer cancel()
	ticker := time.NewTicker(probeInterval)
	defer ticker.Stop()
	for {
		err := ask(patience)
		if err == nil {
			return nil
		}
		select {
		case <-patience.Done():
			return fmt.Errorf("%w; last answer: %w", context.Cause(patience), err)
		case <-ticker.C:
		}
	}
}

func (p *process) waitHealthy(ctx context.Context, health probe) error {
	// The end of the process cancels a running probe, too, because another program with its port may accept the connection and never answer.
	alive, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-p.ended:
			cancel()
		case <-alive.Done():
		}
	}()
	err := waitFor(alive, health)
	select {
	case <-p.ended:
		return p.endError()
	default:
		if err == nil {
			return nil
		}
		return fmt.Errorf("wait for %s: %w; the end of its log %s:\n%s", p.name, err, p.log, tail(p.log))
	}
}

// waitForDefaults waits for the objects that the API server and the controller manager create shortly after they are healthy. Without these
// objects, pods and node leases cannot be created.
func (p *Playground) waitForDefaults(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(p.RESTConfig())
	if err != nil {
		return err
	}
	core := client.CoreV1()
	err = waitFor(ctx, func(ctx context.Context) error {
		_, err := core.Namespaces().Get(ctx, metav1.NamespaceDefault, metav1.GetOptions{})
		_, leases := core.Namespaces().Get(ctx, "kube-node-lease", metav1.GetOptions{})
		return errors.Join(err, leases)
	})
	if err == nil && p.runs(ControllerManager) {
		err = waitFor(ctx, func(ctx context.Context) error {
			_, err := core.ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("wait for the default namespace and its service account: %w", err)
	}
	return nil
}

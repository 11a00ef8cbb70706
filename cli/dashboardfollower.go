package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// dashboardPortAnnotation, on the leader's Lease, is the port of the leader's dashboard.
	dashboardPortAnnotation = "tenon.sh/dashboard-port"
	// handedOnHeader marks a request from a follower. No follower forwards it again.
	handedOnHeader = "X-Tenon-Handed-On"
	// leaderKept is the time for which a follower remembers the leader, or the error of finding it.
	leaderKept = 5 * time.Second
	// mostHandedOn is the largest number of connections of a follower to the leader.
	mostHandedOn = 64
)

// A follower forwards requests for the dashboard to the leader, which checks the callers' rights. So all replicas show the same page. A
// follower sends tokens only to the pod that holds the Lease, runs with the same service account, and has the certificate on the Lease.
type follower struct {
	lease           func(context.Context) (*coordinationv1.Lease, error)
	pods            client.Reader
	namespace, host string // the namespace and host of this process; a pod's host has the pod's name
	inPod           bool

	mu      sync.Mutex // guards all below
	page    *leaderPage
	problem error
	asked   time.Time
}

// follower returns a handler for the dashboard of a process that does not lead.
func (p *parts) follower() (http.Handler, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("find out what this machine is called: %w", err)
	}
	api, err := kubernetes.NewForConfig(p.config)
	if err != nil {
		return nil, fmt.Errorf("reach the API server: %w", err)
	}
	return &follower{
		lease: func(ctx context.Context) (*coordinationv1.Lease, error) {
			return api.CoordinationV1().Leases(p.leaseNamespace()).Get(ctx, p.opt.LeaderElectionName, metav1.GetOptions{})
		},
		pods: p.mgr.GetClient(), namespace: ownLeaseNamespace(), host: host, inPod: inPod(),
	}, nil
}

// ServeHTTP forwards one request.
func (f *follower) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.TLS == nil {
		http.Error(w, needsTLS, http.StatusUnauthorized)
		return
	}
	if r.Header.Get(handedOnHeader) != "" {
		http.Error(w, "nobody leads just now: try again in a few seconds", http.StatusServiceUnavailable)
		return
	}
	page, err := f.leader(r.Context())
	if err != nil {
		notHandedOn(w)
		return
	}
	page.proxy.ServeHTTP(w, r)
}

func notHandedOn(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "5")
	http.Error(w, "this controller does not lead, and cannot reach the one that does: try again in a few seconds", http.StatusServiceUnavailable)
}

// leader returns the page of the leader. It asks the API server at most once in leaderKept, however many requests there are.
func (f *follower) leader(ctx context.Context) (*leaderPage, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.asked) < leaderKept {
		return f.page, f.problem
	}
	ask, stop := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second) // other requests share the answer
	defer stop()
	place, err := f.find(ask)
	if err == nil && (f.page == nil || f.page.place != place) {
		old := f.page
		if f.page, err = newLeaderPage(ctx, place); old != nil {
			old.transport.CloseIdleConnections()
		}
	}
	if f.problem, f.asked = err, time.Now(); err != nil {
		log.FromContext(ctx).Info("the dashboard is not shown", "cause", err.Error())
	}
	return f.page, err
}

// A leaderPlace is the address of the leader's page, and the leader's certificate.
type leaderPlace struct{ address, certificate string }

func (f *follower) find(ctx context.Context) (leaderPlace, error) {
	lease, err := f.lease(ctx)
	if err != nil {
		return leaderPlace{}, fmt.Errorf("find out who leads: %w", err)
	}
	host, _, _ := strings.Cut(ptr.Deref(lease.Spec.HolderIdentity, ""), "_")
	if host == "" {
		return leaderPlace{}, fmt.Errorf("nobody holds Lease %s/%s", lease.Namespace, lease.Name)
	}
	port, err := strconv.ParseUint(lease.Annotations[dashboardPortAnnotation], 10, 16)
	if err != nil {
		return leaderPlace{}, fmt.Errorf("the Lease %s/%s does not say on which port its holder %s serves the dashboard", lease.Namespace, lease.Name, host)
	}
	ip := "127.0.0.1"
	switch {
	case f.inPod:
		if ip, err = f.podIP(ctx, host); err != nil {
			return leaderPlace{}, err
		}
	case host != f.host:
		return leaderPlace{}, fmt.Errorf("%s leads, which is no pod and not this machine", host)
	}
	return leaderPlace{net.JoinHostPort(ip, strconv.FormatUint(port, 10)), lease.Annotations[certificateAnnotation]}, nil
}

// podIP returns the address of a pod that has the same service account as this one.
func (f *follower) podIP(ctx context.Context, name string) (string, error) {
	own, leads := &corev1.Pod{}, &corev1.Pod{}
	for pod, name := range map[*corev1.Pod]string{own: f.host, leads: name} {
		if err := f.pods.Get(ctx, client.ObjectKey{Namespace: f.namespace, Name: name}, pod); err != nil {
			return "", fmt.Errorf("look for pod %s/%s: %w", f.namespace, name, err)
		}
	}
	if leads.Spec.ServiceAccountName != own.Spec.ServiceAccountName {
		return "", fmt.Errorf("pod %s/%s, which holds the Lease, runs as service account %s and not as %s: no token is shown to it", f.namespace, name, leads.Spec.ServiceAccountName, own.Spec.ServiceAccountName)
	}
	if leads.Status.PodIP == "" {
		return "", fmt.Errorf("pod %s/%s, which holds the Lease, has no address yet", f.namespace, name)
	}
	return leads.Status.PodIP, nil
}

// A leaderPage forwards requests to one leader.
type leaderPage struct {
	place     leaderPlace
	transport *http.Transport
	proxy     *httputil.ReverseProxy
}

func newLeaderPage(ctx context.Context, place leaderPlace) (*leaderPage, error) {
	trust, err := trustOnly(place.certificate)
	if err != nil {
		return nil, fmt.Errorf("annotation %s of the Lease: %w", certificateAnnotation, err)
	}
	p := &leaderPage{place: place, transport: &http.Transport{
		DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext, TLSClientConfig: trust, TLSHandshakeTimeout: 5 * time.Second,
		ResponseHeaderTimeout: 30 * time.Second, IdleConnTimeout: time.Minute, MaxConnsPerHost: mostHandedOn, MaxIdleConnsPerHost: mostHandedOn, DisableCompression: true,
	}}
	p.proxy = &httputil.ReverseProxy{
		Transport: p.transport,
		Rewrite: func(r *httputil.ProxyRequest) { // the request's token and host stay as they are
			r.Out.URL.Scheme, r.Out.URL.Host = "https", place.address
			r.Out.Header.Set(handedOnHeader, "yes")
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if !errors.Is(r.Context().Err(), context.Canceled) {
				log.FromContext(r.Context()).Info("the leader does not answer for the dashboard", "address", place.address, "cause", err.Error())
			}
			notHandedOn(w)
		},
		ErrorLog: clientsLog(ctx),
	}
	return p, nil
}

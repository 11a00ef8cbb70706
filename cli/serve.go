package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	stdlog "log"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"tenon.sh/serving"
)

// endpoints serves the controller's HTTP ports. It serves before all other parts start, so that probes can report that the controller waits
// for its kinds.
type endpoints struct {
	metrics, health, dashboard net.Listener // nil if not served

	certificate tls.Certificate          // the own certificate of the process
	shown       *certwatcher.CertWatcher // for browsers, nil for the same certificate

	ready, healthy atomic.Pointer[func() error]
	metricsHandler atomic.Pointer[http.Handler]
	catalogHandler atomic.Pointer[http.Handler]
	journalHandler atomic.Pointer[http.Handler]
	pageHandler    atomic.Pointer[http.Handler]
}

// loopback is the address on which a controller outside a pod listens by default, because it runs on a user's own machine.
const loopback = "127.0.0.1"

// listen opens the ports. A port in use is an error, because another controller is running here.
func listen(opt ControllerOptions) (*endpoints, error) {
	host := opt.ListenAddress
	if host == "" && !inPod() {
		host = loopback
	}
	certificate, err := newCertificate()
	if err != nil {
		return nil, err
	}
	e := &endpoints{certificate: certificate}
	if e.metrics, err = listenOn(host, opt.MetricsPort, "metrics-port"); err != nil {
		return nil, err
	}
	if e.health, err = listenOn(host, opt.HealthProbePort, "health-probe-port"); err != nil {
		e.close()
		return nil, err
	}
	if opt.DashboardCertFile != "" {
		if e.shown, err = certwatcher.New(opt.DashboardCertFile, opt.DashboardKeyFile); err != nil {
			e.close()
			return nil, fmt.Errorf("%s and %s: read the dashboard's certificate: %w", flagAndVariable("dashboard-tls-cert-file"), flagAndVariable("dashboard-tls-private-key-file"), err)
		}
	}
	if e.dashboard, err = listenOn(host, opt.DashboardPort, "dashboard-port"); err != nil {
		e.close()
		return nil, err
	}
	return e, nil
}

func listenOn(host string, port int, flag string) (net.Listener, error) {
	if port < 0 {
		return nil, nil
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("port %d is taken by another program: choose another with --%s (%s)", port, flag, environment()[flag])
	}
	if err != nil {
		return nil, fmt.Errorf("listen on port %d (--%s): %w", port, flag, err)
	}
	return listener, nil
}

func (e *endpoints) close() {
	for _, l := range []net.Listener{e.metrics, e.health, e.dashboard} {
		if l != nil {
			_ = l.Close()
		}
	}
}

// portOf returns the port of a listener. It returns 0 if the listener is nil.
func portOf(l net.Listener) int {
	if l == nil {
		return 0
	}
	return l.Addr().(*net.TCPAddr).Port
}

// The limits of requests, by kind. docs/reference/ports.md lists them for users.
var (
	// A probe costs nothing, and the kubelet ends a controller whose probes fail.
	probeLimits = serving.Limits{InFlight: 16, Wait: time.Second, Write: 5 * time.Second}
	// Prometheus waits 10 s for a scrape by default.
	metricsLimits  = serving.Limits{InFlight: 2, Wait: 5 * time.Second, Write: 5 * time.Second}
	documentLimits = serving.Limits{InFlight: 2, Wait: 5 * time.Second, Write: 10 * time.Second}
	profileLimits  = serving.Limits{InFlight: 1, Body: 64 << 10, Write: 10 * time.Second}
	// A browser requests all files of a page at the same time. The page itself has further limits for its plans.
	pageLimits = serving.Limits{InFlight: 16, Wait: 5 * time.Second, Body: 1 << 20, Write: 10 * time.Second}
)

// ports returns the ports of the controller, with their handlers and limits.
func (e *endpoints) ports(ctx context.Context, profiling bool) (out []serving.Port) {
	quiet := clientsLog(ctx)
	if e.health != nil {
		out = append(out, serving.Port{Name: "health probes", Listener: e.health, Log: quiet, Routes: []serving.Route{
			{Pattern: "/healthz", Limits: probeLimits, Handler: probe(&e.healthy)},
			{Pattern: "/readyz", Limits: probeLimits, Handler: probe(&e.ready)},
		}})
	}
	if e.metrics != nil {
		routes := []serving.Route{
			{Pattern: "/metrics", Limits: metricsLimits, Handler: later(&e.metricsHandler)},
			{Pattern: catalogPath, Limits: documentLimits, Handler: later(&e.catalogHandler)},
			{Pattern: journalPath, Limits: documentLimits, Handler: later(&e.journalHandler)},
		}
		if profiling {
			routes = append(routes,
				serving.Route{Pattern: "/debug/pprof/", Limits: profileLimits, Handler: http.HandlerFunc(pprof.Index)},
				serving.Route{Pattern: "/debug/pprof/cmdline", Limits: profileLimits, Handler: http.HandlerFunc(pprof.Cmdline)},
				serving.Route{Pattern: "/debug/pprof/profile", Limits: profileLimits, Handler: http.HandlerFunc(pprof.Profile)},
				serving.Route{Pattern: "/debug/pprof/symbol", Limits: profileLimits, Handler: http.HandlerFunc(pprof.Symbol)},
				serving.Route{Pattern: "/debug/pprof/trace", Limits: profileLimits, Handler: http.HandlerFunc(pprof.Trace)})
		}
		out = append(out, serving.Port{Name: "metrics", Listener: e.metrics, Log: quiet, Certificate: e.ownCertificate, Routes: routes})
	}
	if e.dashboard != nil { // the port redirects plain HTTP to TLS
		page := serving.Route{Pattern: "/", Limits: pageLimits, Handler: later(&e.pageHandler)}
		out = append(out, serving.Port{Name: "dashboard", Listener: e.dashboard, Log: quiet, Certificate: e.pageCertificate, Routes: []serving.Route{page}})
	}
	return out
}

// serve serves the ports until ctx ends.
func (e *endpoints) serve(ctx context.Context, profiling bool) {
	for _, p := range e.ports(ctx, profiling) {
		go func() {
			if err := p.Serve(ctx); err != nil {
				log.FromContext(ctx).Error(err, "serving a port has ended", "port", p.Name)
			}
		}()
	}
	if e.dashboard != nil {
		go e.renew(ctx)
	}
}

func (e *endpoints) ownCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return &e.certificate, nil
}

// pageCertificate returns the certificate of the files, if there are any. Followers get the certificate that the Lease names.
func (e *endpoints) pageCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if e.shown == nil || hello.ServerName == certificateName {
		return &e.certificate, nil
	}
	return e.shown.GetCertificate(hello)
}

// renew reads the files of the page's certificate again when they change. While they cannot be read, the earlier certificate stays.
func (e *endpoints) renew(ctx context.Context) {
	for e.shown != nil && ctx.Err() == nil {
		if err := e.shown.Start(ctx); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "watching the files of the dashboard's certificate")
			pause(ctx, time.Minute)
		}
	}
}

// clientsLog returns a logger for the server's messages about interrupted connections. They are debug messages.
func clientsLog(ctx context.Context) *stdlog.Logger {
	return slog.NewLogLogger(logr.ToSlogHandler(log.FromContext(ctx).V(1)), slog.LevelInfo)
}

// probe answers 200, or 503 with the error. Before serve is called, both probes have a first result: success for liveness, failure for
// readiness.
func probe(check *atomic.Pointer[func() error]) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if err := (*check.Load())(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("ok"))
	})
}

// later forwards requests to a handler that is set later. Until then it answers 503.
func later(handler *atomic.Pointer[http.Handler]) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := handler.Load()
		if h == nil {
			http.Error(w, "this controller is not ready yet, or not the leader", http.StatusServiceUnavailable)
			return
		}
		(*h).ServeHTTP(w, r)
	})
}

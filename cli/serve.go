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
)

// endpoints serves what others ask the controller for. It serves before anything else runs, so that a controller that
// waits for its kinds to be installed can say so.
type endpoints struct {
	metrics, health, dashboard net.Listener // nil if not served

	certificate tls.Certificate          // for what is not for everybody to read
	shown       *certwatcher.CertWatcher // to browsers, nil for the same

	ready, healthy atomic.Pointer[func() error]
	metricsHandler atomic.Pointer[http.Handler]
	catalogHandler atomic.Pointer[http.Handler]
	journalHandler atomic.Pointer[http.Handler]
	pageHandler    atomic.Pointer[http.Handler]
}

// listen takes the ports. A port that is taken is an error: another controller is running here.
func listen(opt ControllerOptions) (*endpoints, error) {
	certificate, err := newCertificate()
	if err != nil {
		return nil, err
	}
	e := &endpoints{certificate: certificate}
	if e.metrics, err = listenOn(opt.listenHost, opt.MetricsPort, "metrics-port"); err != nil {
		return nil, err
	}
	if e.health, err = listenOn(opt.listenHost, opt.HealthProbePort, "health-probe-port"); err != nil {
		e.close()
		return nil, err
	}
	if opt.DashboardCertFile != "" {
		if e.shown, err = certwatcher.New(opt.DashboardCertFile, opt.DashboardKeyFile); err != nil {
			e.close()
			return nil, fmt.Errorf("%s and %s: read the dashboard's certificate: %w", flagAndVariable("dashboard-tls-cert-file"), flagAndVariable("dashboard-tls-private-key-file"), err)
		}
	}
	if e.dashboard, err = listenOn(opt.listenHost, opt.DashboardPort, "dashboard-port"); err != nil {
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

// portOf is the port that something is served on, 0 if it is not.
func portOf(l net.Listener) int {
	if l == nil {
		return 0
	}
	return l.Addr().(*net.TCPAddr).Port
}

// serve answers until ctx ends.
func (e *endpoints) serve(ctx context.Context, profiling bool) {
	health := http.NewServeMux()
	health.Handle("/healthz", probe(&e.healthy))
	health.Handle("/readyz", probe(&e.ready))
	serveOn(ctx, e.health, health)

	metrics := http.NewServeMux()
	metrics.Handle("/metrics", later(&e.metricsHandler))
	metrics.Handle(catalogPath, later(&e.catalogHandler))
	metrics.Handle(journalPath, later(&e.journalHandler))
	if profiling {
		metrics.HandleFunc("/debug/pprof/", pprof.Index)
		metrics.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		metrics.HandleFunc("/debug/pprof/profile", pprof.Profile)
		metrics.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		metrics.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	if e.metrics != nil {
		serveOn(ctx, newOnePort(e.metrics, e.ownCertificate), metrics)
	}
	if e.dashboard != nil { // plain HTTP is told to come by TLS
		serveOn(ctx, newOnePort(e.dashboard, e.pageCertificate), later(&e.pageHandler))
		go e.renew(ctx)
	}
}

func (e *endpoints) ownCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return &e.certificate, nil
}

// pageCertificate is the one of the files, if there are any; followers look for the one that the Lease names.
func (e *endpoints) pageCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if e.shown == nil || hello.ServerName == certificateName {
		return &e.certificate, nil
	}
	return e.shown.GetCertificate(hello)
}

// renew reads the files of the page's certificate again when they change. While they cannot be read, the one that there is stays.
func (e *endpoints) renew(ctx context.Context) {
	for e.shown != nil && ctx.Err() == nil {
		if err := e.shown.Start(ctx); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "watching the files of the dashboard's certificate")
			pause(ctx, time.Minute)
		}
	}
}

func serveOn(ctx context.Context, listener net.Listener, handler http.Handler) {
	if listener == nil {
		return
	}
	server := &http.Server{
		Handler: handler, MaxHeaderBytes: 16 << 10, BaseContext: func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		WriteTimeout: time.Minute, // a profile is gathered for half of it
		ErrorLog:     clientsLog(ctx),
	}
	go func() { _ = server.Serve(listener) }() // ends with ErrServerClosed
	go func() {
		<-ctx.Done()
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = server.Shutdown(last)
	}()
}

// clientsLog takes what servers say of clients that break off, which is for those who debug them.
func clientsLog(ctx context.Context) *stdlog.Logger {
	return slog.NewLogLogger(logr.ToSlogHandler(log.FromContext(ctx).V(1)), slog.LevelInfo)
}

// probe answers 200 or, with what is wrong, 503. A probe whose answer is not known yet succeeds for liveness and fails
// for readiness: both are set before serve is called.
func probe(check *atomic.Pointer[func() error]) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if err := (*check.Load())(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("ok"))
	})
}

// later hands on to a handler that is put in place when there is something to serve.
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

package serving

import (
	"context"
	"crypto/tls"
	"errors"
	"log"
	"net"
	"net/http"
	"time"
)

// A Port serves routes on one listener.
type Port struct {
	Name     string // in log messages: "metrics"
	Listener net.Listener
	// Certificate returns the certificate for clients that use TLS. Other clients get plain HTTP. If it is nil, the port serves only plain
	// HTTP.
	Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	Routes      []Route
	// Log gets the server's messages about failed connections; nil is the standard logger.
	Log *log.Logger
}

// Serve answers requests until ctx ends. Requests in progress then have one more second.
func (p Port) Serve(ctx context.Context) error {
	mux := http.NewServeMux()
	for _, r := range p.Routes {
		mux.Handle(r.Pattern, r.bounded())
	}
	server := &http.Server{
		Handler: mux, MaxHeaderBytes: 16 << 10, BaseContext: func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		WriteTimeout: time.Minute, // includes the time before the first byte: a profile takes half of it
		ErrorLog:     p.Log,
	}
	var listener net.Listener = boundConnections(p.Listener, mostConnections)
	if p.Certificate != nil {
		listener = newOnePort(listener, p.Certificate)
	}
	stop := context.AfterFunc(ctx, func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if server.Shutdown(last) != nil {
			_ = server.Close()
		}
	})
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

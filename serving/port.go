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
	Name     string // for people: "metrics"
	Listener net.Listener
	// Certificate is shown to clients that speak TLS; those who do not are served as well. nil serves plain HTTP alone.
	Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	Routes      []Route
	// Log takes what the server says of clients that break off; nil is the standard one.
	Log *log.Logger
}

// Serve answers until ctx ends; requests that are being answered then have one more second.
func (p Port) Serve(ctx context.Context) error {
	mux := http.NewServeMux()
	for _, r := range p.Routes {
		mux.Handle(r.Pattern, r.bounded())
	}
	server := &http.Server{
		Handler: mux, MaxHeaderBytes: 16 << 10, BaseContext: func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		WriteTimeout: time.Minute, // for the whole answer with the time until its first byte: a profile is gathered for half of it
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

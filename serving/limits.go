package serving

import (
	"context"
	"net/http"
	"time"
)

// Limits bound the requests for one handler.
type Limits struct {
	// InFlight is the largest number of requests at a time. A further request waits for at most Wait, and is then refused with 503.
	InFlight int
	Wait     time.Duration
	// Body is the number of bytes of a request's body that the handler can read.
	Body int64
	// Write is the time that a client has to read its answer, from the first byte on. A slower client is disconnected.
	Write time.Duration
}

// A Route is a handler with its limits, for requests that match a pattern of http.ServeMux.
type Route struct {
	Pattern string
	Limits
	Handler http.Handler
}

// bounded returns the route's handler with its limits.
func (r Route) bounded() http.Handler {
	places := make(chan struct{}, r.InFlight)
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if !enter(request.Context(), places, r.Wait) {
			w.Header().Set("Retry-After", "5")
			http.Error(w, "too many requests for this path are being answered: try again in a few seconds", http.StatusServiceUnavailable)
			return
		}
		defer func() { <-places }()
		request.Body = http.MaxBytesReader(w, request.Body, r.Body)
		r.Handler.ServeHTTP(&answer{ResponseWriter: w, limit: r.Write}, request)
	})
}

// enter takes a place. It returns false if none becomes free in time.
func enter(ctx context.Context, places chan struct{}, wait time.Duration) bool {
	select {
	case places <- struct{}{}:
		return true
	default:
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case places <- struct{}{}:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// An answer sets a deadline for the client to read it. The time begins with the first byte, because a handler may need long before it.
type answer struct {
	http.ResponseWriter
	limit time.Duration
	begun bool
}

func (a *answer) begin() {
	if a.begun {
		return
	}
	a.begun = true
	// An error means that the connection is closed, or that it is a test's recorder. Neither delays the handler.
	_ = http.NewResponseController(a.ResponseWriter).SetWriteDeadline(time.Now().Add(a.limit))
}

// WriteHeader begins the answer, unless the status is informational.
func (a *answer) WriteHeader(status int) {
	if status >= http.StatusOK {
		a.begin()
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write begins the answer, or continues it.
func (a *answer) Write(text []byte) (int, error) {
	a.begin()
	return a.ResponseWriter.Write(text)
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

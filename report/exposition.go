package report

import (
	"bytes"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/utils/clock"
)

const (
	// expositionEvery is the age of an exposition above which a scrape makes a new one.
	expositionEvery = 2 * time.Second
	// An exposition is kept for at least expositionRest times as long as it took to make. So the metrics of a large cluster take at most a
	// tenth of one core, however often Prometheus asks.
	expositionRest = 10
	// protobufType is the only format beside text that is served, because Prometheus requests it if native histograms are on.
	protobufType = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"
)

// An Exposition serves metrics to Prometheus. Requests within a short time get the same bytes, so that many scrapers cost as much as one.
type Exposition struct {
	gatherer prometheus.Gatherer
	clock    clock.PassiveClock

	mu      sync.Mutex // guards all below; held while an exposition is made
	begun   time.Time  // when the oldest page was begun
	took    time.Duration
	written map[format]*page
}

// A format is how an exposition is written. There are four, so that no header makes the controller write more of them.
type format struct{ protobuf, gzip bool }

// NewExposition returns a handler that serves the metrics of gatherer.
func NewExposition(gatherer prometheus.Gatherer, clock clock.PassiveClock) *Exposition {
	return &Exposition{gatherer: gatherer, clock: clock}
}

// ServeHTTP answers one scrape.
func (e *Exposition) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p := e.page(format{
		protobuf: strings.Contains(r.Header.Get("Accept"), "io.prometheus.client.MetricFamily") && strings.Contains(r.Header.Get("Accept"), "delimited"),
		gzip:     strings.Contains(r.Header.Get("Accept-Encoding"), "gzip"),
	})
	maps.Copy(w.Header(), p.header)
	w.WriteHeader(p.status)
	_, _ = w.Write(p.text.Bytes()) // a client that is gone needs no answer
}

// page returns the newest exposition in a format. Only pages are kept, not the gathered metrics, because compressed pages are small.
func (e *Exposition) page(f format) *page {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.clock.Now()
	if e.written == nil || now.Sub(e.begun) >= max(expositionEvery, expositionRest*e.took) {
		e.begun, e.took, e.written = now, 0, map[format]*page{}
	}
	if e.written[f] == nil {
		e.written[f] = e.write(f)
		e.took += e.clock.Since(now)
	}
	return e.written[f]
}

func (e *Exposition) write(f format) *page {
	r := &http.Request{Method: http.MethodGet, Header: http.Header{}}
	if f.protobuf {
		r.Header.Set("Accept", protobufType)
	}
	if f.gzip {
		r.Header.Set("Accept-Encoding", "gzip")
	}
	p := &page{header: http.Header{}, status: http.StatusOK}
	promhttp.HandlerFor(e.gatherer, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}).ServeHTTP(p, r)
	return p
}

// A page is an answer that is kept.
type page struct {
	header http.Header
	status int
	text   bytes.Buffer
}

// Header returns the header of the answer.
func (p *page) Header() http.Header { return p.header }

// WriteHeader keeps the status.
func (p *page) WriteHeader(status int) { p.status = status }

// Write keeps a part of the text.
func (p *page) Write(text []byte) (int, error) { return p.text.Write(text) }

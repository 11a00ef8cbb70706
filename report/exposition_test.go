package report_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	clocktesting "k8s.io/utils/clock/testing"

	"tenon.sh/report"
)

// scrape requests metrics with some headers, written "name: value".
func scrape(t *testing.T, handler http.Handler, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w
}

// counted returns a gatherer that counts its calls. Each call takes the given time.
func counted(clock *clocktesting.FakeClock, takes time.Duration) (prometheus.Gatherer, *atomic.Int64) {
	var times atomic.Int64
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "gathered_total", Help: "How often."}, func() float64 {
		clock.Step(takes)
		return float64(times.Add(1))
	}))
	return registry, &times
}

func TestFortyScrapersCostAsMuchAsOne(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakeClock(time.Now())
	gatherer, times := counted(clock, 0)
	exposition := report.NewExposition(gatherer, clock)
	var group sync.WaitGroup
	for range 40 {
		group.Go(func() {
			if w := scrape(t, exposition); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "\ngathered_total 1\n") {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		})
	}
	group.Wait()
	if n := times.Load(); n != 1 {
		t.Errorf("metrics were gathered %d times", n)
	}
	clock.Step(2*time.Second - 1)
	scrape(t, exposition)
	if n := times.Load(); n != 1 {
		t.Errorf("before 2 s are over metrics were gathered %d times", n)
	}
	clock.Step(1)
	if w := scrape(t, exposition); !strings.Contains(w.Body.String(), "\ngathered_total 2\n") {
		t.Errorf("after 2 s: %s", w.Body)
	}
}

// A large cluster's metrics take seconds. They are made in a tenth of the time at most.
func TestWhatTakesLongIsKeptLonger(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakeClock(time.Now())
	gatherer, times := counted(clock, time.Second)
	exposition := report.NewExposition(gatherer, clock)
	begun := clock.Now()
	for clock.Since(begun) < 100*time.Second {
		scrape(t, exposition)
		clock.Step(100 * time.Millisecond)
	}
	if n := times.Load(); n < 5 || n > 10 {
		t.Errorf("gathered for %d of 100 seconds", n)
	}
}

func TestTheFormatsOfPrometheusAreServed(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakeClock(time.Now())
	gatherer, _ := counted(clock, 0)
	exposition := report.NewExposition(gatherer, clock)
	const openMetrics = "Accept: application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1"
	for _, headers := range [][]string{{}, {"Accept: text/plain"}, {openMetrics}, {"Accept: */*"}} {
		w := scrape(t, exposition, headers...)
		if kind := w.Header().Get("Content-Type"); w.Code != http.StatusOK || !strings.HasPrefix(kind, "text/plain; version=0.0.4") || !strings.Contains(w.Body.String(), "# TYPE gathered_total counter") {
			t.Errorf("%s: %d %s %s", headers, w.Code, kind, w.Body)
		}
		w = scrape(t, exposition, append(headers, "Accept-Encoding: gzip")...)
		text, err := gzip.NewReader(w.Body)
		if err != nil || w.Header().Get("Content-Encoding") != "gzip" {
			t.Fatalf("%s, compressed: %v %v", headers, err, w.Header())
		}
		if plain, err := io.ReadAll(text); err != nil || !strings.Contains(string(plain), "# TYPE gathered_total counter") {
			t.Errorf("%s, compressed: %s %v", headers, plain, err)
		}
	}
	w := scrape(t, exposition, "Accept: application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.6,text/plain;q=0.3")
	if kind := w.Header().Get("Content-Type"); !strings.HasPrefix(kind, "application/vnd.google.protobuf") || !strings.Contains(w.Body.String(), "gathered_total") {
		t.Errorf("protobuf: %s %q", kind, w.Body)
	}
}

// A gatherer that fails costs its own metrics alone. An exposition without any metrics is an error, so that it does not look like a quiet cluster.
func TestAGathererThatFails(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakeClock(time.Now())
	working, _ := counted(clock, 0)
	broken := prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { return nil, http.ErrBodyNotAllowed })
	if w := scrape(t, report.NewExposition(broken, clock)); w.Code != http.StatusInternalServerError {
		t.Errorf("nothing but a failure: %d", w.Code)
	}
	if w := scrape(t, report.NewExposition(prometheus.Gatherers{broken, working}, clock)); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "gathered_total 1") {
		t.Errorf("a failure beside others: %d %s", w.Code, w.Body)
	}
}

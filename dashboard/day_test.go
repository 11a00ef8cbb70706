package dashboard_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"

	"tenon.sh/dashboard"
)

// A fakeDay is a day whose comparisons wait until they are told how to go on.
type fakeDay struct {
	name  string
	begun chan string // the text of one that has begun
	hour  chan int    // so many hours are done
	end   chan error  // with this problem, or well
	ended chan context.Context
}

const comparedNames = `<img src=x onerror=alert(1)>`

func (d *fakeDay) day() *dashboard.Day {
	name := d.name
	return &dashboard.Day{
		Name: func() string { return d.name },
		Check: func(text []byte, _ func() bool) (*dashboard.Outcome, error) {
			out := &dashboard.Outcome{Objects: []dashboard.Tried{{Kind: "NodePool", Name: "general"}}}
			if string(text) == "wrong" {
				out.Mistakes = []dashboard.Mistake{{Line: 7, Field: "spec.weight", Text: "must be a number, not " + comparedNames}}
			}
			return out, nil
		},
		Compare: func(ctx context.Context, text []byte, hours func(done, all int)) (*dashboard.Comparison, error) {
			defer func() { d.ended <- ctx }()
			d.begun <- string(text)
			for {
				select {
				case n := <-d.hour:
					if n < 0 {
						panic("a law is broken")
					}
					hours(n, 48)
					d.hour <- n
				case err := <-d.end:
					return &dashboard.Comparison{
						Document: []byte(`{"kind":"Simulation"}`), Picture: []byte("<svg><style>p { }</style></svg>"), Headline: "It costs $1.00 less.",
						Parts: []dashboard.Part{{Rows: [][]string{{"SETTING", "USD"}, {comparedNames, "5.00"}}}}, Notes: []string{comparedNames}, Commands: "tenon simulate", Day: name,
					}, err
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			}
		},
	}
}

// comparing is the page of a picture with such a day, until ctx ends.
func comparing(t *testing.T, ctx context.Context, opt dashboard.Options) (http.Handler, *fakeDay) {
	t.Helper()
	d := &fakeDay{name: "day.csv: 3 pods " + comparedNames, begun: make(chan string, 1), hour: make(chan int), end: make(chan error), ended: make(chan context.Context, 1)}
	p := few()
	p.Day = d.day()
	reader, err := dashboard.NewReader(ctx, func(context.Context) (*dashboard.Picture, error) { return p, nil }, 0, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	handler, err := dashboard.Handler(reader, opt)
	if err != nil {
		t.Fatal(err)
	}
	return handler, d
}

func sendTo(handler http.Handler, address, text string, headers ...string) *httptest.ResponseRecorder {
	return post(handler, address, url.Values{"text": {text}}.Encode(), append([]string{"Content-Type", "application/x-www-form-urlencoded", "Origin", "http://localhost:8230"}, headers...)...)
}

// finished is the page once nothing is compared any more.
func finished(t *testing.T, handler http.Handler) string {
	t.Helper()
	for range 1_000_000 {
		if page := get(t, handler, "/whatif?from=compared"); !strings.Contains(page, "<progress") {
			return page
		}
	}
	t.Fatal("it does not end")
	return ""
}

func TestADayIsFollowedFromItsBeginningToItsEnd(t *testing.T) {
	t.Parallel()
	handler, day := comparing(t, t.Context(), dashboard.Options{})
	before := ask(handler, http.MethodGet, "/whatif")
	if !strings.Contains(before.Body.String(), `formaction="/whatif/day"`) || strings.Contains(before.Body.String(), "<progress") {
		t.Error("the button is missing, or something runs")
	}
	w := sendTo(handler, "/whatif/day", "kind: <b>NodePool</b>")
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/whatif?from=compared#day" {
		t.Fatalf("%d: %s", w.Code, w.Header())
	}
	if text := <-day.begun; text != "kind: <b>NodePool</b>" {
		t.Errorf("compared is %q", text)
	}
	day.hour <- 5
	<-day.hour
	page := get(t, handler, "/whatif?from=compared")
	for _, want := range []string{"5 of 48 hours are simulated", `<progress aria-label="Simulated hours" value="5" max="48">`, `action="/whatif/day/cancel"`, `data-every="1000"`, "kind: &lt;b&gt;NodePool&lt;/b&gt;</textarea>"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	tag := ask(handler, http.MethodGet, "/whatif").Header().Get("ETag")
	if w := ask(handler, http.MethodGet, "/whatif", "If-None-Match", tag); w.Code != http.StatusNotModified || tag == before.Header().Get("ETag") {
		t.Errorf("%d: a page on which nothing has changed, or one on which something has", w.Code)
	}
	if w := sendTo(handler, "/whatif/day", "another"); w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), "there is one at a time") || !strings.Contains(w.Body.String(), "another</textarea>") {
		t.Errorf("a second one: %d", w.Code)
	}
	for _, address := range []string{"/json/day", "/whatif/day.svg"} {
		if w := ask(handler, http.MethodGet, address); w.Code != http.StatusNotFound {
			t.Errorf("%s while it runs: %d", address, w.Code)
		}
	}
	day.end <- nil
	page = finished(t, handler)
	for _, want := range []string{"It costs $1.00 less.", "class=\"num\">5.00</td>", `src="/whatif/day.svg?`, `data-every="0"`, "&lt;img src=x onerror=alert(1)&gt;", "tenon simulate"} {
		if !strings.Contains(page, want) {
			t.Errorf("the result lacks %s", want)
		}
	}
	if strings.Contains(page, comparedNames) || get(t, handler, "/json/day") != `{"kind":"Simulation"}` {
		t.Error("a name is markup, or the document is another one")
	}
	if strings.Contains(page, "has been replaced") {
		t.Error("the day is as it was")
	}
	tag = ask(handler, http.MethodGet, "/whatif").Header().Get("ETag")
	day.name = "day.csv: 4 pods"
	if w := ask(handler, http.MethodGet, "/whatif", "If-None-Match", tag); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), ">day.csv: 4 pods<") || !strings.Contains(w.Body.String(), "replaced since. What follows is of the one before: day.csv: 3 pods &lt;img") {
		t.Errorf("%d: the page does not say that its result is of another day", w.Code)
	}
	svg := ask(handler, http.MethodGet, "/whatif/day.svg")
	if policy := svg.Header().Get("Content-Security-Policy"); svg.Header().Get("Content-Type") != "image/svg+xml" || !strings.HasPrefix(policy, "default-src 'none'; style-src 'sha256-") {
		t.Errorf("the picture: %v", svg.Header())
	}
	if sendTo(handler, "/whatif/day", "x").Code != http.StatusSeeOther || <-day.begun != "x" {
		t.Error("nothing can be compared after it")
	}
}

func TestADayThatFailsOrIsCancelledSaysSo(t *testing.T) {
	t.Parallel()
	handler, day := comparing(t, t.Context(), dashboard.Options{})
	for name, c := range map[string]struct {
		act  func()
		want string
	}{
		"fails":     {func() { day.end <- errors.New("it took more than 2Gi of " + comparedNames) }, "It took more than 2Gi of &lt;img"},
		"panics":    {func() { day.hour <- -1 }, "Comparing has failed, and the log of this page"},
		"cancelled": {func() { sendTo(handler, "/whatif/day/cancel", "") }, "Cancelled at"},
	} {
		if w := sendTo(handler, "/whatif/day", "x"); w.Code != http.StatusSeeOther {
			t.Fatalf("%s: %d", name, w.Code)
		}
		<-day.begun
		c.act()
		<-day.ended
		if page := finished(t, handler); !strings.Contains(page, c.want) || strings.Contains(page, "/whatif/day.svg") {
			t.Errorf("%s: the page does not say %s", name, c.want)
		}
	}
	if w := sendTo(handler, "/whatif/day", "wrong"); w.Code != 200 || !strings.Contains(w.Body.String(), `data-line="7"`) || !strings.Contains(w.Body.String(), "1 mistake") || strings.Contains(w.Body.String(), "<progress") || strings.Contains(w.Body.String(), comparedNames) {
		t.Errorf("a mistake: %d", w.Code)
	}
	if w := sendTo(handler, "/whatif/day/cancel", ""); w.Code != http.StatusSeeOther {
		t.Errorf("nothing to cancel: %d", w.Code)
	}
}

// A comparison that computes for an hour is given up, and says so; another may begin then.
func TestADayTakesAnHourAtMost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		handler, day := comparing(t, t.Context(), dashboard.Options{})
		sendTo(handler, "/whatif/day", "x")
		<-day.begun
		time.Sleep(time.Hour - time.Second)
		synctest.Wait()
		if page := get(t, handler, "/whatif?from=compared"); !strings.Contains(page, "<progress") {
			t.Error("it was given up before the hour was over")
		}
		time.Sleep(time.Second)
		if compared := <-day.ended; compared.Err() == nil {
			t.Error("it was not told to end")
		}
		synctest.Wait()
		if page := get(t, handler, "/whatif?from=compared"); !strings.Contains(page, "It was not done within 1h0m0s, so it was given up. tenon simulate takes the time that it needs.") || strings.Contains(page, "<progress") {
			t.Error("the page does not say that it was given up")
		}
		if sendTo(handler, "/whatif/day", "x").Code != http.StatusSeeOther || <-day.begun != "x" {
			t.Error("nothing can be compared after it")
		}
	})
}

// The page's server takes with it what it compares.
func TestADayEndsWithTheServer(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	handler, day := comparing(t, ctx, dashboard.Options{})
	sendTo(handler, "/whatif/day", "x")
	<-day.begun
	stop()
	if compared := <-day.ended; compared.Err() == nil {
		t.Error("it was not told to end")
	}
}

func TestADayTakesFormsOfItsOwnPageAlone(t *testing.T) {
	t.Parallel()
	handler, day := comparing(t, t.Context(), dashboard.Options{})
	for _, address := range []string{"/whatif/day", "/whatif/day/cancel"} {
		for _, c := range []struct {
			headers []string
			want    int
		}{
			{[]string{"Origin", "https://evil.example.com"}, 403},
			{[]string{"Origin", "null"}, 403},
			{[]string{"Sec-Fetch-Site", "cross-site"}, 403},
			{[]string{"Host", "evil.example.com"}, 421},
			{[]string{"Content-Type", "text/plain"}, 415},
			{[]string{"Content-Type", "application/yaml"}, 415},
		} {
			if w := sendTo(handler, address, "x", c.headers...); w.Code != c.want || w.Header().Get("Content-Security-Policy") == "" {
				t.Errorf("%s with %v: %d, want %d", address, c.headers, w.Code, c.want)
			}
		}
		if w := sendTo(handler, address, strings.Repeat("x", 256<<10+1)); w.Code != http.StatusRequestEntityTooLarge {
			t.Errorf("%s with much: %d", address, w.Code)
		}
		// A page that answered a form may be looked at again.
		if w := ask(handler, http.MethodGet, address); w.Code != http.StatusNotFound && w.Code != http.StatusMethodNotAllowed && w.Header().Get("Location") != "/whatif" {
			t.Errorf("%s is read: %d", address, w.Code)
		}
	}
	select {
	case <-day.begun:
		t.Error("one of them has begun something")
	default:
	}
}

// What others compare is not for those who see some namespaces only: neither its text, nor what comes of it, nor that they end it.
func TestADayIsForThoseWhoSeeAll(t *testing.T) {
	t.Parallel()
	sight := dashboard.Sight{All: true}
	handler, day := comparing(t, t.Context(), dashboard.Options{Sight: func(*http.Request, []string) (dashboard.Sight, error) { return sight, nil }})
	sendTo(handler, "/whatif/day", "vault-text")
	<-day.begun
	sight = dashboard.Sight{Namespaces: []string{"shop"}}
	for _, w := range []*httptest.ResponseRecorder{sendTo(handler, "/whatif/day", "x"), sendTo(handler, "/whatif/day/cancel", ""), ask(handler, http.MethodGet, "/json/day"), ask(handler, http.MethodGet, "/whatif/day.svg")} {
		if w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), "who may list pods in all of them") {
			t.Errorf("%d: %s", w.Code, w.Body)
		}
	}
	if page := get(t, handler, "/whatif?from=compared"); strings.Contains(page, "vault-text") || strings.Contains(page, "<progress") || strings.Contains(page, "day.csv") || strings.Contains(page, "formaction") || !strings.Contains(page, "who may list pods in all of them") {
		t.Error("a page shows what is not for its reader, or does not say why")
	}
	sight.All = true
	day.end <- nil
	if page := finished(t, handler); !strings.Contains(page, "vault-text") || !strings.Contains(page, "It costs $1.00 less.") {
		t.Error("who sees all does not")
	}
}

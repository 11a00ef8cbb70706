package dashboard_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"tenon.sh/dashboard"
	"tenon.sh/serving"
)

func TestOnlyThisMachineAndNamedHostsAreServed(t *testing.T) {
	t.Parallel()
	source := func(context.Context) (*dashboard.Picture, error) { return few(), nil }
	reader, err := dashboard.NewReader(t.Context(), source, 0, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	handler, err := dashboard.Handler(reader, dashboard.Options{Hosts: []string{"tenon.example.com"}})
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]int{
		"localhost": 200, "localhost:8230": 200, "LOCALHOST:1": 200, "localhost.": 200, "127.0.0.1:8230": 200, "127.9.9.9": 200, "[::1]:8230": 200, "[::1]": 200,
		"tenon.example.com": 200, "Tenon.Example.com:443": 200,
		"evil.example.com": 421, "localhost.evil.com": 421, "10.0.0.1:8230": 421, "0.0.0.0": 421, "127.0.0.1.evil.com": 421, "tenon.example.com.evil.com": 421, "[fe80::1]:1": 421,
	} {
		for _, address := range []string{"/", "/json/nodes", "/assets/none", "/nowhere"} {
			got := ask(handler, http.MethodGet, address, "Host", host).Code
			if want == 421 && got != 421 || want == 200 && address == "/" && got != 200 || want == 200 && got == 421 {
				t.Errorf("%s of host %s: %d, want %d", address, host, got, want)
			}
		}
	}
}

func TestPostsOfOtherSitesAreForbiddenAndOthersShowOnly(t *testing.T) {
	t.Parallel()
	handler := serve(t, few())
	for _, c := range []struct {
		headers []string
		want    int
	}{
		{[]string{"Origin", "https://evil.example.com"}, 403},
		{[]string{"Origin", "null"}, 403},
		{[]string{"Sec-Fetch-Site", "cross-site"}, 403},
		{[]string{"Origin", "http://localhost:8230"}, 405},
		{nil, 405},
	} {
		if got := ask(handler, http.MethodPost, "/", c.headers...).Code; got != c.want {
			t.Errorf("POST with %v: %d, want %d", c.headers, got, c.want)
		}
	}
	if w := ask(handler, http.MethodDelete, "/json/nodes"); w.Code != 405 || w.Header().Get("Allow") != "GET, HEAD" {
		t.Errorf("DELETE: %d, allowed %q", w.Code, w.Header().Get("Allow"))
	}
	if w := ask(handler, http.MethodHead, "/"); w.Code != 200 || w.Body.Len() != 0 {
		t.Errorf("HEAD: %d with %d bytes", w.Code, w.Body.Len())
	}
}

func TestEveryAnswerHasTheHeadersThatKeepScriptsOut(t *testing.T) {
	t.Parallel()
	handler := serve(t, few())
	asset := between(get(t, handler, "/"), `href="/assets/`, `"`)[0]
	for _, address := range []string{"/", "/waiting", "/why/node/missing", "/json/nodes", "/json/explain/node/missing", "/assets/" + asset, "/assets/none", "/?filter=a%3D"} {
		w := ask(handler, http.MethodGet, address)
		for name, want := range map[string]string{
			"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
			"X-Content-Type-Options":  "nosniff", "Referrer-Policy": "no-referrer",
		} {
			if got := w.Header().Get(name); got != want {
				t.Errorf("%s: %s is %q", address, name, got)
			}
		}
	}
}

func TestAssetsAreKeptForEverUnderTheHashOfTheirContent(t *testing.T) {
	t.Parallel()
	handler := serve(t, few())
	page := get(t, handler, "/")
	addresses := append(between(page, `href="/assets/`, `"`), between(page, `src="/assets/`, `"`)...)
	if len(addresses) != 5 {
		t.Errorf("the page refers to %v", addresses)
	}
	for _, name := range addresses {
		w := ask(handler, http.MethodGet, "/assets/"+name)
		if w.Code != 200 || w.Header().Get("Cache-Control") != "public, max-age=31536000, immutable" || strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") {
			t.Errorf("%s: %d %v", name, w.Code, w.Header())
		}
	}
	if w := ask(handler, http.MethodGet, "/assets/page.css"); w.Code != 404 {
		t.Errorf("a name without a hash: %d", w.Code)
	}
}

func TestDocumentsAreServedAsTheyAre(t *testing.T) {
	t.Parallel()
	p := few()
	handler := serve(t, p)
	for address, want := range map[string]string{"/json/nodes": string(p.Nodes), "/json/plan": string(p.Plan), "/json/explain/pod/shop/web-1": `{"kind":"shop/web-1"}`} {
		if got := get(t, handler, address); got != want {
			t.Errorf("%s: %s", address, got)
		}
	}
	for address, want := range map[string]string{"/json/explain/node/missing": "There is no node missing.\n", "/json/explain/house/x": "House cannot be explained: it is pod, node, claim, pool, podgroup or provisioningrequest.\n"} {
		if w := ask(handler, http.MethodGet, address); w.Code != 404 || w.Body.String() != want {
			t.Errorf("%s: %d %q", address, w.Code, w.Body)
		}
	}
}

func TestAPageThatIsAsItWasIsNotSentAgain(t *testing.T) {
	t.Parallel()
	handler := serve(t, few())
	w := ask(handler, http.MethodGet, "/")
	tag := w.Header().Get("ETag")
	if !strings.Contains(w.Body.String(), strings.Trim(tag, `"`)) {
		t.Error("the script cannot know what is shown")
	}
	if w := ask(handler, http.MethodGet, "/", "If-None-Match", tag); w.Code != 304 || w.Body.Len() != 0 {
		t.Errorf("the same page: %d with %d bytes", w.Code, w.Body.Len())
	}
	if w := ask(handler, http.MethodGet, "/?by=zone", "If-None-Match", tag); w.Code != 200 {
		t.Errorf("another page: %d", w.Code)
	}
}

// The reader reads only while pages are requested, and not more often than allowed. It reports since when it has failed.
func TestAClusterIsReadOnlyWhileSomebodyLooks(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	clock := clocktesting.NewFakePassiveClock(now)
	var reads atomic.Int32
	var fails atomic.Bool
	done := make(chan struct{}, 10_000)
	source := func(context.Context) (*dashboard.Picture, error) {
		defer func() { done <- struct{}{} }()
		n := reads.Add(1)
		if fails.Load() {
			return nil, errors.New("the API server is away")
		}
		p := few()
		p.At, p.Cluster = clock.Now(), fmt.Sprintf("reading-%d", n)
		p.Notes = []string{p.Cluster}
		return p, nil
	}
	reader, err := dashboard.NewReader(t.Context(), source, 5*time.Second, clock)
	if err != nil {
		t.Fatal(err)
	}
	<-done
	handler, err := dashboard.Handler(reader, dashboard.Options{})
	if err != nil {
		t.Fatal(err)
	}
	get(t, handler, "/")
	clock.SetTime(now.Add(time.Hour)) // without requests
	if n := reads.Load(); n != 1 {
		t.Fatalf("%d readings while nobody looked", n)
	}
	if page := get(t, handler, "/"); !strings.Contains(page, "reading-2") { // the present picture is old, so the page waits for the new one
		t.Error("whoever comes back after an hour sees what was then")
	}
	<-done
	get(t, handler, "/")
	clock.SetTime(now.Add(time.Hour + 4*time.Second))
	get(t, handler, "/")
	if n := reads.Load(); n != 2 {
		t.Errorf("%d readings, want no third before 5 s have passed", n)
	}
	fails.Store(true)
	clock.SetTime(now.Add(time.Hour + 10*time.Second))
	get(t, handler, "/")
	<-done
	page := waitFor(t, handler, "The cluster could not be read since 2026-01-01 13:00:10 UTC: the API server is away. What is shown is of 2026-01-01 13:00:00 UTC.")
	if !strings.Contains(page, "alpha") {
		t.Error("what was read before is gone")
	}
	fails.Store(false)
	clock.SetTime(now.Add(time.Hour + 20*time.Second))
	get(t, handler, "/")
	<-done
	waitFor(t, handler, "reading-4")
}

// A page that is opened again late shows that its picture is old, with the age, until the new picture is there. A time of another day has its
// date.
func TestAnOldPictureIsMarkedUntilTheNewOneIsThere(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 23, 59, 0, 0, time.UTC)
	clock := clocktesting.NewFakePassiveClock(now)
	release, first := make(chan struct{}), true
	source := func(context.Context) (*dashboard.Picture, error) {
		if !first {
			<-release
		}
		first = false
		p := few()
		p.At = clock.Now()
		return p, nil
	}
	reader, err := dashboard.NewReader(t.Context(), source, 5*time.Second, clock)
	if err != nil {
		t.Fatal(err)
	}
	handler, err := dashboard.Handler(reader, dashboard.Options{})
	if err != nil {
		t.Fatal(err)
	}
	stale := func(page string) bool {
		return strings.Contains(page, " data-stale") && strings.Contains(page, `data-every="1000"`)
	}
	clock.SetTime(now.Add(10 * time.Second))
	if page := get(t, handler, "/"); stale(page) || !strings.Contains(page, ">23:59:00 UTC<") {
		t.Error("a picture of 10 s ago is marked as old")
	}
	clock.SetTime(now.Add(8 * time.Minute))
	page := get(t, handler, "/")
	if !stale(page) || !strings.Contains(page, "All of this is of 2026-01-01 23:59:00 UTC, 8m0s ago. It is being read anew.") {
		t.Errorf("a picture of 8 minutes ago is not marked: %v", between(page, "<html", ">"))
	}
	close(release)
	if page = waitFor(t, handler, ">00:07:00 UTC<"); stale(page) || strings.Contains(page, "All of this is of") {
		t.Error("the new picture is marked as old")
	}
}

// If reading a cluster takes long, reading takes at most a tenth of the time, however often pages are requested.
func TestALargeClusterIsReadInATenthOfTheTime(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	clock := clocktesting.NewFakePassiveClock(now)
	reads := 0
	source := func(context.Context) (*dashboard.Picture, error) {
		reads++
		clock.SetTime(now.Add(5 * time.Second)) // reading takes 5 s
		p := few()
		p.At, p.Cluster = now, fmt.Sprintf("reading-%d", reads)
		p.Notes = []string{p.Cluster}
		return p, nil
	}
	reader, err := dashboard.NewReader(t.Context(), source, time.Second, clock)
	if err != nil {
		t.Fatal(err)
	}
	handler, err := dashboard.Handler(reader, dashboard.Options{})
	if err != nil {
		t.Fatal(err)
	}
	now = now.Add(49 * time.Second) // the picture is so old that a request waits for a new one if a reading is due
	clock.SetTime(now)
	if page := get(t, handler, "/"); !strings.Contains(page, "reading-1") {
		t.Error("it is read again 44 s after a reading that took 5 s")
	}
	now = now.Add(time.Second)
	clock.SetTime(now)
	if page := get(t, handler, "/"); !strings.Contains(page, "reading-2") {
		t.Error("it is not read again 45 s after a reading that took 5 s")
	}
}

// waitFor requests the page until it contains a text, because a reading ends shortly before its picture is available.
func waitFor(t *testing.T, handler http.Handler, want string) string {
	t.Helper()
	for range 1000 {
		if page := get(t, handler, "/"); strings.Contains(page, want) {
			return page
		}
	}
	t.Fatalf("the page does not say %q", want)
	return ""
}

func TestAReadingThatFailsAtFirstIsAnError(t *testing.T) {
	t.Parallel()
	_, err := dashboard.NewReader(t.Context(), func(context.Context) (*dashboard.Picture, error) { return nil, errors.New("no such file") }, 0, clock.RealClock{})
	if err == nil || err.Error() != "no such file" {
		t.Errorf("error %v", err)
	}
	broken := few()
	broken.Nodes = []byte("{")
	_, err = dashboard.NewReader(t.Context(), func(context.Context) (*dashboard.Picture, error) { return broken, nil }, 0, clock.RealClock{})
	if err == nil || !strings.Contains(err.Error(), "read the document of the nodes") {
		t.Errorf("error %v", err)
	}
}

// Few pages are made at a time. A request that waits too long is told to try again.
func TestPagesAreMadeAFewAtATime(t *testing.T) {
	t.Parallel()
	p := few()
	entered, leave := make(chan struct{}), make(chan struct{})
	explain := p.Explain
	p.Explain = func(kind dashboard.Kind, name string) (*dashboard.Explanation, error) {
		entered <- struct{}{}
		<-leave
		return explain(kind, name)
	}
	source := func(context.Context) (*dashboard.Picture, error) { return p, nil }
	reader, err := dashboard.NewReader(t.Context(), source, 0, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	handler, err := dashboard.Handler(reader, dashboard.Options{AtOnce: 2})
	if err != nil {
		t.Fatal(err)
	}
	answers := make(chan int, 2)
	for range 2 {
		go func() { answers <- ask(handler, http.MethodGet, "/why/node/alpha").Code }()
		<-entered
	}
	ctx, stop := context.WithCancel(t.Context())
	stop() // the third request does not wait as long as a browser would
	r := httptest.NewRequest(http.MethodGet, "/", nil).WithContext(ctx)
	r.Host = "localhost"
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	if w.Code != 503 || w.Header().Get("Retry-After") == "" {
		t.Errorf("the third at once: %d", w.Code)
	}
	close(leave)
	for range 2 {
		if code := <-answers; code != 200 {
			t.Errorf("one of the first two: %d", code)
		}
	}
	if code := ask(handler, http.MethodGet, "/").Code; code != 200 {
		t.Errorf("after that: %d", code)
	}
}

// Clients that do not read answers, or do not complete their requests, do not block others. The server ends at once.
func TestSlowClientsHoldUpNobody(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	handler := serve(t, picture(5000))
	port := serving.Port{Listener: listener, Routes: []serving.Route{{Pattern: "/", Limits: serving.Limits{InFlight: 16, Write: time.Second}, Handler: handler}}}
	go func() { ended <- port.Serve(ctx) }()
	for i := range 20 {
		connection, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer connection.Close()
		request := "GET / HTTP/1.1\r\nHost: localhost\r\n"
		if i%2 == 0 {
			request += "\r\n" // the request is complete, and its answer is not read
		}
		fmt.Fprint(connection, request)
	}
	answer, err := http.Get("http://" + listener.Addr().String() + "/waiting")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(bufio.NewReader(answer.Body))
	if answer.Body.Close(); err != nil || !strings.Contains(string(text), "No pod waits") {
		t.Errorf("%d: %v", answer.StatusCode, err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// shown requests an address with some headers, written "name: value".
func shown(handler http.Handler, address string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, address, nil)
	r.Host = "localhost:8230"
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w
}

// All users of a machine reach its loopback, but only users with the token see the page.
func TestOnlyThoseWithTheTokenSeeThePage(t *testing.T) {
	t.Parallel()
	reader, err := dashboard.NewReader(t.Context(), func(context.Context) (*dashboard.Picture, error) { return picture(3), nil }, 0, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	handler, err := dashboard.Handler(reader, dashboard.Options{Token: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{"/", "/json/nodes", "/assets/page.css", "/whatif", "/no-such-page", "/?token=", "/?token=secre", "/?token=secret2"} {
		if w := shown(handler, address, "Cookie: tenon-dashboard-8230=other", "Authorization: Bearer other"); w.Code != http.StatusUnauthorized || strings.Contains(w.Body.String(), "ip-10") {
			t.Errorf("%s without the token: %d %s", address, w.Code, w.Body)
		}
	}
	program := shown(handler, "/?filter=pool%3Dgpu&token=secret")
	if program.Code != http.StatusOK || strings.Contains(program.Body.String(), "secret") {
		t.Errorf("with the token in the address: %d, or the page names the token", program.Code)
	}
	browser := shown(handler, "/waiting?q=a&token=secret", "Sec-Fetch-Mode: navigate")
	if to := browser.Header().Get("Location"); browser.Code != http.StatusSeeOther || to != "/waiting?q=a" {
		t.Errorf("a browser is sent on to %q: %d", to, browser.Code)
	}
	cookies := browser.Result().Cookies()
	if len(cookies) != 1 || !cookies[0].HttpOnly || cookies[0].SameSite != http.SameSiteLaxMode {
		t.Fatalf("cookies %v", cookies)
	}
	other := httptest.NewRequest(http.MethodGet, "/?token=secret", nil)
	other.Host = "localhost:8231"
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, other)
	if its := answer.Result().Cookies(); len(its) != 1 || its[0].Name == cookies[0].Name {
		t.Errorf("a page on another port sets the same cookie: browsers would forget this one: %v", its)
	}
	for _, header := range []string{"Cookie: " + cookies[0].Name + "=" + cookies[0].Value, "Authorization: Bearer secret"} {
		if w := shown(handler, "/json/nodes", header); w.Code != http.StatusOK {
			t.Errorf("%s: %d", header, w.Code)
		}
	}
}

// A user who may create a pod must not reverse or hide a part of the page, so invisible characters are spelled, as commands do.
func TestWhatCannotBeSeenIsSpelledOnEveryPage(t *testing.T) {
	t.Parallel()
	const hidden, spelled = "A\u202eb\x1b[2Jc\u200bd", `A\u202eb\x1b[2Jc\u200bd`
	p := picture(3)
	p.Cluster = hidden
	p.NodePools = []string{hidden}
	p.Nodes = bytes.ReplaceAll(p.Nodes, []byte("ip-10-0-0-0.internal"), []byte(strings.Trim(string(document(hidden)), `"`)))
	explain := p.Explain
	p.Explain = func(kind dashboard.Kind, name string) (*dashboard.Explanation, error) {
		e, err := explain(kind, name)
		if err != nil {
			return nil, errors.New(hidden)
		}
		e.Story.Headline = hidden
		return e, nil
	}
	handler := serve(t, p)
	pages := map[string]string{}
	for _, address := range []string{"/", "/waiting", "/decisions", "/money", "/whatif", "/why", "/why/pool/x", "/why/node/missing", "/why?q=" + url.QueryEscape(hidden), "/?filter=" + url.QueryEscape(hidden), "/json/explain/node/missing", "/json/journal"} {
		pages[address] = shown(handler, address).Body.String()
	}
	file, err := dashboard.Export(p)
	if err != nil {
		t.Fatal(err)
	}
	pages["the exported file"] = string(file)
	for name, page := range pages {
		if i := strings.IndexAny(page, "\u202e\x1b\u200b"); i >= 0 {
			t.Errorf("%s has a character that cannot be seen: %q", name, page[max(0, i-50):min(len(page), i+20)])
		}
		if name != "/json/journal" && !strings.Contains(page, spelled) {
			t.Errorf("%s does not spell it", name)
		}
	}
}

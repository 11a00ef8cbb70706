package dashboard_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"tenon.sh/dashboard"
)

// trying returns the handler of a picture in which a function answers changes.
func trying(t *testing.T, opt dashboard.Options, try func(text []byte, stop func() bool) (*dashboard.Outcome, error)) http.Handler {
	t.Helper()
	p := few()
	p.Try = try
	p.Manifests = []dashboard.Manifest{
		{Kind: "NodePool", Name: "general", Text: func() (string, error) { return "kind: NodePool\n# </textarea><script>", nil }},
		{Kind: "CapacityBuffer", Name: "vault/keys", Text: func() (string, error) { return "kind: CapacityBuffer", nil }},
	}
	reader, err := dashboard.NewReader(t.Context(), func(context.Context) (*dashboard.Picture, error) { return p, nil }, 0, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	handler, err := dashboard.Handler(reader, opt)
	if err != nil {
		t.Fatal(err)
	}
	return handler
}

// send posts the form of the screen, with further headers beside the headers of a browser on this machine.
func send(handler http.Handler, text string, headers ...string) *httptest.ResponseRecorder {
	return post(handler, "/whatif", url.Values{"text": {text}}.Encode(), append([]string{"Content-Type", "application/x-www-form-urlencoded", "Origin", "http://localhost:8230"}, headers...)...)
}

func post(handler http.Handler, address, body string, headers ...string) *httptest.ResponseRecorder {
	return askWith(handler, http.MethodPost, address, strings.NewReader(body), headers...)
}

func planned([]byte, func() bool) (*dashboard.Outcome, error) {
	return &dashboard.Outcome{
		Disrupts:    true,
		Objects:     []dashboard.Tried{{Kind: "NodePool", Name: "general"}},
		Plan:        []byte(`{"launches":[{"name":"general-1","nodePool":"general","price":0.5,"pods":["vault/keys-1","shop/web-1"]}],"disruptions":[{"nodes":["n9"],"reason":"Empty","savingPerHour":0.25}]}`),
		Before:      dashboard.Figures{Now: 1, Refused: 2},
		After:       dashboard.Figures{Now: 1, Launches: 1, LaunchesPerHour: 0.5, Leaving: 1, Saving: 0.25, Kept: []dashboard.KeptCount{{Code: "NoCheaperPlace", Count: 3}}},
		Differences: []dashboard.Difference{{Text: "2 pods have a place", Detail: "since vault/keys-1 is small", Names: []string{"shop/web-1", "vault/keys-1"}}},
		Notes:       []string{"vault/keys-2 waits"},
	}, nil
}

func TestWhatIfTakesFormsOfItsOwnPageAlone(t *testing.T) {
	t.Parallel()
	handler := trying(t, dashboard.Options{}, planned)
	const form, yaml = "application/x-www-form-urlencoded", "application/yaml"
	for _, c := range []struct {
		address, kind string
		headers       []string
		want          int
	}{
		{"/whatif", form, nil, 200},
		{"/json/whatif", yaml, nil, 200},
		{"/json/whatif", "application/yaml; charset=utf-8", nil, 200},
		{"/whatif", form, []string{"Origin", "https://evil.example.com"}, 403},
		{"/whatif", form, []string{"Origin", "null"}, 403},
		{"/whatif", form, []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"/json/whatif", yaml, []string{"Sec-Fetch-Site", "same-site"}, 403},
		{"/whatif", form, []string{"Host", "evil.example.com"}, 421},
		{"/whatif", "text/plain", nil, 415},
		{"/whatif", "multipart/form-data; boundary=x", nil, 415},
		{"/whatif", "", nil, 415},
		{"/json/whatif", form, nil, 415},
		{"/json/whatif", "text/plain", nil, 415},
		{"/whatif/", form, nil, 405},
		{"/json/plan", yaml, nil, 405},
	} {
		headers := append([]string{"Content-Type", c.kind, "Origin", "http://localhost:8230"}, c.headers...)
		w := post(handler, c.address, "text=x", headers...)
		if w.Code != c.want {
			t.Errorf("%s as %q with %v: %d, want %d: %s", c.address, c.kind, c.headers, w.Code, c.want, w.Body)
		}
		if w.Header().Get("Content-Security-Policy") == "" || w.Code == 200 && w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s as %q: %v", c.address, c.kind, w.Header())
		}
	}
}

func TestWhatIfTakesTextsUpToABound(t *testing.T) {
	t.Parallel()
	handler := trying(t, dashboard.Options{}, planned)
	for length, want := range map[int]int{256 << 10: 200, 256<<10 + 1: 413, 4 << 20: 413} {
		for _, letter := range []string{"x", "\n"} { // a form encodes the second as three letters
			text := strings.Repeat(letter, length)
			if w := send(handler, text); w.Code != want || want == 413 && !strings.Contains(w.Body.String(), "at most 256 KiB") {
				t.Errorf("a form with %d times %q: %d", length, letter, w.Code)
			}
			if w := post(handler, "/json/whatif", text, "Content-Type", "application/yaml"); w.Code != want {
				t.Errorf("%d times %q: %d", length, letter, w.Code)
			}
		}
	}
}

func TestWhatIfShowsWhatPeopleWriteAsText(t *testing.T) {
	t.Parallel()
	const markup = `</textarea><img src=x onerror=alert(1)>`
	handler := trying(t, dashboard.Options{}, func(text []byte, _ func() bool) (*dashboard.Outcome, error) {
		switch {
		case strings.HasPrefix(string(text), "mistake"):
			return &dashboard.Outcome{Mistakes: []dashboard.Mistake{{Line: 3, Field: markup, Text: markup}}}, nil
		case strings.HasPrefix(string(text), "failure"):
			return nil, errors.New(markup)
		}
		out, err := planned(text, nil)
		out.Notes, out.Objects = []string{markup}, []dashboard.Tried{{Kind: markup, Namespace: markup, Name: markup, Replicas: new(3)}}
		out.Differences = []dashboard.Difference{{Text: markup, Detail: markup, Names: []string{markup}}}
		out.Plan = []byte(`{"launches":[{"name":"</td><img src=x>","nodePool":"<img src=x>"}],"disruptions":[{"nodes":["<img src=x>"],"reason":"<img src=x>"}]}`)
		return out, err
	})
	for _, text := range []string{markup, "mistake" + markup, "failure" + markup} {
		w := send(handler, text)
		if w.Header().Get("Content-Type") == "text/plain; charset=utf-8" {
			continue // it contains no markup
		}
		if page := w.Body.String(); strings.Contains(page, "<img") || !strings.Contains(page, "&lt;img") || strings.Count(page, "</textarea>") != 1 {
			t.Errorf("%.10s: markup is in the page: %d", text, w.Code)
		}
	}
	if page := get(t, handler, "/whatif?from=NodePool%2Fgeneral"); strings.Contains(page, "# </textarea>") || !strings.Contains(page, "kind: NodePool\n# &lt;/textarea&gt;") {
		t.Error("an object of the cluster is not shown as text")
	}
	if w := ask(handler, http.MethodGet, "/whatif?from=%3Cimg%3E"); w.Code != 404 || strings.Contains(w.Body.String(), "<img>") {
		t.Errorf("an object that there is not: %d", w.Code)
	}
}

func TestWhatIfSaysWhereAMistakeIs(t *testing.T) {
	t.Parallel()
	handler := trying(t, dashboard.Options{}, func([]byte, func() bool) (*dashboard.Outcome, error) {
		return &dashboard.Outcome{Mistakes: []dashboard.Mistake{{Line: 7, Field: "spec.weight", Text: "must be a number"}, {Text: "there is no object"}}}, nil
	})
	page := send(handler, "x").Body.String()
	for _, want := range []string{`data-line="7"`, "<code>spec.weight</code> must be a number", `aria-invalid="true"`, "2 mistakes. Nothing was planned."} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	w := post(handler, "/json/whatif", "x", "Content-Type", "application/yaml")
	if w.Code != 422 || w.Body.String() != "line 7: spec.weight: must be a number\nthere is no object\n" {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
}

// If an answer takes too long, the page shows this, and the computation is stopped.
func TestWhatIfGivesUpWhatTakesTooLong(t *testing.T) {
	t.Parallel()
	ended := make(chan bool, 10)
	wait := func(stop func() bool) {
		for !stop() {
			runtime.Gosched()
		}
		ended <- true
	}
	handler := trying(t, dashboard.Options{TryLimit: 500 * time.Millisecond}, func(text []byte, stop func() bool) (*dashboard.Outcome, error) {
		if string(text) == "rest" {
			out, err := planned(text, stop)
			out.Disrupts, out.Rest = false, func() (*dashboard.Outcome, error) { wait(stop); return out, nil }
			return out, err
		}
		wait(stop)
		return planned(text, stop)
	})
	const advice = " within 0.5 s, so it was given up. tenon plan --disrupt -f snapshot.yaml --change changed.yaml takes the time that it needs."
	for text, want := range map[string]string{"all": "There was no answer" + advice, "rest": "Which nodes would go could not be found out" + advice} {
		page := send(handler, text).Body.String()
		<-ended
		if !strings.Contains(page, want) || strings.Contains(page, "general-1") != (text == "rest") {
			t.Errorf("%s: the page lacks %q, or shows what it should not", text, want)
		}
		if w := post(handler, "/json/whatif", text, "Content-Type", "application/yaml"); w.Code != 504 || !strings.HasPrefix(w.Body.String(), want) {
			t.Errorf("%s: %d: %s", text, w.Code, w.Body)
		}
		<-ended
	}
}

// The bill of the next pass and the bill of the complete change are two figures with names. The page states that there is no difference once
// that is known.
func TestWhatIfSaysWhichBillItMeans(t *testing.T) {
	t.Parallel()
	parts := map[string]func(*dashboard.Outcome){
		"first":    func(o *dashboard.Outcome) { o.Disrupts = false },
		"pass":     func(*dashboard.Outcome) {},
		"complete": func(o *dashboard.Outcome) { o.Before.Complete, o.After.Complete = new(1.0), new(1.5310) },
		"same":     func(o *dashboard.Outcome) { o.Before.Complete, o.After.Complete = new(1.0), new(1.0) },
	}
	handler := trying(t, dashboard.Options{}, func(text []byte, stop func() bool) (*dashboard.Outcome, error) {
		out, err := planned(text, stop)
		out.Differences = nil
		parts[string(text)](out)
		return out, err
	})
	const pass = "The first pass, within budgets, takes the bill from $1.0000/h now to $1.2500/h; without the change to $1.0000/h."
	for text, want := range map[string]string{
		"first":    "Machines for pods that wait take the bill from $1.0000/h now to $1.2500/h; without the change to $1.0000/h. It is not known which nodes go.",
		"pass":     "The plan is the same as without the change. " + pass,
		"complete": pass + " Once the change is complete, with all pods placed anew, the bill is $1.5310/h; without the change it would be $1.0000/h.",
		"same":     "The plan is the same as without the change. " + pass + " Once the change is complete, with all pods placed anew, the bill is $1.0000/h; without the change it would be $1.0000/h.",
	} {
		page := send(handler, text).Body.String()
		if got := between(page, `<p class="headline" data-says>`, "</p>"); len(got) != 1 || got[0] != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
		if (text == "first") == strings.Contains(page, "Nodes that go") || (text == "complete") != strings.Contains(page, "$1.5310/h, $1117.63 a month") {
			t.Errorf("%s: the rows are not those that are known", text)
		}
	}
}

// A higher bill is shown as a cost, and not as a negative saving.
func TestWhatIfSaysWhatCostsMore(t *testing.T) {
	t.Parallel()
	handler := trying(t, dashboard.Options{}, func(text []byte, stop func() bool) (*dashboard.Outcome, error) {
		out, err := planned(text, stop)
		out.After.Saving = -0.2883
		out.Plan = []byte(`{"disruptions":[{"nodes":["n9"],"reason":"Drifted","savingPerHour":-0.2883}]}`)
		return out, err
	})
	page := send(handler, "x").Body.String()
	if strings.Contains(page, "-$") || strings.Contains(page, "-0.2883") || !strings.Contains(page, "1, costs $0.2883/h more") || !strings.Contains(page, ">costs $0.2883/h more</td>") {
		t.Errorf("%v", between(page, "<tbody>", "</tbody>"))
	}
	p := few()
	p.Plan = document(map[string]any{"disruptions": []any{map[string]any{"nodes": []string{"n9"}, "reason": "Drifted", "savingPerHour": -0.2883}}})
	if page := get(t, serve(t, p), "/"); !strings.Contains(page, "node goes, costs $0.2883/h more") {
		t.Error("the head says something else")
	}
}

// Ten requests at the same time are answered two at a time. If a browser is gone, its request makes way.
func TestWhatIfPlansTwoAtATime(t *testing.T) {
	t.Parallel()
	var now, most atomic.Int32
	entered, release := make(chan bool, 10), make(chan bool)
	handler := trying(t, dashboard.Options{TryLimit: time.Minute}, func(text []byte, stop func() bool) (*dashboard.Outcome, error) {
		n := now.Add(1)
		defer now.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		entered <- true
		<-release
		return planned(text, stop)
	})
	var group sync.WaitGroup
	var answered atomic.Int32
	for range 10 {
		group.Go(func() {
			if w := send(handler, "x"); w.Code == 200 {
				answered.Add(1)
			}
		})
	}
	<-entered
	<-entered // both requests have begun before either may end
	close(release)
	group.Wait()
	if most.Load() != 2 || answered.Load() != 10 {
		t.Errorf("%d at once, %d answered", most.Load(), answered.Load())
	}
}

// If a client goes away while its plan is made, the computation stops and makes way.
func TestWhatIfStopsForThoseWhoHaveGone(t *testing.T) {
	t.Parallel()
	entered, stopped := make(chan bool), make(chan bool, 1)
	handler := trying(t, dashboard.Options{TryLimit: time.Hour, Tries: 1}, func(text []byte, stop func() bool) (*dashboard.Outcome, error) {
		if string(text) == "text=gone" {
			entered <- true
			for !stop() {
				runtime.Gosched()
			}
			stopped <- true
		}
		return planned(text, stop)
	})
	ctx, leave := context.WithCancel(t.Context())
	gone := make(chan int)
	go func() {
		r := httptest.NewRequest(http.MethodPost, "http://localhost/json/whatif", strings.NewReader("text=gone")).WithContext(ctx)
		r.Header.Set("Content-Type", "application/yaml")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		gone <- w.Code
	}()
	<-entered
	leave()
	<-gone
	<-stopped
	if w := send(handler, "x"); w.Code != http.StatusOK {
		t.Errorf("the next one: %d %s", w.Code, w.Body)
	}
}

func TestAFailureOfAPlanIsOneAnswerAlone(t *testing.T) {
	t.Parallel()
	handler := trying(t, dashboard.Options{Tries: 1}, func(text []byte, _ func() bool) (*dashboard.Outcome, error) {
		if string(text) == "panic" {
			panic("a law is broken")
		}
		return planned(text, nil)
	})
	for range 3 {
		if w := send(handler, "panic"); w.Code != 500 || !strings.HasPrefix(w.Body.String(), "Planning has failed") {
			t.Errorf("a panic: %d: %s", w.Code, w.Body)
		}
		if w := send(handler, "x"); w.Code != 200 {
			t.Errorf("after it: %d", w.Code)
		}
	}
}

// A reader who may see the pods of some namespaces reads only names there, and can try changes only there.
func TestWhatIfNamesOnlyWhatMayBeSeen(t *testing.T) {
	t.Parallel()
	sight := func(*http.Request, []string) (dashboard.Sight, error) {
		return dashboard.Sight{Namespaces: []string{"shop"}}, nil
	}
	handler := trying(t, dashboard.Options{Sight: sight}, func(text []byte, stop func() bool) (*dashboard.Outcome, error) {
		out, err := planned(text, stop)
		switch string(text) {
		case "other":
			out.Objects = []dashboard.Tried{{Kind: "Deployment", Namespace: "vault", Name: "keys"}}
			out.Mistakes = []dashboard.Mistake{{Text: "Deployment has 3 pods: vault/keys-1"}}
		case "rest":
			whole := *out
			out.Disrupts, out.Rest = false, func() (*dashboard.Outcome, error) { return &whole, nil }
		}
		return out, err
	})
	for _, text := range []string{"x", "rest"} {
		for _, w := range []*httptest.ResponseRecorder{send(handler, text), post(handler, "/json/whatif", text, "Content-Type", "application/yaml")} {
			if body := w.Body.String(); w.Code != 200 || strings.Contains(body, "vault") || !strings.Contains(body, "general-1") {
				t.Errorf("%s: %d, with a name that is not seen, or nothing:\n%s", text, w.Code, body)
			}
		}
		if page := send(handler, text).Body.String(); !strings.Contains(page, "shop/web-1") || !strings.Contains(page, "2 pods have a place") {
			t.Errorf("%s: what is seen is not shown", text)
		}
	}
	for _, w := range []*httptest.ResponseRecorder{send(handler, "other"), post(handler, "/json/whatif", "other", "Content-Type", "application/yaml")} {
		if body := w.Body.String(); strings.Contains(body, "3 pods") || !strings.Contains(body, "by those who may list pods there") {
			t.Errorf("another namespace: %s", body)
		}
	}
	if page := get(t, handler, "/whatif"); strings.Contains(page, "vault") || !strings.Contains(page, `value="NodePool/general"`) {
		t.Error("what a change may begin with is not what is seen")
	}
	if w := ask(handler, http.MethodGet, "/whatif?from=CapacityBuffer%2Fvault%2Fkeys"); w.Code != 404 || strings.Contains(w.Body.String(), "kind: CapacityBuffer") {
		t.Errorf("an object of another namespace: %d", w.Code)
	}
}

func TestAPageOnWhichNothingCanBeTriedSaysSo(t *testing.T) {
	t.Parallel()
	if w := send(serve(t, few()), "x"); w.Code != 404 || !strings.Contains(w.Body.String(), "Nothing can be tried") {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
	page, err := dashboard.Export(few())
	if err != nil || strings.Contains(string(page), "<textarea") || strings.Contains(string(page), fmt.Sprintf("%q", "/whatif")) {
		t.Errorf("an exported file has the screen: %v", err)
	}
}

package dashboard_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tenon.sh/dashboard"
)

func waits(name string, w dashboard.Waiting) dashboard.Pod {
	return dashboard.Pod{Name: name, Waiting: &w}
}

func TestPodsThatNothingTellsApartAreOneClass(t *testing.T) {
	t.Parallel()
	p := few()
	old := p.At.Add(-3 * time.Hour)
	report := dashboard.Waiting{Owner: "Job report", Asks: "9 gpu", Since: p.At.Add(-time.Minute), Why: "no"}
	older, other, placed := report, report, report
	older.Since, other.Why = old, "another reason"
	placed.Fate, placed.On = dashboard.Placed, "beta"
	p.Pods = []dashboard.Pod{
		waits("ml/report-1", report), waits("ml/report-2", older), waits("ml/report-3", other), waits("ml/report-4", placed), waits("shop/report-1", report),
		waits("shop/alone", dashboard.Waiting{Fate: dashboard.Unplanned, Asks: "1 cpu", Since: p.At}),
	}
	explain := p.Explain
	p.Explain = func(kind dashboard.Kind, name string) (*dashboard.Explanation, error) {
		e, err := explain(kind, name)
		if strings.HasPrefix(name, "ml/report-2") {
			e.Reasons = []dashboard.Reason{{Code: "NotEnoughResources", NodePool: "gpu", Key: "nvidia.com/gpu", Need: "9", Have: "the largest has 8", Message: "needs 9"}}
		}
		e.Story.Headline = "it is held back"
		return e, err
	}
	page := get(t, serve(t, p), "/waiting")
	_, refused, _ := strings.Cut(page, "Nothing can run these")
	refused, coming, _ := strings.Cut(refused, "These have a place to come")
	coming, others, _ := strings.Cut(coming, "Nothing is planned for these yet")
	for _, c := range []struct {
		what, in string
		want     []string
	}{
		{"refused", refused, []string{"2 pods, waiting for up to 3h0m; each asks for 9 gpu.", `href="/why/pod/ml/report-2"`, `<a href="/why/pool/gpu">gpu</a>`, "nvidia.com/gpu", "the largest has 8",
			"Job report in ml", "Job report in shop", "1 pod, waiting for 1m0s; it asks for 9 gpu."}},
		{"coming", coming, []string{"There is room on", `<a href="/why/node/beta">beta</a>`}},
		{"others", others, []string{"shop/alone", "It is held back."}},
	} {
		for _, want := range c.want {
			if !strings.Contains(c.in, want) {
				t.Errorf("%s: nothing says %q", c.what, want)
			}
		}
	}
	if n := strings.Count(page, `<article class="class">`); n != 5 {
		t.Errorf("%d classes, want 5", n)
	}
}

func TestManyClassesAreShownByTheirSize(t *testing.T) {
	t.Parallel()
	p := few()
	p.Pods = nil
	for i := range 70 {
		p.Pods = append(p.Pods, waits(fmt.Sprintf("shop/p-%d", i), dashboard.Waiting{Since: p.At}))
	}
	page := get(t, serve(t, p), "/waiting")
	if n := strings.Count(page, `<article class="class">`); n != 50 || !strings.Contains(page, "20 more kinds of pods wait") {
		t.Errorf("%d classes are shown", n)
	}
}

func TestMachinesOnTheirWayCountTheirPods(t *testing.T) {
	t.Parallel()
	page := get(t, serve(t, few()), "/waiting")
	_, way, _ := strings.Cut(page, "On its way")
	if cells := between(way, "<td", "</td>"); len(cells) < 6 || !strings.HasSuffix(cells[2], ">0.0200") || !strings.HasSuffix(cells[4], ">1") {
		t.Errorf("cells %q", cells)
	}
}

func TestStoriesLinkToWhatTheyName(t *testing.T) {
	t.Parallel()
	handler := serve(t, few())
	page := get(t, handler, "/why/node/alpha")
	for _, want := range []string{`<dd><a href="/why/pool/general">general</a></dd>`, `<a href="/why/pod/shop/web-1">shop/web-1</a>`, "It stays: because", `href="/json/explain/node/alpha"`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %s", want)
		}
	}
	found := get(t, handler, "/why?q=Web-2")
	if !strings.Contains(found, `<a href="/why/pod/shop/web-2">shop/web-2</a>`) || !strings.Contains(found, "on beta") || strings.Contains(found, "shop/web-1") {
		t.Error("a search does not find the pod alone")
	}
}

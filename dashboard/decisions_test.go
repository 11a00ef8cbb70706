package dashboard_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"tenon.sh/dashboard"
)

// withJournal returns a picture with so many decisions in three pools, a minute apart.
func withJournal(decisions int) *dashboard.Picture {
	p := picture(3)
	var records []any
	for i := range decisions {
		records = append(records, map[string]any{
			"id": fmt.Sprintf("d-%03d", i), "time": p.At.Add(time.Duration(i-decisions) * time.Minute), "kind": []string{"Launch", "Disruption", "Removal", "Refusal"}[i%4],
			"reason": []string{"Pending", "Underutilized", "Interrupted", "Unschedulable"}[i%4], "nodePools": []string{p.NodePools[i%3]},
			"says": fmt.Sprintf("said %03d <img src=x onerror=alert(1)>", i), "savingPerHour": 0.5, "savedSoFar": 2.0, "outcome": "Done",
		})
	}
	p.Journal = document(map[string]any{"kind": "Journal", "asOf": p.At, "records": records})
	p.Decision = func(id string) (*dashboard.Explanation, error) {
		if id != "d-001" {
			return nil, fmt.Errorf("the journal has no decision %s", id)
		}
		return &dashboard.Explanation{Document: []byte(`{"id":"d-001"}`), Story: dashboard.Story{Kind: "Decision", Name: id, Headline: "said", Parts: []dashboard.Part{
			{Rows: [][]string{{"MACHINE", "NODE", "CLAIM", "POOL", "USD/HOUR"}, {"goes", "node-a", "-", "gpu", "1"}}},
		}}}, nil
	}
	return p
}

func TestDecisionsAreListedNewestFirstAPageAtATime(t *testing.T) {
	t.Parallel()
	handler := serve(t, withJournal(250))
	page := get(t, handler, "/decisions")
	if first, last := strings.Index(page, "/decisions/d-249"), strings.Index(page, "/decisions/d-150"); first < 0 || last < first || strings.Contains(page, "/decisions/d-149") {
		t.Errorf("the first page has %v", between(page, `href="/decisions/d-`, `"`))
	}
	if page = get(t, handler, "/decisions?page=3"); !strings.Contains(page, "201–250 of 250") || !strings.Contains(page, "/decisions/d-000") {
		t.Error("the last page lacks the oldest")
	}
	if strings.Contains(page, "<img") {
		t.Error("a decision's words are markup")
	}
}

func TestDecisionsAreChosenByTheAddress(t *testing.T) {
	t.Parallel()
	handler := serve(t, withJournal(240))
	for address, want := range map[string]string{
		"/decisions": "of 240<", "/decisions?last=1h": "of 60<", "/decisions?kind=Launch": "of 60<", "/decisions?pool=gpu": "of 80<",
		"/decisions?reason=Underutilized&pool=general": "of 20<", "/decisions?last=eternity": "of 240<", "/decisions?page=-1": "1–100 of 240",
	} {
		if page := get(t, handler, address); !strings.Contains(page, want) {
			t.Errorf("%s shows %v, want %s", address, between(page, "<nav class=\"pages\"", "</nav>"), want)
		}
	}
	page := get(t, handler, "/decisions?kind=Disruption")
	if !strings.Contains(page, `<td data-name="Decisions" class="num">60</td><td data-name="USD/hour less, expected" class="num">30.0000</td><td data-name="USD saved so far" class="num">120.00</td>`) {
		t.Errorf("sums by reason: %v", between(page, "Savings by reason", "</table>"))
	}
	if page := get(t, handler, "/decisions?pool=none"); !strings.Contains(page, "No decision is such, of 240") {
		t.Error("nothing is said of a pool without decisions")
	}
}

func TestTheTimelineHasALaneForEachPoolAndFewMarks(t *testing.T) {
	t.Parallel()
	page := get(t, serve(t, withJournal(5000)), "/decisions")
	if n := strings.Count(page, `class="axis"`); n != 3 {
		t.Errorf("%d lanes", n)
	}
	if n := strings.Count(page, `class="mark `); n < 100 || n > 3*4*150+4 {
		t.Errorf("%d marks", n)
	}
	if !strings.Contains(page, "decisions, the last ") {
		t.Error("marks of several decisions do not say so")
	}
}

// The names of ProvisioningRequests and PodGroups in decisions link to their stories. Similar words do not.
func TestDecisionsLeadToWhatStartsTogether(t *testing.T) {
	t.Parallel()
	p := withJournal(2)
	var journal map[string]any
	if err := json.Unmarshal(p.Journal, &journal); err != nil {
		t.Fatal(err)
	}
	records := journal["records"].([]any)
	records[0].(map[string]any)["says"] = "starts a machine for ProvisioningRequest ml/nightly.v2. The rest waits"
	records[1].(map[string]any)["says"] = "refuses pod group ml/train, and a pod group of <b>/x and podgroups ml/other"
	p.Journal = document(journal)
	page := get(t, serve(t, p), "/decisions")
	for _, want := range []string{`ProvisioningRequest <a href="/why/provisioningrequest/ml/nightly.v2">ml/nightly.v2</a>. The rest`, `pod group <a href="/why/podgroup/ml/train">ml/train</a>, and`, "of &lt;b&gt;/x and podgroups ml/other<"} {
		if !strings.Contains(page, want) {
			t.Errorf("nothing says %s", want)
		}
	}
	file, err := dashboard.Export(p)
	if err != nil {
		t.Fatal(err)
	}
	if text := string(file); !strings.Contains(text, "pod group ml/train, and") || strings.Contains(text, "/why/") {
		t.Error("the exported file links to pages that it does not have")
	}
}

func TestADecisionOpensToItsStory(t *testing.T) {
	t.Parallel()
	handler := serve(t, withJournal(4))
	page := get(t, handler, "/decisions/d-001")
	for _, want := range []string{`href="/why/node/node-a"`, `href="/why/pool/gpu"`, `href="/json/decision/d-001"`} {
		if !strings.Contains(page, want) {
			t.Errorf("the story lacks %s", want)
		}
	}
	if got := get(t, handler, "/json/decision/d-001"); got != `{"id":"d-001"}` {
		t.Errorf("its document is %s", got)
	}
	for _, address := range []string{"/decisions/other", "/json/decision/other"} {
		if w := ask(handler, http.MethodGet, address); w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), "The journal has no decision other.") {
			t.Errorf("%s: %d %s", address, w.Code, w.Body)
		}
	}
}

func TestWithoutAJournalThePageSaysWhy(t *testing.T) {
	t.Parallel()
	p := picture(1)
	p.NoJournal = "nobody <b>leads</b>"
	handler := serve(t, p)
	if page := get(t, handler, "/decisions"); !strings.Contains(page, "Nobody &lt;b&gt;leads") {
		t.Error("it does not say why")
	}
	for _, address := range []string{"/decisions/x", "/json/journal", "/json/decision/x"} {
		if w := ask(handler, http.MethodGet, address); w.Code != http.StatusNotFound {
			t.Errorf("%s: %d", address, w.Code)
		}
	}
	if page := get(t, serve(t, withJournal(0)), "/decisions"); !strings.Contains(page, "Nothing has been decided") {
		t.Error("an empty journal is not said to be")
	}
}

package dashboard_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"html"
	"io"
	"math"
	"net/http"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"tenon.sh/dashboard"
)

// groupSums adds up the rows of the table of groups: all outer groups, all inner groups, and the last row.
func groupSums(t *testing.T, page string) (outer, inner, all [2]float64) {
	t.Helper()
	_, groups, _ := strings.Cut(page, `<table class="cards groups">`)
	groups, _, _ = strings.Cut(groups, "</table>")
	body, foot, _ := strings.Cut(groups, "<tfoot>")
	add := func(to *[2]float64, row string) {
		numbers := between(row, `class="num">`, "</td>")
		for i := range to {
			x, err := strconv.ParseFloat(numbers[i], 64)
			if err != nil {
				t.Fatal(err)
			}
			to[i] += x
		}
	}
	for _, row := range between(body, `<tr class="depth0">`, "</tr>") {
		add(&outer, row)
	}
	for _, row := range between(body, `<tr class="depth1">`, "</tr>") {
		add(&inner, row)
	}
	add(&all, foot)
	return outer, inner, all
}

func TestSumsOfGroupsAreThoseOfTheClusterForEachPairOfKeys(t *testing.T) {
	t.Parallel()
	p := picture(400)
	handler := serve(t, p)
	var want struct{ PricePerHour float64 }
	if err := json.Unmarshal(p.Nodes, &want); err != nil {
		t.Fatal(err)
	}
	keys := []string{"pool", "zone", "type", "capacity", "state"}
	for _, by := range keys {
		for _, then := range append(keys, "-") {
			page := get(t, handler, "/?by="+by+"&then="+then)
			if !strings.Contains(page, fmt.Sprintf(`<p class="value">$%.4f<small>/h`, want.PricePerHour)) {
				t.Fatalf("the head does not say %.4f", want.PricePerHour)
			}
			outer, inner, all := groupSums(t, page)
			sums := [][2]float64{outer, all}
			if then != "-" && then != by {
				sums = append(sums, inner)
			}
			for _, sum := range sums {
				if sum[0] != 400 || math.Abs(sum[1]-want.PricePerHour) > 0.01 { // each row is rounded to a hundredth of a cent
					t.Errorf("by %s, then %s: %v nodes for %.4f, want 400 for %.4f", by, then, sum[0], sum[1], want.PricePerHour)
				}
			}
		}
	}
}

func TestSumsFollowTheFilter(t *testing.T) {
	t.Parallel()
	page := get(t, serve(t, few()), "/?filter=pool%3Dgpu")
	outer, inner, all := groupSums(t, page)
	for _, sum := range [][2]float64{outer, inner, all} {
		if sum != [2]float64{2, 3.02} {
			t.Errorf("sum %v, want 2 nodes for 3.02", sum)
		}
	}
	if !strings.Contains(page, "$3.8700<small>/h") {
		t.Error("the head is about the filter, not the cluster")
	}
}

func TestTableIsPagedAndAddressesGiveTheSameViewAgain(t *testing.T) {
	t.Parallel()
	handler := serve(t, picture(250))
	seen := map[string]bool{}
	for address := "/?filter=cpu%3E%3D0&sort=price"; address != ""; {
		page := get(t, handler, address)
		if page != get(t, handler, address) {
			t.Fatalf("%s shows something else the second time", address)
		}
		for name := range strings.FieldsSeq(names(page)) {
			if seen[name] {
				t.Errorf("%s is on two pages", name)
			}
			seen[name] = true
		}
		address = ""
		if before, _, ok := strings.Cut(page, `" rel="next"`); ok {
			address = html.UnescapeString(before[strings.LastIndex(before, `"`)+1:])
		}
		if address != "" && (!strings.Contains(address, "filter=cpu") || !strings.Contains(address, "sort=price")) {
			t.Errorf("the next page %s forgets the filter or the order", address)
		}
	}
	if len(seen) != 250 {
		t.Errorf("%d nodes on all pages, want 250", len(seen))
	}
	if !strings.Contains(get(t, handler, "/?page=99"), "201–250 of 250") {
		t.Error("a page behind the last is not the last")
	}
}

func TestColumnsSortAsTheCommandDoes(t *testing.T) {
	t.Parallel()
	handler := serve(t, few())
	for by, want := range map[string]string{
		"name": "Own alpha beta gamma gpu-d4", "price": "gamma beta alpha gpu-d4 Own", "cpu": "gpu-d4 beta Own alpha gamma",
		"memory": "gpu-d4 beta Own alpha gamma", "age": "Own beta alpha gamma gpu-d4", "nonsense": "alpha beta gamma gpu-d4 Own",
	} {
		if got := names(get(t, handler, "/?sort="+by)); got != want {
			t.Errorf("by %s: %s, want %s", by, got, want)
		}
	}
}

// hostile is a text by which a user tries to make a browser run it.
const hostile = `<img src=x onerror=alert(1)>"'</script><script>alert(2)</script>{{.}}`

func TestNamesAreTextNeverMarkup(t *testing.T) {
	t.Parallel()
	p := picture(0)
	p.Cluster, p.NodePools, p.Notes = hostile, []string{hostile}, []string{hostile}
	p.Nodes = document(map[string]any{"waiting": 1, "nodes": []row{
		{"node": hostile, "claim": hostile, "nodePool": hostile, "instanceType": hostile, "zone": hostile, "capacityType": hostile, "state": hostile, "pricePerHour": 1, "created": p.At, "disruption": hostile},
		{"node": hostile + "2", "state": "starting", "created": p.At, "kept": map[string]string{"code": hostile, "message": hostile}},
	}})
	p.Plan = document(map[string]any{"launches": []any{map[string]any{"name": hostile, "nodePool": hostile, "offerings": []any{map[string]any{"instanceType": hostile}}}}})
	p.Pods = []dashboard.Pod{
		{Name: hostile, Waiting: &dashboard.Waiting{Owner: hostile, Asks: hostile, Why: hostile}},
		{Name: hostile + "/b", Waiting: &dashboard.Waiting{Owner: hostile, Asks: hostile, Fate: dashboard.Placed, On: hostile}},
	}
	p.Explain = func(dashboard.Kind, string) (*dashboard.Explanation, error) {
		return &dashboard.Explanation{Document: []byte("{}"), Reasons: []dashboard.Reason{{Code: hostile, NodePool: hostile, Key: hostile, Need: hostile, Have: hostile, Message: hostile}},
			Story: dashboard.Story{Kind: hostile, Name: hostile, Headline: hostile, Parts: []dashboard.Part{{Title: hostile, Text: hostile, Lines: []string{hostile},
				Facts: []dashboard.Fact{{Name: hostile, Text: hostile}, {Name: "pool", Text: hostile}}, Rows: [][]string{{"POD", hostile}, {hostile, hostile}}}}}}, nil
	}
	handler := serve(t, p)
	pages := map[string]string{}
	for _, address := range []string{"/", "/waiting", "/why", "/why?q=img", "/why/pod/x"} {
		pages[address] = get(t, handler, address)
	}
	pages["/?filter"] = ask(handler, http.MethodGet, "/?filter=%3Cimg+src%3Dx+onerror%3Dalert(1)%3E&by=%3Cimg").Body.String()
	p.Explain = func(dashboard.Kind, string) (*dashboard.Explanation, error) { return nil, errors.New(hostile) }
	pages["/why/node/y"] = ask(serve(t, p), http.MethodGet, "/why/node/y").Body.String()
	for address, page := range pages {
		lower := strings.ToLower(page)
		if strings.Contains(lower, "<img") || strings.Contains(lower, "<script>") || strings.Contains(lower, `onerror=alert(1)>"`) {
			t.Errorf("%s has markup of somebody else in it", address)
		}
		if !strings.Contains(page, "&lt;img src=x onerror=alert(1)") && address != "/?filter" {
			t.Errorf("%s does not show the name", address)
		}
	}
}

// Browsers may show incomplete markup differently, so all elements have an end.
func TestPagesAreWellFormed(t *testing.T) {
	t.Parallel()
	handler := serve(t, few())
	for _, address := range []string{"/", "/waiting", "/why", "/why?q=a", "/why/pod/a/b", "/why/node/missing", "/nowhere", "/?filter=x%3D1"} {
		page := ask(handler, http.MethodGet, address).Body.String()
		d := xml.NewDecoder(strings.NewReader(page))
		d.Strict, d.AutoClose, d.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
		for {
			_, err := d.Token()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Errorf("%s: %v", address, err)
				break
			}
		}
		if strings.Contains(page, "style=") || strings.Contains(page, "onclick") {
			t.Errorf("%s says inline how it looks or what it does", address)
		}
		if strings.Contains(page, "Part(") { // in the middle of text, templ treats it as text
			t.Errorf("%s shows the call of a part", address)
		}
	}
}

func TestEmptyStatesSayWhatToDo(t *testing.T) {
	t.Parallel()
	p := picture(0)
	p.NodePools = nil
	handler := serve(t, p)
	for address, want := range map[string]string{
		"/": "There are no nodes. Nodes come when pods wait", "/waiting": "No pod waits for a machine.",
		"/why": "There is no NodePool: nothing can be started. Apply one", "/why?q=zzz": "There is no pod, node, claim, pool, PodGroup or ProvisioningRequest with “zzz” in its name",
	} {
		if !strings.Contains(get(t, handler, address), want) {
			t.Errorf("%s does not say %q", address, want)
		}
	}
	if !strings.Contains(get(t, serve(t, few()), "/?filter=nothing"), "No node meets the filter, of 5.") {
		t.Error("a filter that leaves nothing does not say so")
	}
}

func TestANodeThatDoesNotSayWhenItWasCreatedIsOfNoAge(t *testing.T) {
	t.Parallel()
	p := picture(0)
	p.Nodes = document(map[string]any{"nodes": []row{{"node": "bare", "state": "starting", "created": nil}, {"node": "dated", "state": "starting", "created": p.At.Add(-time.Hour)}}})
	handler := serve(t, p)
	export, err := dashboard.Export(p)
	if err != nil {
		t.Fatal(err)
	}
	for what, page := range map[string]string{"nodes": get(t, handler, "/?sort=age"), "waiting": get(t, handler, "/waiting"), "export": string(export)} {
		if strings.Contains(page, "0001-01-01") || strings.Contains(page, "106751d") || !strings.Contains(page, "1h0m") {
			t.Errorf("%s: %s", what, page)
		}
	}
	page := get(t, handler, "/?sort=age")
	if strings.Index(page, ">dated</a>") > strings.Index(page, ">bare</a>") {
		t.Error("the oldest is not first")
	}
	for filter, want := range map[string]string{"age>2m": "1–1 of 1", "age<2d": "1–1 of 1", "age>2d": "No node meets the filter"} {
		if page := get(t, handler, "/?filter="+url.QueryEscape(filter)); !strings.Contains(page, want) {
			t.Errorf("%s does not show %q", filter, want)
		}
	}
}

func TestAClusterOfOneNodeHasAPage(t *testing.T) {
	t.Parallel()
	page := get(t, serve(t, picture(1)), "/")
	for _, want := range []string{`<p class="value">1</p><p class="label">node<`, "1–1 of 1", "$0.0500"} {
		if !strings.Contains(page, want) {
			t.Errorf("it lacks %s", want)
		}
	}
}

func TestEveryNodeIsOneTileUpToAThousand(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"/", "/?by=zone&then=-&sort=price", "/?by=state&then=capacity&fill=cpu"} {
		page := get(t, serve(t, picture(1000)), address)
		links := map[string]bool{}
		for _, link := range between(page, `<a class="tile`, `"></a>`) {
			links[link] = true
		}
		if len(links) != 1000 {
			t.Errorf("%s shows %d nodes of 1000", address, len(links))
		}
	}
	handler := serve(t, picture(1001))
	if page := get(t, handler, "/"); strings.Contains(page, `class="tile`) || !strings.Contains(page, "A filter that leaves 1000 nodes or fewer shows a tile for each") {
		t.Error("1001 nodes have tiles, or nothing says how to see them")
	}
	if page := get(t, handler, "/?filter=ip-10-1-0-1.internal"); strings.Count(page, `<a class="tile`) != 1 {
		t.Error("a filter that leaves one node does not show its tile")
	}
}

func TestATileShowsWhetherItsNodeStaysAndHowFullItIs(t *testing.T) {
	t.Parallel()
	for want, fill := range map[string]string{
		`<a class="tile f5" href="/why/node/alpha" title="alpha · general · m7i.large a spot · $0.0500/h · CPU 50 %, memory 25 % · 3 pods · ready"`: "",
		`<a class="tile goes f1" href="/why/node/beta" title="beta · `:                                                                              "memory",
		`<a class="tile waits f9" href="/why/node/gamma" title="gamma · `:                                                                           "cpu",
		`<a class="tile waits f5" href="/why/node/gamma"`:                                                                                           "memory",
	} {
		if page := get(t, serve(t, few()), "/?fill="+fill); !strings.Contains(page, want) {
			t.Errorf("filled by %s, the page lacks %s", fill, want)
		}
	}
}

// The test limits the size of the page of a cluster of 5,000 nodes, and of the page with the most tiles. BenchmarkPage measures the time.
func TestPageOfManyNodesIsSmall(t *testing.T) {
	for _, nodes := range []int{1000, 5000} {
		checkSizeOfPage(t, nodes)
	}
}

func checkSizeOfPage(t *testing.T, nodes int) {
	t.Helper()
	p := picture(nodes)
	handler := serve(t, p)
	ask(handler, http.MethodGet, "/", "Accept-Encoding", "gzip")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	w := ask(handler, http.MethodGet, "/", "Accept-Encoding", "gzip")
	runtime.ReadMemStats(&after)
	size := w.Body.Len()
	if size > 200<<10 {
		t.Errorf("%d nodes: %d bytes over the wire, want 200 KiB at most", nodes, size)
	}
	if spent := after.TotalAlloc - before.TotalAlloc; spent > 20<<20 {
		t.Errorf("%d nodes: %d bytes of memory for one page, want 20 MiB at most", nodes, spent)
	}
	page := unzip(t, w)
	if rows := strings.Count(page, "<tr"); rows > 200 {
		t.Errorf("%d nodes: %d rows are sent", nodes, rows)
	}
	if elements := strings.Count(page, "<"); elements > 8000 {
		t.Errorf("%d nodes: %d tags are sent", nodes, elements)
	}
	export, err := dashboard.Export(p)
	if err != nil {
		t.Fatal(err)
	}
	if len(export) > 3<<20 {
		t.Errorf("%d nodes: the exported page has %d bytes, want 3 MiB at most", nodes, len(export))
	}
	t.Logf("%d nodes: page %d bytes gzipped, %d bytes; export %d bytes", nodes, size, len(page), len(export))
}

func TestExportLoadsNothingAndShowsEverything(t *testing.T) {
	t.Parallel()
	p := few()
	p.Pods[2].Waiting.Fate = dashboard.Refused
	page, err := dashboard.Export(p)
	if err != nil {
		t.Fatal(err)
	}
	for _, forbidden := range []string{"<script", `href="/`, "src=", "url(http", "/assets/", "Part("} {
		if bytes.Contains(page, []byte(forbidden)) {
			t.Errorf("the file has %s in it", forbidden)
		}
	}
	for _, want := range []string{"alpha", "gamma", "gpu-d4", "Nothing can run these", "ml/train", "$3.8700", "default-src &#39;none&#39;; style-src &#39;sha256-", "general", "What the nodes cost over time", "By namespace", "There is no comparison"} {
		if !bytes.Contains(page, []byte(want)) {
			t.Errorf("the file does not have %s in it", want)
		}
	}
}

func BenchmarkPage(b *testing.B) {
	handler := serve(b, picture(5000))
	for _, address := range []string{"/", "/?filter=cpu<50&sort=price&by=zone&then=type"} {
		b.Run(address, func(b *testing.B) {
			b.ReportAllocs()
			size := 0
			for b.Loop() {
				size = ask(handler, http.MethodGet, strings.ReplaceAll(address, "<", "%3C"), "Accept-Encoding", "gzip").Body.Len()
			}
			b.ReportMetric(float64(size), "wire-bytes")
		})
	}
}

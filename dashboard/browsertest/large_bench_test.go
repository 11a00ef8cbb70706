package browsertest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"
)

// BenchmarkLargeCluster shows the page of 5,000 nodes and 100,000 pods in a browser, and reports the effects that users notice. For the first
// page, these are the time from the click to its last script and picture, and the transferred bytes. While the page is scrolled from end to end,
// it is the longest frame in milliseconds. For 1,000 updates, these are the time of the scripts and of the whole page for each, and the growth
// of the tab's heap.
func BenchmarkLargeCluster(b *testing.B) {
	tab := openTab(b, startDashboard(b, largeCluster(b)))
	tab.open(b, "/") // the first request waits until the file is read and the browser has started
	for b.Loop() {
		tab.open(b, "/?sort=price")
		tab.open(b, "/")
		b.ReportMetric(evaluate[float64](b, tab, `(() => { const [n] = performance.getEntriesByType("navigation"); return n.loadEventEnd - n.startTime; })()`), "ms-usable")
		b.ReportMetric(evaluate[float64](b, tab, `performance.getEntriesByType("navigation").concat(performance.getEntriesByType("resource")).reduce((sum, e) => sum + e.encodedBodySize, 0)`), "wire-bytes")
		b.ReportMetric(evaluate[float64](b, tab, scrolled), "ms-longest-frame")

		before := figures(b, tab)
		evaluate[bool](b, tab, updates)
		for n := 100; n <= 1000; n += 100 {
			evaluate[bool](b, tab, fmt.Sprintf(`new Promise((done) => { const look = () => window.looks >= %d ? done(true) : setTimeout(look, 20); look(); })`, n))
		}
		evaluate[bool](b, tab, `fetch = async () => new Response(null, { status: 304 }); true`)
		after := figures(b, tab)
		b.ReportMetric((after["ScriptDuration"] - before["ScriptDuration"]), "ms-script/update") // seconds for a thousand
		b.ReportMetric((after["TaskDuration"] - before["TaskDuration"]), "ms-work/update")
		b.ReportMetric(after["JSHeapUsedSize"]/before["JSHeapUsedSize"], "x-heap")
		b.ReportMetric(after["JSHeapUsedSize"]/(1<<20), "MB-heap")
		b.ReportMetric(after["Nodes"]-before["Nodes"], "more-elements")
		b.ReportMetric(after["JSEventListeners"]-before["JSEventListeners"], "more-listeners")
		b.ReportMetric(0, "ns/op")
	}
	tab.checkQuiet(b, "a large cluster")
}

// largeCluster returns a scenario of 5,000 nodes with twenty pods each. Nine of ten nodes are nearly full.
func largeCluster(b *testing.B) string {
	b.Helper()
	var text strings.Builder
	text.WriteString("pool general consolidate-after=5m budget=10%\npool batch consolidate-after=1m\npool web consolidate-after=Never\ncatalog aws\n")
	pools, zones := []string{"general", "batch", "web"}, []string{"us-east-1a", "us-east-1b", "us-east-1c"}
	types := []struct {
		name string
		cpu  int // millicores of each of its twenty pods
	}{{"m7i.xlarge", 180}, {"m7i.2xlarge", 380}, {"c7i.2xlarge", 380}, {"r7i.4xlarge", 780}, {"m7i.4xlarge", 780}}
	for i := range 5_000 {
		kind := types[i%len(types)]
		if i%10 == 0 {
			kind.cpu /= 2
		}
		fmt.Fprintf(&text, "node ip-10-0-%d-%d pool=%s type=%s zone=%s capacity=on-demand age=%dh quiet=20m\n", i/250, i%250, pools[i%7%3], kind.name, zones[i%3], 1+i%300)
		fmt.Fprintf(&text, "pods app-%d x20 ns=team-%d cpu=%dm mem=256Mi node=ip-10-0-%d-%d owner=ReplicaSet/app-%d\n", i, i%20, kind.cpu, i/250, i%250, i%400)
	}
	file := filepath.Join(b.TempDir(), "large.txt")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		b.Fatal(err)
	}
	return file
}

const (
	// scrolled scrolls by 60 pixels a frame, and returns the longest time between two frames.
	scrolled = `new Promise((done) => {
  let longest = 0, last = 0;
  const step = (now) => {
    if (last) longest = Math.max(longest, now - last);
    last = now;
    const before = scrollY;
    scrollBy(0, 60);
    if (scrollY === before) done(longest); else requestAnimationFrame(step);
  };
  requestAnimationFrame(step);
})`
	// updates makes the page request its content all the time. Each time, all live parts of the content have changed.
	updates = `(async () => {
  const page = await (await fetch(location.href)).text();
  window.looks = 0;
  fetch = async () => new Response(page.replace(/data-tag="[^"]*"/, "data-tag=\"" + ++window.looks + "\"").replace(/<[^>]*data-live[^>]*>/g, (head) => head + "<!-- " + window.looks + " -->"));
  document.documentElement.dataset.every = "1";
  await import([...document.scripts].find((s) => s.src.includes("/page.")).src + "?often");
  return true;
})()`
)

// figures returns the browser's figures about the tab, after a garbage collection. Times are in seconds.
func figures(b *testing.B, t *tab) map[string]float64 {
	b.Helper()
	out, err := chromedp.Run(t.ctx, func(ctx context.Context, target *chromedp.Target) (map[string]float64, error) {
		if _, err := cdp.Call(ctx, target, performance.Enable, performance.EnableParams{}); err != nil {
			return nil, err
		}
		for range 3 { // objects that a page has released are found over several rounds
			if _, err := cdp.Call(ctx, target, heapprofiler.CollectGarbage, cdp.Empty{}); err != nil {
				return nil, err
			}
		}
		result, err := cdp.Call(ctx, target, performance.GetMetrics, cdp.Empty{})
		if err != nil {
			return nil, err
		}
		figures := map[string]float64{}
		for _, m := range result.Metrics {
			figures[m.Name] = m.Value
		}
		return figures, nil
	})
	if err != nil {
		b.Fatal(err)
	}
	return out
}

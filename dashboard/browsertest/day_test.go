package browsertest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// compared holds once a comparison is done and its picture is there.
const compared = `document.querySelector("#day img")?.complete && document.querySelector("#day img").naturalWidth > 0`

// patiently is a promise of something that a simulation has to come to an end for.
func patiently(condition string) string {
	return strings.Replace(waitUntil(condition), "50000", "300000", 1)
}

// yearFile is a trace that takes long.
func yearFile(t *testing.T) string {
	t.Helper()
	var pods strings.Builder
	pods.WriteString("pod,arrival,cpu,memory\n")
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range 1000 {
		fmt.Fprintf(&pods, "p%d,%s,1m,1Mi\n", i, begin.Add(time.Duration(i)*8*time.Hour).Format(time.RFC3339))
	}
	name := filepath.Join(t.TempDir(), "year.csv")
	if err := os.WriteFile(name, []byte(pods.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

// compare presses the button, and waits for the page that this leads to.
func (b *tab) compare(t *testing.T) {
	t.Helper()
	b.open(t, changed)
	evaluate[bool](t, b, `document.querySelector("#whatif [formaction]").click(); true`)
	b.await(t, "The change that was compared")
}

// What comes of a comparison is shown without a reload, for everybody, in both looks, also when the page is narrow.
func TestADayIsComparedInTheBackground(t *testing.T) {
	b := openTab(t, startDashboard(t, cluster, "--trace", day))
	b.compare(t)
	evaluate[bool](t, b, `window.mine = true`)
	evaluate[bool](t, b, patiently(compared))
	isTrue(t, b, "without a reload, and said", `window.mine && document.getElementById("day-says").textContent.includes("The comparison is done.")`)
	for _, want := range []string{"these pods cost $", "SETTING", "EVICTIONS PER POD-DAY", "99 % OF PODS WAIT", "unchanged", "Why the bill is above the bound"} {
		isTrue(t, b, want, fmt.Sprintf(`document.getElementById("day").innerText.includes(%q)`, want))
	}
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{1440, 390, 320} {
			b.look(t, scheme)
			b.do(t, chromedp.EmulateViewport(width, 900))
			b.open(t, "/whatif") // another tab sees it, too
			evaluate[bool](t, b, waitUntil(compared))
			where := fmt.Sprintf("the result, %s, %d wide", scheme, width)
			isTrue(t, b, where+", no sideways scrolling", "document.documentElement.scrollWidth <= innerWidth")
			b.runAxe(t, where)
			b.checkQuiet(t, where)
		}
	}
	b.open(t, "/whatif/day.svg")
	isTrue(t, b, "the picture by itself has its style", `getComputedStyle(document.querySelector(".bound, .line")).fill !== "rgb(0, 0, 0)"`)
	b.checkQuiet(t, "the picture")
}

// A comparison is begun by keyboard, followed while the focus stays, found again after a reload, and cancelled, also without scripts.
func TestADayIsFollowedAndCancelled(t *testing.T) {
	b := openTab(t, startDashboard(t, cluster, "--trace", yearFile(t)))
	b.open(t, changed)
	evaluate[bool](t, b, answered)
	evaluate[bool](t, b, `document.getElementById("text").focus(); true`)
	for range 2 { // past "Plan it"
		b.do(t, chromedp.KeyEvent("\t"))
	}
	isTrue(t, b, "Tab leads to it", `document.activeElement.textContent === "Compare over a day"`)
	b.do(t, chromedp.KeyEvent("\r"))
	b.await(t, "The change that was compared")
	isTrue(t, b, "the change is still there", `location.search === "?from=compared" && document.getElementById("text").value.includes("on-demand")`)
	evaluate[bool](t, b, `document.getElementById("day-cancel").focus(); true`)
	for hours := 0.0; hours < 3; hours = evaluate[float64](t, b, `document.querySelector("#day progress").value`) {
		evaluate[bool](t, b, patiently(fmt.Sprintf(`document.querySelector("#day progress").value > %g`, hours)))
	}
	isTrue(t, b, "the focus stays while it goes on", `document.activeElement.id === "day-cancel"`)
	b.runAxe(t, "while it runs")
	b.checkQuiet(t, "while it runs")

	b.scripts(t, false)
	b.open(t, "/")
	b.open(t, "/whatif?from=compared")
	isTrue(t, b, "after a reload, without scripts", `document.querySelector("#day progress").value > 0 && document.getElementById("text").value.includes("on-demand")`)
	isTrue(t, b, "nothing that needs scripts is shown", `[...document.querySelectorAll(".scripted")].every((x) => !x.checkVisibility())`)
	evaluate[bool](t, b, `document.getElementById("day-cancel").click(); true`)
	b.await(t, "Cancelled at")
	b.checkQuiet(t, "a cancelled day")
}

// await waits until the page says something.
func (b *tab) await(t *testing.T, want string) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for text := ""; !strings.Contains(text, want); text = evaluate[string](t, b, `document.body?.innerText ?? ""`) { // there is no body between two pages
		if time.Now().After(deadline) {
			t.Fatalf("the page does not say %q: %s", want, text)
		}
	}
}

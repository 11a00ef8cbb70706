package browsertest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

const (
	cluster = "../testdata/cluster.txt"
	// changed is the address of a pool that is changed already.
	changed = "/whatif?from=NodePool%2C+changed%2Fgeneral%3A+on-demand+alone"
)

// answered waits for the plan of the editor's text.
var answered = waitUntil(`document.querySelector("#answer [data-says]") && !document.querySelector("[aria-busy]")`)

// screens holds an address of each screen, and of each kind of story.
func screens() map[string]string {
	return map[string]string{
		"nodes": "/", "nodes-by-zone": "/?by=zone&then=capacity&filter=pool%21%3Dgpu", "waiting": "/waiting", "why": "/why?q=web",
		"decisions": "/decisions", "decisions-none": "/decisions?pool=none", "money": "/money", "whatif": "/whatif?from=NodePool%2Fgpu", "whatif-changed": changed, "decision": "/decisions/20260105T120000-aa",
		"node": "/why/node/ip-10-0-3-85", "pod": "/why/pod/ml/finetune-1", "pool": "/why/pool/gpu", "claim": "/why/claim/general-x7k2p",
	}
}

// No screen causes an error, violates the security policy or requests another host. axe finds no fault, light and dark, wide and narrow.
func TestScreensAreQuietAndForEverybody(t *testing.T) {
	b := openTab(t, startDashboard(t, cluster))
	for name, address := range screens() {
		for _, scheme := range []string{"light", "dark"} {
			for _, width := range []int64{1440, 390, 320} {
				b.look(t, scheme)
				b.do(t, chromedp.EmulateViewport(width, 900))
				b.open(t, address)
				if address == changed {
					evaluate[bool](t, b, answered)
				}
				where := fmt.Sprintf("%s, %s, %d wide", name, scheme, width)
				isTrue(t, b, where+", no sideways scrolling", "document.documentElement.scrollWidth <= innerWidth")
				b.checkQuiet(t, where)
				if width == 320 {
					continue
				}
				b.runAxe(t, where)
				b.checkQuiet(t, where+", axe")
			}
		}
	}
}

// On a phone all columns of all tables are visible: price, state and reason of nodes, outcome and saving of decisions, the nearest values for a
// pod.
func TestOnAPhoneNoColumnIsOutOfThePicture(t *testing.T) {
	b := openTab(t, startDashboard(t, cluster))
	b.do(t, chromedp.EmulateViewport(390, 900))
	names := map[string]string{"nodes": "USD/hour, State, Because", "waiting": "Nearest there is", "decisions": "Outcome, USD saved, Decision", "money": "USD/hour of nobody", "decision": "USD/HOUR"}
	for name, address := range screens() {
		b.open(t, address)
		if address == changed {
			evaluate[bool](t, b, answered)
		}
		isTrue(t, b, name+", no table scrolls sideways", `[...document.querySelectorAll(".scroll:has(table)")].every((x) => x.scrollWidth <= x.clientWidth)`)
		for _, column := range strings.Split(names[name], ", ") {
			isTrue(t, b, name+", "+column, fmt.Sprintf(`%q === "" || [...document.querySelectorAll("td")].some((x) => x.dataset.name === %[1]q && x.checkVisibility() && x.getBoundingClientRect().right <= innerWidth)`, column))
		}
	}
	b.checkQuiet(t, "a phone")
}

// runAxe fails if axe finds a fault.
func (b *tab) runAxe(t *testing.T, where string) {
	t.Helper()
	axe, err := os.ReadFile("axe/axe.min.js")
	if err != nil {
		t.Fatal(err)
	}
	evaluate[bool](t, b, string(axe)+"; true")
	for _, found := range evaluate[[]string](t, b, `axe.run().then((r) => r.violations.flatMap((v) => v.nodes.map((n) => v.id + ": " + n.html.slice(0, 200) + " " + (n.failureSummary ?? "").slice(0, 300))))`) {
		t.Errorf("%s: %s", where, found)
	}
}

func TestKeysReachEverything(t *testing.T) {
	b := openTab(t, startDashboard(t, cluster))
	b.open(t, "/")
	b.do(t, chromedp.KeyEvent("/"))
	isTrue(t, b, "/", `document.activeElement.id === "filter"`)
	b.do(t, chromedp.KeyEvent("\u001b"), chromedp.KeyEvent("?"))
	isTrue(t, b, "?", `document.getElementById("keys").open`)
	b.do(t, chromedp.KeyEvent("\u001b"))
	isTrue(t, b, "Esc", `!document.getElementById("keys").open`)
	node := evaluate[string](t, b, `(() => { const x = document.querySelector(".nodes tbody th a"); x.focus(); return x.textContent; })()`)
	b.do(t, chromedp.KeyEvent("\r"))
	b.waitForTitle(t, "Node "+node)
	evaluate[bool](t, b, waitUntil(`document.readyState === "complete"`)) // the scripts listen by then
	b.do(t, chromedp.KeyEvent("g"), chromedp.KeyEvent("w"))
	b.waitForTitle(t, "Waiting")
	b.checkQuiet(t, "keys")
}

// A tile links to its node, and is large enough to be hit.
func TestATileOpensItsNode(t *testing.T) {
	b := openTab(t, startDashboard(t, cluster))
	for _, width := range []int64{1280, 390} {
		b.do(t, chromedp.EmulateViewport(width, 900))
		b.open(t, "/")
		isTrue(t, b, "the tiles are squares in the picture", `[...document.querySelectorAll("a.tile")].every((x) => { const r = x.getBoundingClientRect(); return r.width >= 15 && r.width === r.height && r.right <= innerWidth; })`)
		node := evaluate[string](t, b, `document.querySelector("a.tile").title.split(" · ")[0]`)
		b.do(t, chromedp.Click("a.tile"))
		b.waitForTitle(t, "Node "+node)
	}
	b.checkQuiet(t, "a tile")
}

// The figures at the head of the page share its width: each is inside the page, and its text takes three lines at most.
func TestTheFiguresAtTheHeadFitThePage(t *testing.T) {
	b := openTab(t, startDashboard(t, cluster))
	for _, width := range []int64{1440, 1280, 1000, 390} {
		b.do(t, chromedp.EmulateViewport(width, 900))
		b.open(t, "/")
		isTrue(t, b, fmt.Sprintf("the figures at %d px", width), `[...document.querySelectorAll(".figure")].every((x) => x.getBoundingClientRect().right <= document.querySelector(".figures").getBoundingClientRect().right + 1
			&& x.querySelector(".label").getBoundingClientRect().height < 3.5 * parseFloat(getComputedStyle(x.querySelector(".label")).lineHeight))`)
	}
	b.checkQuiet(t, "the figures")
}

// The key Tab reaches all controls of all screens, and the focus is visible.
func TestTabReachesEveryControlOfEveryScreen(t *testing.T) {
	b := openTab(t, startDashboard(t, cluster))
	b.look(t, "light")
	all := screens()
	all["nodes"] = "/?filter=pool%3Dgpu" // a page of the table has hundreds of equal links
	delete(all, "nodes-by-zone")
	for name, address := range all {
		b.open(t, address)
		const controls = `[...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex]")].filter((x) => x.tabIndex >= 0 && !x.disabled && x.type !== "hidden" && x.checkVisibility({ visibilityProperty: true, contentVisibilityAuto: true }))`
		n := evaluate[int](t, b, `(window.left = new Set(`+controls+`)).size`)
		for i := 0; i < n+5; i++ {
			b.do(t, chromedp.KeyEvent("\t"))
			if !evaluate[bool](t, b, `(() => { const at = document.activeElement; window.left.delete(at); return at === document.body || getComputedStyle(at).outlineStyle !== "none"; })()`) {
				t.Errorf("%s: stop %d cannot be seen: %s", name, i, evaluate[string](t, b, `document.activeElement.outerHTML.slice(0, 200)`))
			}
		}
		if left := evaluate[[]string](t, b, `[...window.left].map((x) => x.outerHTML.slice(0, 120))`); n < 10 || len(left) > 0 {
			t.Errorf("%s: of %d controls Tab does not reach %q", name, n, left)
		}
	}
	b.checkQuiet(t, "Tab")
}

// waitUntil returns a promise of a condition in the page.
func waitUntil(condition string) string {
	return `new Promise((done, fail) => { const end = Date.now() + 50000; const look = () => (` + condition + `) ? done(true) : Date.now() > end ? fail("in vain") : setTimeout(look, 20); look(); })`
}

func (b *tab) waitForTitle(t *testing.T, begins string) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		title, err := chromedp.Run(b.ctx, chromedp.Title())
		if err == nil && strings.HasPrefix(title, begins) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the title is %q (%v), want %s", title, err, begins)
		}
	}
}

// The page of a file never changes and is not requested again, so the test makes the page believe that it does.
func TestAPageWhoseServerHasGoneSaysSo(t *testing.T) {
	b := openTab(t, startDashboard(t, cluster))
	b.open(t, "/")
	b.lookOften(t, `if (window.says === 0) throw new Error("down"); return new Response(window.says === 304 ? null : "who are you?", { status: window.says });`)
	for _, refusal := range []int{0, 401, 403, 503} { // no answer; an expired token; a revoked right; no leader
		evaluate[bool](t, b, fmt.Sprintf(`window.says = %d; true`, refusal))
		evaluate[bool](t, b, waitUntil(`document.getElementById("gone").checkVisibility() && document.documentElement.hasAttribute("data-stale")`))
		evaluate[bool](t, b, `window.says = 304; true`)
		evaluate[bool](t, b, waitUntil(`!document.getElementById("gone").checkVisibility() && !document.documentElement.hasAttribute("data-stale")`))
	}
	b.checkQuiet(t, "a server that has gone")
}

// lookOften makes the page of a file request newer content all the time, and sets the answer.
func (b *tab) lookOften(t *testing.T, answer string) {
	t.Helper()
	evaluate[bool](t, b, `window.says = 304; fetch = async () => { `+answer+` }; document.documentElement.dataset.every = "20"; `+
		`import([...document.scripts].find((s) => s.src.includes("/page.")).src + "?again").then(() => true)`)
}

// A tab from before an upgrade does not mix its old files with new pages. It shows a message, and stays as it is.
func TestATabOfBeforeAnUpgradeSaysSo(t *testing.T) {
	b := openTab(t, startDashboard(t, cluster))
	b.open(t, "/")
	evaluate[bool](t, b, `fetch(location.href).then((a) => a.text()).then((page) => { window.newer = page.replace(/data-build="[^"]*"/, "data-build=\"other\"").replaceAll("ip-10-0-1-58", "<b>newer-node</b>"); return true; })`)
	b.lookOften(t, `return new Response(window.newer);`)
	evaluate[bool](t, b, waitUntil(`document.getElementById("stale").checkVisibility()`))
	isTrue(t, b, "what is shown stays", `document.body.innerText.includes("ip-10-0-1-58") && !document.body.innerText.includes("newer-node")`)
	isTrue(t, b, "the link loads the page again", `document.querySelector("#stale a").href === location.href`)
	b.checkQuiet(t, "an upgrade")
}

func TestNothingMovesForThoseWhoWantNoMotion(t *testing.T) {
	b := openTab(t, startDashboard(t, cluster))
	const moves = `[...document.querySelectorAll("*")].some((x) => { const s = getComputedStyle(x); return s.transitionDuration.split(", ").some((d) => d !== "0s") || s.animationName !== "none"; })`
	for wish, want := range map[string]bool{"reduce": false, "no-preference": true} {
		b.media(t, "prefers-reduced-motion", wish)
		for name, address := range screens() {
			b.open(t, address)
			if got := evaluate[bool](t, b, moves); got != want {
				t.Errorf("%s with %s: something moves: %v", name, wish, got)
			}
		}
	}
}

// Texts of users in a cluster create no element of a page: no file is fetched, and no script runs.
func TestMarkupInAClusterDoesNothing(t *testing.T) {
	b := openTab(t, startDashboard(t, "../testdata/hostile.yaml", "--journal", "../testdata/hostile.jsonl"))
	b.open(t, "/")
	evaluate[bool](t, b, waitUntil(`document.querySelector(".tile[title]")`))
	next, seen := []string{"/", "/waiting", "/why?q=img", "/decisions", "/money", "/whatif"}, map[string]bool{}
	for ; len(next) > 0 && len(seen) < 40; next = next[1:] { // there is no pool of that name
		if seen[next[0]] {
			continue
		}
		seen[next[0]] = true
		b.open(t, next[0])
		isTrue(t, b, next[0], `document.querySelectorAll("img, [onerror]").length === 0`)
		b.checkQuiet(t, next[0])
		next = append(next, evaluate[[]string](t, b, `[...document.querySelectorAll("main a[href]")].map((a) => new URL(a.href)).filter((u) => u.host === location.host && !u.pathname.startsWith("/json") && !u.pathname.startsWith("/why/pool/%3C")).map((u) => u.pathname + u.search)`)...)
	}
	if len(seen) < 15 {
		t.Errorf("only %d pages were found", len(seen))
	}
	b.open(t, "/whatif")
	b.tryText(t, `kind: <img src=x onerror=alert(1)>`)
	isTrue(t, b, "the editor's answer", `document.querySelectorAll("img").length === 0`)
	b.checkQuiet(t, "the editor's answer")
}

// tryText writes a text into the empty editor, and waits for the answer.
func (b *tab) tryText(t *testing.T, text string) {
	t.Helper()
	evaluate[bool](t, b, fmt.Sprintf(`(() => { const x = document.getElementById("text"); x.value = %q; x.dispatchEvent(new Event("input")); return true; })()`, text))
	evaluate[bool](t, b, answered)
}

const (
	bigPool = `apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: wide
spec:
  weight: 50
  template:
    spec:
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
      requirements: []
`
	wrongPool = `apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: wide
spec:
  weight: 5000
  limit: {cpu: 3}
  template:
    spec:
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
      requirements: []
`
)

// A pool that is changed already is planned without typing.
func TestWhatIfPlansAChosenChangeAtOnce(t *testing.T) {
	b := openTab(t, startDashboard(t, cluster))
	b.open(t, changed)
	evaluate[bool](t, b, waitUntil(`document.querySelector("#answer [data-says]")`))
	isTrue(t, b, "the answer", `document.getElementById("answer").innerText.includes("Node ip-10-0-3-224 stays for another reason: NoCheaperPlace, not SpotToSpot")`)
	b.checkQuiet(t, "a chosen change")
}

// The editor plans after a pause in typing, and shows mistakes beside their lines. All of it works by keyboard.
func TestWhatIfPlansWhileOneTypes(t *testing.T) {
	b := openTab(t, startDashboard(t, cluster))
	b.open(t, "/whatif")
	b.tryText(t, bigPool) // the first answer takes longer, because the rules of the CRDs are compiled for it
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{1440, 390, 320} {
			b.look(t, scheme)
			b.do(t, chromedp.EmulateViewport(width, 900))
			for name, text := range map[string]string{"a plan": bigPool, "mistakes": wrongPool} {
				where := fmt.Sprintf("%s, %s, %d wide", name, scheme, width)
				b.open(t, "/whatif")
				b.tryText(t, text)
				isTrue(t, b, where+", no sideways scrolling", "document.documentElement.scrollWidth <= innerWidth")
				if name == "mistakes" {
					isTrue(t, b, where, `[...document.querySelectorAll(".gutter .bad")].map((x) => x.textContent).join() === "6,7"`)
				} else {
					isTrue(t, b, where, `document.querySelectorAll("#answer tbody tr").length > 5 && !document.querySelector(".gutter .bad")`)
				}
				if width != 320 {
					b.runAxe(t, where)
				}
				b.checkQuiet(t, where)
			}
		}
	}
	b.do(t, chromedp.EmulateViewport(1440, 900))
	b.open(t, "/whatif")
	evaluate[bool](t, b, `document.getElementById("text").focus(); true`)
	b.do(t, chromedp.KeyEvent("kind: 1"))
	evaluate[bool](t, b, waitUntil(`document.querySelector(".mistakes button")`))
	for range 10 { // to the line of the mistake
		b.do(t, chromedp.KeyEvent("\t"))
		if evaluate[bool](t, b, `document.activeElement.matches(".mistakes button")`) {
			break
		}
	}
	b.do(t, chromedp.KeyEvent("\r"))
	isTrue(t, b, "Enter on a mistake", `document.activeElement.id === "text" && document.activeElement.selectionEnd > document.activeElement.selectionStart`)
	b.do(t, chromedp.KeyEvent("\u001b"), chromedp.KeyEvent("g"), chromedp.KeyEvent("n"))
	b.waitForTitle(t, "Nodes")
	evaluate[bool](t, b, waitUntil(`document.readyState === "complete"`)) // the title appears before the page listens to keys
	b.do(t, chromedp.KeyEvent("g"), chromedp.KeyEvent("i"))
	b.waitForTitle(t, "What if")
	b.checkQuiet(t, "keys of What if")
}

func TestWhatIfWorksWithoutScripts(t *testing.T) {
	b := openTab(t, startDashboard(t, cluster))
	b.scripts(t, false)
	b.open(t, "/whatif?from=NodePool%2Fgpu")
	evaluate[bool](t, b, `document.getElementById("text").value = "kind: 1"; document.querySelector("#whatif button").click(); true`)
	deadline := time.Now().Add(20 * time.Second)
	for {
		text, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](`document.body?.innerText ?? ""`)) // between two pages there is no body, or no document
		if err == nil && strings.Contains(text, "Nothing was planned") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the form shows no answer: %s (%v)", text, err)
		}
	}
	b.checkQuiet(t, "a form without scripts")
}

func TestTheLookFollowsTheSystemAndTheSwitch(t *testing.T) {
	b := openTab(t, startDashboard(t, cluster))
	paper := func() string {
		return evaluate[string](t, b, `getComputedStyle(document.documentElement).backgroundColor`)
	}
	b.look(t, "light")
	b.open(t, "/")
	light := paper()
	b.look(t, "dark")
	dark := paper()
	if light == dark {
		t.Errorf("light and dark are both %s", light)
	}
	b.do(t, chromedp.Click("#theme"))
	if paper() != light {
		t.Error("the switch does not make a dark page light")
	}
	b.open(t, "/waiting")
	if paper() != light {
		t.Error("the choice is forgotten on the next page")
	}
	b.checkQuiet(t, "look")
}

func TestPagesAreReadableWithoutScripts(t *testing.T) {
	b := openTab(t, startDashboard(t, cluster))
	b.scripts(t, false)
	for address, want := range map[string]string{"/": "ip-10-0-1-58", "/waiting": "the largest type, g6.12xlarge, has 4", "/decisions?page=2": "Underutilized, saves $3.0000/h", "/money": "requested by nobody", "/why/node/ip-10-0-1-58": "It stays"} {
		b.open(t, address)
		if text := evaluate[string](t, b, "document.body.innerText"); !strings.Contains(text, want) {
			t.Errorf("%s does not show %q", address, want)
		}
		isTrue(t, b, address+", nothing that needs scripts is shown", `[...document.querySelectorAll(".scripted")].every((x) => !x.checkVisibility())`)
	}
}

func TestTheExportedFileOpensFromDisk(t *testing.T) {
	browserPath(t)
	file := filepath.Join(t.TempDir(), "page.html")
	binary := filepath.Join(t.TempDir(), "tenon")
	build := exec.Command("go", "build", "-o", binary, ".")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := exec.Command(binary, "dashboard", "-f", cluster, "--export", file).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	b := openTab(t, "file://")
	b.do(t, chromedp.Navigate(fileAddress(t, file)))
	if text := evaluate[string](t, b, "document.body.innerText"); !strings.Contains(text, "ip-10-0-1-58") {
		t.Error("the nodes are not there")
	}
	isTrue(t, b, "its style holds", `getComputedStyle(document.querySelector(".figures")).display === "flex"`)
	b.checkQuiet(t, "export")
}

// TestScreenshots writes pictures of all screens into the folder TENON_SCREENSHOTS. If it is not set, it writes them into a temporary folder, to
// test that this works.
func TestScreenshots(t *testing.T) {
	folder := os.Getenv("TENON_SCREENSHOTS")
	if folder == "" {
		folder = t.TempDir()
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	b := openTab(t, startDashboard(t, cluster))
	all := screens()
	all["whatif-plan"], all["whatif-mistakes"] = "/whatif", "/whatif"
	for name, address := range all {
		for _, scheme := range []string{"light", "dark"} {
			for _, width := range []int64{1440, 390} {
				b.look(t, scheme)
				b.do(t, chromedp.EmulateViewport(width, 900))
				b.open(t, address)
				if address == changed {
					evaluate[bool](t, b, answered)
				}
				if name == "whatif-plan" {
					b.tryText(t, bigPool)
				}
				if name == "whatif-mistakes" {
					b.tryText(t, wrongPool)
				}
				b.shoot(t, filepath.Join(folder, fmt.Sprintf("%s-%s-%d.png", name, scheme, width)))
			}
		}
	}
	b.checkQuiet(t, "pictures of all screens")
}

// shoot writes a picture of the page.
func (b *tab) shoot(t *testing.T, name string) {
	t.Helper()
	shot, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, shot, 0o644); err != nil {
		t.Fatal(err)
	}
}

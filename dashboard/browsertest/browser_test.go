package browsertest

import (
	"bufio"
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// A tab is a browser's tab. It keeps all errors that occur in it.
type tab struct {
	ctx  context.Context
	site string // the address of the dashboard

	mu       sync.Mutex // guards the next field
	problems []string
}

// browserPath finds Chromium. Without Chromium these tests are skipped; in CI that is a failure.
func browserPath(t testing.TB) string {
	t.Helper()
	for _, name := range []string{os.Getenv("TENON_BROWSER"), "chromium", "chromium-browser", "google-chrome", "chrome"} {
		if path, err := exec.LookPath(name); name != "" && err == nil {
			return path
		}
	}
	const missing = "there is no Chromium: install it (on Debian, apt-get install --no-install-recommends chromium), or name one with TENON_BROWSER"
	if os.Getenv("CI") != "" {
		t.Fatal(missing)
	}
	t.Skip(missing)
	return ""
}

// startDashboard serves a file's page with the command, with further flags if there are any, and returns its address. Unless the flags name a
// journal, it is the usual one.
func startDashboard(t testing.TB, file string, flags ...string) string {
	t.Helper()
	binary := os.Getenv("TENON_BINARY")
	if binary == "" {
		binary = filepath.Join(t.TempDir(), "tenon")
		build := exec.Command("go", "build", "-o", binary, ".")
		build.Dir = "../.."
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("build tenon: %v\n%s", err, out)
		}
	}
	if !slices.Contains(flags, "--journal") {
		flags = append(flags, "--journal", "../testdata/journal.jsonl")
	}
	// The default time limit of What if is too short on a computer with other work.
	command := exec.CommandContext(t.Context(), binary, append([]string{"dashboard", "-f", file, "--address", "127.0.0.1:0", "--what-if-limit", "50s"}, flags...)...)
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.Stderr = os.Stderr
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = command.Wait() }) // it has been interrupted by then
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("tenon dashboard says no address: %v", err)
	}
	_, address, _ := strings.Cut(line, "The page is at ")
	address, _, _ = strings.Cut(address, " ")
	return address
}

// openTab starts a browser with one tab for the pages of a site. If the site's address has a token, the tab opens it once, as users do.
func openTab(t testing.TB, site string) *tab {
	t.Helper()
	home, _, hasToken := strings.Cut(site, "/?")
	b := &tab{site: home}
	options := []chromedp.ExecAllocatorOption{chromedp.ExecPath(browserPath(t)), chromedp.Flag("headless", "new")}
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chromium does not start as root otherwise
	}
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, stop := chromedp.NewContext(allocator, chromedp.WithListener(b.listen))
	b.ctx = ctx
	t.Cleanup(func() { stop(); end() })
	b.do(t, chromedp.EmulateViewport(1440, 900))
	if hasToken {
		b.do(t, chromedp.Navigate(site))
		isTrue(t, b, "the token stays in no history", `location.href === `+strconv.Quote(home+"/"))
	}
	return b
}

// listen keeps events that no page may cause: a logged error, a violation of the security policy, a request to another host.
func (b *tab) listen(event any) {
	problem := ""
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		problem = "exception: " + fmt.Sprint(e.ExceptionDetails.Text, e.ExceptionDetails.Exception)
	case *runtime.EventConsoleAPICalled:
		if e.Type == "error" || e.Type == "assert" {
			problem = fmt.Sprintf("console: %v", e.Args)
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == "error" || e.Entry.Source == "security" {
			problem = "log: " + e.Entry.Text + " " + e.Entry.URL
		}
	case *network.EventRequestWillBeSent:
		if !strings.HasPrefix(e.Request.URL, b.site+"/") && !strings.HasPrefix(e.Request.URL, "data:") && !strings.HasPrefix(e.Request.URL, "file:") && e.Request.URL != "about:blank" {
			problem = "foreign request: " + e.Request.URL
		}
	}
	if problem != "" {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.problems = append(b.problems, problem)
	}
}

// checkQuiet fails if there were errors.
func (b *tab) checkQuiet(t testing.TB, where string) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.problems {
		t.Errorf("%s: %s", where, p)
	}
	b.problems = nil
}

func (b *tab) do(t testing.TB, steps ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		t.Fatal(err)
	}
}

func (b *tab) open(t testing.TB, address string) {
	t.Helper()
	b.do(t, chromedp.Navigate(b.site+address))
}

// evaluate evaluates an expression in the page. If its value is a promise, evaluate waits for it.
func evaluate[T any](t testing.TB, b *tab, expression string) T {
	t.Helper()
	ctx, stop := context.WithTimeout(b.ctx, time.Minute)
	defer stop()
	out, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatalf("%.100s: %v", expression, err)
	}
	return out
}

func isTrue(t testing.TB, b *tab, what, expression string) {
	t.Helper()
	if !evaluate[bool](t, b, expression) {
		t.Errorf("%s: %s is false", what, expression)
	}
}

// look sets the system's colour scheme to light or dark.
func (b *tab) look(t *testing.T, scheme string) {
	t.Helper()
	b.media(t, "prefers-color-scheme", scheme)
}

// media sets the user's system preferences.
func (b *tab) media(t *testing.T, feature, value string) {
	t.Helper()
	if _, err := chromedp.Run(b.ctx, func(ctx context.Context, target *chromedp.Target) (cdp.Empty, error) {
		return cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: feature, Value: value}}})
	}); err != nil {
		t.Fatal(err)
	}
}

// scripts disables and enables scripts.
func (b *tab) scripts(t *testing.T, on bool) {
	t.Helper()
	if _, err := chromedp.Run(b.ctx, func(ctx context.Context, target *chromedp.Target) (cdp.Empty, error) {
		return cdp.Call(ctx, target, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !on})
	}); err != nil {
		t.Fatal(err)
	}
}

func fileAddress(t *testing.T, path string) string {
	t.Helper()
	whole, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return (&url.URL{Scheme: "file", Path: whole}).String()
}

package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tenon.sh/serving"
)

// allPorts returns the ports of a controller with all options on, and the port of tenon dashboard.
func allPorts(t *testing.T) []serving.Port {
	t.Helper()
	e, err := listen(ControllerOptions{})
	must(t, err)
	t.Cleanup(e.close)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = free.Close() })
	return append(e.ports(t.Context(), true), dashboardPort(free, http.NotFoundHandler()))
}

// askPort sends a request in plain HTTP and does not read the answer.
func askPort(t *testing.T, p serving.Port, method, path string, body int64) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", p.Listener.Addr().String())
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	_, err = fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", method, path, body, bytes.Repeat([]byte("x"), int(body)))
	must(t, err)
	return c
}

func statusOf(t *testing.T, c net.Conn) int {
	t.Helper()
	must(t, c.SetReadDeadline(time.Now().Add(20*time.Second)))
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	must(t, err)
	must(t, answer.Body.Close())
	return answer.StatusCode
}

// The handlers are replaced here: a request hangs, or is answered without end, or its body is read. The limits are the real ones, with
// shorter times.
func TestEveryHandlerOfEveryPortIsBounded(t *testing.T) {
	t.Parallel()
	for _, p := range allPorts(t) {
		entered, leave, written := make(chan bool, 100), make(chan bool), make(chan error, 100)
		for i, r := range p.Routes {
			if r.InFlight < 1 || r.InFlight > 16 || r.Body > 1<<20 || r.Wait > 10*time.Second || r.Write < time.Second || r.Write > 10*time.Second {
				t.Errorf("%s of port %s: limits %+v", r.Pattern, p.Name, r.Limits)
			}
			p.Routes[i].Wait, p.Routes[i].Write = 300*time.Millisecond, 500*time.Millisecond // a busy machine may pause for a moment
			p.Routes[i].Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch r.Method {
				case http.MethodGet:
					entered <- true
					<-leave
				case http.MethodPut:
					_, err := w.Write(make([]byte, 64<<20)) // more than the kernel's buffer for a client
					written <- err
				case http.MethodPost:
					var large *http.MaxBytesError
					if _, err := new(bytes.Buffer).ReadFrom(r.Body); errors.As(err, &large) {
						w.WriteHeader(http.StatusRequestEntityTooLarge)
					}
				}
			})
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- p.Serve(ctx) }()
		for _, r := range p.Routes {
			var in []net.Conn
			for range r.InFlight {
				in = append(in, askPort(t, p, http.MethodGet, r.Pattern, 0))
				<-entered
			}
			if code := statusOf(t, askPort(t, p, http.MethodGet, r.Pattern, 0)); code != http.StatusServiceUnavailable {
				t.Errorf("%s of port %s: %d with %d requests in flight", r.Pattern, p.Name, code, r.InFlight)
			}
			for range in { // the order of the ends is not known
				leave <- true
			}
			for _, c := range in {
				if code := statusOf(t, c); code != http.StatusOK {
					t.Errorf("%s of port %s: %d for one that had a place", r.Pattern, p.Name, code)
				}
			}
			askPort(t, p, http.MethodPut, r.Pattern, 0)
			select {
			case err := <-written:
				if !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("%s of port %s: what is written to a client that does not read ends with %v", r.Pattern, p.Name, err)
				}
			case <-time.After(20 * time.Second):
				t.Fatalf("%s of port %s: a client that does not read is not cut off", r.Pattern, p.Name)
			}
			for beyond, want := range []int{http.StatusOK, http.StatusRequestEntityTooLarge} {
				if code := statusOf(t, askPort(t, p, http.MethodPost, r.Pattern, r.Body+int64(beyond))); code != want {
					t.Errorf("%s of port %s: %d for a body of %d bytes, want %d", r.Pattern, p.Name, code, r.Body+int64(beyond), want)
				}
			}
		}
		stop()
		must(t, <-ended)
	}
}

// A page of the reference lists the limits of requests.
func TestThePageOfPortsSaysWhatARequestMayCost(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/reference/ports.md")
	must(t, err)
	rows := 0
	for _, p := range allPorts(t) {
		for _, r := range p.Routes {
			row := fmt.Sprintf("| %s | `%s` | %d | %s | %s | %s |", p.Name, r.Pattern, r.InFlight, waitText(r.Wait), bytesText(r.Body), r.Write)
			if !strings.Contains(string(page), row) {
				t.Errorf("docs/reference/ports.md lacks a row that begins with\n%s", row)
			}
			rows++
		}
	}
	if n := strings.Count(string(page), " | `/"); n != rows {
		t.Errorf("docs/reference/ports.md has rows for %d handlers, and there are %d", n, rows)
	}
}

func waitText(wait time.Duration) string {
	if wait == 0 {
		return "none"
	}
	return wait.String()
}

func bytesText(n int64) string {
	switch {
	case n == 0:
		return "none"
	case n >= 1<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d KiB", n>>10)
}

// A server that is started by other code has no limits.
func TestNothingServesHTTPBesideThePackageServing(t *testing.T) {
	t.Parallel()
	seen := 0
	must(t, filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (entry.Name() == "controlplane" || entry.Name() == "endtoend" || entry.Name() == ".git" || strings.HasSuffix(entry.Name(), "test")) {
			return filepath.SkipDir // other programs, and tests
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		for _, server := range []string{"http.Server{", "http.Serve(", "ListenAndServe", "httptest.NewServer"} {
			if strings.Contains(string(text), server) {
				if filepath.Dir(path) != filepath.Join("..", "serving") {
					t.Errorf("%s has %s: serve a serving.Port, whose requests are bounded", path, server)
				}
				seen++
			}
		}
		return err
	}))
	if seen != 1 {
		t.Errorf("%d servers were found, and package serving has one", seen)
	}
}

// On a laptop, only the user reaches the ports. A pod is reached by its address.
func TestOutsideAPodTheControllerListensOnLoopback(t *testing.T) {
	for _, c := range []struct{ inPod, told, want string }{
		{"", "", "127.0.0.1"}, {"", "0.0.0.0", "::"}, {"", "::1", "::1"}, {"10.0.0.1", "", "::"}, {"10.0.0.1", "127.0.0.1", "127.0.0.1"},
	} {
		t.Setenv("KUBERNETES_SERVICE_HOST", c.inPod)
		e, err := listen(ControllerOptions{ListenAddress: c.told})
		must(t, err)
		for _, l := range []net.Listener{e.metrics, e.health, e.dashboard} {
			if got := l.Addr().(*net.TCPAddr).IP; got.String() != c.want && !(c.want == "::" && got.IsUnspecified()) {
				t.Errorf("in a pod: %t, told %q: listens on %s, want %s", c.inPod != "", c.told, got, c.want)
			}
		}
		e.close()
	}
	opt := DefaultControllerOptions()
	opt.ListenAddress = "laptop"
	if err := opt.check(); err == nil || !strings.Contains(err.Error(), `--listen-address (TENON_LISTEN_ADDRESS) is "laptop": it must be an IP address`) {
		t.Errorf("an address that is none: %v", err)
	}
}

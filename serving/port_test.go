package serving_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"tenon.sh/serving"
)

// patience is the longest time that a test waits for a server that does not answer.
const patience = 20 * time.Second

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// start serves a route and returns the address of its port.
func start(t *testing.T, route serving.Route) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- serving.Port{Listener: listener, Routes: []serving.Route{route}}.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		must(t, <-ended)
	})
	return listener.Addr().String()
}

// ask sends a request and does not read the answer.
func ask(t *testing.T, address string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	_, err = fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	must(t, err)
	return c
}

// status returns the status of the answer on a connection.
func status(t *testing.T, c net.Conn) (int, http.Header) {
	t.Helper()
	must(t, c.SetReadDeadline(time.Now().Add(patience)))
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	must(t, err)
	must(t, answer.Body.Close())
	return answer.StatusCode, answer.Header
}

func TestARequestBeyondThoseInFlightIsRefused(t *testing.T) {
	t.Parallel()
	entered, leave := make(chan bool, 10), make(chan bool)
	address := start(t, serving.Route{Pattern: "/", Limits: serving.Limits{InFlight: 2, Wait: time.Millisecond, Write: time.Minute}, Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		entered <- true
		<-leave
	})})
	first, second := ask(t, address), ask(t, address)
	<-entered
	<-entered
	if code, header := status(t, ask(t, address)); code != http.StatusServiceUnavailable || header.Get("Retry-After") == "" {
		t.Errorf("the third: %d %v", code, header)
	}
	close(leave)
	for _, c := range []net.Conn{first, second} {
		if code, _ := status(t, c); code != http.StatusOK {
			t.Errorf("one that had a place: %d", code)
		}
	}
	if code, _ := status(t, ask(t, address)); code != http.StatusOK { // both places are free once their answers have arrived
		t.Errorf("one after them: %d", code)
	}
}

func TestARequestWaitsForAPlace(t *testing.T) {
	t.Parallel()
	entered, leave := make(chan bool, 10), make(chan bool)
	address := start(t, serving.Route{Pattern: "/", Limits: serving.Limits{InFlight: 1, Wait: time.Hour, Write: time.Minute}, Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		entered <- true
		<-leave
	})})
	all := []net.Conn{ask(t, address), ask(t, address), ask(t, address)}
	<-entered
	select {
	case <-entered:
		t.Error("two are answered at a time")
	default:
	}
	close(leave)
	for _, c := range all {
		if code, _ := status(t, c); code != http.StatusOK {
			t.Errorf("%d", code)
		}
	}
}

// A client that does not read holds its place only for the limit's time.
func TestAClientThatDoesNotReadIsCutOff(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 10)
	address := start(t, serving.Route{Pattern: "/", Limits: serving.Limits{InFlight: 1, Wait: time.Hour, Write: 500 * time.Millisecond}, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text := make([]byte, 1<<20)
		for range 64 { // more than the kernel's buffer for a client
			if _, err := w.Write(text); err != nil {
				ended <- err
				return
			}
		}
		ended <- nil
	})})
	c := ask(t, address)
	select {
	case err := <-ended:
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the handler has ended with %v", err)
		}
	case <-time.After(patience):
		t.Fatal("the handler waits for a client that does not read")
	}
	got, _ := io.Copy(io.Discard, c) // ends, because the server has closed the connection
	if got == 0 || got > 1<<20 {
		t.Errorf("%d bytes were kept for the client", got)
	}
}

// A handler may take longer than a client may.
func TestTheTimeForReadingBeginsWithTheFirstByte(t *testing.T) {
	t.Parallel()
	const write = 500 * time.Millisecond
	address := start(t, serving.Route{Pattern: "/", Limits: serving.Limits{InFlight: 1, Write: write}, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select { // it works for longer than the limit
		case <-r.Context().Done():
		case <-time.After(3 * write):
		}
		fmt.Fprint(w, "done")
	})})
	if code, _ := status(t, ask(t, address)); code != http.StatusOK {
		t.Errorf("%d", code)
	}
}

func TestABodyHasABound(t *testing.T) {
	t.Parallel()
	address := start(t, serving.Route{Pattern: "/", Limits: serving.Limits{InFlight: 1, Body: 10, Write: time.Minute}, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		}
	})})
	for text, want := range map[string]int{"0123456789": http.StatusOK, "0123456789x": http.StatusRequestEntityTooLarge} {
		answer, err := http.Post("http://"+address, "text/plain", strings.NewReader(text))
		must(t, err)
		must(t, answer.Body.Close())
		if answer.StatusCode != want {
			t.Errorf("%d bytes: %d, want %d", len(text), answer.StatusCode, want)
		}
	}
}

// A kubelet ends a controller if a probe finds no place. So silent clients must not block probes, however many they are.
func TestANewConnectionClosesTheOldest(t *testing.T) {
	t.Parallel()
	address := start(t, serving.Route{Pattern: "/", Limits: serving.Limits{InFlight: 1, Wait: time.Minute, Write: time.Minute}, Handler: http.NotFoundHandler()})
	var silent []net.Conn
	for range 300 {
		c, err := net.Dial("tcp", address)
		must(t, err)
		t.Cleanup(func() { _ = c.Close() })
		silent = append(silent, c)
	}
	if code, _ := status(t, ask(t, address)); code != http.StatusNotFound {
		t.Errorf("a client that speaks, after 300 that do not: %d", code)
	}
	must(t, silent[0].SetReadDeadline(time.Now().Add(2*time.Second))) // before the server closes silent connections
	if _, err := silent[0].Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the oldest connection is not closed: %v", err)
	}
}

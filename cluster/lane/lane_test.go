package lane_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"tenon.sh/cluster/lane"
)

// server answers a request when the test lets it, and records the order of the requests.
type server struct {
	mu      sync.Mutex // guards seen
	seen    []string
	answers chan struct{}
}

func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	s.seen = append(s.seen, r.URL.Path)
	s.mu.Unlock()
	<-s.answers
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r}, nil
}

// paths returns the paths of the requests that have arrived so far.
func (s *server) paths() []string {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}

// send makes a request, and returns once the request waits.
func send(t *testing.T, ctx context.Context, through http.RoundTripper, method, path string) (failed func() error) {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, method, "https://api"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		response, err := through.RoundTrip(request)
		if err == nil {
			err = response.Body.Close()
		}
		done <- err
	}()
	synctest.Wait()
	return func() error { return <-done }
}

func TestUrgentWritesOvertakeTheOthersButDoNotStarveThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{answers: make(chan struct{})}
		through := lane.NewGate(2).Wrap(s)
		routine := t.Context()
		for _, path := range []string{"/first", "/second", "/routine", "/later"} {
			send(t, routine, through, http.MethodPatch, path)
		}
		send(t, lane.In(routine, lane.Urgent), through, http.MethodPost, "/urgent")
		for range 10 {
			send(t, lane.In(routine, lane.Foremost), through, http.MethodPatch, "/foremost")
		}
		if got := s.paths(); !slices.Equal(got, []string{"/first", "/second"}) {
			t.Fatalf("%q are under way, of two at a time", got)
		}
		for range 15 {
			s.answers <- struct{}{}
		}
		got := s.paths()[2:]
		foremost := slices.Repeat([]string{"/foremost"}, 8)
		if want := slices.Concat(foremost, []string{"/routine", "/foremost", "/foremost", "/urgent", "/later"}); !slices.Equal(got, want) {
			t.Errorf("they went in the order\n%q, want\n%q", got, want)
		}
	})
}

func TestReadsAndLeasesDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{answers: make(chan struct{})}
		through := lane.NewGate(1).Wrap(s)
		send(t, t.Context(), through, http.MethodPatch, "/under-way")
		send(t, t.Context(), through, http.MethodPut, "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/leader")
		send(t, t.Context(), through, http.MethodGet, "/api/v1/nodes")
		if got := s.paths(); len(got) != 3 {
			t.Errorf("only %q went", got)
		}
		for range 3 {
			s.answers <- struct{}{}
		}
	})
}

func TestWhoGivesUpLeavesTheOrderAsItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{answers: make(chan struct{})}
		through := lane.NewGate(1).Wrap(s)
		send(t, t.Context(), through, http.MethodPatch, "/under-way")
		ctx, cancel := context.WithCancel(t.Context())
		failed := send(t, lane.In(ctx, lane.Foremost), through, http.MethodPatch, "/given-up")
		send(t, t.Context(), through, http.MethodPatch, "/waits")
		cancel()
		if err := failed(); !errors.Is(err, context.Canceled) {
			t.Errorf("who gave up got %v", err)
		}
		s.answers <- struct{}{}
		s.answers <- struct{}{}
		last := send(t, t.Context(), through, http.MethodPatch, "/last")
		s.answers <- struct{}{}
		if err := last(); err != nil {
			t.Error(err)
		}
		if got, want := s.paths(), []string{"/under-way", "/waits", "/last"}; !slices.Equal(got, want) {
			t.Errorf("went %q, want %q", got, want)
		}
	})
}

package term_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"tenon.sh/cluster/term"
)

// candidates elect a leader by one Lease, with clocks that the test sets.
type candidates struct {
	*testing.T
	api   *fake.Clientset
	clock term.Reading
}

// candidate is one process, with its writes and the reason for the end of its term.
type candidate struct {
	*candidates
	*term.Term
	wrote []string
	ended []error
}

func newCandidates(t *testing.T) *candidates {
	return &candidates{T: t, api: fake.NewClientset(), clock: term.Reading{Wall: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}}
}

func (cs *candidates) candidate(name string) *candidate {
	c := &candidate{candidates: cs}
	c.Term = term.New(term.Config{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "lease"}, Client: cs.api.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: name},
		},
		Now: func() term.Reading { return cs.clock }, Log: logr.Discard(), End: func(err error) { c.ended = append(c.ended, err) },
	})
	return c
}

// pass advances both clocks.
func (cs *candidates) pass(d time.Duration) {
	cs.clock.Wall, cs.clock.Running = cs.clock.Wall.Add(d), cs.clock.Running+d
}

// acquire acquires the Lease as an election does.
func (c *candidate) acquire() error {
	record := resourcelock.LeaderElectionRecord{HolderIdentity: c.Identity()}
	if _, _, err := c.Get(c.Context()); err != nil {
		return c.Create(c.Context(), record)
	}
	return c.Update(c.Context(), record)
}

func (c *candidate) renew() error {
	return c.Update(c.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: c.Identity()})
}

// RoundTrip receives the writes that pass the check.
func (c *candidate) RoundTrip(r *http.Request) (*http.Response, error) {
	c.wrote = append(c.wrote, r.Method)
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

func (c *candidate) send(method string) error {
	r, err := http.NewRequestWithContext(c.Context(), method, "https://api/apis/karpenter.sh/v1/nodeclaims", strings.NewReader("{}"))
	if err != nil {
		c.Fatal(err)
	}
	_, err = c.Wrap(c).RoundTrip(r)
	return err
}

func (c *candidate) mustDo(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// refused expects that a write is refused with this reason.
func (c *candidate) refused(parts ...string) {
	c.Helper()
	var err error
	for _, method := range []string{http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodPost} {
		if err = c.send(method); err == nil || !errors.Is(err, context.Canceled) {
			c.Fatalf("%s was not refused: %v", method, err)
		}
	}
	for _, part := range append(parts, "did not write POST /apis/karpenter.sh/v1/nodeclaims: ") {
		if !strings.Contains(err.Error(), part) {
			c.Errorf("%q does not say %q", err, part)
		}
	}
	if len(c.wrote) > 0 {
		c.Errorf("%q went through", c.wrote)
	}
}

func TestOnlyALeaderWrites(t *testing.T) {
	a := newCandidates(t).candidate("a")
	a.refused("does not lead")
	a.mustDo(a.send(http.MethodGet))
	a.mustDo(a.acquire())
	for range 5 {
		a.pass(term.RenewDeadline - time.Second)
		for _, method := range []string{http.MethodPost, http.MethodPatch, http.MethodPut, http.MethodDelete} {
			a.mustDo(a.send(method))
		}
		a.mustDo(a.renew())
	}
	if len(a.ended) > 0 {
		t.Errorf("its term ended: %v", a.ended)
	}
}

// A pause shows on the machine's clock, or on the time of day after its correction, or on both.
func TestAPauseThatOneClockShowsEndsTheTermForGood(t *testing.T) {
	for name, pause := range map[string]func(*term.Reading){
		"both":           func(r *term.Reading) { r.Wall, r.Running = r.Wall.Add(31*time.Second), r.Running+31*time.Second },
		"the wall clock": func(r *term.Reading) { r.Wall = r.Wall.Add(31 * time.Second) },
		"the machine's":  func(r *term.Reading) { r.Running += 31 * time.Second },
	} {
		t.Run(name, func(t *testing.T) {
			a := newCandidates(t).candidate("a")
			a.mustDo(a.acquire())
			pause(&a.clock)
			a.refused("last renewed 31s ago")
			if err := a.renew(); err == nil {
				t.Error("it leads again, with plans from before the pause")
			}
			a.refused("last renewed 31s ago")
			if len(a.ended) != 1 {
				t.Errorf("its end was told %d times", len(a.ended))
			}
			a.mustDo(a.Update(t.Context(), resourcelock.LeaderElectionRecord{}))
			a.mustDo(a.candidate("b").acquire())
		})
	}
}

// The election may be the first to run after a pause, before the process writes.
func TestARenewalAfterAPauseIsNone(t *testing.T) {
	a := newCandidates(t).candidate("a")
	a.mustDo(a.acquire())
	a.pass(31 * time.Second)
	if err := a.renew(); err == nil {
		t.Error("it was made")
	}
	a.refused("last renewed 31s ago")
}

func TestALeaseThatNamesSomebodyElseEndsTheTermAtOnce(t *testing.T) {
	for name, look := range map[string]func(*candidate) error{
		"by the election": func(c *candidate) error { _, _, err := c.Get(c.Context()); return err },
		"before NodeClaims are created": func(c *candidate) error {
			if err := c.Ask(c.Context()); !errors.Is(err, context.Canceled) {
				return errors.New("nothing stops them")
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			cs := newCandidates(t)
			a, b := cs.candidate("a"), cs.candidate("b")
			a.mustDo(a.acquire())
			a.mustDo(a.Ask(t.Context()))
			b.mustDo(b.acquire()) // while all clocks of a stood still
			a.mustDo(look(a))
			a.refused(`the Lease kube-system/lease names another leader, "b"`)

			a.mustDo(a.Update(t.Context(), resourcelock.LeaderElectionRecord{})) // it gives back a Lease that it does not hold
			b.mustDo(b.Ask(t.Context()))
			b.mustDo(b.send(http.MethodPost))
		})
	}
}

func TestWhoGivesTheLeaseBackWritesNoMore(t *testing.T) {
	cs := newCandidates(t)
	a, b := cs.candidate("a"), cs.candidate("b")
	a.mustDo(a.acquire())
	a.mustDo(a.Update(t.Context(), resourcelock.LeaderElectionRecord{}))
	a.refused("given back")
	if record, _, err := b.Get(t.Context()); err != nil || record.HolderIdentity != "" {
		t.Errorf("the Lease is held by %v: %v", record, err)
	}
}

func TestWithoutAnElectionEverythingIsWritten(t *testing.T) {
	none := &candidate{candidates: newCandidates(t)}
	none.mustDo(none.send(http.MethodPost))
	none.mustDo(none.Ask(t.Context()))
	none.mustDo(none.Check("start a machine"))
}

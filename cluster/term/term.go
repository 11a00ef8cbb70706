// Package term keeps a process from writing when its term as leader is over, or may be. Leader election alone does not. A process that was
// paused for longer than its Lease lasts continues its work, beside its successor, until it notices.
package term

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// All processes that elect leaders must agree on these values.
const (
	LeaseDuration = 15 * time.Second
	RenewDeadline = 10 * time.Second
	RetryPeriod   = 2 * time.Second
)

// Reading is the state of the clocks: the time of day, which may be set, and the running time of this machine, which may stand still
// while a virtual machine is paused.
type Reading struct {
	Wall    time.Time
	Running time.Duration
}

// Clocks returns a function that reads the clocks of this machine.
func Clocks() func() Reading {
	began := time.Now()
	return func() Reading {
		now := time.Now()
		return Reading{Wall: now.Round(0), Running: now.Sub(began)}
	}
}

// Config is the input of New.
type Config struct {
	// Lock is the Lease by which leaders are elected.
	Lock *resourcelock.LeaseLock
	Now  func() Reading
	Log  logr.Logger
	// End is called once, when the term is over, with the reason.
	End func(error)
}

// A Term is one term as leader. It begins when the Lease is acquired through it. It is over when the Lease names another process, or
// was not renewed for RenewDeadline, and never begins again, because its plans are based on the state before. A nil Term is for a
// process that leads without an election.
type Term struct {
	Config

	mu      sync.Mutex // guards the fields below
	began   bool
	renewed Reading // when the last renewal was sent
	holder  string  // the holder of the Lease when it was last read or written
	over    string  // why the term is over, "" before
	told    bool    // whether a skipped write was logged
}

var _ resourcelock.Interface = &Term{}

// New returns a Term that is yet to begin.
func New(config Config) *Term { return &Term{Config: config} }

// Error names the action that was not taken because the term is over. errors.Is finds context.Canceled in it, as in errors of canceled work.
type Error struct{ What, Why string }

func (e *Error) Error() string { return fmt.Sprintf("did not %s: %s", e.What, e.Why) }

// Is makes the error count as context.Canceled.
func (e *Error) Is(target error) bool { return target == context.Canceled }

// Check returns an Error unless it is certain that this process leads.
func (t *Term) Check(what string) error {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.began {
		return &Error{what, "this controller does not lead"}
	}
	t.late(t.Now())
	if t.over == "" {
		return nil
	}
	err := &Error{what, t.over}
	if !t.told {
		t.told = true
		t.Log.Info("did not write what was planned in a term as leader that is over", "what", what, "why", t.over)
	}
	return err
}

// Ask makes the check with the Lease from the API server, for actions that only one leader may take. Only Ask notices that all clocks of this
// machine have stopped.
func (t *Term) Ask(ctx context.Context) error {
	if t == nil {
		return nil
	}
	lease, err := t.leases().Get(ctx, t.Lock.LeaseMeta.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("make sure that this controller leads: %w", err)
	}
	t.read(resourcelock.LeaseSpecToLeaderElectionRecord(&lease.Spec).HolderIdentity)
	return t.Check("go on as leader")
}

func (t *Term) leases() coordinationv1.LeaseInterface {
	return t.Lock.Client.Leases(t.Lock.LeaseMeta.Namespace)
}

// Wrap adds the check to requests that change objects. The signature is that of rest.Config.Wrap.
func (t *Term) Wrap(next http.RoundTripper) http.RoundTripper {
	if t == nil {
		return next
	}
	return transport{t, next}
}

type transport struct {
	term *Term
	next http.RoundTripper
}

func (t transport) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method != http.MethodGet && request.Method != http.MethodHead {
		if err := t.term.Check("write " + request.Method + " " + request.URL.Path); err != nil {
			if request.Body != nil {
				_ = request.Body.Close() // a transport must close it
			}
			return nil, err
		}
	}
	return t.next.RoundTrip(request)
}

// late ends the term if the last renewal is too long ago by either clock. The caller holds the lock.
func (t *Term) late(now Reading) {
	age := max(now.Wall.Sub(t.renewed.Wall), now.Running-t.renewed.Running)
	if t.began && age > RenewDeadline {
		t.end(fmt.Sprintf("this controller's Lease was last renewed %s ago, which may be no more than %s", age.Round(time.Second), RenewDeadline))
	}
}

// read records the holder of the Lease.
func (t *Term) read(holder string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.holder = holder
	if t.began && holder != t.Identity() {
		t.end(fmt.Sprintf("the Lease %s names another leader, %q", t.Describe(), holder))
	}
}

// end ends the term. The caller holds the lock.
func (t *Term) end(why string) {
	if t.over != "" {
		return
	}
	t.over = why
	t.End(fmt.Errorf("a term as leader is over: %s", why))
}

// The methods below implement the Lease for the election.

// Identity returns the holder that the Lease names in this term.
func (t *Term) Identity() string { return t.Lock.Identity() }

// Describe names the Lease.
func (t *Term) Describe() string { return t.Lock.Describe() }

// RecordEvent makes an event about the Lease.
func (t *Term) RecordEvent(what string) { t.Lock.RecordEvent(what) }

// Get reads the Lease.
func (t *Term) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := t.Lock.Get(ctx)
	if err == nil {
		t.read(record.HolderIdentity)
	}
	return record, raw, err
}

// Create acquires a Lease that did not exist.
func (t *Term) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return t.renew(func() error { return t.Lock.Create(ctx, record) })
}

// Update acquires the Lease, renews it or gives it back.
func (t *Term) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if record.HolderIdentity == t.Identity() {
		return t.renew(func() error { return t.Lock.Update(ctx, record) })
	}
	t.mu.Lock()
	ours := t.holder == t.Identity()
	t.end("the Lease was given back")
	t.mu.Unlock()
	if !ours {
		return nil // the election would take the Lease from a successor that it does not know
	}
	return t.Lock.Update(ctx, record)
}

// renew writes the Lease in this process's name. A term that is over does not begin again.
func (t *Term) renew(write func() error) error {
	sent := t.Now()
	t.mu.Lock()
	t.late(sent)
	over := t.over
	t.mu.Unlock()
	if over != "" {
		return &Error{"renew the Lease " + t.Describe(), over}
	}
	if err := write(); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.began, t.renewed, t.holder = true, sent, t.Identity()
	return nil
}

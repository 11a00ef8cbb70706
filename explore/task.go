package explore

import (
	"context"
	"errors"
	"runtime/debug"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// errCrashed is the error of all calls of a process that has ended.
var errCrashed = errors.New("the process has ended")

// fate is the outcome of a task's next call.
type fate int

const (
	done       fate = iota // the call is made
	conflicted             // another client was faster: the answer is a conflict, nothing is written
	failed                 // the server answers with an error, nothing is written
	unanswered             // the call is made, and the answer is lost
	crashed                // the process ends before the call
	crashedIn              // the call is made, and the process ends before the answer
)

func (f fate) String() string {
	return [...]string{"", " -> conflict", " -> server error", " -> done, but the answer is lost", " -> crash before it", " -> crash right after it"}[f]
}

// taskLag is the longest duration of a call.
const taskLag = 5 * time.Second

// task is one running pass of a reconciler. It runs until its next call, and waits there for its turn.
type task struct {
	name   string
	p      *process
	turn   chan fate
	by     worker
	what   string      // its next call, such as "patch"
	kind   string      // the kind of the call's object
	object string      // the name of the call's object
	until  time.Time   // it sleeps until this time
	barred func() bool // reports whether it must wait for another event; nil if it need not
	since  time.Time   // it has waited for its turn since this time
	write  bool        // the call changes something
	over   bool
	after  func(err error) // called at its end
	err    error
	// listed is, by node, the version of the store at which the task has listed the node's pods from the API server.
	listed map[string]uint64
}

// worker is a goroutine that runs one task after another. It is reused because its stack has grown to the size that passes need.
type worker chan func()

// hire returns an idle worker.
func (w *world) hire() worker {
	if n := len(w.idle) - 1; n >= 0 {
		found := w.idle[n]
		w.idle = w.idle[:n]
		return found
	}
	hired := make(worker)
	go func() {
		for do := range hired {
			do()
		}
	}()
	return hired
}

// dismiss ends the workers. None may have a task.
func (w *world) dismiss() {
	for _, idle := range w.idle {
		close(idle)
	}
	w.idle = nil
}

// spawn starts a task and runs it up to its first call.
func (p *process) spawn(name string, run func(ctx context.Context) error, after func(error)) {
	w := p.w
	t := &task{name: name, p: p, turn: make(chan fate), by: w.hire(), after: after}
	p.tasks = append(p.tasks, t)
	t.by <- func() {
		<-t.turn
		defer func() {
			if r := recover(); r != nil {
				w.laws.broken(lawPanic, "%s: %v\n%s", t.name, r, debug.Stack())
			}
			t.over = true
			w.parked <- struct{}{}
		}()
		t.err = run(w.shared.context(w))
	}
	w.proceed(t, done)
}

// proceed runs a task until its next call or its end.
func (w *world) proceed(t *task, f fate) {
	before, actor := w.current, w.actor
	w.current, w.actor = t, t.name
	t.turn <- f
	<-w.parked
	w.current, w.actor = before, actor
	if !t.over {
		return
	}
	w.idle = append(w.idle, t.by)
	t.p.tasks = without(t.p.tasks, t)
	if !t.p.dead {
		t.after(t.err)
	}
}

// looked notes that the task has listed a node's pods.
func (t *task) looked(node string, version uint64) {
	if t.listed == nil {
		t.listed = map[string]uint64{}
	}
	t.listed[node] = version
}

func without(tasks []*task, gone *task) []*task {
	out := tasks[:0]
	for _, t := range tasks {
		if t != gone {
			out = append(out, t)
		}
	}
	return out
}

// wait yields until the run hands the turn back, and returns the fate of the call.
func (t *task) wait() fate {
	t.since = t.p.w.clock.Now()
	t.p.w.parked <- struct{}{}
	return <-t.turn
}

// call makes one call to the outside as a step of its own.
func (p *process) call(what, kind, object string, do func() error) error {
	if p.dead {
		return errCrashed
	}
	t := p.w.current
	if t == nil || t.p != p { // while a process starts or handles an event
		return do()
	}
	t.what, t.kind, t.object = what, kind, object
	t.write = what != "get" && what != "list"
	f := t.wait()
	t.what = ""
	if p.dead {
		return errCrashed
	}
	switch f {
	case conflicted:
		return apierrors.NewConflict(p.w.shared.resource(kind), object, errors.New("somebody else was faster"))
	case failed:
		return apierrors.NewInternalError(errors.New("etcd has no leader"))
	case unanswered:
		_ = do()
		return apierrors.NewTimeoutError("the answer is lost", 1)
	case crashed:
		p.crash()
		return errCrashed
	case crashedIn:
		_ = do()
		p.crash()
		return errCrashed
	}
	err := do()
	if err != nil {
		p.w.trace.add("    answer: %v", err)
	}
	return err
}

// pause makes a task sleep.
func (p *process) pause(_ context.Context, d time.Duration) bool {
	if p.dead {
		return false
	}
	t := p.w.current
	t.what, t.kind, t.object, t.write = "pause", "", d.String(), false
	t.until = p.w.clock.Now().Add(d)
	t.wait()
	t.what, t.until = "", time.Time{}
	return !p.dead
}

// turnstile is a lock among the tasks of a process. A task that must wait yields its turn.
type turnstile struct {
	p    *process
	held bool
}

func (l *turnstile) Lock() {
	for l.held && !l.p.dead {
		t := l.p.w.current
		t.what, t.kind, t.object, t.write = "lock", "", "launches", false
		t.barred = func() bool { return l.held }
		t.wait()
		t.what, t.barred = "", nil
	}
	l.held = true
}

func (l *turnstile) Unlock() { l.held = false }

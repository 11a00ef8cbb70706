package batch_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"tenon.sh/provider/batch"
)

// echo returns each caller's own input, and counts calls and callers.
type echo struct {
	mu        sync.Mutex
	calls     [][]int
	abandoned []string
}

func (e *echo) batcher(w batch.Window, id func() string) *batch.Batcher[int, int] {
	return batch.New(batch.Config[int, int]{Window: w, ID: id, Abandoned: func(id string) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.abandoned = append(e.abandoned, id)
	}, Call: func(_ context.Context, _ string, in []int) []batch.Result[int] {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.calls = append(e.calls, in)
		out := make([]batch.Result[int], len(in))
		for i, n := range in {
			out[i].Value = n
			if n < 0 {
				out[i].Err = errors.New("negative")
			}
		}
		return out
	}})
}

func atOnce(n int, do func(i int)) {
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { do(i) })
	}
	group.Wait()
}

func TestWhoAsksTheSameIsAnsweredByOneCall(t *testing.T) {
	t.Parallel()
	e := &echo{}
	b := e.batcher(batch.Window{Idle: time.Hour, Most: time.Hour, Items: 300}, nil)
	atOnce(300, func(i int) {
		if got, err := b.Do(t.Context(), "", i, nil); got != i || err != nil {
			t.Errorf("%d got %d, %v", i, got, err)
		}
	})
	if len(e.calls) != 1 {
		t.Errorf("%d calls", len(e.calls))
	}
}

func TestWhoAsksSomethingElseIsAnsweredByAnother(t *testing.T) {
	t.Parallel()
	e := &echo{}
	b := e.batcher(batch.Window{Idle: time.Hour, Most: time.Hour, Items: 10}, nil)
	atOnce(30, func(i int) { _, _ = b.Do(t.Context(), fmt.Sprint(i%3), i, nil) })
	if len(e.calls) != 3 {
		t.Errorf("%d calls for three kinds of question", len(e.calls))
	}
}

func TestAFullGroupIsClosed(t *testing.T) {
	t.Parallel()
	e := &echo{}
	b := e.batcher(batch.Window{Idle: time.Hour, Most: time.Hour, Items: 10}, nil)
	atOnce(30, func(i int) { _, _ = b.Do(t.Context(), "", i, nil) })
	if len(e.calls) != 3 {
		t.Errorf("%d calls of ten each", len(e.calls))
	}
}

// A process that gets no CPU for a while, for example at its CPU limit, does not make more calls because of it.
func TestATimeInWhichTheProcessStoodStillIsNoSilence(t *testing.T) {
	t.Parallel()
	if os.Getenv(stalledTest) != "" {
		askTwice()
		return
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	child.Env, child.Stderr = append(os.Environ(), stalledTest+"=1"), os.Stderr
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = child.Wait() }() // its output counts
	lines := bufio.NewScanner(out)
	for _, step := range []func() error{
		func() error { lines.Scan(); return child.Process.Signal(syscall.SIGSTOP) },
		func() error { _, err := fmt.Fprintln(in, "the second may ask"); return err },
		func() error { time.Sleep(4 * stalledIdle); return child.Process.Signal(syscall.SIGCONT) },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	if lines.Scan(); lines.Text() != "1 calls" {
		t.Errorf("two who asked around the time in which nothing ran were answered by %s", lines.Text())
	}
}

const (
	stalledTest = "TENON_BATCH_STALLED"
	stalledIdle = time.Second
)

// askTwice makes a call, reports it, and makes a second one on request, after any timeouts of waiting goroutines. It prints the number of
// calls.
func askTwice() {
	e := &echo{}
	b := e.batcher(batch.Window{Idle: stalledIdle, Most: time.Hour, Items: 1000}, nil)
	joined := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		_, _ = b.Do(context.Background(), "", 1, func(context.Context, string) error { close(joined); return nil })
	})
	<-joined
	fmt.Println("joined")
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	time.Sleep(stalledIdle / 10)
	_, _ = b.Do(context.Background(), "", 2, nil)
	group.Wait()
	fmt.Println(len(e.calls), "calls")
}

func TestEachGetsItsOwnError(t *testing.T) {
	t.Parallel()
	b := (&echo{}).batcher(batch.Window{Idle: 20 * time.Millisecond, Most: time.Second, Items: 1000}, nil)
	atOnce(10, func(i int) {
		n := i - 5
		if _, err := b.Do(t.Context(), "", n, nil); (err != nil) != (n < 0) {
			t.Errorf("%d got %v", n, err)
		}
	})
}

func TestAGroupWaitsForThoseWhoPrepare(t *testing.T) {
	t.Parallel()
	e := &echo{}
	b := e.batcher(batch.Window{Idle: 5 * time.Millisecond, Most: 10 * time.Millisecond, Items: 1000}, func() string { return "name" })
	closed := make(chan struct{})
	time.AfterFunc(100*time.Millisecond, func() { close(closed) })
	atOnce(3, func(i int) {
		_, err := b.Do(t.Context(), "", i, func(_ context.Context, id string) error {
			if id != "name" {
				t.Errorf("the group is called %q", id)
			}
			<-closed
			if i == 1 {
				return errors.New("not ready")
			}
			return nil
		})
		if (err != nil) != (i == 1) {
			t.Errorf("%d got %v", i, err)
		}
	})
	if len(e.calls) != 1 || len(e.calls[0]) != 2 {
		t.Errorf("calls %v, want one for the two that were ready", e.calls)
	}
}

func TestNobodyIsAskedForWhoHasLeft(t *testing.T) {
	t.Parallel()
	e := &echo{}
	b := e.batcher(batch.Window{Idle: 50 * time.Millisecond, Most: time.Second, Items: 1000}, func() string { return "name" })
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := b.Do(ctx, "", 1, func(context.Context, string) error { cancel(); return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if got, err := b.Do(t.Context(), "", 2, nil); got != 2 || err != nil { // the same group, or the next one
		t.Errorf("got %d, %v", got, err)
	}
	for _, call := range e.calls {
		if len(call) != 1 || call[0] != 2 {
			t.Errorf("calls %v", e.calls)
		}
	}
}

// Package batch combines calls that can be made as one: a caller waits a moment for other callers of the same kind. The maker of a Batcher provides
// the combined call and distributes its answer.
package batch

import (
	"context"
	"sync"
	"time"
)

// Window limits the time for which callers wait for others, and the size of a group.
type Window struct {
	// A group is closed if no caller has joined for Idle, if Most has passed since the first caller joined, or if it has Items callers. Time
	// in which this process had to wait for a processor does not count as Idle, because no caller could have joined.
	Idle, Most time.Duration
	Items      int
}

// Result is the answer for one caller.
type Result[Out any] struct {
	Value Out
	Err   error
}

// Config holds the settings and callbacks of a Batcher.
type Config[In, Out any] struct {
	Window Window
	// ID returns a name for a group that is opened; if ID is nil, groups have no names.
	ID func() string
	// Call makes the combined call, and returns one result for each element of `in`.
	Call func(ctx context.Context, id string, in []In) []Result[Out]
	// Abandoned, if set, is called with a group for which no call is made, because all its callers have stopped waiting.
	Abandoned func(id string)
	// Observe, if set, is called with the time for which a group was open and the number of its callers.
	Observe func(open time.Duration, items int)
}

// Batcher combines calls. It may be used from several goroutines. It waits for further calls by the system clock, not by an injected one.
type Batcher[In, Out any] struct {
	config Config[In, Out]

	mu   sync.Mutex // guards open and the contents of all groups
	open map[string]*group[In, Out]
}

type group[In, Out any] struct {
	id     string
	ctx    context.Context
	opened time.Time
	// joined counts all callers of the group. preparing counts callers that are not ready yet.
	joined, preparing int
	closed            bool
	idle, most        *time.Timer
	idleFrom          time.Time // the time at which idle was started
	items             []*item[In, Out]
}

type item[In, Out any] struct {
	in     In
	result chan Result[Out] // holds one result
	gone   bool             // the caller has stopped waiting
}

// New makes a Batcher.
func New[In, Out any](config Config[In, Out]) *Batcher[In, Out] {
	return &Batcher[In, Out]{config: config, open: map[string]*group[In, Out]{}}
}

// Do joins the open group of a key, and calls prepare with the group's name. The group waits for prepare; if prepare fails, the caller leaves
// the group. A caller whose ctx ends before the call is made is left out of the call.
func (b *Batcher[In, Out]) Do(ctx context.Context, key string, in In, prepare func(ctx context.Context, id string) error) (Out, error) {
	var none Out
	if err := ctx.Err(); err != nil {
		return none, err
	}
	g := b.join(ctx, key)
	var err error
	if prepare != nil {
		err = prepare(ctx, g.id)
	}
	if err == nil {
		err = ctx.Err()
	}
	i := b.ready(g, in, err)
	if err != nil {
		return none, err
	}
	select {
	case r := <-i.result:
		return r.Value, r.Err
	case <-ctx.Done():
		b.mu.Lock()
		i.gone = true
		b.mu.Unlock()
		return none, ctx.Err()
	}
}

// join finds or opens the group of a key, and counts the caller.
func (b *Batcher[In, Out]) join(ctx context.Context, key string) *group[In, Out] {
	b.mu.Lock()
	defer b.mu.Unlock()
	g := b.open[key]
	if g == nil {
		g = &group[In, Out]{ctx: context.WithoutCancel(ctx), opened: time.Now()}
		if b.config.ID != nil {
			g.id = b.config.ID()
		}
		shut := func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.close(key, g)
		}
		quiet := func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			if late := time.Since(g.idleFrom) > 2*b.config.Window.Idle; late && !g.closed {
				b.await(g)
				return
			}
			b.close(key, g)
		}
		g.idle, g.most = time.AfterFunc(b.config.Window.Idle, quiet), time.AfterFunc(b.config.Window.Most, shut)
		b.open[key] = g
	}
	b.await(g)
	g.joined++
	g.preparing++
	if g.joined == b.config.Window.Items {
		b.close(key, g)
	}
	return g
}

// await restarts the group's Idle timer. The lock is held.
func (b *Batcher[In, Out]) await(g *group[In, Out]) {
	g.idleFrom = time.Now()
	g.idle.Reset(b.config.Window.Idle)
}

// close lets no other caller join the group. The lock is held.
func (b *Batcher[In, Out]) close(key string, g *group[In, Out]) {
	if g.closed {
		return
	}
	g.closed = true
	g.idle.Stop()
	g.most.Stop()
	delete(b.open, key)
	if g.preparing == 0 {
		go b.run(g)
	}
}

// ready records that a caller's preparation has ended. Without err, the caller's input joins the call.
func (b *Batcher[In, Out]) ready(g *group[In, Out], in In, err error) *item[In, Out] {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := &item[In, Out]{in: in, result: make(chan Result[Out], 1)}
	if err == nil {
		g.items = append(g.items, i)
	}
	g.preparing--
	if g.closed && g.preparing == 0 {
		go b.run(g)
	}
	return i
}

// run makes the call for the callers that still wait.
func (b *Batcher[In, Out]) run(g *group[In, Out]) {
	var waiting []*item[In, Out]
	var in []In
	b.mu.Lock()
	for _, i := range g.items {
		if !i.gone {
			waiting, in = append(waiting, i), append(in, i.in)
		}
	}
	b.mu.Unlock()
	if len(in) == 0 {
		if b.config.Abandoned != nil {
			b.config.Abandoned(g.id)
		}
		return
	}
	if b.config.Observe != nil {
		b.config.Observe(time.Since(g.opened), len(in))
	}
	for n, r := range b.config.Call(g.ctx, g.id, in) {
		waiting[n].result <- r
	}
}

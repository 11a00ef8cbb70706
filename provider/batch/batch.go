// Package batch combines calls that can be made as one: a caller waits a moment for other callers of the same kind. The maker of a Batcher provides
// the combined call and distributes its answer.
package batch

import (
	"context"
	"sync"
	"time"
)

// Window says how long callers wait for others.
type Window struct {
	// A group is closed when nobody has joined for Idle, Most after the first joined, or when it has Items. A time in which this
	// process had to wait for a processor does not count as Idle: nobody could have joined.
	Idle, Most time.Duration
	Items      int
}

// Result is what one caller gets.
type Result[Out any] struct {
	Value Out
	Err   error
}

// Config is what a Batcher is made from.
type Config[In, Out any] struct {
	Window Window
	// ID names a group when it is opened; nil leaves groups without a name.
	ID func() string
	// Call makes the one call, and returns a result for each of in.
	Call func(ctx context.Context, id string, in []In) []Result[Out]
	// Abandoned, if set, hears of a group for which no call is made, because nobody waits for it any more.
	Abandoned func(id string)
	// Observe, if set, hears how long a group was open and how many were in it.
	Observe func(open time.Duration, items int)
}

// Batcher makes one call out of many. It may be used from several goroutines. Its windows are in real time.
type Batcher[In, Out any] struct {
	config Config[In, Out]

	mu   sync.Mutex // guards open and all that is in groups
	open map[string]*group[In, Out]
}

type group[In, Out any] struct {
	id     string
	ctx    context.Context
	opened time.Time
	// joined counts all who came, preparing those of them who are not ready yet.
	joined, preparing int
	closed            bool
	idle, most        *time.Timer
	idleFrom          time.Time // since when idle runs
	items             []*item[In, Out]
}

type item[In, Out any] struct {
	in     In
	result chan Result[Out] // holds one
	gone   bool             // nobody waits any more
}

// New makes a Batcher.
func New[In, Out any](config Config[In, Out]) *Batcher[In, Out] {
	return &Batcher[In, Out]{config: config, open: map[string]*group[In, Out]{}}
}

// Do joins the open group of a key. Once it is in, it calls prepare with the group's name, which the group waits for; if
// that fails, nothing is asked for. A caller whose ctx ends before the call is made is left out of it.
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

// join finds or opens the group of a key.
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

// await begins anew to wait for others. The lock is held.
func (b *Batcher[In, Out]) await(g *group[In, Out]) {
	g.idleFrom = time.Now()
	g.idle.Reset(b.config.Window.Idle)
}

// close lets nobody else join. The lock is held.
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

// ready says that a caller has prepared, or failed to.
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

// run makes the call for those who still wait.
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

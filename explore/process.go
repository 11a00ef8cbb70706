package explore

import (
	"cmp"
	"context"
	"reflect"
	"runtime/debug"
	"slices"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	toolscache "k8s.io/client-go/tools/cache"

	"tenon.sh/cluster"
	"tenon.sh/controller"
	"tenon.sh/controller/nodeclaim"
	"tenon.sh/provider/simulated"
	"tenon.sh/report"
)

// process is one run of the autoscaler's process: its caches, loops and queues, which a crash ends.
type process struct {
	w        *world
	api      *store
	views    views
	order    []*view
	cloud    rented
	cluster  *cluster.Cluster
	recorder *report.Recorder
	loops    []*loop
	queues   []*queue
	tasks    []*task
	dead     bool
	died     time.Time
}

// loop is one of the process's loops, and the result of its last pass.
type loop struct {
	*controller.Loop
	running bool
	err     error
	begin   func() // starts a pass
}

// start starts a process. Its first lists may be older than the store, because an API server may answer lists from its own cache.
func (w *world) start(lag int) {
	p := &process{w: w, api: w.api, views: views{}}
	w.p = p
	for _, shelf := range w.api.order {
		at := len(shelf.log)
		for back := w.draw(lag + 1); back > 0 && at > w.settled[shelf.name] && w.clock.Since(shelf.log[at-1].at) <= w.scene.lag; back-- {
			at--
		}
		var change func(client.Object) client.Object
		if w.switches.View != nil {
			change = w.switches.View(shelf.name)
		}
		v := newView(shelf, at, change)
		p.views[reflect.TypeOf(shelf.prototype)] = v
		p.order = append(p.order, v)
	}
	cached := remote{p, true}
	p.cloud = rented{simulated.New(w.cloud), p}
	p.recorder = report.NewRecorder(cached, w.clock)
	config := cluster.Config{
		Client: cached, API: remote{p, w.switches.TrustCache}, Informers: p.views, Clock: w.clock,
		Provider: p.cloud, Launches: &turnstile{p: p},
	}
	if w.scene.claims {
		config.Selectors = w.shared.selectors.Ask
	}
	config.Buffers = w.opt.Buffers
	p.cluster = cluster.New(config)
	if err := p.cluster.Watch(context.Background()); err != nil {
		panic(err) // every kind is served
	}
	p.controllers()
	for _, l := range p.loops {
		l.Trigger("start")
	}
}

// restartTakes is the least time until the next process starts.
const restartTakes = 100 * time.Millisecond

// crash ends the process: the pending calls of its tasks never happen, and its memory is lost.
func (p *process) crash() { p.dead, p.died = true, p.w.clock.Now() }

// bury runs the tasks of a dead process to their end. Each of their calls fails.
func (p *process) bury() {
	for len(p.tasks) > 0 {
		p.w.proceed(p.tasks[0], done)
	}
}

func (p *process) loop(name string, pass func(context.Context) error, idle, most, every time.Duration) *controller.Loop {
	l := &loop{}
	l.Loop = &controller.Loop{Name: name, Idle: idle, Max: most, Every: every, Clock: p.w.clock, Pass: func(ctx context.Context) error {
		defer func() {
			if r := recover(); r != nil {
				p.w.laws.broken(lawPanic, "%s: %v\n%s", name, r, debug.Stack())
				panic(r)
			}
		}()
		l.err = pass(ctx)
		return l.err
	}}
	run := func(ctx context.Context) error { l.Run(ctx); return nil }
	after := func(error) { l.running = false }
	l.begin = func() {
		l.running = true
		p.spawn(name, run, after)
	}
	p.loops = append(p.loops, l)
	return l.Loop
}

// watch checks the result of a loop's connection to its events.
func (p *process) watch(err error) {
	if err != nil {
		panic(err) // every kind is served
	}
}

// queue is a work queue of requests. One task at a time works on each.
type queue struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request] // implements only the methods below

	p       *process
	name    string
	work    reconcile.Reconciler
	ready   []reconcile.Request
	busy    map[reconcile.Request]bool // true if it must be worked on again
	later   map[reconcile.Request]time.Time
	failing map[reconcile.Request]int
}

// queue adds a reconciler of single objects. Objects of its own kind and its sources trigger it.
func (p *process) queue(name string, work reconcile.Reconciler, sources []nodeclaim.Source) {
	q := &queue{p: p, name: name, work: work, busy: map[reconcile.Request]bool{}, later: map[reconcile.Request]time.Time{}, failing: map[reconcile.Request]int{}}
	p.queues = append(p.queues, q)
	for _, s := range sources {
		informer, err := p.views.GetInformer(context.Background(), s.Kind)
		if err != nil {
			panic(err) // every kind is served
		}
		_, _ = informer.AddEventHandler(q.handler(s))
	}
}

func (q *queue) handler(s nodeclaim.Source) toolscache.ResourceEventHandler {
	ctx := context.Background()
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { s.Handler.Create(ctx, event.CreateEvent{Object: o.(client.Object)}, q) },
		UpdateFunc: func(old, o any) {
			before, after := old.(client.Object), o.(client.Object)
			if s.Matters == nil || s.Matters(before, after) {
				s.Handler.Update(ctx, event.UpdateEvent{ObjectOld: before, ObjectNew: after}, q)
			}
		},
		DeleteFunc: func(o any) {
			if missed, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
				o = missed.Obj
			}
			s.Handler.Delete(ctx, event.DeleteEvent{Object: o.(client.Object)}, q)
		},
	}
}

// itself is the source that triggers a reconciler for objects of its own kind.
func itself(kind client.Object) nodeclaim.Source {
	return nodeclaim.Source{Kind: kind, Handler: &handler.EnqueueRequestForObject{}}
}

// Add makes a request ready, unless it is ready already.
func (q *queue) Add(r reconcile.Request) {
	if q.p.w.switches.Wake != nil && !q.p.w.switches.Wake(q.name, r.Name) {
		return
	}
	if _, working := q.busy[r]; working {
		q.busy[r] = true
		return
	}
	if !slices.Contains(q.ready, r) {
		q.ready = append(q.ready, r)
	}
}

// AddAfter makes a request ready after a time, or sooner if an earlier call gave a shorter one.
func (q *queue) AddAfter(r reconcile.Request, d time.Duration) {
	at := q.p.w.clock.Now().Add(d)
	if old, ok := q.later[r]; !ok || at.Before(old) {
		q.later[r] = at
	}
}

// ripen makes due requests ready.
func (q *queue) ripen() {
	now := q.p.w.clock.Now()
	var due []reconcile.Request
	for r, at := range q.later {
		if !at.After(now) {
			due = append(due, r)
		}
	}
	slices.SortFunc(due, func(a, b reconcile.Request) int { return cmp.Compare(a.Name, b.Name) })
	for _, r := range due {
		delete(q.later, r)
		q.Add(r)
	}
}

// begin starts the work on the i-th ready request.
func (q *queue) begin(i int) {
	r := q.ready[i]
	q.ready = slices.Delete(q.ready, i, i+1)
	q.busy[r] = false
	var result reconcile.Result
	q.p.spawn(q.name+" "+r.Name, func(ctx context.Context) (err error) {
		result, err = q.work.Reconcile(ctx, r)
		return err
	}, func(err error) {
		again := q.busy[r]
		delete(q.busy, r)
		if err != nil {
			q.AddAfter(r, min(100*time.Millisecond<<min(q.failing[r], 12), time.Minute))
			q.failing[r]++
		} else {
			delete(q.failing, r)
			if result.RequeueAfter > 0 {
				q.AddAfter(r, result.RequeueAfter)
			}
		}
		if again {
			q.Add(r)
		}
	})
}

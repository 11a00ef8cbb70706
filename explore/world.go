package explore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/dynamic-resource-allocation/cel"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"tenon.sh/cluster"
	"tenon.sh/deviceselector"
	"tenon.sh/engine"
	"tenon.sh/provider/simulated"
	"tenon.sh/report"
)

// shared holds values that are expensive to create and equal for many runs. It is not safe for concurrent use.
type shared struct {
	scheme  *runtime.Scheme
	metrics *report.Metrics
	catalog []engine.InstanceType
	// claimable is the catalog of runs in which pods claim devices. The results of its selectors are cached.
	claimable []engine.InstanceType
	selectors *deviceselector.Evaluator
	compiled  *cel.Cache
	kinds     []kind
	actors    []actor
	quiet     context.Context
}

func newShared() *shared {
	return &shared{
		scheme:    cluster.Scheme(),
		metrics:   report.NewMetrics(prometheus.NewRegistry(), "explore"),
		catalog:   smallCatalog(),
		claimable: withDevices(smallCatalog()),
		selectors: deviceselector.New(),
		compiled:  cel.NewCache(10, cel.Features{EnableConsumableCapacity: true}),
		kinds:     kinds(),
		actors:    actors(),
		quiet:     log.IntoContext(context.Background(), logr.Discard()),
	}
}

// context returns a context with a logger that writes to the run's trace, if there is one.
func (s *shared) context(w *world) context.Context {
	if w.trace == nil {
		return s.quiet
	}
	return log.IntoContext(context.Background(), funcr.New(func(_, args string) { w.trace.add("    log: %s", args) }, funcr.Options{Verbosity: 1}))
}

func (*shared) resource(kind string) schema.GroupResource {
	return schema.GroupResource{Resource: kind}
}

// world is one run.
type world struct {
	shared   *shared
	opt      Options
	switches Switches
	seed     uint64
	source   *rand.PCG
	rng      *rand.Rand
	clock    *clocktesting.FakeClock
	began    time.Time
	api      *store
	cloud    *simulated.Cloud
	catalog  []engine.InstanceType // the cloud's
	kube     *kubernetes
	laws     *laws
	trace    *trace
	scene    scene

	p       *process
	current *task
	actor   string // the participant that makes the present change
	parked  chan struct{}
	idle    []worker
	listed  []action       // the last list of actions
	known   []known        // the actions of each participant when it was last listed
	settled map[string]int // the length of each kind's history that all have seen
	step    int
	calm    bool // no faults happen any more
	// busied is the time of the last change, quietSince the time at which the faults ended.
	busied, quietSince time.Time
}

// known has an actor's actions at a version of the API server's objects.
type known struct {
	version uint64
	actions []action
}

// draw returns a random number from 0 to n-1.
func (w *world) draw(n int) int {
	if n <= 1 {
		return 0
	}
	return w.rng.IntN(n)
}

// chance returns true in one of n cases.
func (w *world) chance(n int) bool { return w.rng.IntN(n) == 0 }

// pick returns one of the values.
func pick[T any](w *world, values ...T) T { return values[w.draw(len(values))] }

// fresh makes a step's random numbers depend only on the seed and the step, so that a skipped fault changes no other step.
func (w *world) fresh(step int) { w.source.Seed(w.seed, 0x9e3779b97f4a7c15*uint64(step+1)) }

// action is a possible next step.
type action struct {
	kind, name string
	object     string // the object of the action; joined with name only on demand
	weight     int
	at         time.Time // zero for now
	fault      bool      // the action is a fault, or not necessary
	do         func()
	task       *task // set instead of do: the task that proceeds
	fate       fate  // the fate of the task's call
}

// String returns the name of the action.
func (a action) String() string {
	if t := a.task; t != nil {
		return a.kind + " " + t.name + ": " + t.what + " " + t.kind + " " + t.object + a.fate.String()
	}
	return a.kind + " " + a.name + a.object
}

// can reports whether the action is possible now.
func (a action) can(now time.Time) bool { return !a.at.After(now) && (a.do != nil || a.task != nil) }

// newWorld creates the world of a seed.
func newWorld(s *shared, seed uint64, opt Options) *world {
	began := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	w := &world{
		shared: s, opt: opt, switches: opt.Switches, seed: seed, source: rand.NewPCG(seed, 0),
		clock: clocktesting.NewFakeClock(began), began: began, parked: make(chan struct{}), settled: map[string]int{}, actor: "scene", known: make([]known, len(s.actors)),
	}
	w.rng = rand.New(w.source)
	if opt.Traced {
		w.trace = &trace{now: began, began: began}
	}
	w.fresh(-1)
	w.api = newStore(w.clock, s.kinds)
	w.laws = newLaws(w)
	w.kube = newKube(w)
	w.api.changed = w.changed
	w.stage()
	return w
}

// changed is called for each change of the API server's objects.
func (w *world) changed(s *shelf, c change) {
	if w.trace != nil {
		w.trace.add("    %s", describe(s, c))
	}
	if s.name != "Event" {
		w.busied = w.clock.Now()
	}
	w.laws.changed(w.actor, s, c)
}

// actions lists the possible actions, now or later. If first is true, the list may end after the first action that is possible now and no
// fault. The list is valid until the next call.
func (w *world) actions(first bool) []action {
	out, now, found := w.listed[:0], w.clock.Now(), false
	add := func(a action) {
		out = append(out, a)
		found = found || !a.fault && a.can(now)
	}
	if !w.p.dead {
		for _, q := range w.p.queues {
			q.ripen()
		}
	}
	for i, actor := range w.shared.actors {
		known := &w.known[i]
		switch {
		case !actor.objects:
			actor.list(w, add)
		case known.version == w.api.version:
			for _, a := range known.actions {
				add(a)
			}
		default:
			from := len(out)
			actor.list(w, add)
			known.version, known.actions = w.api.version, append(known.actions[:0], out[from:]...)
		}
		if first && found && !w.kube.undecided() {
			break
		}
	}
	w.listed = out
	return out
}

// tasks are the calls of running passes, or the start of a new process if there is none.
func tasks(w *world, add func(action)) {
	p := w.p
	if p.dead {
		add(action{kind: "restart", weight: 6, at: p.died.Add(restartTakes), do: func() {
			p.bury()
			w.start(w.lagOfRestart())
		}})
		return
	}
	for _, t := range p.tasks {
		t.actions(add)
	}
}

// watches are the events for the autoscaler.
func watches(w *world, add func(action)) {
	p := w.p
	if p.dead {
		return
	}
	for _, v := range p.order {
		if v.behind() > 0 {
			add(action{kind: "deliver", name: v.shelf.name, weight: 8, do: v.deliver})
			add(action{kind: "relist", name: v.shelf.name, weight: 1, fault: true, do: v.relist})
		}
	}
	add(action{kind: "resync", weight: 1, fault: true, do: func() { p.order[w.draw(4)].repeat() }})
}

// passes are the autoscaler's possible begins of work, and its crash.
func passes(w *world, add func(action)) {
	p := w.p
	if p.dead {
		return
	}
	for _, l := range p.loops {
		if !l.running {
			add(action{kind: "pass", name: l.Name, weight: 8, at: l.Due(), do: l.begin})
		}
	}
	for _, q := range p.queues {
		for i, r := range q.ready {
			add(action{kind: "work", name: q.name + " ", object: r.Name, weight: 8, do: func() { q.begin(i) }})
		}
		for r, at := range q.later {
			add(action{kind: "wait", name: r.Name, at: at})
		}
	}
	add(action{kind: "crash", weight: 1, fault: true, do: p.crash})
}

// lagOfRestart returns the largest number of changes that a new process's first lists may lack.
func (w *world) lagOfRestart() int {
	if w.calm {
		return 0
	}
	return pick(w, 0, 0, 3, 12)
}

// actions lists the ways in which a task may go on.
func (t *task) actions(add func(action)) {
	if t.barred != nil && t.barred() {
		return
	}
	add(action{kind: "call", weight: 12, at: t.until, task: t, fate: done})
	if t.what == "pause" || t.what == "lock" {
		return
	}
	if !t.write {
		add(action{kind: "call", weight: 1, fault: true, task: t, fate: failed})
		return
	}
	for _, f := range [...]fate{conflicted, failed, unanswered, crashed, crashedIn} {
		add(action{kind: "call", weight: 1, fault: true, task: t, fate: f})
	}
}

// broken ends the run with a broken law. Only the first one counts.
func (l *laws) broken(law, format string, args ...any) {
	if l.violation != nil || l.w.opt.Only != "" && l.w.opt.Only != law {
		return
	}
	l.violation = &Violation{Law: law, Message: fmt.Sprintf(format, args...), Step: l.w.step}
	l.w.trace.add("*** BROKEN: %s: %s", law, l.violation.Message)
}

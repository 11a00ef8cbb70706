package explore

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "tenon.sh/api/v1"
	"tenon.sh/cluster"
	"tenon.sh/engine"
)

// Options restrict a run. The zero value restricts nothing.
type Options struct {
	// Steps is the number of steps with faults; 0 lets the seed choose 60 to 150.
	Steps int
	// Without names kinds of faults that do not happen, with the names of Result.Kinds.
	Without map[string]bool
	// Skip names steps without faults.
	Skip map[int]bool
	// Only, if set, is the one law that is checked.
	Only string
	// Buffers makes users create and delete a CapacityBuffer again and again, and scale everything to 0 at the end.
	Buffers bool
	// Traced records the story of the run.
	Traced bool
	// Switches put faults into the autoscaler itself, to check that the laws find them.
	Switches Switches
}

// Switches break the autoscaler for a test, from outside. The zero value breaks nothing.
type Switches struct {
	// View changes a process's view of the objects of a kind; nil hides the object.
	View func(kind string) func(client.Object) client.Object
	// TrustCache answers reads from the caches that should go to the API server.
	TrustCache bool
	// Patch changes patches before they are sent.
	Patch func(o client.Object, data []byte) []byte
	// SchedulerLag is the longest delay until kube-scheduler sees nodes; 0 means the bound on which the autoscaler relies.
	SchedulerLag time.Duration
	// Token changes the claim of a launch. The checks ignore a # in a UID and all that follows.
	Token func(*v1.NodeClaim) *v1.NodeClaim
	// Machines changes the cloud's list of machines.
	Machines func([]engine.Machine) []engine.Machine
	// Wake reports whether an event triggers a reconciler. Delayed requests are not affected.
	Wake func(queue, name string) bool
	// Controllers adds loops to the process.
	Controllers func(c *cluster.Cluster, add func(name string, pass func(context.Context) error, every time.Duration))
}

// Violation is a broken law.
type Violation struct {
	Law     string
	Message string
	Step    int
}

func (v *Violation) Error() string { return fmt.Sprintf("step %d: %s: %s", v.Step, v.Law, v.Message) }

// Result is the result of a run.
type Result struct {
	Seed uint64
	Options
	Violation *Violation
	// Taken counts all steps, Wrong the steps in which faults were possible.
	Taken, Wrong int
	// Happened lists the steps with faults, Kinds the kinds of these faults.
	Happened []int
	Kinds    []string
	Story    string
	Launches int
	Lasted   time.Duration
}

// An Explorer makes runs, one after another. Several Explorers may be used at the same time.
type Explorer struct{ shared *shared }

// New returns an Explorer.
func New() *Explorer { return &Explorer{newShared()} }

const (
	mostSteps = 12_000           // of one run; a run with more steps does not come to rest
	longest   = 30_000           // the same while the cloud is in trouble
	mostTime  = 90 * time.Minute // the same, in the time of the run
	restful   = 45 * time.Second // a run is at rest if nothing happens for this time
)

// Run makes the run of a seed.
func (e *Explorer) Run(seed uint64, opt Options) Result {
	w := newWorld(e.shared, seed, opt)
	r := Result{Seed: seed, Options: opt, Wrong: opt.Steps}
	if r.Wrong == 0 {
		r.Wrong = 60 + w.draw(91)
	}
	w.start(0)
	for w.step = 0; w.step < r.Wrong && w.laws.violation == nil; w.step++ {
		w.stumble(&r)
	}
	w.quieten()
	for ongoing := 0; w.laws.violation == nil && !w.rested(); {
		w.step++
		if w.clock.Now().Before(w.scene.until) && ongoing < longest { // the cloud's faults are not over yet
			ongoing++
		}
		if w.step > r.Wrong+ongoing+mostSteps || w.clock.Since(w.quietSince) > mostTime {
			w.laws.broken(lawRest, "%s", w.unrest())
			break
		}
		w.proceedCalmly()
	}
	w.laws.atRest()
	w.end()
	r.Violation, r.Taken, r.Story, r.Launches, r.Lasted = w.laws.violation, w.step, w.trace.text(), w.laws.launches, w.clock.Since(w.began)
	return r
}

// stumble takes one step in which a fault is possible.
func (w *world) stumble(r *Result) {
	w.fresh(w.step)
	sum := 0
	next := time.Time{}
	now := w.clock.Now()
	list := w.actions(false)
	able := list[:0]
	for _, a := range list {
		switch {
		case a.fault && (w.opt.Skip[w.step] || w.opt.Without[kindOf(a)]):
		case a.at.After(now):
			if next.IsZero() || a.at.Before(next) {
				next = a.at
			}
		case a.can(now):
			a.weight *= w.scene.taste(a)
			able = append(able, a)
			sum += a.weight
		}
	}
	if limit := w.patience(); limit.After(now) {
		able = append(able, action{kind: "time", weight: 2 * 8, do: func() { w.pass(next, limit) }})
		sum += 2 * 8
	}
	for i, n := 0, w.draw(sum); i < len(able); i++ {
		if n -= able[i].weight; n < 0 {
			if able[i].fault {
				r.Happened = append(r.Happened, w.step)
				r.Kinds = append(r.Kinds, kindOf(able[i]))
			}
			w.take(able[i])
			return
		}
	}
}

// kindOf returns the kind of a fault: the failure of a call, or the action of a user or the cloud.
func kindOf(a action) string {
	switch {
	case a.task != nil:
		return a.fate.String()
	case a.kind == "user", a.kind == "cloud":
		return strings.TrimSpace(a.kind + " " + a.name)
	}
	return a.kind
}

func (w *world) take(a action) {
	w.actor = a.String()
	if w.trace != nil {
		w.trace.add("[%d] %s", w.step, a)
	}
	if a.task != nil {
		w.proceed(a.task, a.fate)
	} else {
		a.do()
	}
	w.actor = ""
	if !w.p.dead {
		w.p.recorder.Flush(w.shared.quiet)
	}
	w.laws.check()
}

// patience returns the time until which the clock may move, so that no delay exceeds the run's bounds.
func (w *world) patience() time.Time {
	limit := w.clock.Now().Add(time.Hour)
	by := func(t time.Time) {
		if t.Before(limit) {
			limit = t
		}
	}
	if !w.p.dead {
		for _, v := range w.p.order {
			if v.behind() > 0 {
				by(v.next().at.Add(w.scene.lag))
			}
		}
		for _, t := range w.p.tasks {
			if t.what != "pause" {
				by(t.since.Add(taskLag))
			}
		}
	}
	for _, v := range w.kube.views {
		if v.behind() > 0 {
			by(v.next().at.Add(cmp.Or(w.switches.SchedulerLag, schedulerLag)))
		}
	}
	return limit
}

// pass moves the clock, to the next due action or by a short time.
func (w *world) pass(next, limit time.Time) {
	to := w.clock.Now().Add(time.Duration(1+w.draw(40)) * 50 * time.Millisecond)
	if !next.IsZero() && w.draw(3) > 0 {
		to = next
	}
	if to.After(limit) {
		to = limit
	}
	w.trace.moves(to)
	w.clock.SetTime(to)
}

// quieten ends all faults.
func (w *world) quieten() {
	w.calm = true
	w.trace.add("--- nothing goes wrong any more ---")
	w.busied, w.quietSince = w.clock.Now(), w.clock.Now()
	w.kube.quieten()
}

// proceedCalmly takes the first possible step, or moves the clock until there is one.
func (w *world) proceedCalmly() {
	w.fresh(w.step)
	now, next := w.clock.Now(), time.Time{}
	for _, a := range w.actions(true) {
		switch {
		case a.fault:
		case a.at.After(now):
			if next.IsZero() || a.at.Before(next) {
				next = a.at
			}
		case a.can(now):
			w.take(a)
			return
		}
	}
	if next.IsZero() || next.Sub(now) > time.Minute {
		next = now.Add(time.Minute)
	}
	w.trace.moves(next)
	w.clock.SetTime(next)
}

// end ends all tasks, so that no goroutine is left.
func (w *world) end() {
	w.p.crash()
	w.p.bury()
	w.dismiss()
}

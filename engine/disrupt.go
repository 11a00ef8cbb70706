package engine

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine/packing"
)

// Disrupt decides which nodes are to go: those that are broken, empty, out of date, old, or not worth their price. It reads
// only s and opt; the same input always gives the same Plan.
func Disrupt(s *Snapshot, opt Options, memo *Memo) *Plan { return disrupt(s, opt, memo, false) }

func disrupt(s *Snapshot, opt Options, memo *Memo, again bool) *Plan {
	d := newDisruptor(s, opt, memo)
	d.judge()
	d.repair()
	d.driftStatic()
	d.removeEmpty()
	d.drift()
	d.expire()
	d.consolidate(again)
	return d.finish()
}

// disruptor is the state of one Disrupt.
type disruptor struct {
	s        *Snapshot
	opt      Options
	memo     *Memo
	last     *lastPasses
	p        *problem
	budgets  map[string]*poolBudget // by pool
	guards   *guards
	moves    *ownerMoves
	rollouts *rollouts
	expected map[*host]*corev1.Pod // a pod that will run on the machine
	homes    map[*corev1.Pod]int   // the numbers of the machines where pods will run that need a place anyway
	nodes    map[*v1.NodeClaim][]*host
	verdicts map[*host]Reason   // why a machine stays whatever for
	taken    map[*host]bool     // machines that go
	why      map[*host]Reason   // why a machine stays
	halts    map[string]Reason  // pools whose nodes are not replaced for now; nil until it is asked
	launched map[string]int     // launches of each pool
	stamps   map[string]stamp   // of static pools
	check    *Checker           // nil until it is asked
	replaced map[string]int     // nodes of static pools that this pass replaces
	totals   map[string]balance // of pools; nil until it is asked
	order    []*host            // ranked
	stays    []*Reason          // why machines are not consolidatable, by number; nil until it is asked
	plan     *Plan
}

func newDisruptor(s *Snapshot, opt Options, memo *Memo) *disruptor {
	if memo == nil {
		memo = &Memo{} // trials of one pass share it
	}
	pods := memo.take(s, opt.Threads)
	rollouts := rolloutsOf(pods, s.Now)
	if next := rollouts.foreseen(s); next != s {
		s, pods = next, memo.take(next, opt.Threads)
	}
	pods.readActivity(s.Now)
	p := readProblem(s, opt, pods, nil)
	d := &disruptor{
		s: s, opt: opt, memo: memo, last: keptBy[lastPasses](memo), p: p, budgets: map[string]*poolBudget{},
		guards: newGuards(s, p.census), moves: &ownerMoves{s: s, memo: memo, left: map[string]int{}}, rollouts: rollouts, expected: map[*host]*corev1.Pod{}, homes: map[*corev1.Pod]int{},
		nodes: map[*v1.NodeClaim][]*host{}, verdicts: map[*host]Reason{}, taken: map[*host]bool{},
		why: make(map[*host]Reason, len(p.hosts)), launched: map[string]int{}, replaced: map[string]int{}, stamps: map[string]stamp{}, plan: &Plan{},
	}
	for _, pool := range s.NodePools {
		d.budgets[pool.Name] = &poolBudget{rules: rulesOf(s, pool), counts: countNodes(pool.Name, p.hosts)}
	}
	for _, h := range p.hosts {
		if h.node != nil && h.claim != nil {
			d.nodes[h.claim] = append(d.nodes[h.claim], h)
		}
		if h.leaving { // its pods will need what the budgets allow before anybody else's
			d.guards.use(d.evictees(h), 1)
		}
	}
	d.expect()
	return d
}

func poolsByName(s *Snapshot) map[string]*v1.NodePool {
	pools := map[string]*v1.NodePool{}
	for _, p := range s.NodePools {
		pools[p.Name] = p
	}
	return pools
}

// expect finds the machines that pods will use which need a place anyway; they are not idle, whatever runs there now.
func (d *disruptor) expect() {
	if len(d.p.classes) == 0 {
		return
	}
	d.p.model()
	existing := *d.p.packing
	existing.Pools = nil
	solution := packing.Solve(&existing)
	for i, h := range d.p.targets {
		for _, share := range solution.OnNodes[i] {
			for _, n := range share.Pods {
				pod := d.p.classes[share.Class].pods[n]
				d.homes[pod] = h.number
				d.receives(h, pod)
			}
		}
	}
}

// judge says of every machine that nobody may disrupt it, where that is so.
func (d *disruptor) judge() {
	for _, h := range d.p.hosts {
		if h.claim == nil {
			continue
		}
		if r := d.barred(h); !r.OK() {
			d.verdicts[h] = r
			d.keep(h, r)
		}
	}
}

// free are the managed machines that somebody may disrupt and that do not go yet, those that save most first.
func (d *disruptor) free() []*host {
	var out []*host
	for _, h := range d.ranked() {
		if _, barred := d.verdicts[h]; !barred && !d.taken[h] {
			out = append(out, h)
		}
	}
	return out
}

// keep writes down why a machine stays. The first reason counts, unless it says no more than that somebody else has to look.
func (d *disruptor) keep(h *host, r Reason) {
	if old, known := d.why[h]; !known || old.Code == NotEmpty {
		d.why[h] = r
	}
}

// insist is keep for a reason that says more than why the machine is not removed to save money.
func (d *disruptor) insist(h *host, r Reason) {
	if d.verdicts[h].OK() || r.Code == TooManyUnhealthy || r.Code == DoNotRepair {
		d.why[h] = r
	}
}

// removeEmpty removes the machines that run nothing which would have to move.
func (d *disruptor) removeEmpty() {
	for _, h := range d.free() {
		r := d.emptyRefusal(h)
		if r.OK() {
			r = d.spend(h)
		}
		if !r.OK() {
			d.keep(h, r)
			continue
		}
		d.add(part{hosts: []*host{h}}, method{reason: v1.Empty})
	}
}

// emptyRefusal says why the machine may not be removed as empty, budgets aside.
func (d *disruptor) emptyRefusal(h *host) Reason {
	if r := d.held(h); !r.OK() {
		return r
	}
	if n := len(d.moving(h)); n > 0 {
		if r := d.consolidatable(h, false); !r.OK() && r.Code != ConsolidateAfter {
			return r
		}
		return Reason{Code: NotEmpty, NodePool: h.pool(), Have: plural(n, "pod")}
	}
	if r := d.consolidatable(h, true); !r.OK() && r.Code != ConsolidateAfter {
		return r
	}
	if pod := d.expected[h]; pod != nil {
		if owner := d.rollouts.owner(pod); owner != "" {
			return Reason{Code: RollingOut, NodePool: h.pool(), Key: owner, Need: "its next pods"}
		}
		return Reason{Code: PodsExpected, NodePool: h.pool(), Need: podID(pod).String()}
	}
	if r := d.blocked(h); !r.OK() { // pods that a drain would have to send away all the same
		return r
	}
	return d.consolidatable(h, true)
}

// spend takes one empty node off what the pool's budgets allow.
func (d *disruptor) spend(h *host) Reason {
	b := d.budgets[h.pool()]
	if r := b.verb(d.s.Now, v1.Empty, false, 1); !r.OK() {
		return r
	}
	if r := b.take(d.s.Now, v1.Empty); !r.OK() {
		return r
	}
	b.useVerb(false, 1)
	d.guards.use(d.evictees(h), 1)
	return Reason{}
}

// finish lists why machines stay, and what could not be read.
func (d *disruptor) finish() *Plan {
	for _, number := range d.memo.fleetOf(d.s).inNames() {
		h := d.p.hosts[number]
		if r, kept := d.why[h]; kept && !d.taken[h] {
			k := Kept{Node: h.name(), Claim: h.claimName(), NodePool: h.pool(), Reason: r}
			if r.Code == DoNotDisrupt && r.Have != "" { // for a limited time
				k.Protector, _ = d.protector(h)
			}
			d.plan.Kept = append(d.plan.Kept, k)
		}
	}
	d.plan.Next = d.next()
	for _, pool := range byName(d.s.NodePools) {
		for _, r := range d.budgets[pool.Name].rules.problems {
			d.plan.Notes = append(d.plan.Notes, Note{Object: "NodePool " + pool.Name, Reason: r})
		}
	}
	d.plan.Notes = append(d.plan.Notes, d.guards.broken...)
	if n := pausingNamespace(d.s); n != nil {
		if _, _, err := readPause(n.Annotations[v1.PauseAnnotationKey], d.s.Now); err != nil {
			d.plan.Notes = append(d.plan.Notes, Note{Object: "Namespace " + n.Name, Reason: Reason{
				Code: UnreadableAnnotation, Key: v1.PauseAnnotationKey, Need: err.Error(), Have: fmt.Sprintf("%q", n.Annotations[v1.PauseAnnotationKey])}})
		}
	}
	return d.plan
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// since is when the condition became what it is, the zero time if the claim has none of this type.
func since(claim *v1.NodeClaim, condition string) time.Time {
	if c := v1.GetCondition(claim, condition); c != nil {
		return c.LastTransitionTime.Time
	}
	return time.Time{}
}

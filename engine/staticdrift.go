package engine

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
)

// driftStatic replaces machines of static pools that have drifted or are old, one for one.
func (d *disruptor) driftStatic() {
	var drifted, expired []*host
	for _, h := range d.free() {
		switch {
		case d.budgets[h.pool()].rules.pool.Spec.Replicas == nil:
		case isDrifted(h):
			drifted = append(drifted, h)
		case d.softlyExpired(h):
			expired = append(expired, h)
		}
	}
	byAge := func(a, b *host) int {
		return since(a.claim, v1.ConditionDrifted).Compare(since(b.claim, v1.ConditionDrifted))
	}
	d.emptiesFirst(drifted, byAge)
	d.replaceStatic(drifted, method{reason: v1.Drifted, refusal: d.driftRefusal, heeds: func(h *host) bool { return !hasDeadline(h) }})
	d.emptiesFirst(expired, func(a, b *host) int { return expiresAt(a.claim).Compare(expiresAt(b.claim)) })
	d.replaceStatic(expired, method{reason: v1.Expired, refusal: d.expiryRefusal, heeds: func(*host) bool { return true }})
}

// replaceStatic gives each machine one replacement from its pool's template. Where its pods go is their own affair: the pool has
// as many machines after as before.
func (d *disruptor) replaceStatic(hosts []*host, m method) {
	for _, h := range hosts {
		launch, r := d.staticReplacement(h, m)
		if !r.OK() {
			d.insist(h, r)
			continue
		}
		d.replaced[h.pool()]++
		var pods []PodID
		for _, pod := range d.moving(h) {
			pods = append(pods, podID(pod))
		}
		slices.SortFunc(pods, comparePods)
		d.add(part{hosts: []*host{h}, launches: []Launch{launch}, pods: pods}, m)
	}
}

// staticReplacement takes the machine's place in all budgets and limits; it says why not if it cannot be replaced now.
func (d *disruptor) staticReplacement(h *host, m method) (Launch, Reason) {
	pool := d.budgets[h.pool()].rules.pool
	if r := d.staticRoom(pool); !r.OK() {
		return Launch{}, r
	}
	if r := d.reserve(h, m); !r.OK() {
		return Launch{}, r
	}
	stamp, known := d.stamps[pool.Name]
	if !known {
		stamp.launch, stamp.why = stampLaunch(d.s, d.opt, pool)
		d.stamps[pool.Name] = stamp
	}
	r := stamp.why
	if r.OK() {
		r = d.checker().spend(stamp.launch, pool)
	}
	if r.OK() {
		r = d.takeVerb(part{hosts: []*host{h}, launches: []Launch{stamp.launch}}, m)
	}
	if !r.OK() {
		d.giveBack(h, m, r)
	}
	return stamp.launch, r
}

// checker counts what is begun against the limits of pools as it will be counted again at the moment of acting: what would be
// refused then is not begun.
func (d *disruptor) checker() *Checker {
	if d.check == nil {
		d.check = limitsChecker(d.p)
	}
	return d.check
}

// limitsChecker is a Checker for nothing but limits. The API server lets pools with replicas limit nothing but their nodes; old
// ones may.
func limitsChecker(p *problem) *Checker {
	return &Checker{s: p.snapshot, problem: p, types: p.census.memo.typesOf(p.snapshot), used: map[string]corev1.ResourceList{}}
}

// stamp is a machine as a pool's template asks for it, or why there is none.
type stamp struct {
	launch Launch
	why    Reason
}

// staticRoom says why the pool may not have one more machine for the time of a replacement: it has too many, or its limit is
// reached. Machines that are on their way out are still there.
func (d *disruptor) staticRoom(pool *v1.NodePool) Reason {
	all, stay := 0, 0
	for _, h := range d.p.hosts {
		if h.claim == nil || h.claim.Labels[v1.NodePoolLabelKey] != pool.Name {
			continue
		}
		all++
		if !h.leaving && !h.replaces {
			stay++
		}
	}
	if replicas := int(*pool.Spec.Replicas); stay > replicas {
		return Reason{Code: StaticSurplus, NodePool: pool.Name, Have: plural(stay, "node"), Need: fmt.Sprint(replicas)}
	}
	if limit, ok := pool.Spec.Limits[v1.ResourceNodes]; ok && int64(all+d.replaced[pool.Name]) >= limit.Value() {
		return Reason{
			Code: LimitReached, NodePool: pool.Name, Key: string(v1.ResourceNodes), Need: "one more",
			Have: fmt.Sprintf("there are %d and the limit is %s", all, limit.String()),
		}
	}
	return Reason{}
}

package disruption

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/capacity"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/packing"
	"tenon.sh/engine/provisioning"
)

// yieldRoom removes machines that only keep room of CapacityBuffers where their pool's limits leave too little for pods that wait: a limit is to
// hit room before pods, also where the room came first. For each machine that the pods would get, as few go as it takes, or none: what does not
// help pods would be bought again for the room.
func (d *planner) yieldRoom() {
	waiting := d.waiting()
	pools := d.roomAtLimits(len(waiting))
	var all, gone []*inventory.Machine
	for _, p := range pools {
		for _, y := range p.idle {
			all = append(all, y.Machine)
		}
	}
	if len(all) == 0 {
		return
	}
	refused := len(d.planWithout(nil).Unplaced)
	if refused == 0 {
		return
	}
	plan := d.planWithout(all)
	if len(plan.Unplaced) >= refused {
		return
	}
	parts := make([]provisioning.Group, len(plan.Launches))
	for i, l := range plan.Launches {
		if p := pools[l.NodePool]; p != nil && len(l.Pods) > 0 && !d.s.Now.Before(p.yieldsFrom(l, waiting)) {
			parts[i].Machines = d.yieldTo(l, p)
			gone = append(gone, parts[i].Machines...)
		}
	}
	if len(gone) == 0 || len(d.planWithout(gone).Unplaced) >= refused {
		return
	}
	for i, part := range parts {
		for _, h := range part.Machines {
			d.spend(h)
		}
		if len(part.Machines) > 0 {
			d.add(part, method{reason: v1.Empty})
			d.plan.Disruptions[len(d.plan.Disruptions)-1].YieldsTo = plan.Launches[i].Pods
		}
	}
}

// yieldTo takes of the pool's machines as few as its limits need for the launch; none if they would not do, or budgets keep one of them.
func (d *planner) yieldTo(l engine.Launch, p *roomAtLimit) (out []*inventory.Machine) {
	need := d.p.Names.Vector(largest(d.cache.TypesOf(d.s), p.pool, l))
	left, idle := p.left.Clone(), slices.Clone(p.idle)
	left.Add(need, -1)
	for left.Overdrawn(need) {
		best, most := -1, 0.0
		for i, y := range idle {
			if help := y.help(left, need); help > most {
				best, most = i, help
			}
		}
		if best < 0 {
			return nil
		}
		out = append(out, idle[best].Machine)
		left.Add(idle[best].counts, 1)
		idle = slices.Delete(idle, best, best+1)
	}
	if len(out) > p.may {
		for _, h := range out {
			d.setReason(h, engine.Reason{Code: engine.BudgetExhausted, NodePool: h.Pool(), Have: fmt.Sprintf("%s now, and pod %s needs the place of %d", engine.Plural(p.may, "more node"), l.Pods[0], len(out))})
		}
		return nil
	}
	p.left, p.idle, p.may = left, idle, p.may-len(out)
	return out
}

// roomAtLimit is a pool with limits, some of whose machines only keep room.
type roomAtLimit struct {
	pool *v1.NodePool
	idle []yieldingMachine // those that may go and do not yet, the dearest first
	left capacity.Vector   // of the limits
	last time.Time         // when the newest machine was asked for that runs no pods
	may  int               // as many may go yet
}

// yieldingMachine is a machine and what it counts against the pool's limits.
type yieldingMachine struct {
	*inventory.Machine
	counts capacity.Vector
}

// help says how far the machine brings limits that have too little left for what is needed: from 0 to 1 how much of that it gives back, and
// above 1 the nearer to 2 the less it gives beyond.
func (y yieldingMachine) help(left, need capacity.Vector) float64 {
	gives, lacks, all := 0.0, 0.0, 0.0
	for i, n := range need {
		if lack := -left[i]; n > 0 && lack > 0 {
			share := float64(y.counts[i]) / float64(lack)
			gives, all, lacks = gives+min(share, 1), all+share, lacks+1
		}
	}
	if gives < lacks {
		return gives / lacks
	}
	return 1 + lacks/all
}

// mostYieldPause bounds how long a pool's room stays that was bought while a pod waited.
const mostYieldPause = time.Hour

// yieldsFrom is when the pool's machines may go for the launch. Pods come before room: where room was bought while one of them waited, what the
// pod needs was not to be had, although there was place for it within the limits. Then the room stays for as long as the pod had waited before,
// up to an hour, so that ever fewer machines are given up in vain.
func (p *roomAtLimit) yieldsFrom(l engine.Launch, waiting map[engine.PodID]time.Time) time.Time {
	at := time.Time{}
	for _, id := range l.Pods {
		if since, ok := waiting[id]; ok {
			at = kube.Latest(at, p.last.Add(min(p.last.Sub(since), mostYieldPause)))
		}
	}
	return at
}

// roomAtLimits lists the pools, by name, with limits that may leave too little for so many pods that wait.
func (d *planner) roomAtLimits(waiting int) map[string]*roomAtLimit {
	out := map[string]*roomAtLimit{}
	if len(d.room) == 0 || waiting == 0 {
		return out
	}
	for i, pool := range d.p.Pools {
		// Where each pod could have a machine to itself, the limits keep none waiting.
		model := &d.p.Packing.Pools[i]
		if slices.ContainsFunc(model.Options, func(o packing.Option) bool { return o.Charge.Times(model.Left, waiting) < waiting }) {
			out[pool.NodePool.Name] = &roomAtLimit{pool: pool.NodePool, left: model.Left.Clone(), may: d.budgets[pool.NodePool.Name].left(d.s.Now, v1.Empty)}
		}
	}
	for _, h := range d.ranked() {
		p := out[h.Pool()]
		if p == nil {
			continue
		}
		counts := d.p.Names.Vector(inventory.PoolUsage([]*inventory.Machine{h}, h.Pool()))
		switch _, barred := d.verdicts[h]; {
		case h.Leaving || d.taken[h]:
			p.left.Add(counts, 1)
			continue
		case !barred && d.mayYield(h):
			p.idle = append(p.idle, yieldingMachine{h, counts})
		}
		if len(h.Expected) == 0 && !slices.ContainsFunc(d.moving(h), isPod) {
			p.last = kube.Latest(p.last, h.Claim.CreationTimestamp.Time)
		}
	}
	return out
}

// waiting lists the pods that wait and for which there is no place yet, and since when they exist.
func (d *planner) waiting() map[engine.PodID]time.Time {
	out := map[engine.PodID]time.Time{}
	for _, c := range d.p.Classes {
		for _, pod := range c.Pods {
			if _, placed := d.assigned[pod]; !placed && isPod(pod) {
				out[kube.PodID(pod)] = pod.CreationTimestamp.Time
			}
		}
	}
	return out
}

// mayYield reports whether the machine keeps nothing but room and could go if it were empty, budgets aside.
func (d *planner) mayYield(h *inventory.Machine) bool {
	return d.keepsOnlyRoom(h) && d.expected[h] == nil && d.held(h).OK() && d.consolidatable(h, true).OK() && d.blocked(h).OK()
}

// planWithout says where the pods go that wait, once the machines are being deleted with all that go anyway. Room is left out: it comes after
// the pods.
func (d *planner) planWithout(gone []*inventory.Machine) *engine.Plan {
	goes, leaves := inventory.MachineSetOf(len(d.p.Machines), gone), map[*v1.NodeClaim]bool{}
	for _, h := range d.p.Machines {
		leaves[h.Claim] = leaves[h.Claim] || h.Leaving || d.taken[h] || goes.Has(h)
	}
	next := *d.given
	next.CapacityBuffers = nil
	next.NodeClaims = slices.Clone(next.NodeClaims)
	for i, claim := range next.NodeClaims {
		if leaves[claim] && claim.DeletionTimestamp == nil {
			claim = claim.DeepCopy()
			claim.DeletionTimestamp = &metav1.Time{Time: d.s.Now}
			next.NodeClaims[i] = claim
		}
	}
	return provisioning.Plan(&next, d.opt, nil)
}

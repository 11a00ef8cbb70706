package disruption

import (
	"fmt"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/limits"
	"tenon.sh/engine/provisioning"
)

// driftStatic replaces machines of static pools that have drifted or are near the end of their lives, one for one.
func (d *planner) driftStatic() {
	var drifted, expired []*inventory.Machine
	for _, m := range d.free() {
		switch {
		case d.budgets[m.Pool()].Rules.Pool.Spec.Replicas == nil:
		case isDrifted(m):
			drifted = append(drifted, m)
		case d.softlyExpired(m):
			expired = append(expired, m)
		}
	}
	byAge := func(a, b *inventory.Machine) int {
		return kube.TrueSince(a.Claim, v1.ConditionDrifted).Compare(kube.TrueSince(b.Claim, v1.ConditionDrifted))
	}
	d.emptiesFirst(drifted, byAge)
	d.replaceStatic(drifted, method{
		reason: v1.Drifted, refusal: d.driftRefusal, heeds: func(m *inventory.Machine) bool { return !hasDeadline(m) }, terminatesFirst: d.opt.TerminateFirstDrift,
	})
	d.emptiesFirst(expired, func(a, b *inventory.Machine) int { return kube.ExpiresAt(a.Claim).Compare(kube.ExpiresAt(b.Claim)) })
	d.replaceStatic(expired, method{reason: v1.Expired, refusal: d.expiryRefusal, heeds: func(*inventory.Machine) bool { return true }})
}

// replaceStatic gives each machine one replacement from its pool's template. It plans no places for the pods, because the pool has as many
// machines after as before.
func (d *planner) replaceStatic(hosts []*inventory.Machine, m method) {
	for _, machine := range hosts {
		launch, r := d.staticReplacement(machine, m)
		if m.terminatesFirst && d.staticTerminatesFirst(machine, m, r) {
			continue
		}
		if !r.OK() {
			d.setReason(machine, r)
			continue
		}
		d.replaced[machine.Pool()]++
		d.add(provisioning.Group{Machines: []*inventory.Machine{machine}, Launches: []engine.Launch{launch}, Pods: d.movingIDs(machine)}, m)
	}
}

// staticReplacement takes the machine's place in all budgets and limits, or returns why it cannot be replaced now.
func (d *planner) staticReplacement(machine *inventory.Machine, m method) (engine.Launch, engine.Reason) {
	pool := d.budgets[machine.Pool()].Rules.Pool
	if r := d.staticRoom(pool); !r.OK() {
		return engine.Launch{}, r
	}
	if r := d.reserve(machine, m); !r.OK() {
		return engine.Launch{}, r
	}
	stamp := d.stampOf(pool)
	r := stamp.why
	if r.OK() {
		if d.usage == nil {
			d.usage = limits.NewUsage(d.s, d.p.Pods, d.p.Machines)
		}
		r = d.usage.Take(stamp.launch, pool) // Take charges it again when it is carried out
	}
	if r.OK() {
		r = d.takeVerb(provisioning.Group{Machines: []*inventory.Machine{machine}, Launches: []engine.Launch{stamp.launch}}, m)
	}
	if !r.OK() {
		d.release(machine, m, r)
	}
	return stamp.launch, r
}

func (d *planner) stampOf(pool *v1.NodePool) stamp {
	out, known := d.stamps[pool.Name]
	if !known {
		out.launch, out.why = stampLaunch(d.s, d.opt, pool)
		d.stamps[pool.Name] = out
	}
	return out
}

// stamp is a machine from a pool's template, or the reason why there is none.
type stamp struct {
	launch engine.Launch
	why    engine.Reason
}

// staticRoom returns why the pool may not have one more machine during a replacement: it has too many, or its limit on nodes is reached. Leaving
// machines use up the limit.
func (d *planner) staticRoom(pool *v1.NodePool) engine.Reason {
	all, stay := 0, 0
	for _, m := range d.p.Machines {
		if m.Claim == nil || m.Claim.Labels[v1.NodePoolLabelKey] != pool.Name {
			continue
		}
		all++
		if !m.Leaving && !m.Replaces {
			stay++
		}
	}
	if replicas := int(*pool.Spec.Replicas); stay > replicas {
		return engine.Reason{Code: engine.StaticSurplus, NodePool: pool.Name, Have: engine.Plural(stay, "node"), Need: fmt.Sprint(replicas)}
	}
	if limit, ok := pool.Spec.Limits[v1.ResourceNodes]; ok && int64(all+d.replaced[pool.Name]) >= limit.Value() {
		return engine.Reason{
			Code: engine.LimitReached, NodePool: pool.Name, Key: string(v1.ResourceNodes), Need: "one more",
			Have: fmt.Sprintf("there are %d and the limit is %s", all, limit.String()),
		}
	}
	return engine.Reason{}
}

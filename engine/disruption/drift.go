package disruption

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/lifecycle"
	"tenon.sh/engine/replacement"
)

func isDrifted(m *inventory.Machine) bool { return m.Drifted }

// drift replaces drifted machines: first those without pods, then those that drifted first. Pods that move prefer machines from which they need not
// move again.
func (d *planner) drift() {
	var candidates []*inventory.Machine
	for _, machine := range d.free() {
		if isDrifted(machine) && d.budgets[machine.Pool()].Rules.Pool.Spec.Replicas == nil {
			candidates = append(candidates, machine)
		}
	}
	if len(candidates) == 0 {
		return
	}
	d.emptiesFirst(candidates, func(a, b *inventory.Machine) int {
		return kube.TrueSince(a.Claim, v1.ConditionDrifted).Compare(kube.TrueSince(b.Claim, v1.ConditionDrifted))
	})
	m := method{
		reason: v1.Drifted, refusal: d.driftRefusal, trial: trialOptions{closed: d.goesSoon, usualPrices: true},
		heeds: func(machine *inventory.Machine) bool { return !hasDeadline(machine) }, terminatesFirst: d.opt.TerminateFirstDrift,
	}
	d.removeNow(candidates, m)
	if m.terminatesFirst {
		d.terminateFirst(candidates, m)
	}
}

// goesSoon reports whether pods that move to the machine would have to move again.
func (d *planner) goesSoon(m *inventory.Machine) bool {
	if m.Claim == nil {
		return false
	}
	b := d.budgets[m.Pool()]
	if b == nil || b.Rules.Retired {
		return true
	}
	return isDrifted(m) && d.observer(m) == "" || d.softlyExpired(m)
}

// observer returns "pool" or "node class" if that only reports the machine's drift. It returns "" if the drifted machine is to be replaced.
func (cs *candidates) observer(m *inventory.Machine) string {
	pool := cs.budgets[m.Pool()].Rules
	if pool.Observed {
		return "pool"
	}
	drifted, class := v1.GetCondition(m.Claim, v1.ConditionDrifted), kube.FindClass(cs.s, pool.Pool.Spec.Template.Spec.NodeClassRef)
	if class != nil && slices.ContainsFunc(class.Traits, func(t engine.Trait) bool { return t.Observed && t.Reason == drifted.Reason }) {
		return "node class"
	}
	return ""
}

// driftRefusal returns why a drifted machine is kept for now.
func (d *planner) driftRefusal(m *inventory.Machine) engine.Reason {
	if by := d.observer(m); by != "" {
		return engine.Reason{Code: engine.DriftObserved, NodePool: m.Pool(), Key: by, Have: v1.GetCondition(m.Claim, v1.ConditionDrifted).Reason}
	}
	if r := d.halted(m); !r.OK() {
		return r
	}
	if hasDeadline(m) {
		return engine.Reason{}
	}
	return d.held(m)
}

// halted returns a reason not to replace a pool's nodes while replacements do not become ready, because the pool would lose nodes that still work. A
// machine whose own disruption was taken back waits too.
func (cs *candidates) halted(m *inventory.Machine) engine.Reason {
	if r := replacement.TakenBack(m, cs.s.Now); !r.OK() {
		return r
	}
	if cs.halts == nil {
		cs.halts = cs.haltedPools()
	}
	r := cs.halts[m.Pool()]
	r.NodePool = m.Pool()
	if r.Code == "" {
		r = engine.Reason{}
	}
	return r
}

func (cs *candidates) haltedPools() map[string]engine.Reason {
	out := map[string]engine.Reason{}
	halt := func(pool, why string) {
		if out[pool].OK() {
			out[pool] = engine.Reason{Code: engine.ReplacingHalted, NodePool: pool, Have: why}
		}
	}
	for _, pool := range cs.s.NodePools {
		if c := v1.GetCondition(pool, v1.ConditionNodeRegistrationHealthy); c != nil && c.Status == metav1.ConditionFalse {
			halt(pool.Name, cmp.Or(c.Message, "its machines do not join the cluster"))
		}
	}
	for _, b := range replacement.Backoffs(cs.s) {
		halt(b.NodePool, b.Message())
	}
	for _, claim := range kube.ByName(cs.s.NodeClaims) {
		pool := claim.Labels[v1.NodePoolLabelKey]
		if claim.Annotations[v1.ReplacesAnnotationKey] == "" || v1.IsTrue(claim, v1.ConditionInitialized) || claim.DeletionTimestamp != nil {
			continue
		}
		if age := cs.s.Now.Sub(claim.CreationTimestamp.Time); age >= lifecycle.DriftPatience {
			halt(pool, fmt.Sprintf("the replacement %s is not ready after %s", claim.Name, age.Truncate(time.Minute)))
		}
	}
	return out
}

package disruption

import (
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/inventory"
	"tenon.sh/engine/kube"
)

func (cs *candidates) softlyExpired(m *inventory.Machine) bool {
	// At ExpiresAt the claim is deleted without a disruption (package lifecycle).
	return !m.SoftEnd.IsZero() && !cs.s.Now.Before(m.SoftEnd) && cs.s.Now.Before(kube.ExpiresAt(m.Claim))
}

// expire replaces machines that are near the end of their lives, because at that time they are deleted without a replacement.
func (d *planner) expire() {
	var candidates []*inventory.Machine
	for _, m := range d.free() {
		if d.softlyExpired(m) && d.budgets[m.Pool()].Rules.Pool.Spec.Replicas == nil {
			candidates = append(candidates, m)
		}
	}
	if len(candidates) == 0 {
		return
	}
	d.emptiesFirst(candidates, func(a, b *inventory.Machine) int { return kube.ExpiresAt(a.Claim).Compare(kube.ExpiresAt(b.Claim)) })
	d.removeNow(candidates, method{
		reason: v1.Expired, refusal: d.expiryRefusal, trial: trialOptions{closed: d.goesSoon},
		heeds: func(*inventory.Machine) bool { return true },
	})
}

func (d *planner) expiryRefusal(m *inventory.Machine) engine.Reason {
	if r := d.halted(m); !r.OK() {
		return r
	}
	return d.held(m)
}

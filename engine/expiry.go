package engine

import (
	"hash/fnv"
	"time"

	v1 "tenon.sh/api/v1"
)

const (
	// softShare and softMost bound how long before its end a machine may be replaced: a tenth of its life, a day at most.
	softShare = 10
	softMost  = 24 * time.Hour
	// jitterShare is the part of that time over which the beginnings of machines that are equally old are spread, in quarters.
	jitterShare = 3
)

// SoftExpiry is when the claim's machine may be replaced because of its age, if budgets and pods allow it; ok is false for
// one that never expires. At the end, which is its creation plus expireAfter, it goes whatever they say.
func SoftExpiry(claim *v1.NodeClaim) (at time.Time, ok bool) {
	if claim.Spec.ExpireAfter.Duration == nil {
		return time.Time{}, false
	}
	life := *claim.Spec.ExpireAfter.Duration
	window := max(min(life/softShare, softMost), 0)
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(claim.UID)) // never fails
	jitter := time.Duration(float64(window) / 4 * jitterShare * float64(mixed(hash.Sum64())>>11) / (1 << 53))
	return claim.CreationTimestamp.Add(life - window + jitter), true
}

func (d *disruptor) softlyExpired(h *host) bool {
	// At the end somebody else removes it.
	return !h.softEnd.IsZero() && !d.s.Now.Before(h.softEnd) && d.s.Now.Before(expiresAt(h.claim))
}

// expire replaces machines that are near the end of their lives, before they have to go without a replacement.
func (d *disruptor) expire() {
	var candidates []*host
	for _, h := range d.free() {
		if d.softlyExpired(h) && d.budgets[h.pool()].rules.pool.Spec.Replicas == nil {
			candidates = append(candidates, h)
		}
	}
	if len(candidates) == 0 {
		return
	}
	d.emptiesFirst(candidates, func(a, b *host) int { return expiresAt(a.claim).Compare(expiresAt(b.claim)) })
	d.carry(candidates, method{
		reason: v1.Expired, refusal: d.expiryRefusal, trial: trialOptions{closed: d.goesSoon},
		heeds: func(*host) bool { return true },
	})
}

func expiresAt(claim *v1.NodeClaim) time.Time { return claim.CreationTimestamp.Add(expireAfter(claim)) }

func (d *disruptor) expiryRefusal(h *host) Reason {
	if r := d.halted(h); !r.OK() {
		return r
	}
	return d.held(h)
}

package simulated

import (
	"time"

	"tenon.sh/provider"
)

// bucket is the content of a token bucket at a time.
type bucket struct {
	Tokens float64
	At     time.Time
}

// throttle takes tokens for a call, or refuses the call.
func (c *Cloud) throttle(now time.Time, call string, b Bucket, tokens float64) error {
	factor := c.throttleFault(call, now)
	if b.Size == 0 {
		if factor == 1 {
			return nil
		}
		b = Bucket{Size: 50, PerSecond: 5} // a fault of a cloud that does not throttle otherwise
	}
	have, found := c.buckets[call]
	if !found {
		have = bucket{b.Size, now}
	}
	size, perSecond := b.Size*factor, b.PerSecond*factor
	have.Tokens = min(size, have.Tokens+perSecond*now.Sub(have.At).Seconds())
	have.At = now
	need := min(tokens, size)
	if size > 0 && have.Tokens >= need {
		have.Tokens -= need
		c.buckets[call] = have
		return nil
	}
	c.buckets[call] = have
	if c.counters.Throttled == nil {
		c.counters.Throttled = map[string]int{}
	}
	c.counters.Throttled[call]++
	wait := time.Minute
	if perSecond > 0 {
		wait = time.Duration((need - have.Tokens) / perSecond * float64(time.Second))
	}
	return &provider.ThrottledError{Call: call, RetryAfter: max(wait, time.Millisecond)}
}

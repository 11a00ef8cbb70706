package azuretest

import (
	"math"
	"net/http"
	"time"
)

// buckets are the limits of calls that Azure documents: ARM's limits for each subscription and caller, and the resource graph's. The limits
// of Microsoft.Compute and Microsoft.Network below them are not simulated.
type buckets struct {
	tokens  map[string]float64
	at      map[string]time.Time
	refused int
}

// bucketOf returns the bucket of a call: its size in tokens, and the number of tokens that come back in a second.
func bucketOf(c *Call) (class string, tokens, perSecond float64) {
	switch {
	case c.Operation == "Resources":
		return "graph", 15, 3
	case c.Method == http.MethodGet:
		return "reads", 250, 25
	case c.Method == http.MethodDelete:
		return "deletes", 200, 10
	}
	return "writes", 200, 10
}

// Enforce makes ARM refuse calls beyond its limits from now on, with 429.
func (s *Subscription) Enforce() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.buckets = &buckets{tokens: map[string]float64{}, at: map[string]time.Time{}}
}

// Refused returns the number of calls that were refused because of ARM's limits.
func (s *Subscription) Refused() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buckets.refused
}

// limited reports whether a call exceeds a limit, and the time to wait. The lock is held.
func (s *Subscription) limited(c *Call) (wait time.Duration, limited bool) {
	b := s.buckets
	if b == nil {
		return 0, false
	}
	class, most, perSecond := bucketOf(c)
	now := s.clock.Now()
	if at, known := b.at[class]; known {
		b.tokens[class] = math.Min(most, b.tokens[class]+now.Sub(at).Seconds()*perSecond)
	} else {
		b.tokens[class] = most
	}
	b.at[class] = now
	if b.tokens[class] < 1 {
		b.refused++
		return time.Duration((1 - b.tokens[class]) / perSecond * float64(time.Second)), true
	}
	b.tokens[class]--
	return 0, false
}

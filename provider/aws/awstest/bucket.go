package awstest

import (
	"strconv"
	"strings"
	"sync"
	"time"
)

// buckets are EC2's own limits of calls, as AWS documents them: how many tokens a class of calls has, and how many come
// back in a second.
type buckets struct {
	mu      sync.Mutex // guards all
	tokens  map[string]float64
	at      map[string]time.Time
	refused map[string]int
}

func size(class string) (tokens, perSecond float64) {
	switch class {
	case "read":
		return 100, 20
	case "terminate":
		return 100, 5
	case "tag":
		return 100, 10
	case "instances":
		return 1000, 2
	case "terminated":
		return 1000, 20
	}
	return 50, 5
}

// Enforce has EC2 refuse calls beyond its limits from now on, with RequestLimitExceeded.
func (a *Account) Enforce() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.buckets = &buckets{tokens: map[string]float64{}, at: map[string]time.Time{}, refused: map[string]int{}}
}

// Refused is how many calls were refused because of EC2's limits.
func (a *Account) Refused() (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.buckets.mu.Lock()
	defer a.buckets.mu.Unlock()
	for _, refused := range a.buckets.refused {
		n += refused
	}
	return n
}

// limited reports whether a call is one too many.
func (a *Account) limited(call Call) bool {
	a.mu.Lock()
	b := a.buckets
	a.mu.Unlock()
	operation, isEC2 := strings.CutPrefix(call.Action, "ec2:")
	if b == nil || !isEC2 {
		return false
	}
	class, resource, n := "write", "", 0
	switch {
	case strings.HasPrefix(operation, "Describe"):
		class = "read"
	case operation == "TerminateInstances":
		class, resource, n = "terminate", "terminated", len(call.List("InstanceId"))
	case operation == "CreateTags":
		class = "tag"
	case operation == "CreateFleet":
		n, _ = strconv.Atoi(call.Form.Get("TargetCapacitySpecification.TotalTargetCapacity"))
		resource = "instances"
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.has(class, 1) || resource != "" && !b.has(resource, float64(n)) {
		b.refused[call.Action]++
		return true
	}
	b.tokens[class]--
	b.tokens[resource] -= float64(n)
	return false
}

// has fills a bucket up to now. The lock is held.
func (b *buckets) has(class string, n float64) bool {
	most, perSecond := size(class)
	now := time.Now()
	if at, known := b.at[class]; known {
		b.tokens[class] = min(most, b.tokens[class]+now.Sub(at).Seconds()*perSecond)
	} else {
		b.tokens[class] = most
	}
	b.at[class] = now
	return b.tokens[class] >= n
}

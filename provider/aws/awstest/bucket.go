package awstest

import (
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"
)

// buckets are EC2's own limits of calls, as AWS documents them: the number of tokens of a class of calls, and the number of tokens that come
// back in a second.
type buckets struct {
	mu      sync.Mutex // guards all
	tokens  map[string]float64
	at      map[string]time.Time
	spent   map[string]float64 // tokens of calls that were not refused
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

// Enforce makes EC2 refuse calls beyond its limits from now on, with RequestLimitExceeded.
func (a *Account) Enforce() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.buckets = &buckets{tokens: map[string]float64{}, at: map[string]time.Time{}, spent: map[string]float64{}, refused: map[string]int{}}
}

// Meter starts to measure calls under EC2's limits. The returned function returns the shortest time in which a program could make the calls since
// then. It follows from the limits: a bucket gives no more tokens than it had at the beginning plus the tokens that have come back since.
func (a *Account) Meter() (least func() time.Duration) {
	a.mu.Lock()
	b := a.buckets
	a.mu.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	had, before := map[string]float64{}, maps.Clone(b.spent)
	for class := range b.tokens {
		b.has(class, 0)
		had[class] = b.tokens[class]
	}
	return func() (longest time.Duration) {
		b.mu.Lock()
		defer b.mu.Unlock()
		for class, spent := range b.spent {
			most, perSecond := size(class)
			if left, used := had[class]; used {
				most = left
			}
			longest = max(longest, time.Duration((spent-before[class]-most)/perSecond*float64(time.Second)))
		}
		return longest
	}
}

// Refused returns the number of calls that were refused because of EC2's limits.
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

// limited reports whether a call exceeds a limit, and counts the call.
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
	b.spend(class, 1)
	if resource != "" {
		b.spend(resource, float64(n))
	}
	return false
}

// spend takes tokens out of a bucket that has them. The lock is held.
func (b *buckets) spend(class string, n float64) {
	b.tokens[class] -= n
	b.spent[class] += n
}

// has fills a bucket up to now, and reports whether it has n tokens. The lock is held.
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

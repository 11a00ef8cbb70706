// Package pace keeps the calls of one process to EC2 below the account's limits, with one token bucket for each class of calls, as EC2 has
// them. Other programs use the same account, so a class is slowed down further if EC2 refuses a call anyway.
package pace

import (
	"context"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Class is a class of calls that share a bucket.
type Class string

// The classes of calls that a provider makes.
const (
	Reads      Class = "reads" // filtered or in pages
	Writes     Class = "writes"
	Tags       Class = "tags"
	Terminates Class = "terminates"
	// Machines counts requested machines, not calls.
	Machines Class = "machines"
	// Terminated counts requests to stop a machine.
	Terminated Class = "terminated"
)

// bucket returns the number of tokens of a class, and the number that comes back in a second: AWS's documented limits, minus a little for
// other programs.
func bucket(class Class) (tokens int, perSecond float64) {
	switch class {
	case Reads:
		return 95, 19
	case Tags:
		return 95, 9.5
	case Terminates:
		return 95, 4.75
	case Machines:
		return 1000, 2
	case Terminated:
		return 1000, 20
	}
	return 48, 4.75
}

// slowed is the time for which a class is slowed down after EC2 refused a call.
const slowed = 10 * time.Second

// Pace holds the buckets. It may be used from several goroutines. It uses real time.
type Pace struct {
	mu      sync.Mutex // guards classes
	classes map[Class]*lane
}

type lane struct {
	limiter *rate.Limiter
	until   time.Time // slowed down until then
}

// New makes a Pace with full buckets.
func New() *Pace { return &Pace{classes: map[Class]*lane{}} }

// Wait waits until a call of a class that takes n tokens may be made. If n is more than the bucket holds, Wait waits for a full bucket.
func (p *Pace) Wait(ctx context.Context, class Class, n int) error {
	l := p.lane(class)
	return l.limiter.WaitN(ctx, min(n, l.limiter.Burst()))
}

// Complained records that EC2 throttled a call of a class.
func (p *Pace) Complained(class Class) {
	l := p.lane(class)
	tokens, perSecond := bucket(class)
	p.mu.Lock()
	defer p.mu.Unlock()
	l.until = time.Now().Add(slowed)
	l.limiter.SetLimit(rate.Limit(perSecond / 2))
	if left := l.limiter.Tokens(); left > 1 { // other programs have used the tokens that seemed to be left
		l.limiter.ReserveN(time.Now(), min(int(left), tokens))
	}
}

func (p *Pace) lane(class Class) *lane {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.classes[class]
	tokens, perSecond := bucket(class)
	if l == nil {
		l = &lane{limiter: rate.NewLimiter(rate.Limit(perSecond), tokens)}
		p.classes[class] = l
	}
	if !l.until.IsZero() && time.Now().After(l.until) {
		l.until = time.Time{}
		l.limiter.SetLimit(rate.Limit(perSecond))
	}
	return l
}

// ClassOf returns the class of an operation of EC2.
func ClassOf(operation string) Class {
	switch {
	case strings.HasPrefix(operation, "Describe"):
		return Reads
	case operation == "CreateTags":
		return Tags
	case operation == "TerminateInstances":
		return Terminates
	}
	return Writes
}

// Left returns the number of tokens that a class has left.
func (p *Pace) Left(class Class) int { return max(0, int(p.lane(class).limiter.Tokens())) }

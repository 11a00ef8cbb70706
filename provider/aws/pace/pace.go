// Package pace keeps the calls of one process to EC2 below what EC2 allows an account: a bucket of tokens for each class of
// calls, as EC2 has them. Others use the same account, so calls are slowed down further when EC2 complains all the same.
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
	// Machines counts machines, not calls, that are asked for.
	Machines Class = "machines"
	// Terminated counts machines that are told to stop.
	Terminated Class = "terminated"
)

// bucket is how many tokens a class has, and how many come back in a second, as AWS documents them. A little is left to
// others.
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

// slowed is for how long a class is slowed down after EC2 complained.
const slowed = 10 * time.Second

// Pace holds the buckets. It may be used from several goroutines; its time is real.
type Pace struct {
	mu      sync.Mutex // guards classes
	classes map[Class]*lane
}

type lane struct {
	limiter *rate.Limiter
	until   time.Time // slowed down until then
}

// New makes full buckets.
func New() *Pace { return &Pace{classes: map[Class]*lane{}} }

// Wait waits until a call of a class may be made that takes n tokens. More than the bucket holds are waited for as if they
// were as many as it holds.
func (p *Pace) Wait(ctx context.Context, class Class, n int) error {
	l := p.lane(class)
	return l.limiter.WaitN(ctx, min(n, l.limiter.Burst()))
}

// Complained notes that EC2 refused a call of a class because there were too many.
func (p *Pace) Complained(class Class) {
	l := p.lane(class)
	tokens, perSecond := bucket(class)
	p.mu.Lock()
	defer p.mu.Unlock()
	l.until = time.Now().Add(slowed)
	l.limiter.SetLimit(rate.Limit(perSecond / 2))
	if left := l.limiter.Tokens(); left > 1 { // what we thought was left, others have used
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

// ClassOf is the class of an operation of EC2, by its name.
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

// Left is how many tokens a class has left.
func (p *Pace) Left(class Class) int { return max(0, int(p.lane(class).limiter.Tokens())) }

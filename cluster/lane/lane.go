// Package lane orders the writes of this process to the API server. Reads and leases go at once. A limited number of writes are under way at a time,
// and urgent writes go before others that wait. Without it, one urgent write (the taint that keeps new pods off a machine that the cloud takes away)
// would share a busy API server evenly with a thousand writes that can wait.
package lane

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// Lane is how urgent a write is.
type Lane int

// The lanes, the least urgent first.
const (
	Routine  Lane = iota // all writes without a lane
	Urgent               // until the write is done, pods have no machine, or will have none
	Foremost             // until the write is done, pods get nodes on which they will be lost
	lanes
)

type key struct{}

// In puts the requests made with the context into a lane.
func In(ctx context.Context, lane Lane) context.Context { return context.WithValue(ctx, key{}, lane) }

// AtOnce is a limit for the writes under way at a time. It is above the number that one busy API server works on at once, and low
// enough that an urgent write waits for few others.
const AtOnce = 32

// patience is how many writes may overtake others before the write that has waited longest gets its turn, because no lane may starve.
const patience = 8

// Gate lets writes through, in the order of their lanes.
type Gate struct {
	limit int

	mu        sync.Mutex // guards the fields below
	underWay  int
	waiting   [lanes][]place
	places    int // the number of places given so far
	overtaken int // the number of writes that went before others since the longest waiting one had its turn
}

// place is the place of a waiting request.
type place struct {
	number int
	turn   chan struct{} // closed when it is the request's turn
}

// NewGate returns a gate that lets limit writes through at a time.
func NewGate(limit int) *Gate { return &Gate{limit: limit} }

// Wrap adds the gate to a transport. The signature is that of rest.Config.Wrap.
func (g *Gate) Wrap(next http.RoundTripper) http.RoundTripper { return transport{g, next} }

type transport struct {
	gate *Gate
	next http.RoundTripper
}

func (t transport) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method == http.MethodGet || request.Method == http.MethodHead || strings.Contains(request.URL.Path, "/leases/") {
		return t.next.RoundTrip(request)
	}
	if err := t.gate.enter(request.Context()); err != nil {
		return nil, err
	}
	defer t.gate.leave()
	return t.next.RoundTrip(request)
}

// enter waits for the request's turn. After an error, leave must not be called.
func (g *Gate) enter(ctx context.Context) error {
	lane, _ := ctx.Value(key{}).(Lane)
	g.mu.Lock()
	if g.underWay < g.limit {
		g.underWay++
		g.mu.Unlock()
		return nil
	}
	g.places++
	mine := place{number: g.places, turn: make(chan struct{})}
	g.waiting[lane] = append(g.waiting[lane], mine)
	g.mu.Unlock()
	select {
	case <-mine.turn:
		return nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(g.waiting[lane], mine); i >= 0 {
		g.waiting[lane] = slices.Delete(g.waiting[lane], i, i+1)
	} else {
		g.next() // the request got its turn at the same moment
	}
	return ctx.Err()
}

func (g *Gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.next()
}

// next gives the place of a finished request to a waiting one. The caller holds the lock.
func (g *Gate) next() {
	first, longest := -1, -1 // the lanes of the most urgent request, and of the one that has waited longest
	for lane, waiting := range g.waiting {
		if len(waiting) == 0 {
			continue
		}
		first = lane
		if longest < 0 || waiting[0].number < g.waiting[longest][0].number {
			longest = lane
		}
	}
	if first < 0 {
		g.underWay--
		return
	}
	g.overtaken++
	if first == longest || g.overtaken > patience {
		first, g.overtaken = longest, 0
	}
	close(g.waiting[first][0].turn)
	g.waiting[first] = g.waiting[first][1:]
}

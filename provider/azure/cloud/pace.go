package cloud

import (
	"net/http"
	"sync"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"golang.org/x/time/rate"
	"k8s.io/utils/clock"
)

// pace is a policy of the SDK that keeps calls below ARM's limits for a caller and a subscription: one token bucket each for reads, writes
// and deletions, as ARM documents them, minus a little for other programs. If Azure throttles a call anyway, the SDK waits for the time that
// Azure asks.
type pace struct {
	clock                  clock.Clock
	mu                     sync.Mutex // held while a turn is taken, because buckets need times in order
	reads, writes, deletes *rate.Limiter
}

func newPace(clock clock.Clock) *pace {
	return &pace{clock: clock, reads: rate.NewLimiter(24, 240), writes: rate.NewLimiter(9.5, 190), deletes: rate.NewLimiter(9.5, 190)}
}

// Do makes one attempt, once the bucket has a token.
func (p *pace) Do(request *policy.Request) (*http.Response, error) {
	bucket := p.writes
	switch request.Raw().Method {
	case http.MethodGet:
		bucket = p.reads
	case http.MethodDelete:
		bucket = p.deletes
	}
	p.mu.Lock()
	now := p.clock.Now()
	turn := bucket.ReserveN(now, 1)
	p.mu.Unlock()
	if wait := turn.DelayFrom(now); wait > 0 {
		timer := p.clock.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C():
		case <-request.Raw().Context().Done():
			turn.CancelAt(p.clock.Now())
			return nil, request.Raw().Context().Err()
		}
	}
	return request.Next()
}

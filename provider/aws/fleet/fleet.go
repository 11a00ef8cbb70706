package fleet

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/clock"

	"tenon.sh/provider/aws/cloud"
	"tenon.sh/provider/aws/find"
	"tenon.sh/provider/aws/pace"
	"tenon.sh/provider/aws/soldout"
	"tenon.sh/provider/aws/template"
	"tenon.sh/provider/batch"
)

// Config holds the settings of a Fleet.
type Config struct {
	Cloud     *cloud.Cloud
	Clock     clock.PassiveClock
	Templates *template.Templates
	Addresses *find.Addresses
	Slots     *find.Slots
	Marks     *soldout.Marks
	// Window is the time that a claim waits for equal claims; the zero value means 35 ms after the last claim, at most 1 s after the first,
	// and at most 1,000 claims.
	Window batch.Window
	// Observe, if set, is called for each batch. Refused, if set, is called for each refusal, with the ID of its zone.
	Observe func(open time.Duration, items int)
	Refused func(r Refusal, zoneID string)
	// Dealt, if set, is called for every started machine and its claim, before the launch returns.
	Dealt func(claim Claim, s Started)
}

// Claim is the claim that needs a machine.
type Claim struct{ Name, UID string }

// Started is a machine that EC2 started.
type Started struct {
	ID     string
	Offer  Offer
	Subnet string
	ZoneID string
	Token  string
}

// Fleet asks EC2 for machines. It may be used from several goroutines.
type Fleet struct {
	Config
	batcher *batch.Batcher[request, Started]
	trials  *trials
	// Tokens records which calls have ended, and whether EC2 answered.
	Tokens *Tokens
}

type request struct {
	order *Order
	claim Claim
}

// New makes a Fleet. It calls no service.
func New(config Config) *Fleet {
	if config.Window == (batch.Window{}) {
		config.Window = batch.Window{Idle: 35 * time.Millisecond, Most: time.Second, Items: 1000}
	}
	f := &Fleet{Config: config, trials: newTrials(config.Clock), Tokens: newTokens(config.Clock)}
	f.batcher = batch.New(batch.Config[request, Started]{
		Window: config.Window, ID: f.Tokens.begin, Call: f.call, Observe: config.Observe,
		Abandoned: func(token string) { f.Tokens.end(token, true) },
	})
	return f
}

// Start asks for a machine. Before it calls EC2, it calls `note` with the token that the machine will have as a tag. The error is a
// *RefusedError if EC2 refused, or an *UnansweredError if it is unknown whether there is a machine.
func (f *Fleet) Start(ctx context.Context, order *Order, claim Claim, note func(ctx context.Context, token string) error) (Started, error) {
	return f.batcher.Do(ctx, order.key(), request{order, claim}, note)
}

// newToken names a call by the time of its opening and a random number. The name has only characters that EC2 allows.
func newToken(now time.Time) string {
	var random [8]byte
	_, _ = rand.Read(random[:]) // it never fails
	return now.UTC().Format(tokenTime) + "-" + hex.EncodeToString(random[:])
}

const tokenTime = "20060102T150405Z"

// TokenTime returns the time at which a call was opened, from its token; the zero time if the token has none.
func TokenTime(token string) time.Time {
	text, _, _ := strings.Cut(token, "-")
	at, err := time.Parse(tokenTime, text)
	if err != nil {
		return time.Time{}
	}
	return at
}

// call starts machines for a group of claims with equal orders.
func (f *Fleet) call(ctx context.Context, token string, in []request) []batch.Result[Started] {
	out := make([]batch.Result[Started], len(in))
	order := in[0].order
	offers, err := f.offers(ctx, order)
	var unanswered *UnansweredError
	defer func() { f.Tokens.end(token, !errors.As(err, &unanswered)) }()
	done := 0
	for chunk := 0; err == nil && done < len(in); chunk++ {
		var started []Started
		want := f.some(len(in) - done)
		started, err = f.create(ctx, order, offers, want, fmt.Sprintf("%s-%d", token, chunk), token)
		for _, s := range started {
			if done == len(in) { // machines beyond the requested number belong to no claim
				break
			}
			out[done].Value = s
			if f.Dealt != nil {
				f.Dealt(in[done].claim, s)
			}
			done++
		}
	}
	f.trials.leave(offers)
	for i := done; i < len(in); i++ {
		out[i].Err = err
	}
	return out
}

// some returns the number of machines for one request: as many as EC2 lets the account start now, but at least ten.
func (f *Fleet) some(want int) int {
	const few = 10
	return min(want, max(few, f.Cloud.Pace.Left(pace.Machines)))
}

// offers returns the offers of an order that have not been found sold out while the group waited.
func (f *Fleet) offers(ctx context.Context, order *Order) ([]Offer, error) {
	for {
		left := slices.DeleteFunc(slices.Clone(order.Offers), func(o Offer) bool {
			if o.Reservation != "" {
				return f.Slots.Free(o.Reservation) <= 0
			}
			return f.Marks.Reason(o.InstanceType, o.CapacityType, order.place(o.Zone)) != ""
		})
		if len(left) == 0 {
			return nil, &RefusedError{}
		}
		allowed, err := f.trials.enter(ctx, left)
		if err != nil || len(allowed) > 0 {
			return allowed, err
		}
	}
}

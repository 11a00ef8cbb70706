package cloud

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"k8s.io/utils/clock"
)

// Patience is the time limit of one attempt at a call until its answer begins. The SDK tries four times.
const Patience = time.Minute

// maxRetryDelay is the longest time that the SDK waits between its attempts. If Azure asks for more, the call returns an error with the time
// to wait, so that its caller is not blocked.
const maxRetryDelay = 10 * time.Second

// TimedOutError means that Azure did not answer in time. The call may have been carried out.
type TimedOutError struct{ After time.Duration }

func (e *TimedOutError) Error() string { return fmt.Sprintf("Azure did not answer within %s", e.After) }

// patience is a policy of the SDK that ends attempts after Patience by the clock.
type patience struct{ clock clock.Clock }

// Do makes one attempt.
func (p patience) Do(request *policy.Request) (*http.Response, error) {
	ctx := request.Raw().Context()
	patient, giveUp := context.WithCancel(ctx)
	timer := p.clock.NewTimer(Patience)
	defer timer.Stop()
	answered := make(chan struct{})
	defer close(answered)
	var late atomic.Bool
	go func() {
		select {
		case <-timer.C():
			late.Store(true)
			giveUp()
		case <-answered:
		}
	}()
	response, err := request.Clone(patient).Next()
	if err != nil {
		giveUp()
		if late.Load() && ctx.Err() == nil {
			err = &TimedOutError{Patience}
		}
		return response, err
	}
	response.Body = &releasing{response.Body, giveUp}
	return response, nil
}

// releasing cancels a context once the body that needs it is closed.
type releasing struct {
	io.ReadCloser
	release func()
}

// Close closes the body.
func (r *releasing) Close() error {
	defer r.release()
	return r.ReadCloser.Close()
}

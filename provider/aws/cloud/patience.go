package cloud

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/middleware"
	smithymiddleware "github.com/aws/smithy-go/middleware"
	"k8s.io/utils/clock"
)

// Patience is the time limit of one attempt at a call, including the transfer of the answer. The SDK tries three times, so a launch without
// an answer ends before its claim is given up.
const Patience = time.Minute

// TimedOutError means that AWS did not answer in time. The call may have been carried out.
type TimedOutError struct {
	// Call is the action's name in policies.
	Call  string
	After time.Duration
}

func (e *TimedOutError) Error() string {
	return fmt.Sprintf("%s: AWS did not answer within %s", e.Call, e.After)
}

// Timeout returns true, so that the SDK tries again.
func (e *TimedOutError) Timeout() bool { return true }

// Bounded returns a configuration whose attempts at calls end after Patience by the clock, with or without an answer. Waiting for EC2's
// limits does not count.
func Bounded(cfg aws.Config, clock clock.Clock) aws.Config {
	cfg = cfg.Copy()
	cfg.APIOptions = append(cfg.APIOptions[:len(cfg.APIOptions):len(cfg.APIOptions)], func(stack *smithymiddleware.Stack) error {
		return stack.Deserialize.Add(bound(clock), smithymiddleware.Before)
	})
	return cfg
}

func bound(clock clock.Clock) smithymiddleware.DeserializeMiddleware {
	return smithymiddleware.DeserializeMiddlewareFunc("Patience", func(
		ctx context.Context, in smithymiddleware.DeserializeInput, next smithymiddleware.DeserializeHandler,
	) (smithymiddleware.DeserializeOutput, smithymiddleware.Metadata, error) {
		patient, giveUp := context.WithCancel(ctx)
		defer giveUp()
		timer := clock.NewTimer(Patience)
		defer timer.Stop()
		var late atomic.Bool
		go func() {
			select {
			case <-timer.C():
				late.Store(true)
				giveUp()
			case <-patient.Done():
			}
		}()
		out, metadata, err := next.HandleDeserialize(patient, in)
		if err != nil && late.Load() && ctx.Err() == nil {
			err = &TimedOutError{Action(middleware.GetServiceID(ctx), middleware.GetOperationName(ctx)), Patience}
		}
		return out, metadata, err
	})
}

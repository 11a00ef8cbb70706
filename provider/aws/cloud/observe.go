package cloud

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	smithymiddleware "github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// Outcome is the result of a request, or of one attempt.
type Outcome struct {
	// Service and Operation are the SDK's names, "EC2" and "DescribeSubnets".
	Service, Operation string
	// Status is the HTTP status, "0" if there was no answer.
	Status string
	Took   time.Duration
	// Retries is the number of attempts after the first.
	Retries int
}

// Observer is called for all requests to AWS. It is called from several goroutines.
type Observer interface {
	// Requested is called after a request has ended. Took includes all waits.
	Requested(Outcome)
	// Attempted is called after every attempt.
	Attempted(Outcome)
}

// Observed returns a configuration whose requests are reported to an Observer.
func Observed(cfg aws.Config, by Observer) aws.Config {
	cfg = cfg.Copy()
	cfg.APIOptions = append(cfg.APIOptions[:len(cfg.APIOptions):len(cfg.APIOptions)], func(stack *smithymiddleware.Stack) error {
		return errors.Join(stack.Initialize.Add(observeRequest(by), smithymiddleware.Before), stack.Finalize.Insert(observeAttempt(by), "Retry", smithymiddleware.After))
	})
	return cfg
}

func observeRequest(by Observer) smithymiddleware.InitializeMiddleware {
	return smithymiddleware.InitializeMiddlewareFunc("ObserveRequest", func(
		ctx context.Context, in smithymiddleware.InitializeInput, next smithymiddleware.InitializeHandler,
	) (smithymiddleware.InitializeOutput, smithymiddleware.Metadata, error) {
		began := time.Now()
		out, metadata, err := next.HandleInitialize(ctx, in)
		o := outcome(ctx, began, err)
		if attempts, known := retry.GetAttemptResults(metadata); known {
			o.Retries = max(0, len(attempts.Results)-1)
		}
		by.Requested(o)
		return out, metadata, err
	})
}

func observeAttempt(by Observer) smithymiddleware.FinalizeMiddleware {
	return smithymiddleware.FinalizeMiddlewareFunc("ObserveAttempt", func(
		ctx context.Context, in smithymiddleware.FinalizeInput, next smithymiddleware.FinalizeHandler,
	) (smithymiddleware.FinalizeOutput, smithymiddleware.Metadata, error) {
		began := time.Now()
		out, metadata, err := next.HandleFinalize(ctx, in)
		by.Attempted(outcome(ctx, began, err))
		return out, metadata, err
	})
}

func outcome(ctx context.Context, began time.Time, err error) Outcome {
	o := Outcome{Service: middleware.GetServiceID(ctx), Operation: middleware.GetOperationName(ctx), Status: "200", Took: time.Since(began)}
	if err != nil {
		o.Status = "0"
		if answer := (*smithyhttp.ResponseError)(nil); errors.As(err, &answer) && answer.Response != nil {
			o.Status = strconv.Itoa(answer.HTTPStatusCode())
		}
	}
	return o
}

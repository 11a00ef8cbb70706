package cloud

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/middleware"
	smithymiddleware "github.com/aws/smithy-go/middleware"
)

// Fenced returns a configuration with a check before each attempt of a call that starts or stops machines: the attempt first calls the function
// `may`, and fails if that returns an error. Later attempts check again, because time has passed while the call waited.
func Fenced(cfg aws.Config, may func(what string) error) aws.Config {
	if may == nil {
		return cfg
	}
	cfg = cfg.Copy()
	fence := smithymiddleware.FinalizeMiddlewareFunc("Fence", func(
		ctx context.Context, in smithymiddleware.FinalizeInput, next smithymiddleware.FinalizeHandler,
	) (smithymiddleware.FinalizeOutput, smithymiddleware.Metadata, error) {
		if call := middleware.GetOperationName(ctx); call == "CreateFleet" || call == "TerminateInstances" {
			if err := may("call ec2:" + call); err != nil {
				return smithymiddleware.FinalizeOutput{}, smithymiddleware.Metadata{}, err
			}
		}
		return next.HandleFinalize(ctx, in)
	})
	cfg.APIOptions = append(cfg.APIOptions[:len(cfg.APIOptions):len(cfg.APIOptions)], func(stack *smithymiddleware.Stack) error {
		return stack.Finalize.Insert(fence, "Retry", smithymiddleware.After)
	})
	return cfg
}

package cloud

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws/middleware"
	smithymiddleware "github.com/aws/smithy-go/middleware"

	"tenon.sh/provider/aws/pace"
)

// paced makes every attempt of a call to EC2 wait for its turn.
func paced(p *pace.Pace) func(*smithymiddleware.Stack) error {
	return func(stack *smithymiddleware.Stack) error {
		return stack.Finalize.Insert(smithymiddleware.FinalizeMiddlewareFunc("Pace", func(
			ctx context.Context, in smithymiddleware.FinalizeInput, next smithymiddleware.FinalizeHandler,
		) (smithymiddleware.FinalizeOutput, smithymiddleware.Metadata, error) {
			class := pace.ClassOf(middleware.GetOperationName(ctx))
			if err := p.Wait(ctx, class, 1); err != nil {
				return smithymiddleware.FinalizeOutput{}, smithymiddleware.Metadata{}, err
			}
			out, metadata, err := next.HandleFinalize(ctx, in)
			if Throttled(err) {
				p.Complained(class)
			}
			return out, metadata, err
		}), "Retry", smithymiddleware.After)
	}
}

package cloud

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/smithy-go"
	smithymiddleware "github.com/aws/smithy-go/middleware"
)

// An ExplainedError says what to do about an error of AWS that somebody has to do something about.
type ExplainedError struct {
	// Action is the one that failed as policies call it, "ec2:DescribeSubnets".
	Action string
	// Remedy is what to do.
	Remedy string
	Err    error
}

func (e *ExplainedError) Error() string { return e.Err.Error() + ": " + e.Remedy }
func (e *ExplainedError) Unwrap() error { return e.Err }

func middlewareList(list ...func(*smithymiddleware.Stack) error) []func(*smithymiddleware.Stack) error {
	return list
}

// explainErrors has every call of a client end in an ExplainedError where there is something to explain.
func explainErrors(stack *smithymiddleware.Stack) error {
	return stack.Initialize.Add(smithymiddleware.InitializeMiddlewareFunc("ExplainErrors", func(
		ctx context.Context, in smithymiddleware.InitializeInput, next smithymiddleware.InitializeHandler,
	) (smithymiddleware.InitializeOutput, smithymiddleware.Metadata, error) {
		out, metadata, err := next.HandleInitialize(ctx, in)
		return out, metadata, explain(middleware.GetServiceID(ctx), middleware.GetOperationName(ctx), err)
	}), smithymiddleware.Before)
}

// permission is what AWS says was missing. One call may need several: starting a machine is also passing it a role.
var permission = regexp.MustCompile(`not authorized to perform:? ([a-z0-9-]+:[A-Za-z]+)(?: on resource: (\S+))?`)

// missing is the action that is missing, and what it would be done to if AWS says so.
func missing(called string, err error) (action, resource string) {
	if found := permission.FindStringSubmatch(err.Error()); found != nil {
		return found[1], found[2]
	}
	return called, ""
}

func explain(service, operation string, err error) error {
	action, resource := Action(service, operation), ""
	if Denied(err) {
		action, resource = missing(action, err)
	}
	switch {
	case Denied(err) && refusedBy(err) != "":
		return &ExplainedError{action, refusedBy(err) + " forbids " + action + " to the controller: nothing that its role allows can change that", err}
	case Denied(err):
		return &ExplainedError{action, "allow " + action + " to the controller's role" + inStatement(action, resource), err}
	case hasCode(err, "ExpiredToken", "ExpiredTokenException", "RequestExpired"):
		return &ExplainedError{action, "the controller's credentials have expired: renew them, and look whether its clock is right", err}
	case Unknown(err):
		return &ExplainedError{action, "AWS does not accept the controller's credentials, or there are none: " +
			"give its service account a role (EKS Pod Identity or IRSA)", err}
	}
	return err
}

// refusedBy names what is above the role and forbids a call, if AWS says so.
func refusedBy(err error) string {
	switch text := err.Error(); {
	case strings.Contains(text, "with an explicit deny in a permissions boundary"):
		return "a permissions boundary"
	case strings.Contains(text, "with an explicit deny in a service control policy"):
		return "a service control policy"
	}
	return ""
}

// Action is the name of an operation in policies.
func Action(service, operation string) string {
	switch service {
	case "SQS":
		return "sqs:" + strings.TrimSuffix(operation, "Batch") // the same right for one and for many
	case "ARC Zonal Shift":
		return "arc-zonal-shift:" + operation
	default:
		return strings.ToLower(service) + ":" + operation
	}
}

// ActionOf is the action whose call ended in err, "" if none did.
func ActionOf(err error) string {
	if operation := (*smithy.OperationError)(nil); errors.As(err, &operation) {
		return Action(operation.ServiceID, operation.OperationName)
	}
	return ""
}

func inStatement(action, resource string) string {
	if sid := Statement(action, resource); sid != "" {
		return fmt.Sprintf(" (statement %s of the controller's policy)", sid)
	}
	return ""
}

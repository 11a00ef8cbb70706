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

// An ExplainedError adds a remedy to an error of AWS.
type ExplainedError struct {
	// Action is the failed action's name in policies, "ec2:DescribeSubnets".
	Action string
	// Remedy is the remedy.
	Remedy string
	Err    error
}

func (e *ExplainedError) Error() string { return e.Err.Error() + ": " + e.Remedy }
func (e *ExplainedError) Unwrap() error { return e.Err }

func middlewareList(list ...func(*smithymiddleware.Stack) error) []func(*smithymiddleware.Stack) error {
	return list
}

// explainErrors makes every call of a client return an ExplainedError if there is a remedy.
func explainErrors(stack *smithymiddleware.Stack) error {
	return stack.Initialize.Add(smithymiddleware.InitializeMiddlewareFunc("ExplainErrors", func(
		ctx context.Context, in smithymiddleware.InitializeInput, next smithymiddleware.InitializeHandler,
	) (smithymiddleware.InitializeOutput, smithymiddleware.Metadata, error) {
		out, metadata, err := next.HandleInitialize(ctx, in)
		return out, metadata, explain(middleware.GetServiceID(ctx), middleware.GetOperationName(ctx), err)
	}), smithymiddleware.Before)
}

// permission matches the missing permission in AWS's message. One call may need several: starting a machine includes passing it a role.
var permission = regexp.MustCompile(`not authorized to perform:? ([a-z0-9-]+:[A-Za-z]+)(?: on resource: (\S+))?`)

// missing returns the missing action, and its resource if AWS names it.
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

// refusedBy names a policy other than the role's own that forbids a call, if AWS's message mentions one.
func refusedBy(err error) string {
	switch text := err.Error(); {
	case strings.Contains(text, "with an explicit deny in a permissions boundary"):
		return "a permissions boundary"
	case strings.Contains(text, "with an explicit deny in a service control policy"):
		return "a service control policy"
	}
	return ""
}

// Action returns the name of an operation in policies.
func Action(service, operation string) string {
	switch service {
	case "SQS":
		return "sqs:" + strings.TrimSuffix(operation, "Batch") // one permission is for single calls and batches
	case "ARC Zonal Shift":
		return "arc-zonal-shift:" + operation
	default:
		return strings.ToLower(service) + ":" + operation
	}
}

// ActionOf returns the action whose call ended in err, "" if there is none.
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

package cloud

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/aws/smithy-go"
)

// Code returns AWS's code for an error, "" if AWS did not answer.
func Code(err error) string {
	if api := smithy.APIError(nil); errors.As(err, &api) {
		return api.ErrorCode()
	}
	return ""
}

func hasCode(err error, codes ...string) bool {
	code := Code(err)
	return code != "" && slices.Contains(codes, code)
}

// NotFound reports whether the requested object does not exist.
func NotFound(err error) bool {
	return hasCode(err, "InvalidCapacityReservationId.NotFound", "InvalidInstanceID.NotFound", "InvalidLaunchTemplateName.NotFoundException",
		"InvalidLaunchTemplateId.NotFound", "InvalidPlacementGroup.Unknown", "QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue", "NoSuchEntity",
		"NoSuchEntityException", "ParameterNotFound")
}

// AlreadyExists reports whether the object to be made exists already.
func AlreadyExists(err error) bool {
	return hasCode(err, "EntityAlreadyExists", "EntityAlreadyExistsException", "InvalidLaunchTemplateName.AlreadyExistsException")
}

// DryRunSucceeded reports whether a dry run would have succeeded as a real call.
func DryRunSucceeded(err error) bool { return hasCode(err, "DryRunOperation") }

// Denied reports whether AWS knows the caller but does not allow the call.
func Denied(err error) bool {
	return hasCode(err, "UnauthorizedOperation", "AccessDenied", "AccessDeniedException", "AuthorizationError", "NotAuthorized")
}

// Unknown reports whether AWS does not know the caller: the credentials are missing, wrong or have expired.
func Unknown(err error) bool {
	if hasCode(err, "ExpiredToken", "ExpiredTokenException", "RequestExpired", "InvalidClientTokenId", "AuthFailure", "UnrecognizedClientException",
		"SignatureDoesNotMatch", "InvalidSignatureException", "InvalidAccessKeyId", "IncompleteSignature", "MissingAuthenticationToken") {
		return true
	}
	// The SDK has no error type for missing credentials.
	return err != nil && Code(err) == "" && strings.Contains(err.Error(), "get identity: ")
}

// Throttled reports whether AWS refused a call because of a rate limit.
func Throttled(err error) bool {
	return hasCode(err, "RequestLimitExceeded", "Throttling", "ThrottlingException", "ThrottledException", "TooManyRequestsException",
		"RequestThrottled", "EC2ThrottledException", "SlowDown", "PriorRequestNotComplete", "BandwidthLimitExceeded")
}

// Passing reports whether the same call may succeed a little later, because AWS has a failure or is busy, because the network failed, or
// because the caller did not wait for the answer.
func Passing(err error) bool {
	if err == nil || Denied(err) || Unknown(err) {
		return false
	}
	if api := smithy.APIError(nil); errors.As(err, &api) && api.ErrorFault() != smithy.FaultServer {
		return Throttled(err) || hasCode(err, "InternalError", "InternalFailure", "ServiceUnavailable", "Unavailable")
	}
	return true
}

// Canceled reports whether the caller gave up.
func Canceled(err error) bool { return errors.Is(err, context.Canceled) }

package cloud

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/aws/smithy-go"
)

// Code is the word that AWS has for an error, "" if AWS did not answer.
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

// NotFound reports whether what was asked for does not exist.
func NotFound(err error) bool {
	return hasCode(err, "InvalidCapacityReservationId.NotFound", "InvalidInstanceID.NotFound", "InvalidLaunchTemplateName.NotFoundException",
		"InvalidLaunchTemplateId.NotFound", "InvalidPlacementGroup.Unknown", "QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue", "NoSuchEntity",
		"NoSuchEntityException", "ParameterNotFound")
}

// AlreadyExists reports whether what was to be made is there.
func AlreadyExists(err error) bool {
	return hasCode(err, "EntityAlreadyExists", "EntityAlreadyExistsException", "InvalidLaunchTemplateName.AlreadyExistsException")
}

// DryRunSucceeded reports whether a call that was only tried would have succeeded.
func DryRunSucceeded(err error) bool { return hasCode(err, "DryRunOperation") }

// Denied reports whether AWS knows who asks, and does not let them.
func Denied(err error) bool {
	return hasCode(err, "UnauthorizedOperation", "AccessDenied", "AccessDeniedException", "AuthorizationError", "NotAuthorized")
}

// Unknown reports whether AWS does not know who asks: the credentials are missing, wrong or have expired.
func Unknown(err error) bool {
	if hasCode(err, "ExpiredToken", "ExpiredTokenException", "RequestExpired", "InvalidClientTokenId", "AuthFailure", "UnrecognizedClientException",
		"SignatureDoesNotMatch", "InvalidSignatureException", "InvalidAccessKeyId", "IncompleteSignature", "MissingAuthenticationToken") {
		return true
	}
	// The SDK has no type for not having found any credentials.
	return err != nil && Code(err) == "" && strings.Contains(err.Error(), "get identity: ")
}

// Throttled reports whether AWS asks to be called less often.
func Throttled(err error) bool {
	return hasCode(err, "RequestLimitExceeded", "Throttling", "ThrottlingException", "ThrottledException", "TooManyRequestsException",
		"RequestThrottled", "EC2ThrottledException", "SlowDown", "PriorRequestNotComplete", "BandwidthLimitExceeded")
}

// Passing reports whether the same call may well succeed a little later: AWS is in trouble or busy, the network failed, or
// nobody waited for the answer.
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

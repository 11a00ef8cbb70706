package fleet

import (
	"fmt"
	"slices"
	"strings"

	"tenon.sh/engine"
)

// Refusal is EC2's statement that it starts no machine of an offering.
type Refusal struct {
	engine.OfferingID
	Subnet        string
	Code, Message string
}

const (
	codeNoAddress   = "InsufficientFreeAddressesInSubnet"
	codeNoSpotRole  = "AuthFailure.ServiceLinkedRoleCreationNotPermitted"
	codeNoTemplate  = "InvalidLaunchTemplateName.NotFoundException"
	codeNoTemplate2 = "InvalidLaunchTemplateId.NotFound"
	codeThrottled   = "RequestLimitExceeded"
	// codeTooFew is our own code: EC2 started fewer machines than requested, and gives no reason.
	codeTooFew = "TooFewInstancesReturned"

	textSpreadLimit = "limit of instances in this spread placement group"
)

// noCapacity reports whether the code means that there is no capacity, that a quota is used up, or that the price is above the limit.
func noCapacity(code string) bool {
	return tooDear(code) || slices.Contains([]string{
		"InsufficientInstanceCapacity", "MaxSpotInstanceCountExceeded", "VcpuLimitExceeded", "UnfulfillableCapacity", "Unsupported",
		codeNoAddress, "MaxFleetCountExceeded", "ReservationCapacityExceeded",
	}, code)
}

// tooDear reports whether the code means that a spot machine's price is above the request's limit. The limit is the on-demand price if the
// request has none. Fleets and machines use the code SpotMaxPriceTooLow, spot requests the status price-too-low.
func tooDear(code string) bool {
	return strings.Contains(code, "PriceTooLow") || code == "price-too-low"
}

// NoCapacity reports whether another offering may have capacity instead.
func (r *Refusal) NoCapacity() bool {
	return noCapacity(r.Code) || r.Code == codeNoSpotRole || r.spreadLimit()
}

// Cause returns EC2's code for the refusal. For a price, it adds EC2's message, which has the prices.
func (r *Refusal) Cause() string {
	if tooDear(r.Code) {
		return r.Code + ": " + r.Message
	}
	return r.Code
}

func (r *Refusal) spreadLimit() bool { return strings.Contains(r.Message, textSpreadLimit) }

func (r *Refusal) noTemplate() bool { return r.Code == codeNoTemplate || r.Code == codeNoTemplate2 }

// Reason returns the word for an error of EC2 in conditions and metrics; dashboards use these words. The rules are tried in this order,
// because a later one may match as well.
func Reason(code, message string) string {
	text := code + ": " + message
	has := func(part string) bool { return strings.Contains(text, part) }
	for _, known := range []struct {
		is     bool
		reason string
	}{
		{has(codeNoSpotRole), "SpotSLRCreationFailed"},
		{(has("UnauthorizedOperation") || has("AccessDenied") || has("AuthFailure")) && has("Not authorized for images"), "AMIAuthorizationFailure"},
		{has("UnauthorizedOperation") || has("AccessDenied") || has("AuthFailure"), "Unauthorized"},
		{has("InvalidParameter") && has("belong to different networks"), "SecurityGroupSubnetVPCMismatch"},
		{has("iamInstanceProfile.name is invalid"), "InstanceProfileNameInvalid"},
		{has(codeNoTemplate2) || has(codeNoTemplate), "LaunchTemplateNotFound"},
		{has("User data is limited to"), "UserDataSizeLimitExceeded"},
		{has("InvalidAMIID.Malformed"), "InvalidAMIID"},
		{has("InvalidAMIID.NotFound"), "AMINotFound"},
		{has(codeThrottled), codeThrottled},
		{has("InternalError"), "InternalError"},
		{has("not eligible for Free Tier"), "FreeTierIneligible"},
		{has("MaxFleetCountExceeded"), "FleetQuotaExceeded"},
		{has("PendingVerification"), "AccountPendingVerification"},
		{has("MaxSpotInstanceCountExceeded"), "SpotQuotaExceeded"},
		{tooDear(code), "SpotMaxPriceTooLow"},
		{has("VcpuLimitExceeded"), "VCPULimitExceeded"},
		{has(codeNoAddress), codeNoAddress},
	} {
		if known.is {
			return known.reason
		}
	}
	return "LaunchFailed"
}

// RefusedError means that EC2 started no machine for a claim although the call succeeded.
type RefusedError struct{ Refusals []Refusal }

func (e *RefusedError) Error() string {
	if len(e.Refusals) == 0 {
		return "nothing that was asked for has capacity at the moment"
	}
	var texts []string
	for _, r := range e.Refusals {
		if text := r.Code + ": " + r.Message; !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	const most = 3
	if len(texts) > most {
		texts = append(texts[:most], fmt.Sprintf("and %d more", len(texts)-most))
	}
	return "EC2 started no machine: " + strings.Join(texts, "; ")
}

// NoCapacity reports whether all refusals are for lack of capacity.
func (e *RefusedError) NoCapacity() bool {
	return !slices.ContainsFunc(e.Refusals, func(r Refusal) bool { return !r.NoCapacity() })
}

// Other returns the first refusal for another reason, nil if there is none.
func (e *RefusedError) Other() *Refusal {
	for i := range e.Refusals {
		if !e.Refusals[i].NoCapacity() {
			return &e.Refusals[i]
		}
	}
	return nil
}

// Throttled reports whether EC2 refused because of a rate limit.
func (r *Refusal) Throttled() bool { return r.Code == codeThrottled }

// UnansweredError means that EC2 may have started machines but did not answer.
type UnansweredError struct{ Err error }

func (e *UnansweredError) Error() string {
	return "EC2 did not answer, and may have started machines all the same: " + e.Err.Error()
}
func (e *UnansweredError) Unwrap() error { return e.Err }

// TooFew reports whether EC2 started fewer machines than requested, and gives no reason.
func (r *Refusal) TooFew() bool { return r.Code == codeTooFew }

// NoAddress reports whether the subnet has no free address.
func (r *Refusal) NoAddress() bool { return r.Code == codeNoAddress }

// NoSpot reports whether the account may start no spot machines at all.
func (r *Refusal) NoSpot() bool { return r.Code == codeNoSpotRole }

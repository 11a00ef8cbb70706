package fleet_test

import (
	"strings"
	"testing"
	"time"

	"tenon.sh/provider/aws/fleet"
)

func TestEveryErrorHasItsReason(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ code, message, want string }{
		{"AuthFailure.ServiceLinkedRoleCreationNotPermitted", "The provided credentials do not have permission", "SpotSLRCreationFailed"},
		{"UnauthorizedOperation", "with an explicit deny in a permissions boundary", "Unauthorized"},
		{"UnauthorizedOperation", "with an explicit deny in a service control policy", "Unauthorized"},
		{"AuthFailure", "Not authorized for images: [ami-1]", "AMIAuthorizationFailure"},
		{"AccessDenied", "no", "Unauthorized"},
		{"InvalidParameter", "Security group sg-1 and subnet subnet-1 belong to different networks.", "SecurityGroupSubnetVPCMismatch"},
		{"InvalidParameterValue", "Value (x) for parameter iamInstanceProfile.name is invalid.", "InstanceProfileNameInvalid"},
		{"InvalidLaunchTemplateId.NotFound", "", "LaunchTemplateNotFound"},
		{"InvalidLaunchTemplateName.NotFoundException", "", "LaunchTemplateNotFound"},
		{"InvalidUserData.Malformed", "User data is limited to 16384 bytes", "UserDataSizeLimitExceeded"},
		{"InvalidAMIID.Malformed", "", "InvalidAMIID"},
		{"InvalidAMIID.NotFound", "", "AMINotFound"},
		{"RequestLimitExceeded", "", "RequestLimitExceeded"},
		{"InternalError", "", "InternalError"},
		{"InvalidParameterCombination", "The specified instance type is not eligible for Free Tier.", "FreeTierIneligible"},
		{"MaxFleetCountExceeded", "", "FleetQuotaExceeded"},
		{"PendingVerification", "", "AccountPendingVerification"},
		{"MaxSpotInstanceCountExceeded", "", "SpotQuotaExceeded"},
		{"VcpuLimitExceeded", "", "VCPULimitExceeded"},
		{"SpotMaxPriceTooLow", "Your Spot request price of 0.1 is lower than the minimum", "SpotMaxPriceTooLow"},
		{"price-too-low", "", "SpotMaxPriceTooLow"},
		{"InsufficientFreeAddressesInSubnet", "", "InsufficientFreeAddressesInSubnet"},
		{"InsufficientInstanceCapacity", "", "LaunchFailed"},
		{"", "", "LaunchFailed"},
	} {
		if got := fleet.Reason(test.code, test.message); got != test.want {
			t.Errorf("%s, %q: %s, want %s", test.code, test.message, got, test.want)
		}
	}
}

func TestLackOfCapacityIsToldFromOtherErrors(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]bool{
		"InsufficientInstanceCapacity": true, "MaxSpotInstanceCountExceeded": true, "VcpuLimitExceeded": true, "UnfulfillableCapacity": true, "Unsupported": true,
		"InsufficientFreeAddressesInSubnet": true, "MaxFleetCountExceeded": true, "ReservationCapacityExceeded": true,
		"AuthFailure.ServiceLinkedRoleCreationNotPermitted": true, "SpotMaxPriceTooLow": true, "price-too-low": true,
		"RequestLimitExceeded": false, "InternalError": false, "UnauthorizedOperation": false, "": false,
	} {
		if r := (fleet.Refusal{Code: code}); r.NoCapacity() != want {
			t.Errorf("%s: %t", code, r.NoCapacity())
		}
	}
	spread := fleet.Refusal{Code: "InvalidParameterValue", Message: "You have reached the limit of instances in this spread placement group"}
	if !spread.NoCapacity() {
		t.Error("a full placement group is lack of capacity")
	}
}

func TestAnErrorSaysEachThingOnce(t *testing.T) {
	t.Parallel()
	err := &fleet.RefusedError{}
	for range 100 {
		err.Refusals = append(err.Refusals, fleet.Refusal{Code: "UnfulfillableCapacity", Message: "none"})
	}
	if text := err.Error(); strings.Count(text, "UnfulfillableCapacity") != 1 {
		t.Error(text)
	}
}

func TestATokenSaysWhenItWasMade(t *testing.T) {
	t.Parallel()
	if at := fleet.TokenTime("20260601T120000Z-0011223344556677"); !at.Equal(time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)) {
		t.Error(at)
	}
	for _, token := range []string{"", "x", "-", "2026-06-01"} {
		if at := fleet.TokenTime(token); !at.IsZero() {
			t.Errorf("%q: %s", token, at)
		}
	}
}

package aws_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider"
	"tenon.sh/provider/aws/awstest"
)

// Spot machines of one type in one zone cost more than the limit of a request. Claims that allow another offering get it in the same call.
// Other claims are given up immediately, with the prices. No other offering is marked, and the mark ends.
func TestSpotThatIsTooDearHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, untried)
	c := w.resolved("general", nil)
	dear := engine.OfferingID{InstanceType: "m5.large", Zone: "us-west-2a", CapacityType: v1.CapacityTypeSpot}
	w.account.Limit(awstest.Offering{InstanceType: dear.InstanceType, Zone: dear.Zone, CapacityType: dear.CapacityType}, 0, "SpotMaxPriceTooLow")
	kind, zone := in(corev1.LabelInstanceTypeStable, "m5.large"), in(corev1.LabelTopologyZone, "us-west-2a")
	spot := in(v1.CapacityTypeLabelKey, v1.CapacityTypeSpot)
	var claims []*v1.NodeClaim
	for i := range 6 {
		claims = append(claims,
			w.claim(fmt.Sprint("another-zone-", i), c, kind, spot),
			w.claim(fmt.Sprint("on-demand-", i), c, kind, zone),
			w.claim(fmt.Sprint("neither-", i), c, kind, zone, spot))
	}
	failed := w.tryAll(claims, c)
	for _, claim := range claims {
		err := failed[claim.Name]
		if !strings.HasPrefix(claim.Name, "neither-") {
			if err != nil {
				t.Errorf("%s: %v", claim.Name, err)
			}
			continue
		}
		soldOut := (*provider.SoldOutError)(nil)
		if !errors.As(err, &soldOut) || !slices.Equal(soldOut.Offerings, []engine.OfferingID{dear}) || !strings.Contains(err.Error(), "SpotMaxPriceTooLow: Your Spot request price of 0.096") {
			t.Errorf("%s: %v", claim.Name, err)
		}
	}
	soldOut := func() (out []engine.OfferingID) {
		for _, it := range w.catalog(c) {
			for _, o := range it.Offerings {
				if o.SoldOut && it.Name == dear.InstanceType {
					out = append(out, engine.OfferingID{InstanceType: it.Name, Zone: o.Zone, CapacityType: o.CapacityType})
				}
			}
		}
		return out
	}
	if got := soldOut(); !slices.Equal(got, []engine.OfferingID{dear}) {
		t.Errorf("sold out: %v", got)
	}
	before := len(w.account.Calls("ec2:CreateFleet"))
	_, err := w.provider.Launch(t.Context(), w.claim("late", c, kind, zone, spot), seen(c))
	if n := len(w.account.Calls("ec2:CreateFleet")); n != before || err == nil || !strings.Contains(err.Error(), "price of 0.1041") {
		t.Errorf("%d more calls, %v", n-before, err)
	}
	w.account.Unlimit()
	w.clock.Step(4 * time.Minute)
	if m := w.launch(w.claim("later", c, kind, zone, spot), c); m.Labels[v1.CapacityTypeLabelKey] != v1.CapacityTypeSpot {
		t.Errorf("machine %v", m.Labels)
	}
}

// EC2 does not always name the offering, and may refuse the whole call. The refusal then concerns all requested offerings.
func TestARefusalThatNamesNothingIsAboutAll(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"SpotMaxPriceTooLow", "MaxSpotInstanceCountExceeded"} {
		for name, refuse := range map[string]func(w *world){
			"nameless": func(w *world) {
				w.account.Limit(awstest.Offering{CapacityType: v1.CapacityTypeSpot}, 0, code)
				w.account.Anonymize()
			},
			"the call": func(w *world) {
				w.account.Fail("ec2:CreateFleet", awstest.Fault{Times: 1, Code: code, Message: "The price 0.1 is too low."})
			},
		} {
			t.Run(code+" "+name, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, untried)
				c := w.resolved("general", nil)
				refuse(w)
				kind := in(corev1.LabelInstanceTypeStable, "m5.large")
				_, err := w.provider.Launch(t.Context(), w.claim("a", c, kind, in(v1.CapacityTypeLabelKey, "spot")), seen(c))
				if soldOut := (*provider.SoldOutError)(nil); !errors.As(err, &soldOut) || len(soldOut.Offerings) < 2 || !strings.HasPrefix(soldOut.Cause, code) {
					t.Errorf("got %v", err)
				}
				if n := len(w.account.Calls("ec2:CreateFleet")); n != 1 {
					t.Errorf("%d calls", n)
				}
				if m := w.launch(w.claim("b", c, kind), c); m.Labels[v1.CapacityTypeLabelKey] != v1.CapacityTypeOnDemand {
					t.Errorf("machine %v", m.Labels)
				}
			})
		}
	}
}

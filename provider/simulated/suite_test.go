package simulated_test

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"

	"tenon.sh/api/kwokv1alpha1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider"
	"tenon.sh/provider/catalog"
	"tenon.sh/provider/providertest"
	"tenon.sh/provider/simulated"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func TestProvider(t *testing.T) {
	termination := simulated.Stage{Median: 25 * time.Second, Sigma: 0.5}
	lagging := simulated.LagModel{Describe: simulated.Stage{Median: time.Second, Sigma: 1}, List: 10 * time.Second}
	for name, profile := range map[string]simulated.Profile{
		"instant":  {},
		"fixed":    {Boot: simulated.BootModel{Fixed: 30 * time.Second}, Termination: termination},
		"lagging":  {Lag: lagging, Termination: termination},
		"catalogs": {Spot: simulated.SpotModel{PricesMove: true}},
		"azure":    {Spot: simulated.SpotModel{PricesMove: true}},
		"reserved": {Termination: termination},
	} {
		t.Run(name, func(t *testing.T) {
			types := catalog.KWOK()
			switch name {
			case "catalogs":
				types = catalog.AWS()
			case "azure":
				types = catalog.Azure(catalog.AzureRegion, true)
			}
			if name == "reserved" {
				types = withReservation(types)
			}
			providertest.Run(t, func(t *testing.T) providertest.Fixture { return newFixture(t, types, profile) })
		})
	}
}

// withReservation adds a reservation of two machines to the last type, in its first zone.
func withReservation(types []engine.InstanceType) []engine.InstanceType {
	types = slices.Clone(types)
	last := &types[len(types)-1]
	last.Offerings = append(slices.Clone(last.Offerings), engine.Offering{
		Zone: last.Offerings[0].Zone, CapacityType: v1.CapacityTypeReserved, Price: last.Offerings[0].Price / 2,
		Reservation: "cr-1", Slots: 2, Labels: map[string]string{catalog.ReservationLabel: "cr-1"},
	})
	return types
}

func newFixture(t *testing.T, types []engine.InstanceType, profile simulated.Profile) providertest.Fixture {
	clock := testclock.NewFakePassiveClock(start)
	cloud, err := simulated.NewCloud(simulated.Config{Seed: 1, Clock: clock, Catalog: types, Profile: profile})
	if err != nil {
		t.Fatal(err)
	}
	return providertest.Fixture{
		Provider: simulated.New(cloud),
		Class:    readyClass(),
		NotReady: notReadyClass(),
		NewClaim: newClaim,
		Settle:   func(*testing.T) { clock.SetTime(clock.Now().Add(3 * time.Minute)) },
		SellOut: func(t *testing.T, offerings ...engine.OfferingID) {
			for _, o := range offerings {
				sellOut(t, cloud, o)
			}
		},
	}
}

func sellOut(t *testing.T, cloud *simulated.Cloud, o engine.OfferingID) {
	t.Helper()
	selector := simulated.Selector{InstanceType: o.InstanceType, Zone: o.Zone, CapacityType: o.CapacityType}
	if err := cloud.Inject(simulated.Fault{What: simulated.FaultShort, Selector: selector}); err != nil {
		t.Fatal(err)
	}
}

func newClaim(_ *testing.T, name string, requirements []v1.Requirement, requests corev1.ResourceList) *v1.NodeClaim {
	claim := &v1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-of-" + name)}}
	claim.Spec.Requirements, claim.Spec.Resources.Requests = requirements, requests
	return claim
}

func readyClass() provider.Class {
	class := &kwokv1alpha1.KWOKNodeClass{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	return provider.Class{Ref: v1.NodeClassReference{Group: "karpenter.kwok.sh", Kind: "KWOKNodeClass", Name: "default"}, Object: class}
}

func notReadyClass() provider.Class {
	class := readyClass()
	class.Object.(*kwokv1alpha1.KWOKNodeClass).Status.Conditions = []metav1.Condition{
		{Type: v1.ConditionReady, Status: metav1.ConditionFalse, Reason: "Broken", Message: "it is broken"},
	}
	return class
}

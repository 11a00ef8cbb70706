// Package providertest is the test suite that every provider must pass. It tests the contract of the interface provider.Provider. Properties of a
// single cloud are tested by that provider's own tests.
package providertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider"
)

// Fixture is a provider without machines, and the functions that the suite needs to test it. Its catalog has at least three instance types.
// At least one of them is sold in two zones or more.
type Fixture struct {
	Provider provider.Provider
	// Class can be used, NotReady cannot.
	Class, NotReady provider.Class
	// NewClaim makes a claim as the controllers would, with a UID, and stores it if the provider reads claims.
	NewClaim func(t *testing.T, name string, requirements []v1.Requirement, requests corev1.ResourceList) *v1.NodeClaim
	// Settle lets time pass: afterwards, started machines run and stopped machines are gone.
	Settle func(t *testing.T)
	// SellOut takes the capacity of these offerings away, without telling the provider.
	SellOut func(t *testing.T, offerings ...engine.OfferingID)
}

// Run tests a provider. It calls newFixture once for each part; the parts run in parallel.
func Run(t *testing.T, newFixture func(t *testing.T) Fixture) {
	for name, part := range map[string]func(*testing.T, Fixture){
		"the provider names itself and its kinds":                 namesItself,
		"the catalog is ordered and complete":                     catalogIsComplete,
		"a class that is ready has no problem":                    resolves,
		"a class that is not ready starts nothing":                notReadyStartsNothing,
		"a launch is the cheapest offering that is listed":        launchesTheCheapest,
		"a launch is the cheapest by corrected prices":            launchesTheCheapestByCorrectedPrices,
		"a launch is what the catalog says of its type":           launchMatchesCatalog,
		"a launch respects requirements":                          launchRespectsRequirements,
		"a launch holds what the claim asks for":                  launchHoldsRequests,
		"a claim that nothing meets is an error with a name":      nothingMeets,
		"launching a claim again gives the same machine":          launchIsIdempotent,
		"eight callers launching one claim get one machine":       launchIsIdempotentAtOnce,
		"many claims launched at once get a machine each":         launchesAtOnce,
		"machines lists exactly what runs":                        listsWhatRuns,
		"a terminated machine is gone in the end":                 terminates,
		"an unknown machine is gone":                              unknownIsGone,
		"a sold-out launch names the offerings":                   soldOutNamesOfferings,
		"a launch falls back to what is not sold out":             fallsBack,
		"a reservation is used up, and is given back":             countsReservations,
		"a call whose context has ended fails and starts nothing": heedsContext,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			part(t, newFixture(t))
		})
	}
}

func namesItself(t *testing.T, f Fixture) {
	if f.Provider.Name() == "" {
		t.Error("no name")
	}
	kinds := f.Provider.Kinds()
	if len(kinds) == 0 || kinds[0].Kind == "" || kinds[0].Version == "" {
		t.Errorf("kinds %v", kinds)
	}
}

func catalogIsComplete(t *testing.T, f Fixture) {
	types := f.catalog(t)
	if len(types) < 3 {
		t.Fatalf("%d types, the suite needs three", len(types))
	}
	if !slices.IsSortedFunc(types, func(a, b engine.InstanceType) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("not ordered by name")
	}
	keys := map[string]bool{}
	for _, it := range types {
		for key := range it.Labels {
			keys[key] = true
		}
	}
	for i, it := range types {
		if i > 0 && it.Name == types[i-1].Name {
			t.Errorf("%s is there twice", it.Name)
		}
		for _, key := range []string{corev1.LabelArchStable, corev1.LabelOSStable} {
			if len(it.Labels[key]) == 0 {
				t.Errorf("%s has no label %s", it.Name, key)
			}
		}
		for key := range keys {
			if _, listed := it.Labels[key]; !listed {
				t.Errorf("%s does not say what its label %s is, which others have", it.Name, key)
			}
		}
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourcePods} {
			if q := it.Capacity[name]; q.Sign() <= 0 {
				t.Errorf("%s has no %s", it.Name, name)
			}
		}
		for _, o := range it.Offerings {
			if o.Price < 0 || o.Zone == "" || !slices.Contains([]string{v1.CapacityTypeOnDemand, v1.CapacityTypeSpot, v1.CapacityTypeReserved}, o.CapacityType) {
				t.Errorf("%s: bad offering %+v", it.Name, o)
			}
		}
	}
}

func resolves(t *testing.T, f Fixture) {
	if problem, err := f.Provider.Resolve(t.Context(), f.Class); problem != "" || err != nil {
		t.Errorf("problem %q, error %v", problem, err)
	}
	if problem, err := f.Provider.Resolve(t.Context(), f.NotReady); problem == "" || err != nil {
		t.Errorf("a class that is not ready: problem %q, error %v", problem, err)
	}
}

func notReadyStartsNothing(t *testing.T, f Fixture) {
	_, err := f.Provider.Launch(t.Context(), f.NewClaim(t, "a", nil, nil), f.NotReady)
	if notReady := (*provider.ClassNotReadyError)(nil); !errors.As(err, &notReady) || notReady.Problem == "" {
		t.Errorf("got %v, want a ClassNotReadyError", err)
	}
	f.wantMachines(t)
}

func launchesTheCheapest(t *testing.T, f Fixture) {
	types := f.catalog(t)
	names := []string{types[0].Name, types[1].Name, types[len(types)-1].Name}
	claim := f.NewClaim(t, "a", []v1.Requirement{in(corev1.LabelInstanceTypeStable, names...)}, nil)
	got := offeringOf(f.launch(t, claim))
	want, best := engine.OfferingID{}, engine.Offering{}
	for _, it := range types {
		for _, o := range it.Offerings {
			if slices.Contains(names, it.Name) && (want.Zone == "" || o.Price < best.Price) {
				want, best = engine.OfferingID{InstanceType: it.Name, Zone: o.Zone, CapacityType: o.CapacityType}, o
			}
		}
	}
	for _, it := range types {
		for _, o := range it.Offerings { // of several at the lowest price, the cloud may choose
			id := engine.OfferingID{InstanceType: it.Name, Zone: o.Zone, CapacityType: o.CapacityType}
			if o.Price == best.Price && slices.Contains(names, it.Name) && id == got {
				return
			}
		}
	}
	t.Errorf("launched %s, want %s or another at %v", got, want, best.Price)
}

// launchesTheCheapestByCorrectedPrices makes the dearest of some offerings the cheapest by NodeOverlays.
func launchesTheCheapestByCorrectedPrices(t *testing.T, f Fixture) {
	types := f.catalog(t)
	names := []string{types[0].Name, types[1].Name, types[len(types)-1].Name}
	want, dearest := engine.OfferingID{}, -1.0
	for _, it := range types {
		for _, o := range it.Offerings {
			if slices.Contains(names, it.Name) && !o.SoldOut && o.Reservation == "" && o.CapacityType == v1.CapacityTypeOnDemand && o.Price > dearest {
				want, dearest = idOf(it, o), o.Price
			}
		}
	}
	claim := f.NewClaim(t, "a", []v1.Requirement{in(corev1.LabelInstanceTypeStable, names...), in(v1.CapacityTypeLabelKey, v1.CapacityTypeOnDemand)}, nil)
	if claim.Annotations == nil {
		claim.Annotations = map[string]string{}
	}
	claim.Annotations[v1.PriceOverlayAppliedAnnotationKey] = "true"
	class := f.Class
	class.Correct = func(sold []engine.InstanceType) []engine.InstanceType {
		out := slices.Clone(sold)
		for i := range out {
			out[i].Offerings = slices.Clone(out[i].Offerings)
			for j := range out[i].Offerings {
				if o := &out[i].Offerings[j]; idOf(out[i], *o) == want {
					o.Price, o.Overlay = 1e-6, "deal"
				}
			}
		}
		return out
	}
	f.Class = class
	if got := offeringOf(f.launch(t, claim)); got.InstanceType != want.InstanceType || got.Zone != want.Zone {
		t.Errorf("launched %s, want %s", got, want)
	}
}

func launchMatchesCatalog(t *testing.T, f Fixture) {
	it := f.catalog(t)[0]
	claim := f.NewClaim(t, "a", []v1.Requirement{in(corev1.LabelInstanceTypeStable, it.Name)}, nil)
	m := f.launch(t, claim)
	if m.ID == "" || m.Claim != claim.Name || m.ClaimUID != string(claim.UID) || m.Created.IsZero() || m.Leaving {
		t.Errorf("machine %+v", m)
	}
	for key, values := range it.Labels {
		if len(values) == 1 && m.Labels[key] != values[0] || len(values) == 0 && m.Labels[key] != "" {
			t.Errorf("label %s is %q, the catalog says %q", key, m.Labels[key], values)
		}
	}
	for name, want := range it.Capacity {
		if got := m.Capacity[name]; got.Cmp(want) != 0 {
			t.Errorf("capacity %s is %s, want %s", name, got.String(), want.String())
		}
		want.Sub(it.Overhead[name])
		if got := m.Allocatable[name]; got.Cmp(want) > 0 || got.Sign() < 0 {
			t.Errorf("allocatable %s is %s, want at most %s", name, got.String(), want.String())
		}
	}
}

func launchRespectsRequirements(t *testing.T, f Fixture) {
	it := f.severalZones(t)
	for i, o := range it.Offerings {
		claim := f.NewClaim(t, fmt.Sprintf("claim-%d", i), []v1.Requirement{
			in(corev1.LabelInstanceTypeStable, it.Name),
			in(corev1.LabelTopologyZone, o.Zone),
			in(v1.CapacityTypeLabelKey, o.CapacityType),
			in("example.com/team", "a"), // the cloud ignores the claim's own label
			{Key: corev1.LabelArchStable, Operator: v1.Exists},
		}, nil)
		want := engine.OfferingID{InstanceType: it.Name, Zone: o.Zone, CapacityType: o.CapacityType}
		if got := offeringOf(f.launch(t, claim)); got != want {
			t.Errorf("launched %s, want %s", got, want)
		}
	}
	not := v1.Requirement{Key: corev1.LabelTopologyZone, Operator: v1.NotIn, Values: []string{it.Offerings[0].Zone}}
	claim := f.NewClaim(t, "elsewhere", []v1.Requirement{in(corev1.LabelInstanceTypeStable, it.Name), not}, nil)
	if got := offeringOf(f.launch(t, claim)); got.Zone == it.Offerings[0].Zone {
		t.Errorf("launched %s, which the claim excludes", got)
	}
}

func launchHoldsRequests(t *testing.T, f Fixture) {
	types := f.catalog(t)
	largest := slices.MaxFunc(types, func(a, b engine.InstanceType) int { return a.Capacity.Cpu().Cmp(*b.Capacity.Cpu()) })
	smallest := slices.MinFunc(types, func(a, b engine.InstanceType) int { return a.Capacity.Cpu().Cmp(*b.Capacity.Cpu()) })
	requests := corev1.ResourceList{corev1.ResourceCPU: *smallest.Capacity.Cpu()} // the overhead makes it too small
	names := in(corev1.LabelInstanceTypeStable, smallest.Name, largest.Name)
	if got := offeringOf(f.launch(t, f.NewClaim(t, "a", []v1.Requirement{names}, requests))); got.InstanceType != largest.Name {
		t.Errorf("launched %s, want the larger %s", got, largest.Name)
	}
}

func nothingMeets(t *testing.T, f Fixture) {
	huge := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1000000")}
	for name, claim := range map[string]*v1.NodeClaim{
		"unknown type": f.NewClaim(t, "a", []v1.Requirement{in(corev1.LabelInstanceTypeStable, "no-such-type")}, nil),
		"unknown zone": f.NewClaim(t, "b", []v1.Requirement{in(corev1.LabelTopologyZone, "no-such-zone")}, nil),
		"huge":         f.NewClaim(t, "c", nil, huge),
	} {
		_, err := f.Provider.Launch(t.Context(), claim, f.Class)
		if launch := (*provider.LaunchError)(nil); !errors.As(err, &launch) || launch.Reason == "" || !strings.Contains(err.Error(), claim.Name) {
			t.Errorf("%s: got %v, want a LaunchError with a reason that names the claim", name, err)
		}
	}
	f.wantMachines(t)
}

func launchIsIdempotent(t *testing.T, f Fixture) {
	claim := f.NewClaim(t, "a", nil, nil)
	first := f.launch(t, claim)
	if second := f.launch(t, claim); second.ID != first.ID || offeringOf(second) != offeringOf(first) {
		t.Errorf("first %s, then %s", first.ID, second.ID)
	}
	f.Settle(t)
	if third := f.launch(t, claim); third.ID != first.ID {
		t.Errorf("first %s, later %s", first.ID, third.ID)
	}
	f.wantMachines(t, first.ID)
}

func launchIsIdempotentAtOnce(t *testing.T, f Fixture) {
	claim := f.NewClaim(t, "a", nil, nil)
	ids := make([]engine.MachineID, 8)
	f.atOnce(t, len(ids), func(i int) error {
		m, err := f.Provider.Launch(t.Context(), claim.DeepCopy(), f.Class)
		ids[i] = m.ID
		return err
	})
	if slices.Sort(ids); ids[0] != ids[7] {
		t.Errorf("one claim got the machines %v", slices.Compact(ids))
	}
	f.wantMachines(t, ids[0])
}

func launchesAtOnce(t *testing.T, f Fixture) {
	claims := []*v1.NodeClaim{}
	for i := range 16 {
		claims = append(claims, f.NewClaim(t, fmt.Sprintf("claim-%d", i), nil, nil))
	}
	ids := make([]engine.MachineID, len(claims))
	f.atOnce(t, len(claims), func(i int) error {
		m, err := f.Provider.Launch(t.Context(), claims[i], f.Class)
		if err != nil {
			return err
		}
		ids[i] = m.ID
		_, err = f.Provider.Machine(t.Context(), m.ID)
		return err
	})
	f.wantMachines(t, ids...)
	f.atOnce(t, len(ids), func(i int) error { return f.Provider.Terminate(t.Context(), ids[i]) })
	f.Settle(t)
	f.wantMachines(t)
}

func listsWhatRuns(t *testing.T, f Fixture) {
	f.wantMachines(t)
	a := f.launch(t, f.NewClaim(t, "a", nil, nil))
	b := f.launch(t, f.NewClaim(t, "b", nil, nil))
	f.wantMachines(t, a.ID, b.ID)
	f.Settle(t)
	f.wantMachines(t, a.ID, b.ID)
	got, err := f.Provider.Machine(t.Context(), a.ID)
	if err != nil || got.ID != a.ID || got.Claim != "a" || got.ClaimUID != a.ClaimUID || offeringOf(got) != offeringOf(a) {
		t.Errorf("machine %+v, %v; want %+v", got, err, a)
	}
}

func terminates(t *testing.T, f Fixture) {
	m := f.launch(t, f.NewClaim(t, "a", nil, nil))
	other := f.launch(t, f.NewClaim(t, "b", nil, nil))
	f.Settle(t)
	if err := f.Provider.Terminate(t.Context(), m.ID); err != nil {
		t.Fatal(err)
	}
	if got, err := f.Provider.Machine(t.Context(), m.ID); err == nil && !got.Leaving {
		t.Errorf("a machine that was told to stop is not leaving: %+v", got)
	}
	f.Settle(t)
	for range 2 {
		if err := f.Provider.Terminate(t.Context(), m.ID); !errors.Is(err, provider.ErrGone) {
			t.Errorf("terminate again: %v, want ErrGone", err)
		}
		if _, err := f.Provider.Machine(t.Context(), m.ID); !errors.Is(err, provider.ErrGone) {
			t.Errorf("machine: %v, want ErrGone", err)
		}
	}
	f.wantMachines(t, other.ID)
}

func unknownIsGone(t *testing.T, f Fixture) {
	for _, id := range []engine.MachineID{"simulated://nowhere", "kwok://nowhere", "nonsense", ""} {
		if _, err := f.Provider.Machine(t.Context(), id); !errors.Is(err, provider.ErrGone) {
			t.Errorf("machine %q: %v, want ErrGone", id, err)
		}
		if err := f.Provider.Terminate(t.Context(), id); !errors.Is(err, provider.ErrGone) {
			t.Errorf("terminate %q: %v, want ErrGone", id, err)
		}
	}
}

func soldOutNamesOfferings(t *testing.T, f Fixture) {
	it := f.severalZones(t)
	all := []engine.OfferingID{}
	for _, o := range it.Offerings {
		all = append(all, idOf(it, o))
	}
	f.SellOut(t, all...)
	claim := f.NewClaim(t, "a", []v1.Requirement{in(corev1.LabelInstanceTypeStable, it.Name)}, nil)
	for range 2 { // the second time, the provider may know beforehand that the offerings are sold out
		_, err := f.Provider.Launch(t.Context(), claim, f.Class)
		soldOut := (*provider.SoldOutError)(nil)
		if !errors.As(err, &soldOut) {
			t.Fatalf("got %v, want a SoldOutError", err)
		}
		for _, id := range all {
			if !slices.Contains(soldOut.Offerings, id) {
				t.Errorf("%s is not named in: %v", id, err)
			}
		}
	}
	f.wantMachines(t)
	for _, now := range f.catalog(t) {
		for _, o := range now.Offerings {
			if now.Name == it.Name && !o.SoldOut {
				t.Errorf("the catalog still offers %s in %s %s", it.Name, o.Zone, o.CapacityType)
			}
		}
	}
}

func fallsBack(t *testing.T, f Fixture) {
	it := f.severalZones(t)
	first := it.Offerings[0].Zone
	sold := []engine.OfferingID{}
	for _, o := range it.Offerings {
		if o.Zone == first {
			sold = append(sold, idOf(it, o))
		}
	}
	f.SellOut(t, sold...)
	claim := f.NewClaim(t, "a", []v1.Requirement{in(corev1.LabelInstanceTypeStable, it.Name)}, nil)
	if got := offeringOf(f.launch(t, claim)); got.Zone == first {
		t.Errorf("launched %s, which is sold out", got)
	}
}

// countsReservations uses the first offering of the catalog that draws from a reservation. Without one, it tests nothing.
func countsReservations(t *testing.T, f Fixture) {
	it, reserved := engine.InstanceType{}, engine.Offering{}
	for _, kind := range f.catalog(t) {
		for _, o := range kind.Offerings {
			if o.Reservation != "" && o.Slots > 0 && reserved.Reservation == "" {
				it, reserved = kind, o
			}
		}
	}
	if reserved.Reservation == "" {
		return
	}
	requirements := []v1.Requirement{in(corev1.LabelInstanceTypeStable, it.Name), in(corev1.LabelTopologyZone, reserved.Zone), in(v1.CapacityTypeLabelKey, reserved.CapacityType)}
	for key, value := range reserved.Labels {
		requirements = append(requirements, in(key, value))
	}
	machines := []engine.Machine{}
	for i := range reserved.Slots {
		m := f.launch(t, f.NewClaim(t, fmt.Sprintf("reserved-%d", i), requirements, nil))
		for key, value := range reserved.Labels {
			if m.Labels[key] != value {
				t.Errorf("%s has label %s=%s, want %s", m.ID, key, m.Labels[key], value)
			}
		}
		machines = append(machines, m)
		f.wantSlots(t, it, reserved, reserved.Slots-i-1)
	}
	_, err := f.Provider.Launch(t.Context(), f.NewClaim(t, "one-too-many", requirements, nil), f.Class)
	if soldOut := (*provider.SoldOutError)(nil); !errors.As(err, &soldOut) || !slices.Contains(soldOut.Offerings, idOf(it, reserved)) {
		t.Errorf("the reservation is used up: %v, want a SoldOutError that names %s", err, idOf(it, reserved))
	}
	if err := f.Provider.Terminate(t.Context(), machines[0].ID); err != nil {
		t.Fatal(err)
	}
	f.Settle(t)
	f.wantSlots(t, it, reserved, 1)
	f.launch(t, f.NewClaim(t, "in-its-place", requirements, nil))
	f.wantSlots(t, it, reserved, 0)
}

// wantSlots checks how many unused machines the catalog shows for a reservation.
func (f Fixture) wantSlots(t *testing.T, it engine.InstanceType, reserved engine.Offering, want int) {
	t.Helper()
	for _, kind := range f.catalog(t) {
		for _, o := range kind.Offerings {
			if kind.Name == it.Name && o.Reservation == reserved.Reservation && o.Slots != want {
				t.Errorf("%s has %d machines left, want %d", idOf(kind, o), o.Slots, want)
			}
		}
	}
}

func heedsContext(t *testing.T, f Fixture) {
	claim := f.NewClaim(t, "a", nil, nil)
	m := f.launch(t, f.NewClaim(t, "b", nil, nil))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.Provider.Launch(ctx, claim, f.Class); !errors.Is(err, context.Canceled) {
		t.Errorf("launch: %v", err)
	}
	if err := f.Provider.Terminate(ctx, m.ID); !errors.Is(err, context.Canceled) {
		t.Errorf("terminate: %v", err)
	}
	if _, err := f.Provider.Machines(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("machines: %v", err)
	}
	f.Settle(t)
	f.wantMachines(t, m.ID)
}

func (f Fixture) catalog(t *testing.T) []engine.InstanceType {
	t.Helper()
	types, err := f.Provider.Catalog(t.Context(), f.Class)
	if err != nil {
		t.Fatalf("catalog: %v", err)
	}
	return types
}

// severalZones returns the first type of the catalog that is sold in more than one zone.
func (f Fixture) severalZones(t *testing.T) engine.InstanceType {
	t.Helper()
	for _, it := range f.catalog(t) {
		if slices.ContainsFunc(it.Offerings, func(o engine.Offering) bool { return o.Zone != it.Offerings[0].Zone }) {
			return it
		}
	}
	t.Fatal("no type is sold in more than one zone")
	return engine.InstanceType{}
}

func (f Fixture) launch(t *testing.T, claim *v1.NodeClaim) engine.Machine {
	t.Helper()
	m, err := f.Provider.Launch(t.Context(), claim, f.Class)
	if err != nil {
		t.Fatalf("launch %s: %v", claim.Name, err)
	}
	return m
}

func (f Fixture) wantMachines(t *testing.T, want ...engine.MachineID) {
	t.Helper()
	list, err := f.Provider.Machines(t.Context())
	if err != nil {
		t.Fatalf("machines: %v", err)
	}
	got := []engine.MachineID{}
	for _, m := range list {
		got = append(got, m.ID)
	}
	if !slices.IsSorted(got) {
		t.Errorf("machines are not ordered by ID: %v", got)
	}
	want = slices.Sorted(slices.Values(want))
	if !slices.Equal(got, want) {
		t.Errorf("machines %v, want %v", got, want)
	}
}

// atOnce calls do from n goroutines.
func (f Fixture) atOnce(t *testing.T, n int, do func(i int) error) {
	t.Helper()
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			if err := do(i); err != nil {
				t.Errorf("call number %d: %v", i, err)
			}
		})
	}
	group.Wait()
}

func in(key string, values ...string) v1.Requirement {
	return v1.Requirement{Key: key, Operator: v1.In, Values: values}
}

func idOf(it engine.InstanceType, o engine.Offering) engine.OfferingID {
	return engine.OfferingID{InstanceType: it.Name, Zone: o.Zone, CapacityType: o.CapacityType, Reservation: o.Reservation}
}

func offeringOf(m engine.Machine) engine.OfferingID {
	return engine.OfferingID{
		InstanceType: m.Labels[corev1.LabelInstanceTypeStable],
		Zone:         m.Labels[corev1.LabelTopologyZone],
		CapacityType: m.Labels[v1.CapacityTypeLabelKey],
	}
}

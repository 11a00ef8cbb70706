package soldout_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	azfake "github.com/Azure/azure-sdk-for-go/sdk/azcore/fake"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v7"
	clocktesting "k8s.io/utils/clock/testing"

	v1 "tenon.sh/api/v1"
	"tenon.sh/provider/azure/assortment"
	"tenon.sh/provider/azure/azuretest"
	"tenon.sh/provider/azure/cloud"
	"tenon.sh/provider/azure/size"
	"tenon.sh/provider/azure/soldout"
)

const (
	od, spot = v1.CapacityTypeOnDemand, v1.CapacityTypeSpot
	nic      = "/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/nodes/providers/Microsoft.Network/networkInterfaces/a"
)

// world is a subscription and its marks.
type world struct {
	*azuretest.Subscription
	cloud *cloud.Cloud
	clock *clocktesting.FakeClock
	marks *soldout.Marks
}

func newWorld(t *testing.T) *world {
	t.Helper()
	clock := clocktesting.NewFakeClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	s := azuretest.New(t, clock)
	s.Put(azuretest.Group, "Microsoft.Network/networkInterfaces", "a", map[string]any{})
	s.AddImage(azuretest.Image{ID: "p:o:s"})
	c, err := cloud.New(cloud.Config{Subscription: s.ID, Location: azuretest.Location, Credential: &azfake.TokenCredential{}, Options: *s.Options(), Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	return &world{s, c, clock, soldout.New(clock)}
}

// sizes are the sizes of the tests, with their families and vCPUs.
var sizes = []size.Figures{
	{Name: "Standard_D2s_v5", QuotaFamily: "standardDSv5Family", VCPUs: 2}, {Name: "Standard_D4s_v5", QuotaFamily: "standardDSv5Family", VCPUs: 4},
	{Name: "Standard_D8s_v5", QuotaFamily: "StandardDsv5Family", VCPUs: 8}, // with other upper and lower case
	{Name: "Standard_E4s_v5", QuotaFamily: "standardESv5Family", VCPUs: 4}, {Name: "Standard_D64s_v3", QuotaFamily: "standardDSv3Family", VCPUs: 64},
}

func attempt(name, zone, capacityType string) soldout.Attempt {
	i := slices.IndexFunc(sizes, func(f size.Figures) bool { return f.Name == name })
	return soldout.Attempt{Size: sizes[i], Zone: zone, CapacityType: capacityType}
}

// launch requests a machine, and returns the result.
func (w *world) launch(t *testing.T, a soldout.Attempt) error {
	t.Helper()
	priority, zones := armcompute.VirtualMachinePriorityTypesRegular, []*string(nil)
	if a.CapacityType == spot {
		priority = armcompute.VirtualMachinePriorityTypesSpot
	}
	if a.Zone != assortment.RegionalZone {
		zones = []*string{new(strings.TrimPrefix(a.Zone, "eastus-"))}
	}
	o, err := w.cloud.BeginVM(t.Context(), azuretest.Group, "a", armcompute.VirtualMachine{Location: new(azuretest.Location), Zones: zones, Properties: &armcompute.VirtualMachineProperties{
		Priority:        &priority,
		HardwareProfile: &armcompute.HardwareProfile{VMSize: new(armcompute.VirtualMachineSizeTypes(a.Size.Name))},
		StorageProfile:  &armcompute.StorageProfile{ImageReference: &armcompute.ImageReference{Publisher: new("p"), Offer: new("o"), SKU: new("s"), Version: new("latest")}},
		NetworkProfile:  &armcompute.NetworkProfile{NetworkInterfaces: []*armcompute.NetworkInterfaceReference{{ID: new(nic)}}},
	}})
	if err == nil {
		err = o.Wait(t.Context())
	}
	if err == nil {
		t.Fatal("the machine was not refused")
	}
	return err
}

// marked lists the sold-out offerings, "D4s_v5/1/spot" for example, and "D4s_v5/*/spot" for a size that is sold out everywhere.
func (w *world) marked() string {
	var out []string
	for _, f := range sizes {
		for _, capacityType := range []string{od, spot} {
			var zones []string
			for _, zone := range []string{"eastus-1", "eastus-2", assortment.RegionalZone} {
				if w.marks.Reason(soldout.Attempt{Size: f, Zone: zone, CapacityType: capacityType}) != "" {
					zones = append(zones, strings.TrimPrefix(zone, "eastus-"))
				}
			}
			where := strings.Join(zones, "+")
			if where == "1+2+0" {
				where = "*"
			}
			if where != "" {
				out = append(out, strings.TrimPrefix(f.Name, "Standard_")+"/"+where+"/"+capacityType)
			}
		}
	}
	return strings.Join(out, " ")
}

func quotaText(quota string, limit, used, required int) string {
	return fmt.Sprintf("Operation could not be completed as it results in exceeding approved %s quota. Additional details - Deployment Model: Resource Manager, Location: eastus, Current Limit: %d, Current Usage: %d, Additional Required: %d, (Minimum) New Limit Required: %d. Submit a request for Quota increase.",
		quota, limit, used, required, used+required)
}

const (
	allSpot = "D2s_v5/*/spot D4s_v5/*/spot D8s_v5/*/spot E4s_v5/*/spot D64s_v3/*/spot"
	zone, z = "eastus-1", time.Duration(0)
)

func TestWhatARefusalMarksAndForHowLong(t *testing.T) {
	t.Parallel()
	type after map[time.Duration]string // the marks at that time; the last one is the end
	for _, test := range []struct {
		code, message, zone, capacityType, reason string
		want                                      after
	}{
		{"OperationNotAllowed", quotaText("LowPriorityCores", 10, 8, 4), zone, spot, soldout.ReasonQuota, after{z: allSpot, time.Hour: ""}},
		{"OperationNotAllowed", quotaText("standardDSv5Family Cores", 0, 0, 4), zone, od, soldout.ReasonQuota,
			after{z: "D2s_v5/*/on-demand D4s_v5/*/on-demand D8s_v5/*/on-demand", time.Hour: ""}},
		{"OperationNotAllowed", quotaText("standardDSv5Family Cores", 10, 8, 4), zone, od, soldout.ReasonQuota,
			after{z: "D4s_v5/*/on-demand D8s_v5/*/on-demand", 10 * time.Minute: ""}}, // the smaller one still fits
		{"OperationNotAllowed", quotaText("standardDSv5Family Cores", 10, 10, 4), "0", od, soldout.ReasonQuota,
			after{z: "D2s_v5/*/on-demand D4s_v5/*/on-demand D8s_v5/*/on-demand", 10 * time.Minute: ""}},
		{"OperationNotAllowed", "exceeding approved standardDSv5Family Cores quota", zone, od, soldout.ReasonQuota, after{z: "D4s_v5/*/on-demand D8s_v5/*/on-demand", 10 * time.Minute: ""}},
		{"QuotaExceeded", quotaText("standardDSv5Family Cores", 100, 2, 4), zone, od, soldout.ReasonQuota, // the refused size is marked, because Azure counts differently
			after{z: "D4s_v5/*/on-demand D8s_v5/*/on-demand", 10 * time.Minute: ""}},
		{"SkuNotAvailable", "", zone, spot, soldout.ReasonSKU, after{z: "D4s_v5/1/spot", time.Hour: ""}},
		{"SkuNotAvailable", "", zone, od, soldout.ReasonSKU, after{z: "D4s_v5/1/on-demand", 23 * time.Hour: ""}},
		{"SkuNotAvailable", "", "0", od, soldout.ReasonSKU, after{z: "D4s_v5/0/on-demand", 23 * time.Hour: ""}},
		{"ZonalAllocationFailed", "", zone, od, soldout.ReasonZonalAllocation,
			after{z: "D4s_v5/1/on-demand D4s_v5/1/spot D8s_v5/1/on-demand D8s_v5/1/spot", 3 * time.Minute: "D4s_v5/1/on-demand D4s_v5/1/spot", time.Hour: ""}},
		{"AllocationFailed", "", zone, spot, soldout.ReasonAllocation,
			after{z: "D4s_v5/1/on-demand D4s_v5/1/spot D8s_v5/1/on-demand D8s_v5/1/spot", 3 * time.Minute: "D4s_v5/1/on-demand D4s_v5/1/spot", time.Hour: ""}},
		{"AllocationFailed", "", "0", od, soldout.ReasonAllocation,
			after{z: "D4s_v5/0/on-demand D4s_v5/0/spot D8s_v5/0/on-demand D8s_v5/0/spot", 3 * time.Minute: "D4s_v5/0/on-demand D4s_v5/0/spot", time.Hour: ""}},
		{"OverconstrainedZonalAllocationRequest", "", zone, spot, soldout.ReasonOverconstrainedZonal,
			after{z: "D4s_v5/1/spot D8s_v5/1/spot", 3 * time.Minute: "D4s_v5/1/spot", time.Hour: ""}},
		{"OverconstrainedAllocationRequest", "", "0", od, soldout.ReasonOverconstrainedAllocation,
			after{z: "D4s_v5/0/on-demand D8s_v5/0/on-demand", 3 * time.Minute: "D4s_v5/0/on-demand", time.Hour: ""}},
		{"OperationNotAllowed", quotaText("Total Regional Cores", 10, 7, 4), zone, od, soldout.ReasonQuota, // of all families
			after{z: "D4s_v5/*/on-demand D8s_v5/*/on-demand E4s_v5/*/on-demand D64s_v3/*/on-demand", 10 * time.Minute: ""}},
		{"OperationNotAllowed", quotaText("Total Regional Cores", 10, 9, 4), zone, od, soldout.ReasonQuota,
			after{z: "D2s_v5/*/on-demand D4s_v5/*/on-demand D8s_v5/*/on-demand E4s_v5/*/on-demand D64s_v3/*/on-demand", 10 * time.Minute: ""}},
		{"OperationNotAllowed", "exceeding approved Total Regional Cores quota", zone, spot, soldout.ReasonQuota,
			after{z: "D4s_v5/*/spot D8s_v5/*/spot E4s_v5/*/spot D64s_v3/*/spot", 10 * time.Minute: ""}},
		{"VMSizeNotSupported", "", zone, od, soldout.ReasonSKU, after{z: "D4s_v5/*/on-demand D4s_v5/*/spot", 23 * time.Hour: ""}},
		{"BadRequest", "Virtual Machine size: 'Standard_D4s_v5' is not supported for subscription s in location 'eastus'.", zone, od, soldout.ReasonSKU,
			after{z: "D4s_v5/*/on-demand D4s_v5/*/spot", 23 * time.Hour: ""}},
		// No other machine helps here.
		{"OperationNotAllowed", "Operation 'createOrUpdate' is not allowed on VM 'a' since the VM is marked for deletion.", zone, od, "", after{z: ""}},
		{"BadRequest", "bad", zone, od, "", after{z: ""}},
		{"SubnetIsFull", "Subnet a does not have enough capacity for 1 IP addresses.", zone, od, "", after{z: ""}},
		{"InsufficientSubnetSize", "", zone, od, "", after{z: ""}},
		{"NicReservedForAnotherVm", "Nic(s) in request is reserved for another Virtual Machine for 180 seconds.", zone, od, "", after{z: ""}},
		{"PropertyChangeNotAllowed", "Changing property 'zones' is not allowed.", zone, od, "", after{z: ""}},
		{"InvalidParameter", "", zone, od, "", after{z: ""}},
	} {
		// Azure may report it immediately or later, directly or nested in another error, or in the machine's state.
		inner := azuretest.Detail{Code: test.code, Message: test.message}
		faults := map[string]*azuretest.Fault{
			"at once": {Code: test.code, Message: test.message}, "later": {Code: test.code, Message: test.message, Async: true},
			"in details": {Code: "Conflict", Message: "see below", Details: []azuretest.Detail{{Code: "Other"}, inner}, Async: true},
			"within":     {Status: 400, Code: "VMCreationFailed", Message: "see below", Inner: &inner}, "by its state": nil,
		}
		for _, how := range slices.Sorted(maps.Keys(faults)) {
			name := fmt.Sprintf("%s %s (%s) %s %s", test.code, how, test.message, test.zone, test.capacityType)
			w := newWorld(t)
			a := attempt("Standard_D4s_v5", test.zone, test.capacityType)
			before := w.marks.Edit()
			var got soldout.Refusal
			if faults[how] != nil {
				w.Fail("VirtualMachines_CreateOrUpdate", *faults[how])
				got = w.marks.Refused(fmt.Errorf("launch a: %w", w.launch(t, a)), a)
			} else {
				got = w.marks.RefusedCode("ProvisioningState/failed/"+test.code, test.message, a)
			}
			want := soldout.Refusal{Reason: test.reason, Code: test.code, Other: test.reason != ""}
			if nested := how == "in details" || how == "within"; nested && test.reason == "" {
				want.Code = faults[how].Code
			}
			if got != want {
				t.Errorf("%s: %+v, want %+v", name, got, want)
			}
			if got.Other && w.marks.Reason(a) != test.reason || got.Other == (w.marks.Edit() == before) || got.Other == w.marks.None() {
				t.Errorf("%s: reason %q, edit %d after %d", name, w.marks.Reason(a), w.marks.Edit(), before)
			}
			start := w.clock.Now()
			for _, age := range slices.Sorted(maps.Keys(test.want)) {
				if age > 0 {
					if w.clock.SetTime(start.Add(age - time.Second)); w.marked() == test.want[age] {
						t.Errorf("%s: a mark has ended before %s", name, age)
					}
				}
				edit := w.marks.Edit()
				w.clock.SetTime(start.Add(age))
				if got := w.marked(); got != test.want[age] {
					t.Errorf("%s: after %s marked %s, want %s", name, age, got, test.want[age])
				}
				if age > 0 && w.marks.Edit() == edit {
					t.Errorf("%s: nobody can tell that a mark has ended after %s", name, age)
				}
			}
			if test.reason != "" && !w.marks.None() {
				t.Errorf("%s: marks are left", name)
			}
		}
	}
}

func TestAShortMarkDoesNotShortenALongOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d4 := attempt("Standard_D4s_v5", zone, od)
	w.marks.RefusedCode("SkuNotAvailable", "", d4) // for 23 hours
	w.marks.RefusedCode("AllocationFailed", "", d4)
	w.marks.RefusedCode("OperationNotAllowed", quotaText("standardDSv5Family Cores", 0, 0, 4), d4) // for an hour
	w.clock.Step(2 * time.Minute)
	w.marks.RefusedCode("OperationNotAllowed", quotaText("standardDSv5Family Cores", 10, 9, 4), d4) // for ten minutes
	w.marks.RefusedCode("AllocationFailed", "", attempt("Standard_D2s_v5", "eastus-2", od))         // larger ones for three
	w.clock.Step(57 * time.Minute)
	if got := w.marked(); !strings.Contains(got, "D8s_v5/*/on-demand") {
		t.Errorf("within the hour without quota marked %s", got)
	}
	w.clock.Step(4 * time.Hour)
	if got := w.marked(); got != "D4s_v5/1/on-demand" {
		t.Errorf("after five hours marked %s", got)
	}
}

func TestAMarkThatIsMadeAgainHoldsOnAndChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d4 := attempt("Standard_D4s_v5", zone, od)
	w.marks.RefusedCode("AllocationFailed", "", d4)
	edit, marked := w.marks.Edit(), w.marked()
	w.clock.Step(2 * time.Minute)
	w.marks.RefusedCode("AllocationFailed", "", d4)
	w.clock.Step(2 * time.Minute)
	if got := w.marked(); got != marked || w.marks.Edit() != edit {
		t.Errorf("marked %s, want still %s", got, marked)
	}
}

// Azure's own texts for exhausted quotas, as in azuretest's server.
func TestUsedUpQuotasAreUnderstood(t *testing.T) {
	t.Parallel()
	for quota, test := range map[string]struct{ capacityType, want string }{
		"standardDSv5Family":    {od, "D4s_v5/*/on-demand D8s_v5/*/on-demand"},
		azuretest.RegionalQuota: {od, "D4s_v5/*/on-demand D8s_v5/*/on-demand E4s_v5/*/on-demand D64s_v3/*/on-demand"},
		azuretest.SpotQuota:     {spot, allSpot},
	} {
		w := newWorld(t)
		w.SetQuota(quota, 3)
		a := attempt("Standard_D4s_v5", zone, test.capacityType)
		if r := w.marks.Refused(w.launch(t, a), a); r.Reason != soldout.ReasonQuota || w.marked() != test.want {
			t.Errorf("%s: %+v, marked %s, want %s", quota, r, w.marked(), test.want)
		}
	}
	w := newWorld(t)
	w.Limit(azuretest.Offering{Size: "Standard_D4s_v5"}, 0, "")
	a := attempt("Standard_D4s_v5", zone, od)
	if err := w.launch(t, a); !cloud.Accepted(err) || w.marks.Refused(err, a).Reason != soldout.ReasonAllocation {
		t.Errorf("no capacity: %v", err)
	}
}

func TestWhatIsNoRefusalMarksNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := attempt("Standard_D4s_v5", zone, od)
	w.Fail("VirtualMachines_CreateOrUpdate", azuretest.Fault{Status: 429, Code: "OperationNotAllowed", Message: "too many requests; exceeding approved Total Regional Cores quota", RetryAfter: time.Minute})
	for name, err := range map[string]error{"nothing": nil, "another error": errors.New("AllocationFailed"), "too many calls": w.launch(t, a)} {
		if r := w.marks.Refused(err, a); r.Reason != "" || r.Other || !w.marks.None() {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func TestASizeOfWhichNothingIsKnownMarksItselfAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	unknown := soldout.Attempt{Size: size.Figures{Name: "Standard_D4s_v5"}, CapacityType: od} // the offering without a zone
	for _, test := range []struct{ code, message, want string }{
		{"AllocationFailed", "", "D4s_v5/0/on-demand D4s_v5/0/spot"},
		{"OperationNotAllowed", "exceeding approved standardDSv5Family Cores quota", "D4s_v5/*/on-demand D4s_v5/0/spot"},
		{"OperationNotAllowed", "exceeding approved Total Regional Cores quota", "D4s_v5/*/on-demand D4s_v5/0/spot"},
		{"OperationNotAllowed", quotaText("Total Regional Cores", 10, 90, 8), "D2s_v5/*/on-demand D4s_v5/*/on-demand D4s_v5/0/spot D8s_v5/*/on-demand E4s_v5/*/on-demand D64s_v3/*/on-demand"},
	} {
		w.marks.RefusedCode(test.code, test.message, unknown)
		if got := w.marked(); got != test.want {
			t.Errorf("%s %s: marked %s, want %s", test.code, test.message, got, test.want)
		}
	}
}

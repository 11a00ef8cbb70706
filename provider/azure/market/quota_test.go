package market_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"tenon.sh/engine"
	"tenon.sh/provider/azure/azuretest"
)

const family = "standardDSv5Family"

// noRoom lists the offerings in zone 1, of sizes with the prefix, for which quotas have no room.
func (w *world) noRoom(prefix string) string {
	w.t.Helper()
	var out []string
	for _, it := range w.catalog() {
		for _, o := range it.Offerings {
			if short := strings.TrimPrefix(it.Name, "Standard_"); o.Zone == "eastus-1" && strings.HasPrefix(short, prefix) && w.NoQuota(it.Name, o.CapacityType) != "" {
				out = append(out, short+"/"+o.CapacityType)
			}
		}
	}
	return strings.Join(out, " ")
}

// minutes advances the clock.
func (w *world) minutes(n int) { w.clock.Step(time.Duration(n) * time.Minute) }

func TestWhatAQuotaHasNoRoomForIsNotAskedFor(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		quota string
		cores int
		want  string
	}{
		"room for small ones":  {family, 4, "D16s_v5/on-demand D8s_v5/on-demand"}, // spot machines have another quota
		"none of the family":   {family, 0, "D16s_v5/on-demand D2s_v5/on-demand D4s_v5/on-demand D8s_v5/on-demand"},
		"enough of the family": {family, 16, ""},
		"all cores on demand":  {azuretest.RegionalQuota, 5, "D128ds_v6/on-demand D16s_v5/on-demand D64s_v3/on-demand D8s_v5/on-demand"},
		"spot":                 {azuretest.SpotQuota, 8, "D128ds_v6/spot D16s_v5/spot D64s_v3/spot"},
		"unlimited":            {family, -1, ""},
		"another":              {"standardNVFamily", 0, ""},
	} {
		w := newWorld(t)
		w.SetQuota(test.quota, test.cores)
		if got := w.noRoom("D"); got != test.want {
			t.Errorf("%s: sold out %s, want %s", name, got, test.want)
		}
	}
	w := newWorld(t)
	w.SetQuota(family, 5)
	w.catalog()
	if got := w.NoQuota("Standard_D8s_v5", od); got != "quota standardDSv5Family has 5 of 5 vCPUs left, with 0 for machines that are being started: Standard_D8s_v5 takes 8" {
		t.Errorf("why there is none: %q", got)
	}
	if w.NoQuota("Standard_D4s_v5", od) != "" || w.NoQuota("Standard_D8s_v5", spot) != "" || w.NoQuota("Standard_None", od) != "" {
		t.Error("there is room for small ones, and spot")
	}
}

// A plan's room is Azure's last answer minus the claims since then.
func TestPlansAreToldWhatQuotasHaveLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.SetQuota(family, 12)
	w.SetQuota(azuretest.SpotQuota, 8)
	w.SetQuota("virtualMachineScaleSets", 8) // no machine counts against it
	types := w.catalog()
	asked := w.clock.Now()
	w.Launching("Standard_D2s_v5", od) // its claim counts, not the running call
	w.minutes(3)
	left := map[string]engine.Quota{}
	for _, q := range w.Quotas() {
		left[q.Name] = q
	}
	q := left[family]
	if q.Left != 12 || q.Limit != 12 || !q.Read.Equal(asked) || q.Unit != "vCPUs" || q.Scope != "eastus" || !strings.Contains(q.More, "Quotas") {
		t.Errorf("quota of the family: %+v", q)
	}
	if _, strange := left["virtualMachineScaleSets"]; strange || left[azuretest.SpotQuota].Left != 8 {
		t.Errorf("quotas %v", left)
	}
	at := slices.IndexFunc(types, func(it engine.InstanceType) bool { return it.Name == "Standard_D4s_v5" })
	for _, o := range types[at].Offerings {
		want := []engine.QuotaUse{{Quota: family, Units: 4}, {Quota: azuretest.RegionalQuota, Units: 4}}
		if o.CapacityType == spot {
			want = []engine.QuotaUse{{Quota: azuretest.SpotQuota, Units: 4}}
		}
		if !slices.Equal(o.Quotas, want) || o.SoldOut {
			t.Errorf("%s in %s draws %v", o.CapacityType, o.Zone, o.Quotas)
		}
	}
	w.Fail("Usage_List", azuretest.Fault{Status: 500, Code: "InternalServerError"})
	if w.minutes(15); len(w.Quotas()) != 0 {
		t.Error("quotas are believed that are older than a quarter of an hour")
	}
}

func TestQuotasAreAskedForEveryTenMinutes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.SetQuota(family, 8)
	before := w.noRoom("")
	w.SetQuota(family, 2)
	if w.minutes(9); w.noRoom("D4") != "" {
		t.Error("quotas were asked for too early")
	}
	if w.minutes(1); w.noRoom("D4") != "D4s_v5/on-demand" {
		t.Error("quotas were not asked for again")
	}
	w.SetQuota(family, 8)
	if w.minutes(10); w.noRoom("") != before {
		t.Errorf("when there is enough again, sold out: %s", w.noRoom(""))
	}
}

func TestWithoutAnAnswerNothingIsTakenToBeUsedUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Fail("Usage_List", azuretest.Fault{Status: 403, Code: "AuthorizationFailed"})
	w.SetQuota(family, 2)
	if got := w.noRoom("D4"); got != "" {
		t.Errorf("without an answer sold out: %s", got)
	}
	w.Launching("Standard_D8s_v5", od)() // it does not count
	w.Heal()
	if w.minutes(5); w.noRoom("D") != "D16s_v5/on-demand D4s_v5/on-demand D8s_v5/on-demand" {
		t.Errorf("with an answer sold out: %s", w.noRoom("D"))
	}
	w.Fail("Usage_List", azuretest.Fault{Status: 403, Code: "AuthorizationFailed"})
	over := w.Launching("Standard_D2s_v5", od)
	for range 2 {
		if w.minutes(7); w.noRoom("D4") == "" {
			t.Error("an answer that is 14 minutes old is not believed")
		}
	}
	if w.minutes(1); w.noRoom("D") != "" {
		t.Errorf("after 15 minutes without an answer sold out: %s", w.noRoom("D"))
	}
	over()
	w.Heal()
	if w.minutes(5); w.noRoom("D2") != "" { // the answer includes machines that were started long ago
		t.Errorf("with an answer again sold out: %s", w.noRoom("D"))
	}
}

func TestMachinesOnTheirWayCount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.SetQuota(family, 12)
	w.SetQuota(azuretest.SpotQuota, 8)
	first := w.catalog()
	over := w.Launching("Standard_D2s_v5", od)
	if got := w.noRoom("D"); !strings.Contains(got, "D16s_v5/on-demand") || strings.Contains(got, "D8s_v5/on-demand") {
		t.Errorf("with 2 of 12 on their way sold out: %s", got)
	}
	if again := w.catalog(); &again[0] != &first[0] { // the same offerings fit as before
		t.Error("that a machine is started makes the catalog anew")
	}
	more := w.Launching("Standard_D4s_v5", od)
	if got := w.noRoom("D8"); got != "D8s_v5/on-demand" {
		t.Errorf("with 6 of 12 on their way sold out: %s", got)
	}
	w.Launching("Standard_None", od)()
	asSpot := w.Launching("Standard_D8s_v5", spot)
	if got := w.noRoom("D2s"); got != "D2s_v5/spot" {
		t.Errorf("with all spot cores on their way sold out: %s", got)
	}
	over()
	over() // a second call changes nothing
	asSpot()
	if got := w.noRoom("D8"); got != "D8s_v5/on-demand D8s_v5/spot" {
		t.Errorf("what no answer can have counted is forgotten: sold out %s", got)
	}
	calls := w.count("Usage_List")
	if w.minutes(1); w.noRoom("D8") != "" || w.count("Usage_List") != calls+1 { // none became ready
		t.Errorf("after the next answer sold out: %s", w.noRoom("D8"))
	}
	if got := w.noRoom("D16"); got != "D16s_v5/on-demand D16s_v5/spot" {
		t.Errorf("sold out %s", got)
	}
	w.SetQuota(family, 20)
	if w.minutes(10); w.noRoom("D16") != "D16s_v5/spot" { // 4 are still starting
		t.Errorf("sold out %s", w.noRoom("D16"))
	}
	again := w.Launching("Standard_D2s_v5", od)
	if got := w.noRoom("D16"); got != "D16s_v5/on-demand D16s_v5/spot" {
		t.Errorf("sold out %s", got)
	}
	more()
	again()
	if w.minutes(1); w.noRoom("D16") != "D16s_v5/spot" {
		t.Errorf("sold out %s", w.noRoom("D16"))
	}
}

// An answer to a request from before the end of a machine's start need not count the machine.
func TestAnAnswerThatWasUnderWayDoesNotCount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.SetQuota(family, 8)
	w.catalog()
	over := w.Launching("Standard_D4s_v5", od)
	w.Fail("Usage_List", azuretest.Fault{Hang: true, Times: 1, Hung: func() { over(); w.clock.Step(time.Minute) }})
	w.SetQuota(family, 9)
	w.minutes(10)
	w.catalog()
	until(t, func() bool { return strings.Contains(w.NoQuota("Standard_D16s_v5", od), "of 9 vCPUs") })
	if got := w.NoQuota("Standard_D8s_v5", od); !strings.Contains(got, "has 5 of 9 vCPUs left, with 4 for machines that are being started") {
		t.Errorf("the machine is not counted any more: %q", got)
	}
	if got := w.noRoom("D8"); got != "" { // Azure has been asked again in between
		t.Errorf("the machine is counted for ever: sold out %s", got)
	}
}

package market_test

import (
	"strings"
	"testing"
	"time"

	"tenon.sh/provider/azure/azuretest"
)

const family = "standardDSv5Family"

// minutes lets some pass.
func (w *world) minutes(n int) { w.clock.Step(time.Duration(n) * time.Minute) }

func TestWhatAQuotaHasNoRoomForIsSoldOut(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		quota string
		cores int
		want  string
	}{
		"room for small ones":  {family, 4, "D16s_v5/on-demand D8s_v5/on-demand"}, // spot machines count elsewhere
		"none of the family":   {family, 0, "D16s_v5/on-demand D2s_v5/on-demand D4s_v5/on-demand D8s_v5/on-demand"},
		"enough of the family": {family, 16, ""},
		"all cores on demand":  {azuretest.RegionalQuota, 5, "D128ds_v6/on-demand D16s_v5/on-demand D64s_v3/on-demand D8s_v5/on-demand"},
		"spot":                 {azuretest.SpotQuota, 8, "D128ds_v6/spot D16s_v5/spot D64s_v3/spot"},
		"unlimited":            {family, -1, ""},
		"another":              {"standardNVFamily", 0, ""},
	} {
		w := newWorld(t)
		w.SetQuota(test.quota, test.cores)
		if got := w.soldOut("D"); got != test.want {
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

func TestQuotasAreAskedForEveryTenMinutes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.SetQuota(family, 8)
	before := w.soldOut("")
	w.SetQuota(family, 2)
	if w.minutes(9); w.soldOut("D4") != "" {
		t.Error("quotas were asked for too early")
	}
	if w.minutes(1); w.soldOut("D4") != "D4s_v5/on-demand" {
		t.Error("quotas were not asked for again")
	}
	w.SetQuota(family, 8)
	if w.minutes(10); w.soldOut("") != before {
		t.Errorf("when there is enough again, sold out: %s", w.soldOut(""))
	}
}

func TestWithoutAnAnswerNothingIsTakenToBeUsedUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Fail("Usage_List", azuretest.Fault{Status: 403, Code: "AuthorizationFailed"})
	w.SetQuota(family, 2)
	if got := w.soldOut("D4"); got != "" {
		t.Errorf("without an answer sold out: %s", got)
	}
	w.Launching("Standard_D8s_v5", od)() // nor is it counted
	w.Heal()
	if w.minutes(5); w.soldOut("D") != "D16s_v5/on-demand D4s_v5/on-demand D8s_v5/on-demand" {
		t.Errorf("with an answer sold out: %s", w.soldOut("D"))
	}
	w.Fail("Usage_List", azuretest.Fault{Status: 403, Code: "AuthorizationFailed"})
	over := w.Launching("Standard_D2s_v5", od)
	for range 2 {
		if w.minutes(7); w.soldOut("D4") == "" {
			t.Error("an answer that is 14 minutes old is not believed")
		}
	}
	if w.minutes(1); w.soldOut("D") != "" {
		t.Errorf("after 15 minutes without an answer sold out: %s", w.soldOut("D"))
	}
	over()
	w.Heal()
	if w.minutes(5); w.soldOut("D2") != "" { // what was started long ago is in the answer
		t.Errorf("with an answer again sold out: %s", w.soldOut("D"))
	}
}

func TestMachinesOnTheirWayCount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.SetQuota(family, 12)
	w.SetQuota(azuretest.SpotQuota, 8)
	first := w.catalog()
	over := w.Launching("Standard_D2s_v5", od)
	if got := w.soldOut("D"); !strings.Contains(got, "D16s_v5/on-demand") || strings.Contains(got, "D8s_v5/on-demand") {
		t.Errorf("with 2 of 12 on their way sold out: %s", got)
	}
	if again := w.catalog(); &again[0] != &first[0] { // the same fit as before
		t.Error("that a machine is started makes the catalog anew")
	}
	more := w.Launching("Standard_D4s_v5", od)
	if got := w.soldOut("D8"); got != "D8s_v5/on-demand" {
		t.Errorf("with 6 of 12 on their way sold out: %s", got)
	}
	w.Launching("Standard_None", od)()
	asSpot := w.Launching("Standard_D8s_v5", spot)
	if got := w.soldOut("D2s"); got != "D2s_v5/spot" {
		t.Errorf("with all spot cores on their way sold out: %s", got)
	}
	over()
	over() // once more changes nothing
	asSpot()
	if got := w.soldOut("D8"); got != "D8s_v5/on-demand D8s_v5/spot" {
		t.Errorf("what no answer can have counted is forgotten: sold out %s", got)
	}
	calls := w.count("Usage_List")
	if w.minutes(1); w.soldOut("D8") != "" || w.count("Usage_List") != calls+1 { // none came up
		t.Errorf("after the next answer sold out: %s", w.soldOut("D8"))
	}
	if got := w.soldOut("D16"); got != "D16s_v5/on-demand D16s_v5/spot" {
		t.Errorf("sold out %s", got)
	}
	w.SetQuota(family, 20)
	if w.minutes(10); w.soldOut("D16") != "D16s_v5/spot" { // 4 are on their way still
		t.Errorf("sold out %s", w.soldOut("D16"))
	}
	again := w.Launching("Standard_D2s_v5", od)
	if got := w.soldOut("D16"); got != "D16s_v5/on-demand D16s_v5/spot" {
		t.Errorf("sold out %s", got)
	}
	more()
	again()
	if w.minutes(1); w.soldOut("D16") != "D16s_v5/spot" {
		t.Errorf("sold out %s", w.soldOut("D16"))
	}
}

// An answer to a question that was asked before a machine's start was over need not count it.
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
	if got := w.soldOut("D8"); got != "" { // by now Azure was asked again, as soon as could be
		t.Errorf("the machine is counted for ever: sold out %s", got)
	}
}

package soldout_test

import (
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"tenon.sh/engine"
	"tenon.sh/provider/aws/soldout"
)

func TestMarks(t *testing.T) {
	t.Parallel()
	offering := engine.OfferingID{InstanceType: "m5.large", Zone: "a", CapacityType: "spot"}
	a := soldout.Place{Zone: "a", ZoneID: "az1", Subnets: []string{"s1", "s2"}}
	grouped := soldout.Place{Zone: "a", ZoneID: "az1", Group: "pg-1", Partitions: 2}
	for _, test := range []struct {
		rule string
		mark func(m *soldout.Marks)
		// Whether m5.large, spot, is sold out in a, in b, in a within the group, and on demand in a.
		inA, inB, inGroup, onDemand bool
	}{
		{"nothing", func(*soldout.Marks) {}, false, false, false, false},
		{"an offering", func(m *soldout.Marks) { m.Offering(offering, "", "", "r") }, true, false, true, false},
		{"an offering within a group", func(m *soldout.Marks) { m.Offering(offering, "pg-1", "", "r") }, false, false, true, false},
		{"an offering within another group", func(m *soldout.Marks) { m.Offering(offering, "pg-2", "", "r") }, false, false, false, false},
		{"one of two partitions", func(m *soldout.Marks) { m.Offering(offering, "pg-1", "1", "r") }, false, false, false, false},
		{"both partitions", func(m *soldout.Marks) { m.Offering(offering, "pg-1", "1", "r"); m.Offering(offering, "pg-1", "2", "r") }, false, false, true, false},
		{"a capacity type", func(m *soldout.Marks) { m.CapacityType("spot", "r") }, true, true, true, false},
		{"one of two subnets", func(m *soldout.Marks) { m.Subnet("s1", "r") }, false, false, false, false},
		{"both subnets", func(m *soldout.Marks) { m.Subnet("s1", "r"); m.Subnet("s2", "r") }, true, false, false, true},
		{"a zone", func(m *soldout.Marks) { m.Zones([]string{"az1"}) }, true, false, true, true},
	} {
		m := soldout.New(clocktesting.NewFakeClock(time.Now()))
		test.mark(m)
		b := soldout.Place{Zone: "b", ZoneID: "az2", Subnets: []string{"s3"}}
		for where, got := range map[string][2]bool{
			"a":         {m.Reason("m5.large", "spot", a) != "", test.inA},
			"b":         {m.Reason("m5.large", "spot", b) != "", test.inB},
			"the group": {m.Reason("m5.large", "spot", grouped) != "", test.inGroup},
			"on demand": {m.Reason("m5.large", "on-demand", a) != "", test.onDemand},
			"another":   {m.Reason("m5.xlarge", "on-demand", b) != "", false},
		} {
			if got[0] != got[1] {
				t.Errorf("%s: sold out in %s: %v, want %v", test.rule, where, got[0], got[1])
			}
		}
	}
}

func TestAMarkEndsAndSaysSo(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakeClock(time.Now())
	m := soldout.New(clock)
	before := m.Edit()
	m.CapacityType("spot", "MaxSpotInstanceCountExceeded")
	marked := m.Edit()
	if marked == before || m.None() {
		t.Error("nobody can tell that something was marked")
	}
	clock.Step(2 * time.Minute)
	m.CapacityType("spot", "MaxSpotInstanceCountExceeded") // the mark stays
	clock.Step(2 * time.Minute)
	if got := m.Reason("m5.large", "spot", soldout.Place{}); got != "MaxSpotInstanceCountExceeded" {
		t.Errorf("reason %q", got)
	}
	marked = m.Edit()
	clock.Step(2 * time.Minute)
	if m.Reason("m5.large", "spot", soldout.Place{}) != "" || m.Edit() == marked || !m.None() {
		t.Error("the mark has not ended")
	}
}

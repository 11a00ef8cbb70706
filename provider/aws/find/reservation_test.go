package find_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"tenon.sh/api/awsv1"
	"tenon.sh/provider/aws/awstest"
)

func TestReservationsThatAnyTermSelects(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	now := f.clock.Now()
	f.account.SetReservations(
		awstest.Reservation{ID: "cr-a", InstanceType: "m5.large", Zone: "us-west-2a", Criteria: "targeted", Type: "default", Free: 3, Tags: map[string]string{"team": "a"}},
		awstest.Reservation{ID: "cr-b", InstanceType: "m5.large", Zone: "us-west-2b", Criteria: "open", Free: 1, Owner: "999999999999", Tags: map[string]string{"team": "a"}},
		awstest.Reservation{ID: "cr-gone", InstanceType: "m5.large", Zone: "us-west-2b", Criteria: "open", Type: "default", Ends: now.Add(-time.Minute)},
		awstest.Reservation{ID: "cr-block", InstanceType: "p5.48xlarge", Zone: "us-west-2a", Criteria: "targeted", Type: "capacity-block", Ends: now.Add(2 * time.Hour), Interruptible: true},
		awstest.Reservation{ID: "cr-late", InstanceType: "p5.48xlarge", Zone: "us-west-2a", Criteria: "targeted", Type: "capacity-block", Ends: now.Add(39 * time.Minute)},
		awstest.Reservation{ID: "cr-default-late", InstanceType: "m5.large", Zone: "us-west-2a", Criteria: "targeted", Type: "default", Ends: now.Add(time.Minute)},
		awstest.Reservation{ID: "cr-odd", InstanceType: "m5.large", Zone: "us-west-2a", Criteria: "targeted", Type: "new-kind"},
	)
	type term = awsv1.CapacityReservationSelectorTerm
	for _, test := range []struct {
		rule  string
		terms []term
		want  string
	}{
		{"nothing asked for", nil, ""},
		{"an ID", []term{{ID: "cr-a"}}, "cr-a"},
		{"several IDs, each its own question", []term{{ID: "cr-b"}, {ID: "cr-a"}}, "cr-a cr-b"},
		{"tags", []term{{Tags: awsv1.Tags{"team": "a"}}}, "cr-a cr-b"},
		{"tags and owner", []term{{Tags: awsv1.Tags{"team": "a"}, OwnerID: "999999999999"}}, "cr-b"},
		{"open", []term{{InstanceMatchCriteria: "open"}}, "cr-b"},
		{"targeted", []term{{InstanceMatchCriteria: "targeted"}}, "cr-a cr-block cr-default-late cr-late"},
		{"criteria and tags", []term{{InstanceMatchCriteria: "targeted", Tags: awsv1.Tags{"team": "*"}}}, "cr-a"},
		{"one that has ended", []term{{ID: "cr-gone"}}, ""},
		{"one of a kind that nobody knows", []term{{ID: "cr-odd"}}, ""},
	} {
		got, err := f.Reservations(t.Context(), test.terms)
		var ids []string
		for _, r := range got {
			ids = append(ids, r.ID)
			if expiring := r.ID == "cr-late"; (r.State == awsv1.ReservationExpiring) != expiring {
				t.Errorf("%s is %s", r.ID, r.State)
			}
			if r.ID == "cr-b" && r.ReservationType != "default" || r.ID == "cr-block" && !r.Interruptible {
				t.Errorf("%+v", r)
			}
		}
		if err != nil || !slices.Equal(ids, strings.Fields(test.want)) {
			t.Errorf("%s: got %v, %v; want %s", test.rule, ids, err, test.want)
		}
	}
	if f.Slots.Free("cr-a") != 3 {
		t.Errorf("%d free, want 3", f.Slots.Free("cr-a"))
	}
	f.Slots.Used("cr-a")
	f.Slots.Used("cr-a")
	f.Slots.Returned("cr-a")
	if f.Slots.Free("cr-a") != 2 {
		t.Errorf("%d free, want 2", f.Slots.Free("cr-a"))
	}
	f.Slots.Exhausted("cr-a")
	if f.Slots.Used("cr-a"); f.Slots.Free("cr-a") != 0 {
		t.Errorf("%d free, want 0", f.Slots.Free("cr-a"))
	}
}

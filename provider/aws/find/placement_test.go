package find_test

import (
	"fmt"
	"testing"
	"time"

	"tenon.sh/api/awsv1"
	"tenon.sh/provider/aws/awstest"
)

func TestThePlacementGroupOfASelector(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	groups := []awstest.PlacementGroup{
		{ID: "pg-1", Name: "racks", Strategy: "partition", Partitions: 7},
		{ID: "pg-2", Name: "pg-1", Strategy: "spread", SpreadLevel: "rack"},
		{ID: "pg-3", Name: "going", Strategy: "cluster", State: "deleting"},
	}
	f.account.SetPlacementGroups(groups...)
	get := func(s *awsv1.PlacementGroupSelector) (string, error) {
		g, err := f.PlacementGroup(t.Context(), s)
		if g == nil {
			return "", err
		}
		return fmt.Sprintf("%s %s %d%s", g.ID, g.Strategy, g.Partitions, g.SpreadLevel), err
	}
	for _, test := range []struct {
		selector *awsv1.PlacementGroupSelector
		want     string
	}{
		{nil, ""},
		{&awsv1.PlacementGroupSelector{Name: "racks"}, "pg-1 partition 7"},
		{&awsv1.PlacementGroupSelector{ID: "pg-1"}, "pg-1 partition 7"},
		{&awsv1.PlacementGroupSelector{Name: "pg-1"}, "pg-2 spread 0rack"}, // a name that looks like an ID
		{&awsv1.PlacementGroupSelector{Name: "none"}, ""},
		{&awsv1.PlacementGroupSelector{Name: "going"}, ""},
	} {
		if got, err := get(test.selector); got != test.want || err != nil {
			t.Errorf("%+v: got %q, %v; want %q", test.selector, got, err, test.want)
		}
	}
	racks := &awsv1.PlacementGroupSelector{Name: "racks"}
	f.clock.Step(2 * time.Minute)
	f.account.Fail("ec2:DescribePlacementGroups", awstest.Fault{Status: 503, Code: "Unavailable"})
	if got, err := get(racks); got != "pg-1 partition 7" || err == nil {
		t.Errorf("while EC2 does not answer: %q, %v; want what it said last, and the error", got, err)
	}
	f.account.Heal()
	f.clock.Step(10 * time.Second)
	f.account.SetPlacementGroups()
	if got, err := get(racks); got != "" || err != nil {
		t.Errorf("a group that was removed: %q, %v", got, err)
	}
	f.account.Fail("ec2:DescribePlacementGroups", awstest.Fault{Status: 503, Code: "Unavailable"})
	f.clock.Step(2 * time.Minute)
	if got, _ := get(racks); got != "" {
		t.Errorf("a group that was removed came back: %q", got)
	}
}

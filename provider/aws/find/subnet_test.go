package find_test

import (
	"slices"
	"testing"
	"time"

	"tenon.sh/api/awsv1"
)

func TestSubnetsThatAnyTermSelects(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	network := f.account.NewNetwork()
	small := f.account.NewSubnet(network, "us-west-2a", "10.0.1.0/28", map[string]string{"team": "a", "tier": "x"})
	large := f.account.NewSubnet(network, "us-west-2b", "10.0.2.0/24", map[string]string{"team": "a"})
	other := f.account.NewSubnet(network, "us-west-2c", "10.0.3.0/24", map[string]string{"team": "b"})
	type term = awsv1.SubnetSelectorTerm
	for _, test := range []struct {
		rule  string
		terms []term
		want  []string
	}{
		{"the one with an ID", []term{{ID: small}}, []string{small}},
		{"several IDs are one question", []term{{ID: small}, {ID: other}}, []string{other, small}},
		{"a tag; most free addresses first", []term{{Tags: awsv1.Tags{"team": "a"}}}, []string{large, small}},
		{"tags of one term must all be there", []term{{Tags: awsv1.Tags{"team": "a", "tier": "x"}}}, []string{small}},
		{"any value of a tag", []term{{Tags: awsv1.Tags{"tier": "*"}}}, []string{small}},
		{"one term or another", []term{{Tags: awsv1.Tags{"tier": "x"}}, {Tags: awsv1.Tags{"team": "b"}}}, []string{other, small}},
		{"what two terms select is there once", []term{{ID: small}, {Tags: awsv1.Tags{"tier": "x"}}}, []string{small}},
		{"nothing", []term{{Tags: awsv1.Tags{"team": "c"}}}, nil},
		{"no such ID", []term{{ID: "subnet-0123456789abcdef0"}}, nil},
	} {
		before := len(f.account.Calls("ec2:DescribeSubnets"))
		for range 3 { // from the second time on it is known
			got, err := f.Subnets(t.Context(), test.terms)
			if err != nil {
				t.Fatalf("%s: %v", test.rule, err)
			}
			var ids []string
			for _, s := range got {
				ids = append(ids, s.ID)
				if s.Zone == "" || s.ZoneID == "" || s.Free == 0 {
					t.Errorf("%s: subnet %+v", test.rule, s)
				}
			}
			if !slices.Equal(ids, test.want) {
				t.Errorf("%s: got %v, want %v", test.rule, ids, test.want)
			}
		}
		tagged := 0
		for _, term := range test.terms {
			if term.ID == "" {
				tagged++
			}
		}
		if calls := len(f.account.Calls("ec2:DescribeSubnets")) - before; calls > tagged+1 {
			t.Errorf("%s: %d calls", test.rule, calls)
		}
	}
}

func TestAddressesTakenByLaunchesCountUntilEC2Knows(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	network := f.account.NewNetwork()
	a := f.account.NewSubnet(network, "us-west-2a", "10.0.1.0/26", nil)
	b := f.account.NewSubnet(network, "us-west-2a", "10.0.2.0/27", nil)
	terms := []awsv1.SubnetSelectorTerm{{ID: a}, {ID: b}}
	var subnets []awsv1.Subnet
	look := func() {
		found, err := f.Subnets(t.Context(), terms)
		if err != nil {
			t.Fatal(err)
		}
		subnets = nil
		for _, s := range found {
			subnets = append(subnets, s.Subnet)
		}
	}
	look()
	chosen := func() string { return f.Addresses.Choose(subnets)["us-west-2a"].ID }
	if chosen() != a {
		t.Errorf("chose %s, want the one with most free addresses", chosen())
	}
	giveBack := f.Addresses.Take(a, 50)
	if chosen() != b {
		t.Error("the subnet whose addresses are spoken for was chosen")
	}
	giveBack()
	if chosen() != a {
		t.Error("what was given back is not free again")
	}
	giveBack = f.Addresses.Take(a, 50)
	f.clock.Step(2 * time.Minute)
	look()
	giveBack() // EC2 has reported the free addresses since
	if free, _ := f.Addresses.Free(a); free != 59 {
		t.Errorf("%d addresses are free, EC2 says 59", free)
	}
	f.Addresses.Exhausted(a)
	if chosen() != b {
		t.Error("a subnet without addresses was chosen")
	}
}

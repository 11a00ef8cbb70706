package find_test

import (
	"slices"
	"testing"

	"tenon.sh/api/awsv1"
)

func TestSecurityGroupsThatAnyTermSelects(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	network := f.account.NewNetwork()
	a := f.account.NewSecurityGroup(network, "nodes", map[string]string{"team": "a"})
	b := f.account.NewSecurityGroup(network, "more", map[string]string{"team": "a", "tier": "x"})
	type term = awsv1.SecurityGroupSelectorTerm
	for _, test := range []struct {
		rule  string
		terms []term
		want  []string
	}{
		{"by ID", []term{{ID: a}}, []string{a}},
		{"by name", []term{{Name: "nodes"}}, []string{a}},
		{"by tag", []term{{Tags: awsv1.Tags{"team": "a"}}}, []string{a, b}},
		{"by tags", []term{{Tags: awsv1.Tags{"team": "a", "tier": "*"}}}, []string{b}},
		{"by one or the other", []term{{ID: b}, {Name: "nodes"}}, []string{a, b}},
		{"nothing", []term{{Name: "none"}}, nil},
	} {
		got, err := f.SecurityGroups(t.Context(), test.terms)
		var ids []string
		for _, g := range got {
			ids = append(ids, g.ID)
		}
		if err != nil || !slices.Equal(ids, sorted(test.want)) {
			t.Errorf("%s: got %v, %v; want %v in order", test.rule, ids, err, test.want)
		}
	}
}

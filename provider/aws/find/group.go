package find

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"tenon.sh/api/awsv1"
)

// SecurityGroups finds the security groups that any term selects, ordered by ID.
func (f *Finder) SecurityGroups(ctx context.Context, terms []awsv1.SecurityGroupSelectorTerm) ([]awsv1.SecurityGroup, error) {
	return f.groups.Get(ctx, keyOf(terms), func(ctx context.Context) ([]awsv1.SecurityGroup, error) {
		found := map[string]awsv1.SecurityGroup{}
		for _, filters := range groupFilters(terms) {
			pages := ec2.NewDescribeSecurityGroupsPaginator(f.cloud.EC2, &ec2.DescribeSecurityGroupsInput{Filters: filters, MaxResults: aws.Int32(500)})
			for pages.HasMorePages() {
				page, err := pages.NextPage(ctx)
				if err != nil {
					return nil, fmt.Errorf("look for security groups: %w", err)
				}
				for _, g := range page.SecurityGroups {
					found[aws.ToString(g.GroupId)] = awsv1.SecurityGroup{ID: aws.ToString(g.GroupId), Name: aws.ToString(g.GroupName)}
				}
			}
		}
		var out []awsv1.SecurityGroup
		for _, g := range found {
			out = append(out, g)
		}
		slices.SortFunc(out, func(a, b awsv1.SecurityGroup) int { return cmp.Compare(a.ID, b.ID) })
		return out, nil
	})
}

func groupFilters(terms []awsv1.SecurityGroupSelectorTerm) (out [][]ec2types.Filter) {
	var ids, names []string
	for _, t := range terms {
		switch {
		case t.ID != "":
			ids = append(ids, t.ID)
		case t.Name != "":
			names = append(names, t.Name)
		case len(t.Tags) > 0:
			out = append(out, tagFilters(t.Tags))
		}
	}
	if len(ids) > 0 {
		out = append(out, []ec2types.Filter{filter("group-id", ids...)})
	}
	if len(names) > 0 {
		out = append(out, []ec2types.Filter{filter("group-name", names...)})
	}
	return out
}

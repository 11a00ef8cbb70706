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

// Subnet is a subnet as EC2 describes it.
type Subnet struct {
	awsv1.Subnet
	// Free is the number of its free IPv4 addresses.
	Free int
}

// Subnets finds the subnets that any term selects, the one with the most free addresses first. All terms with an ID share one query; each
// other term has its own.
func (f *Finder) Subnets(ctx context.Context, terms []awsv1.SubnetSelectorTerm) ([]Subnet, error) {
	return f.subnets.Get(ctx, keyOf(terms), func(ctx context.Context) ([]Subnet, error) {
		found := map[string]Subnet{}
		for _, filters := range subnetFilters(terms) {
			pages := ec2.NewDescribeSubnetsPaginator(f.cloud.EC2, &ec2.DescribeSubnetsInput{Filters: filters, MaxResults: aws.Int32(500)})
			for pages.HasMorePages() {
				page, err := pages.NextPage(ctx)
				if err != nil {
					return nil, fmt.Errorf("look for subnets: %w", err)
				}
				for _, s := range page.Subnets {
					found[aws.ToString(s.SubnetId)] = Subnet{
						Subnet: awsv1.Subnet{ID: aws.ToString(s.SubnetId), Zone: aws.ToString(s.AvailabilityZone), ZoneID: aws.ToString(s.AvailabilityZoneId)},
						Free:   int(aws.ToInt32(s.AvailableIpAddressCount)),
					}
				}
			}
		}
		var out []Subnet
		for _, s := range found {
			f.Addresses.saw(s.ID, s.Free)
			out = append(out, s)
		}
		slices.SortFunc(out, func(a, b Subnet) int { return cmp.Or(cmp.Compare(b.Free, a.Free), cmp.Compare(a.ID, b.ID)) })
		return out, nil
	})
}

func subnetFilters(terms []awsv1.SubnetSelectorTerm) (out [][]ec2types.Filter) {
	var ids []string
	for _, t := range terms {
		if t.ID != "" {
			ids = append(ids, t.ID)
			continue
		}
		if len(t.Tags) > 0 {
			out = append(out, tagFilters(t.Tags))
		}
	}
	if len(ids) > 0 {
		out = append(out, []ec2types.Filter{filter("subnet-id", ids...)})
	}
	return out
}

package find

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"tenon.sh/api/awsv1"
	"tenon.sh/provider/aws/cloud"
)

// PlacementGroup is a placement group of the account.
type PlacementGroup struct {
	ID string
	// Strategy is cluster, partition or spread.
	Strategy string
	// Partitions is the number of its partitions, if it has any.
	Partitions int
	// SpreadLevel is host or rack, for a spread group.
	SpreadLevel string
}

// PlacementGroup finds the placement group that a selector names. It returns nil if this group does not exist or cannot be used. While EC2 does
// not answer, it returns the last known group together with the error.
func (f *Finder) PlacementGroup(ctx context.Context, selector *awsv1.PlacementGroupSelector) (*PlacementGroup, error) {
	if selector == nil {
		return nil, nil
	}
	group, err := f.placements.Get(ctx, *selector, func(ctx context.Context) (*PlacementGroup, error) {
		group, err := f.describePlacementGroup(ctx, *selector)
		if err == nil {
			f.remembered.Put(*selector, group)
		}
		return group, err
	})
	if err != nil {
		group, _ = f.remembered.Peek(*selector)
	}
	return group, err
}

func (f *Finder) describePlacementGroup(ctx context.Context, selector awsv1.PlacementGroupSelector) (*PlacementGroup, error) {
	in := &ec2.DescribePlacementGroupsInput{Filters: []ec2types.Filter{filter("state", string(ec2types.PlacementGroupStateAvailable))}}
	if selector.ID != "" {
		in.GroupIds = []string{selector.ID}
	} else {
		in.GroupNames = []string{selector.Name}
	}
	answer, err := f.cloud.EC2.DescribePlacementGroups(ctx, in)
	if cloud.NotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for placement group %s: %w", selector.ID+selector.Name, err)
	}
	if len(answer.PlacementGroups) == 0 {
		return nil, nil
	}
	g := answer.PlacementGroups[0]
	return &PlacementGroup{
		ID: aws.ToString(g.GroupId), Strategy: string(g.Strategy),
		Partitions: int(aws.ToInt32(g.PartitionCount)), SpreadLevel: string(g.SpreadLevel),
	}, nil
}

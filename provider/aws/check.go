package aws

import (
	"context"
	"errors"
	"fmt"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"tenon.sh/provider/aws/cloud"
)

// Check finds out whether the provider can work at all: whether EC2 answers and accepts the credentials, and whether the cluster can be
// found. The error lists all problems.
func (p *Provider) Check(ctx context.Context) error {
	var errs []error
	_, err := p.cloud.EC2.DescribeInstanceTypes(ctx, &ec2.DescribeInstanceTypesInput{DryRun: awssdk.Bool(true)})
	if err != nil && !cloud.DryRunSucceeded(err) {
		errs = append(errs, fmt.Errorf("reach EC2 in %s (is AWS_REGION right, and can the network reach its API?): %w", p.cloud.Region, err))
	}
	if _, err := p.cluster.Version(ctx); err != nil {
		errs = append(errs, err)
	}
	if _, err := p.cluster.Endpoint(ctx); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

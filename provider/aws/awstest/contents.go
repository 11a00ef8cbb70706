package awstest

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// Observer returns another front to the same account. Its calls are not counted, not limited, and do not fail.
func (a *Account) Observer() *Account {
	a.t.Helper()
	return open(a.t, a.moto, a.ID)
}

// Contents lists the objects that an autoscaler makes in an account and has to remove, one on each line: machines that are not terminated,
// launch templates, instance profiles.
func (a *Account) Contents(ctx context.Context) (out []string, err error) {
	machines, err := a.machines(ctx)
	if err != nil {
		return nil, err
	}
	for id, i := range machines {
		out = append(out, fmt.Sprintf("machine %s (%s, %s)", id, i.InstanceType, i.State.Name))
	}
	templates := ec2.NewDescribeLaunchTemplatesPaginator(a.ec2(), &ec2.DescribeLaunchTemplatesInput{MaxResults: aws.Int32(200)})
	for templates.HasMorePages() {
		page, err := templates.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, t := range page.LaunchTemplates {
			out = append(out, "launch template "+aws.ToString(t.LaunchTemplateName))
		}
	}
	profiles := iam.NewListInstanceProfilesPaginator(iam.NewFromConfig(a.Config()), &iam.ListInstanceProfilesInput{})
	for profiles.HasMorePages() {
		page, err := profiles.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, p := range page.InstanceProfiles {
			out = append(out, "instance profile "+aws.ToString(p.InstanceProfileName))
		}
	}
	slices.Sort(out)
	return out, nil
}

// Waiting returns the number of messages on a queue, including messages that were received and not deleted.
func (a *Account) Waiting(ctx context.Context, url string) (n int, err error) {
	visible, hidden := sqstypes.QueueAttributeNameApproximateNumberOfMessages, sqstypes.QueueAttributeNameApproximateNumberOfMessagesNotVisible
	out, err := sqs.NewFromConfig(a.Config()).GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{
		QueueUrl: aws.String(url), AttributeNames: []sqstypes.QueueAttributeName{visible, hidden},
	})
	if err != nil {
		return 0, err
	}
	for _, text := range out.Attributes {
		some, err := strconv.Atoi(text)
		if err != nil {
			return 0, err
		}
		n += some
	}
	return n, nil
}

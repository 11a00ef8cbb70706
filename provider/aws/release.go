package aws

import (
	"context"
	"fmt"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"tenon.sh/api/awsv1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider"
	"tenon.sh/provider/aws/cloud"
	"tenon.sh/provider/aws/machine"
)

var _ provider.Releaser = &Provider{}

// Release removes the tags by which the cluster's machines are listed from a machine. The tags that EKS uses stay. The controller's policy
// does not allow this call, so a user with more rights has to run it.
func (p *Provider) Release(ctx context.Context, id engine.MachineID) error {
	zone, name, ok := machine.ParseID(id)
	if !ok {
		return provider.ErrGone
	}
	if err := p.elsewhere(zone); err != nil {
		return err
	}
	in := &ec2.DeleteTagsInput{Resources: []string{name}}
	for _, key := range []string{v1.NodePoolLabelKey, awsv1.NodeClassLabelKey, awsv1.NodeClaimTagKey, v1.LaunchTokenAnnotationKey} {
		in.Tags = append(in.Tags, ec2types.Tag{Key: awssdk.String(key)})
	}
	_, err := p.cloud.EC2.DeleteTags(ctx, in)
	if cloud.NotFound(err) {
		return provider.ErrGone
	}
	if err != nil {
		return fmt.Errorf("release machine %s: take its tags off: %w", id, err)
	}
	return nil
}

// ReleaseClass deletes the launch templates of a class. Its instance profile stays, because running machines get their credentials from it.
func (p *Provider) ReleaseClass(ctx context.Context, class provider.Class) (stays []string, err error) {
	c, err := classOf(class)
	if err != nil {
		return nil, err
	}
	if err := p.templates.DeleteOf(ctx, c.Name); err != nil {
		return nil, err
	}
	if c.Spec.Role != "" && c.Status.InstanceProfile != "" {
		stays = append(stays, "instance profile "+c.Status.InstanceProfile)
	}
	return stays, nil
}

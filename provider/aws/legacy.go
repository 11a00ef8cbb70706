package aws

import (
	"context"
	"errors"
	"fmt"
	"regexp"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/mitchellh/hashstructure/v2"

	"tenon.sh/api/awsv1"
	"tenon.sh/provider/aws/cloud"
)

// profileName is what IAM takes as the name of an instance profile.
var profileName = regexp.MustCompile(`^[\w+=,.@-]{1,128}$`)

// legacyProfile is the instance profile that an earlier version of Karpenter made for a class, if its tags say so.
// It has no path of its own, so that it is in no list of the cluster's profiles.
func (p *Provider) legacyProfile(ctx context.Context, c *awsv1.EC2NodeClass) ([]iamtypes.InstanceProfile, error) {
	name, err := p.legacyName(c)
	if err != nil || name == "" || c.Spec.Role == "" {
		return nil, err
	}
	answer, err := p.cloud.IAM.GetInstanceProfile(ctx, &iam.GetInstanceProfileInput{InstanceProfileName: awssdk.String(name)})
	if cloud.NotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read instance profile %s: %w", name, err)
	}
	if answer.InstanceProfile == nil {
		return nil, errors.New("read instance profile " + name + ": IAM describes nothing")
	}
	tags := map[string]string{}
	for _, tag := range answer.InstanceProfile.Tags {
		tags[awssdk.ToString(tag.Key)] = awssdk.ToString(tag.Value)
	}
	if tags[awsv1.ClusterTagPrefix+p.config.ClusterName] != awsv1.ClusterTagOwned || tags[awsv1.NodeClassLabelKey] != c.Name {
		return nil, nil
	}
	return []iamtypes.InstanceProfile{*answer.InstanceProfile}, nil
}

// legacyName is the name that earlier versions gave the profile, "" if IAM could not have taken it.
func (p *Provider) legacyName(c *awsv1.EC2NodeClass) (string, error) {
	hash, err := hashstructure.Hash(p.cloud.Region+c.Name, hashstructure.FormatV2, nil)
	if err != nil {
		return "", fmt.Errorf("name the instance profile that an earlier version made for EC2NodeClass %s: %w", c.Name, err)
	}
	if name := fmt.Sprintf("%s_%d", p.config.ClusterName, hash); profileName.MatchString(name) {
		return name, nil
	}
	return "", nil
}

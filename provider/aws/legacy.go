package aws

import (
	"context"
	"errors"
	"fmt"
	"regexp"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/mitchellh/hashstructure/v2"

	"tenon.sh/api/awsv1"
	"tenon.sh/provider/aws/cloud"
)

// profileName is what IAM takes as the name of an instance profile.
var profileName = regexp.MustCompile(`^[\w+=,.@-]{1,128}$`)

// legacyProfile is the name that earlier versions of Karpenter gave the instance profile of a class, "" if IAM could not
// have taken it. It has no path of its own, so that it is in no list of the cluster's profiles.
func (p *Provider) legacyProfile(c *awsv1.EC2NodeClass) (string, error) {
	hash, err := hashstructure.Hash(p.cloud.Region+c.Name, hashstructure.FormatV2, nil)
	if err != nil {
		return "", fmt.Errorf("name the instance profile that an earlier version made for EC2NodeClass %s: %w", c.Name, err)
	}
	if name := fmt.Sprintf("%s_%d", p.config.ClusterName, hash); profileName.MatchString(name) {
		return name, nil
	}
	return "", nil
}

// deleteLegacyProfile deletes the instance profile that an earlier version made for a class, if its tags say that it was
// made for this one.
func (p *Provider) deleteLegacyProfile(ctx context.Context, c *awsv1.EC2NodeClass) error {
	name, err := p.legacyProfile(c)
	if err != nil || name == "" || c.Spec.Role == "" {
		return err
	}
	answer, err := p.cloud.IAM.GetInstanceProfile(ctx, &iam.GetInstanceProfileInput{InstanceProfileName: awssdk.String(name)})
	if cloud.NotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read instance profile %s: %w", name, err)
	}
	if answer.InstanceProfile == nil {
		return errors.New("read instance profile " + name + ": IAM describes nothing")
	}
	tags := map[string]string{}
	for _, tag := range answer.InstanceProfile.Tags {
		tags[awssdk.ToString(tag.Key)] = awssdk.ToString(tag.Value)
	}
	if tags[awsv1.ClusterTagPrefix+p.config.ClusterName] != awsv1.ClusterTagOwned || tags[awsv1.NodeClassLabelKey] != c.Name {
		return nil
	}
	return p.deleteProfile(ctx, *answer.InstanceProfile)
}

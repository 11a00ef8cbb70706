package aws

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"regexp"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"

	"tenon.sh/api/awsv1"
	"tenon.sh/provider/aws/cloud"
)

// profileName matches the names that IAM accepts for an instance profile.
var profileName = regexp.MustCompile(`^[\w+=,.@-]{1,128}$`)

// legacyName returns the name that earlier versions of Karpenter gave a class's instance profile, "" if IAM would not have accepted it.
func (p *Provider) legacyName(c *awsv1.EC2NodeClass) string {
	hash := fnv.New64()
	_, _ = hash.Write([]byte(p.cloud.Region + c.Name)) // it never fails
	if name := fmt.Sprintf("%s_%d", p.config.ClusterName, hash.Sum64()); profileName.MatchString(name) {
		return name
	}
	return ""
}

// legacyProfile returns the instance profile that an earlier version made for a class, if the profile's tags name the class. It is not in the
// lists of the cluster's profiles, because it does not have their path.
func (p *Provider) legacyProfile(ctx context.Context, c *awsv1.EC2NodeClass) ([]iamtypes.InstanceProfile, error) {
	name := p.legacyName(c)
	if name == "" || c.Spec.Role == "" {
		return nil, nil
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

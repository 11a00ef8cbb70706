package find

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	corev1 "k8s.io/api/core/v1"

	"tenon.sh/api/awsv1"
	"tenon.sh/provider/aws/cloud"
)

// profile is an instance profile in IAM; role is "" if it has none.
type profile struct{ name, role string }

// RoleNotFoundError means that a class names a role that does not exist.
type RoleNotFoundError struct{ Role string }

func (e *RoleNotFoundError) Error() string {
	return fmt.Sprintf("role %s does not exist in IAM: create it, or name another one in spec.role", e.Role)
}

// InstanceProfile returns the name of the instance profile of the class's machines. For a class with a role, it makes one. The name follows
// from the class and the role. So a repetition after a crash makes no second profile, and machines with an earlier role keep their profile.
func (f *Finder) InstanceProfile(ctx context.Context, class *awsv1.EC2NodeClass) (string, error) {
	if class.Spec.InstanceProfile != nil {
		f.protect(class.Status.InstanceProfile, *class.Spec.InstanceProfile)
		return *class.Spec.InstanceProfile, nil
	}
	if class.Status.InstanceProfile != "" {
		known, err := f.getProfile(ctx, class.Status.InstanceProfile)
		if err != nil {
			return "", err
		}
		if known != nil && known.role == roleName(class.Spec.Role) {
			return known.name, nil
		}
	}
	if _, missing := f.noRole.Peek(class.Spec.Role); missing {
		return "", &RoleNotFoundError{class.Spec.Role}
	}
	name, err := f.makeProfile(ctx, class)
	if err == nil {
		f.protect(class.Status.InstanceProfile, name)
		f.protected.Put(name, struct{}{})
	}
	return name, err
}

// protect keeps the profile that a class had before, because machines that are being started may still refer to it.
func (f *Finder) protect(before, now string) {
	if before != "" && before != now {
		f.protected.Put(before, struct{}{})
	}
}

// Protected reports whether a profile was made, or replaced on a class, so recently that it must not be deleted.
func (f *Finder) Protected(profile string) bool {
	_, protected := f.protected.Peek(profile)
	return protected
}

// getProfile reads a profile from IAM; it returns nil if there is none. A missing profile is not cached, because it may be made at any time.
func (f *Finder) getProfile(ctx context.Context, name string) (*profile, error) {
	p, err := f.profiles.Get(ctx, name, func(ctx context.Context) (*profile, error) {
		answer, err := f.cloud.IAM.GetInstanceProfile(ctx, &iam.GetInstanceProfileInput{InstanceProfileName: aws.String(name)})
		if cloud.NotFound(err) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read instance profile %s: %w", name, err)
		}
		p := &profile{name: name}
		if roles := answer.InstanceProfile.Roles; len(roles) > 0 {
			p.role = aws.ToString(roles[0].RoleName)
		}
		return p, nil
	})
	if p == nil {
		f.profiles.Forget(name)
	}
	return p, err
}

func (f *Finder) makeProfile(ctx context.Context, class *awsv1.EC2NodeClass) (string, error) {
	name, role := f.profileName(class), roleName(class.Spec.Role)
	p, err := f.getProfile(ctx, name)
	if err != nil {
		return "", err
	}
	made := p == nil
	if made {
		if err := f.createProfile(ctx, name, class); err != nil {
			return "", err
		}
		p = &profile{name: name}
	}
	if p.role == role {
		return name, nil
	}
	f.profiles.Forget(name)
	if p.role != "" {
		if _, err := f.cloud.IAM.RemoveRoleFromInstanceProfile(ctx, &iam.RemoveRoleFromInstanceProfileInput{
			InstanceProfileName: aws.String(name), RoleName: aws.String(p.role),
		}); err != nil && !cloud.NotFound(err) {
			return "", fmt.Errorf("take role %s off instance profile %s: %w", p.role, name, err)
		}
	}
	_, err = f.cloud.IAM.AddRoleToInstanceProfile(ctx, &iam.AddRoleToInstanceProfileInput{InstanceProfileName: aws.String(name), RoleName: aws.String(role)})
	if err == nil {
		f.profiles.Put(name, &profile{name, role})
		return name, nil
	}
	if made { // a profile without a role is useless; if the deletion fails, the next attempt finds the profile
		_, _ = f.cloud.IAM.DeleteInstanceProfile(ctx, &iam.DeleteInstanceProfileInput{InstanceProfileName: aws.String(name)})
	}
	if cloud.NotFound(err) && !strings.Contains(strings.ToLower(err.Error()), "instance profile "+strings.ToLower(name)) {
		f.noRole.Put(class.Spec.Role, struct{}{})
		return "", &RoleNotFoundError{class.Spec.Role}
	}
	return "", fmt.Errorf("give instance profile %s the role %s: %w", name, role, err)
}

func (f *Finder) createProfile(ctx context.Context, name string, class *awsv1.EC2NodeClass) error {
	_, err := f.cloud.IAM.CreateInstanceProfile(ctx, &iam.CreateInstanceProfileInput{
		InstanceProfileName: aws.String(name),
		Path:                aws.String(f.ProfilePath(class)),
		Tags:                f.profileTags(class),
	})
	if err != nil && !cloud.AlreadyExists(err) {
		return fmt.Errorf("create instance profile %s: %w", name, err)
	}
	return nil
}

// ProfilePath returns the path of a class's instance profiles; for nil, the path of all classes of the cluster.
func (f *Finder) ProfilePath(class *awsv1.EC2NodeClass) string {
	path := "/karpenter/" + f.cloud.Region + "/" + f.cluster + "/"
	if class != nil {
		path += string(class.UID) + "/"
	}
	return path
}

func (f *Finder) profileName(class *awsv1.EC2NodeClass) string {
	sum := sha256.Sum256([]byte(keyOf(f.cloud.Region, class.Name, class.UID, roleName(class.Spec.Role))))
	return f.cluster + "_" + strconv.FormatUint(binary.BigEndian.Uint64(sum[:]), 10)
}

func (f *Finder) profileTags(class *awsv1.EC2NodeClass) (out []iamtypes.Tag) {
	tags := map[string]string{}
	maps.Copy(tags, class.Spec.Tags)
	tags[awsv1.ClusterTagPrefix+f.cluster] = awsv1.ClusterTagOwned
	tags[awsv1.ClusterNameTagKey] = f.cluster
	tags[awsv1.NodeClassLabelKey] = class.Name
	tags[corev1.LabelTopologyRegion] = f.cloud.Region
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		out = append(out, iamtypes.Tag{Key: aws.String(key), Value: aws.String(tags[key])})
	}
	return out
}

// roleName returns the name of a role without its path.
func roleName(role string) string { return role[strings.LastIndex(role, "/")+1:] }

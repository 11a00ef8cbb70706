package aws

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"tenon.sh/api/awsv1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/provider"
	"tenon.sh/provider/aws/cloud"
	"tenon.sh/provider/aws/machine"
)

var _ provider.Housekeeper = &Provider{}

const (
	// profilesEvery is the time between two searches for unused instance profiles in IAM.
	profilesEvery = 30 * time.Minute
	// mostNames is the largest number of claims that an event names.
	mostNames = 5
)

// Clean tags machines with the names of their nodes, and updates claims whose machines have changed. It removes unused launch templates and
// instance profiles, and all objects of a class that is being deleted.
func (p *Provider) Clean(ctx context.Context) error {
	p.ledger.forget()
	var classes awsv1.EC2NodeClassList
	if err := p.client.List(ctx, &classes); err != nil {
		return fmt.Errorf("list EC2NodeClasses, to clean up after them: %w", err)
	}
	var claims v1.NodeClaimList
	if err := p.client.List(ctx, &claims); err != nil {
		return fmt.Errorf("list NodeClaims, to tag their machines: %w", err)
	}
	var errs []error
	for i := range classes.Items {
		errs = append(errs, p.finishClass(ctx, &classes.Items[i], claims.Items))
	}
	errs = append(errs, p.correct(ctx, claims.Items), p.tagMachines(ctx, claims.Items), p.templates.Clean(ctx), p.cleanProfiles(ctx, classes.Items, claims.Items))
	return errors.Join(errs...)
}

// finishClass keeps a finalizer on a class as long as the account may have objects that were made for it.
func (p *Provider) finishClass(ctx context.Context, c *awsv1.EC2NodeClass, claims []v1.NodeClaim) error {
	held := slices.Contains(c.Finalizers, awsv1.TerminationFinalizer)
	switch {
	case c.DeletionTimestamp == nil && !held:
		return p.writeFinalizers(ctx, c, append(slices.Clone(c.Finalizers), awsv1.TerminationFinalizer))
	case c.DeletionTimestamp == nil || !held:
		return nil
	}
	var left []string
	for i := range claims {
		if ref := claims[i].Spec.NodeClassRef; ref != nil && ref.Group == awsv1.Group && ref.Name == c.Name {
			left = append(left, claims[i].Name)
		}
	}
	if n := len(left); n > 0 {
		text := strings.Join(left[:min(n, mostNames)], ", ")
		if n > mostNames {
			text += fmt.Sprintf(" and %d more", n-mostNames)
		}
		p.config.Tell(provider.Event{Object: c, Reason: "WaitingOnNodeClaimTermination", Message: "the class is deleted once these NodeClaims have ended: " + text})
		return nil
	}
	if err := p.templates.DeleteOf(ctx, c.Name); err != nil {
		return err
	}
	if err := p.deleteProfilesOf(ctx, c); err != nil {
		return err
	}
	p.metrics.userDataBytes.DeleteLabelValues(c.Name)
	return p.writeFinalizers(ctx, c, slices.DeleteFunc(slices.Clone(c.Finalizers), func(f string) bool { return f == awsv1.TerminationFinalizer }))
}

func (p *Provider) writeFinalizers(ctx context.Context, c *awsv1.EC2NodeClass, finalizers []string) error {
	changed := c.DeepCopy()
	changed.Finalizers = finalizers
	err := p.client.Patch(ctx, changed, client.MergeFromWithOptions(c, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write the finalizers of EC2NodeClass %s: %w", c.Name, err)
	}
	return nil
}

// deleteProfilesOf deletes the instance profiles that were made for a class.
func (p *Provider) deleteProfilesOf(ctx context.Context, c *awsv1.EC2NodeClass) error {
	if p.config.IsolatedVPC || c.Spec.Role == "" && c.Status.InstanceProfile == "" {
		return nil
	}
	list, err := p.profiles(ctx, p.finder.ProfilePath(c))
	if err != nil {
		return err
	}
	legacy, err := p.legacyProfile(ctx, c)
	if err != nil {
		return err
	}
	list = append(list, legacy...)
	// Our machines have no claims any more, so they are stopped. Released machines run on, and have no tag of a NodePool.
	return p.deleteUnused(ctx, list, func(m machine.Machine) bool { return m.Tags[v1.NodePoolLabelKey] == "" })
}

// cleanProfiles deletes instance profiles of the cluster that no class, no claim and no machine uses, released machines included.
func (p *Provider) cleanProfiles(ctx context.Context, classes []awsv1.EC2NodeClass, claims []v1.NodeClaim) error {
	if p.config.IsolatedVPC || p.clock.Since(p.profilesCleaned) < profilesEvery {
		return nil
	}
	needed := map[string]bool{}
	for i := range classes {
		needed[classes[i].Status.InstanceProfile] = true
	}
	for i := range claims {
		needed[claims[i].Annotations[awsv1.InstanceProfileAnnotationKey]] = true
	}
	list, err := p.profiles(ctx, p.finder.ProfilePath(nil))
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(profile iamtypes.InstanceProfile) bool {
		name := awssdk.ToString(profile.InstanceProfileName)
		return needed[name] || p.finder.Protected(name)
	})
	if err := p.deleteUnused(ctx, list, func(machine.Machine) bool { return true }); err != nil {
		return err // all of them are tried again the next time
	}
	p.profilesCleaned = p.clock.Now()
	return nil
}

// deleteUnused deletes the instance profiles that no machine uses. It keeps a profile if `counts` returns true for one of its machines, because
// without the profile the machine would get no new credentials. It asks EC2 for the machines, because only EC2 knows machines without a manager.
func (p *Provider) deleteUnused(ctx context.Context, list []iamtypes.InstanceProfile, counts func(machine.Machine) bool) error {
	var arns []string
	for _, profile := range list {
		arns = append(arns, awssdk.ToString(profile.Arn))
	}
	users, err := p.machines.OnProfiles(ctx, arns)
	if err != nil {
		return asThrottled(err, "ec2:DescribeInstances")
	}
	var errs []error
	for _, profile := range list {
		var names []string
		for _, m := range users[awssdk.ToString(profile.Arn)] {
			if counts(m) {
				names = append(names, m.ID)
			}
		}
		if len(names) == 0 {
			errs = append(errs, p.deleteProfile(ctx, profile))
			continue
		}
		slices.Sort(names)
		log.FromContext(ctx).Info("kept instance profile that no class needs: machines use it", "profile", awssdk.ToString(profile.InstanceProfileName), "machines", names)
	}
	return errors.Join(errs...)
}

// profiles lists the instance profiles below a path.
func (p *Provider) profiles(ctx context.Context, path string) (out []iamtypes.InstanceProfile, err error) {
	pages := iam.NewListInstanceProfilesPaginator(p.cloud.IAM, &iam.ListInstanceProfilesInput{PathPrefix: awssdk.String(path)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("list instance profiles: %w", err)
		}
		for _, profile := range page.InstanceProfiles {
			if strings.HasPrefix(awssdk.ToString(profile.Path), path) { // in case the answer ignores the path
				out = append(out, profile)
			}
		}
	}
	return out, nil
}

func (p *Provider) deleteProfile(ctx context.Context, profile iamtypes.InstanceProfile) error {
	name := profile.InstanceProfileName
	for _, role := range profile.Roles {
		_, err := p.cloud.IAM.RemoveRoleFromInstanceProfile(ctx, &iam.RemoveRoleFromInstanceProfileInput{InstanceProfileName: name, RoleName: role.RoleName})
		if err != nil && !cloud.NotFound(err) {
			return fmt.Errorf("delete instance profile %s: take its role off: %w", awssdk.ToString(name), err)
		}
	}
	_, err := p.cloud.IAM.DeleteInstanceProfile(ctx, &iam.DeleteInstanceProfileInput{InstanceProfileName: name})
	if err != nil && !cloud.NotFound(err) {
		return fmt.Errorf("delete instance profile %s: %w", awssdk.ToString(name), err)
	}
	log.FromContext(ctx).Info("deleted instance profile that nobody needs", "profile", awssdk.ToString(name))
	return nil
}

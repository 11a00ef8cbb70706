package aws

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"tenon.sh/api/awsv1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/provider"
	"tenon.sh/provider/aws/cloud"
	"tenon.sh/provider/aws/find"
)

// verdict is the result of the check of one part of a class. The zero value means that the part is ready.
type verdict struct {
	// reason and message describe the problem.
	reason, message string
	// unknown means that the problem is not certain.
	unknown bool
	// err means that the check failed: the earlier result stays.
	err error
}

func wrong(reason, format string, values ...any) verdict {
	return verdict{reason: reason, message: fmt.Sprintf(format, values...)}
}

// part is a kind of object to which a class refers, with its condition.
type part struct {
	condition string
	find      func(ctx context.Context, class *awsv1.EC2NodeClass) verdict
}

// parts returns the parts in the order of their checks, because later parts depend on earlier ones.
func (p *Provider) parts() []part {
	return []part{
		{awsv1.ConditionAMIsReady, p.findImages},
		{awsv1.ConditionCapacityReservationsReady, p.findReservations},
		{awsv1.ConditionPlacementGroupReady, p.findPlacementGroup},
		{awsv1.ConditionSubnetsReady, p.findSubnets},
		{awsv1.ConditionSecurityGroupsReady, p.findSecurityGroups},
		{awsv1.ConditionInstanceProfileReady, p.findInstanceProfile},
		{awsv1.ConditionValidationSucceeded, p.validate},
	}
}

// Resolve finds the objects to which the class refers, and fills in its status and one condition for each part. It returns the problems of
// all parts. If a part cannot be checked, an earlier success stays, so that a class stays ready while AWS is busy.
func (p *Provider) Resolve(ctx context.Context, class provider.Class) (problem string, err error) {
	c, err := classOf(class)
	if err != nil {
		return "", err
	}
	if err := p.stamp(ctx, c); err != nil {
		return "", err
	}
	var problems []string
	for _, part := range p.parts() {
		v := part.find(ctx, c)
		if ctx.Err() != nil {
			return "", fmt.Errorf("resolve EC2NodeClass %s: %w", c.Name, ctx.Err())
		}
		if text := p.judge(ctx, c, part.condition, v); text != "" {
			problems = append(problems, text)
		}
	}
	return strings.Join(problems, "; "), nil
}

// judge writes the condition of a part, and returns its problem.
func (p *Provider) judge(ctx context.Context, c *awsv1.EC2NodeClass, condition string, v verdict) string {
	now := p.clock.Now()
	if v.err != nil {
		if was := v1.GetCondition(c, condition); was != nil && was.Status == metav1.ConditionTrue && was.ObservedGeneration == c.Generation {
			log.FromContext(ctx).Error(v.err, "what was found before is used", "EC2NodeClass", c.Name, "condition", condition)
			return ""
		}
		v.reason, v.message, v.unknown = awsv1.ReasonResolutionFailed, cloud.Text(v.err), true
	}
	status := metav1.ConditionTrue
	switch {
	case v.unknown:
		status = metav1.ConditionUnknown
	case v.reason != "":
		status = metav1.ConditionFalse
	}
	v1.SetCondition(c, condition, status, v.reason, v.message, now)
	if status == metav1.ConditionTrue || v.reason == awsv1.ReasonDependenciesNotReady {
		return "" // the other conditions have the problem
	}
	return condition + ": " + v.message
}

func (p *Provider) findImages(ctx context.Context, c *awsv1.EC2NodeClass) verdict {
	version, err := p.cluster.Version(ctx)
	if err != nil {
		return verdict{err: err}
	}
	images, err := p.finder.Images(ctx, c, version)
	if unsupported := (*find.UnsupportedAliasError)(nil); errors.As(err, &unsupported) {
		c.Status.AMIs = nil
		return wrong(awsv1.ReasonUnsupportedAlias, "%s", unsupported.Problem)
	}
	if err != nil {
		return verdict{err: err}
	}
	var amis []awsv1.AMI
	for _, image := range images {
		amis = append(amis, image.AMI)
	}
	c.Status.AMIs = amis
	if len(amis) > 0 {
		return verdict{}
	}
	if alias, found, _ := c.Alias(); found {
		return wrong(awsv1.ReasonAMINotFound, "no image is published for alias %s@%s and Kubernetes %s in %s: does this version exist?",
			strings.ToLower(alias.Family), alias.Version, version, p.cloud.Region)
	}
	return wrong(awsv1.ReasonAMINotFound, "spec.amiSelectorTerms selects no image in %s that is available, for x86_64 or arm64%s", p.cloud.Region, parametersOf(c))
}

// parametersOf returns a hint for a class that names images by SSM parameters. For other classes, it returns "".
func parametersOf(c *awsv1.EC2NodeClass) string {
	var names []string
	for _, t := range c.Spec.AMISelectorTerms {
		if t.SSMParameter != "" {
			names = append(names, t.SSMParameter)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return ": does SSM parameter " + strings.Join(names, " or ") + " exist there, and is its value the ID of an image?"
}

func (p *Provider) findReservations(ctx context.Context, c *awsv1.EC2NodeClass) verdict {
	found, err := p.finder.Reservations(ctx, c.Spec.CapacityReservationSelectorTerms)
	if err != nil {
		return verdict{err: err}
	}
	c.Status.CapacityReservations = nil
	for _, r := range found {
		c.Status.CapacityReservations = append(c.Status.CapacityReservations, r.CapacityReservation)
	}
	return verdict{} // none is no problem, because reservations come and go
}

func (p *Provider) findPlacementGroup(ctx context.Context, c *awsv1.EC2NodeClass) verdict {
	selector := c.Spec.PlacementGroupSelector
	group, err := p.finder.PlacementGroup(ctx, selector)
	switch {
	case selector == nil || group != nil && err == nil:
		return verdict{}
	case group != nil || cloud.Canceled(err):
		return verdict{err: err}
	case err != nil:
		return wrong(awsv1.ReasonPlacementGroupResolutionFailed, "%s", cloud.Text(err))
	}
	return wrong(awsv1.ReasonPlacementGroupNotFound, "Placement group %q not found", selector.ID+selector.Name)
}

func (p *Provider) findSubnets(ctx context.Context, c *awsv1.EC2NodeClass) verdict {
	subnets, err := p.finder.Subnets(ctx, c.Spec.SubnetSelectorTerms)
	if err != nil {
		return verdict{err: err}
	}
	c.Status.Subnets = nil
	for _, s := range subnets {
		c.Status.Subnets = append(c.Status.Subnets, s.Subnet)
	}
	if len(subnets) == 0 {
		return wrong(awsv1.ReasonSubnetsNotFound, "spec.subnetSelectorTerms selects no subnet in %s", p.cloud.Region)
	}
	return verdict{}
}

func (p *Provider) findSecurityGroups(ctx context.Context, c *awsv1.EC2NodeClass) verdict {
	groups, err := p.finder.SecurityGroups(ctx, c.Spec.SecurityGroupSelectorTerms)
	if err != nil {
		return verdict{err: err}
	}
	c.Status.SecurityGroups = slices.Clone(groups)
	if len(groups) == 0 {
		return wrong(awsv1.ReasonSecurityGroupsNotFound, "spec.securityGroupSelectorTerms selects no security group in %s", p.cloud.Region)
	}
	return verdict{}
}

func (p *Provider) findInstanceProfile(ctx context.Context, c *awsv1.EC2NodeClass) verdict {
	name, err := p.finder.InstanceProfile(ctx, c)
	if missing := (*find.RoleNotFoundError)(nil); errors.As(err, &missing) {
		return wrong(awsv1.ReasonRoleNotFound, "%s", missing.Error())
	}
	if err != nil {
		return verdict{err: err}
	}
	c.Status.InstanceProfile = name
	return verdict{}
}

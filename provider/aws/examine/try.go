package examine

import (
	"context"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	pricingtypes "github.com/aws/aws-sdk-go-v2/service/pricing/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/ssm"

	"tenon.sh/api/awsv1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/provider/aws/cloud"
	"tenon.sh/provider/aws/template"
)

// try is an action and the result of its trial. If the action was not tried, `not` is the reason.
type try struct {
	action string
	err    error
	not    string
}

// tries tries every action of the controller that can be tried without a change.
func (x *Examiner) tries(ctx context.Context, classes []*awsv1.EC2NodeClass) []try {
	out := x.readEC2(ctx)
	out = append(out, x.changeEC2(ctx, classes)...)
	return append(out, x.readOthers(ctx)...)
}

func (x *Examiner) readEC2(ctx context.Context) (out []try) {
	c, dry := x.Cloud.EC2, aws.Bool(true)
	add := func(operation string, err error) { out = append(out, try{action: "ec2:" + operation, err: err}) }
	_, err := c.DescribeCapacityReservations(ctx, &ec2.DescribeCapacityReservationsInput{DryRun: dry})
	add("DescribeCapacityReservations", err)
	_, err = c.DescribeImages(ctx, &ec2.DescribeImagesInput{DryRun: dry, Owners: []string{"self"}})
	add("DescribeImages", err)
	_, err = c.DescribeInstances(ctx, &ec2.DescribeInstancesInput{DryRun: dry})
	add("DescribeInstances", err)
	_, err = c.DescribeInstanceStatus(ctx, &ec2.DescribeInstanceStatusInput{DryRun: dry})
	add("DescribeInstanceStatus", err)
	_, err = c.DescribeInstanceTypeOfferings(ctx, &ec2.DescribeInstanceTypeOfferingsInput{DryRun: dry})
	add("DescribeInstanceTypeOfferings", err)
	_, err = c.DescribeInstanceTypes(ctx, &ec2.DescribeInstanceTypesInput{DryRun: dry})
	add("DescribeInstanceTypes", err)
	_, err = c.DescribeLaunchTemplates(ctx, &ec2.DescribeLaunchTemplatesInput{DryRun: dry})
	add("DescribeLaunchTemplates", err)
	_, err = c.DescribePlacementGroups(ctx, &ec2.DescribePlacementGroupsInput{DryRun: dry})
	add("DescribePlacementGroups", err)
	_, err = c.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{DryRun: dry})
	add("DescribeSecurityGroups", err)
	_, err = c.DescribeSpotPriceHistory(ctx, &ec2.DescribeSpotPriceHistoryInput{DryRun: dry, MaxResults: aws.Int32(1)})
	add("DescribeSpotPriceHistory", err)
	_, err = c.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{DryRun: dry})
	add("DescribeSubnets", err)
	return out
}

// changeEC2 does dry runs of the actions that start, tag and stop machines, with existing objects.
func (x *Examiner) changeEC2(ctx context.Context, classes []*awsv1.EC2NodeClass) (out []try) {
	c, dry := x.Cloud.EC2, aws.Bool(true)
	add := func(operation string, err error) { out = append(out, try{action: "ec2:" + operation, err: err}) }
	not := func(why string, operations ...string) {
		for _, o := range operations {
			out = append(out, try{action: "ec2:" + o, not: why})
		}
	}
	if class := usable(classes); class == nil {
		not("no EC2NodeClass has found its images and subnets yet", "CreateLaunchTemplate", "RunInstances")
	} else {
		_, err := c.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{
			DryRun: dry, LaunchTemplateName: aws.String(template.NamePrefix + "doctor"), LaunchTemplateData: &ec2types.RequestLaunchTemplateData{ImageId: aws.String(class.Status.AMIs[0].ID)},
			TagSpecifications: []ec2types.TagSpecification{{ResourceType: ec2types.ResourceTypeLaunchTemplate, Tags: x.tags(class.Name)}},
		})
		add("CreateLaunchTemplate", err)
		_, err = c.RunInstances(ctx, x.runInput(class))
		add("RunInstances", err)
	}
	if id := x.anyTemplate(ctx); id == "" {
		not("there is no launch template of the cluster yet", "CreateFleet", "DeleteLaunchTemplate")
	} else {
		_, err := c.CreateFleet(ctx, &ec2.CreateFleetInput{
			DryRun: dry, Type: ec2types.FleetTypeInstant, TargetCapacitySpecification: &ec2types.TargetCapacitySpecificationRequest{TotalTargetCapacity: aws.Int32(1), DefaultTargetCapacityType: "on-demand"},
			LaunchTemplateConfigs: []ec2types.FleetLaunchTemplateConfigRequest{{LaunchTemplateSpecification: &ec2types.FleetLaunchTemplateSpecificationRequest{LaunchTemplateId: aws.String(id), Version: aws.String("$Latest")}}},
			TagSpecifications:     []ec2types.TagSpecification{{ResourceType: ec2types.ResourceTypeInstance, Tags: x.tags("doctor")}, {ResourceType: ec2types.ResourceTypeFleet, Tags: x.tags("doctor")}},
		})
		add("CreateFleet", err)
		_, err = c.DeleteLaunchTemplate(ctx, &ec2.DeleteLaunchTemplateInput{DryRun: dry, LaunchTemplateId: aws.String(id)})
		add("DeleteLaunchTemplate", err)
	}
	if id := x.anyMachine(ctx); id == "" {
		not("no machine of the cluster runs", "CreateTags", "TerminateInstances")
	} else {
		_, err := c.CreateTags(ctx, &ec2.CreateTagsInput{DryRun: dry, Resources: []string{id}, Tags: template.Tags(map[string]string{awsv1.NameTagKey: "doctor"})})
		add("CreateTags", err)
		_, err = c.TerminateInstances(ctx, &ec2.TerminateInstancesInput{DryRun: dry, InstanceIds: []string{id}})
		add("TerminateInstances", err)
	}
	return out
}

// usable returns a class whose status has images, subnets and security groups, nil if there is none.
func usable(classes []*awsv1.EC2NodeClass) *awsv1.EC2NodeClass {
	for _, c := range classes {
		if s := &c.Status; len(s.AMIs) > 0 && len(s.Subnets) > 0 && len(s.SecurityGroups) > 0 {
			return c
		}
	}
	return nil
}

// tags returns the tags that the policy demands for new objects.
func (x *Examiner) tags(class string) []ec2types.Tag {
	return template.Tags(map[string]string{
		awsv1.ClusterTagPrefix + x.Cluster: awsv1.ClusterTagOwned, awsv1.ClusterNameTagKey: x.Cluster, v1.NodePoolLabelKey: "doctor", awsv1.NodeClassLabelKey: class,
	})
}

func (x *Examiner) runInput(class *awsv1.EC2NodeClass) *ec2.RunInstancesInput {
	s := &class.Status
	in := &ec2.RunInstancesInput{
		DryRun: aws.Bool(true), MinCount: aws.Int32(1), MaxCount: aws.Int32(1), ImageId: aws.String(s.AMIs[0].ID), InstanceType: ec2types.InstanceTypeM5Large,
		SubnetId: aws.String(s.Subnets[0].ID), SecurityGroupIds: []string{s.SecurityGroups[0].ID},
	}
	for _, arm := range s.AMIs[0].Requirements {
		if arm.Key == "kubernetes.io/arch" && len(arm.Values) == 1 && arm.Values[0] == v1.ArchitectureARM64 {
			in.InstanceType = ec2types.InstanceTypeM6gLarge
		}
	}
	if s.InstanceProfile != "" {
		in.IamInstanceProfile = &ec2types.IamInstanceProfileSpecification{Name: aws.String(s.InstanceProfile)}
	}
	for _, kind := range []ec2types.ResourceType{ec2types.ResourceTypeInstance, ec2types.ResourceTypeVolume, ec2types.ResourceTypeNetworkInterface} {
		in.TagSpecifications = append(in.TagSpecifications, ec2types.TagSpecification{ResourceType: kind, Tags: x.tags(class.Name)})
	}
	return in
}

func (x *Examiner) ofCluster() []ec2types.Filter {
	return []ec2types.Filter{{Name: aws.String("tag:" + awsv1.ClusterNameTagKey), Values: []string{x.Cluster}}}
}

// anyTemplate returns a launch template of the cluster, "" if there is none.
func (x *Examiner) anyTemplate(ctx context.Context) string {
	answer, err := x.Cloud.EC2.DescribeLaunchTemplates(ctx, &ec2.DescribeLaunchTemplatesInput{Filters: x.ofCluster()})
	if err != nil || len(answer.LaunchTemplates) == 0 {
		return ""
	}
	return aws.ToString(answer.LaunchTemplates[0].LaunchTemplateId)
}

// anyMachine returns a running machine of a NodePool, "" if there is none.
func (x *Examiner) anyMachine(ctx context.Context) string {
	answer, err := x.Cloud.EC2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{Filters: append(x.ofCluster(),
		ec2types.Filter{Name: aws.String("tag-key"), Values: []string{v1.NodePoolLabelKey}}, ec2types.Filter{Name: aws.String("instance-state-name"), Values: []string{"running"}})})
	if err != nil {
		return ""
	}
	for _, r := range answer.Reservations {
		for _, i := range r.Instances {
			return aws.ToString(i.InstanceId)
		}
	}
	return ""
}

// readOthers makes the controller's reading calls to the other services.
func (x *Examiner) readOthers(ctx context.Context) (out []try) {
	add := func(action string, err error) { out = append(out, try{action: action, err: err}) }
	answer, err := x.Cloud.EKS.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: aws.String(x.Cluster)})
	add("eks:DescribeCluster", err)
	version := "1.34"
	if err == nil && answer.Cluster != nil {
		version = aws.ToString(answer.Cluster.Version)
	}
	_, err = x.Cloud.SSM.GetParameter(ctx, &ssm.GetParameterInput{Name: aws.String("/aws/service/eks/optimized-ami/" + version + "/amazon-linux-2023/x86_64/standard/recommended/image_id")})
	add("ssm:GetParameter", err)
	if x.Queue != "" {
		_, err = x.Cloud.SQS.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: aws.String(x.Queue)})
		add("sqs:GetQueueUrl", err)
	}
	if x.Isolated {
		return out
	}
	_, err = x.Cloud.IAM.GetInstanceProfile(ctx, &iam.GetInstanceProfileInput{InstanceProfileName: aws.String(x.Cluster + "_doctor")})
	add("iam:GetInstanceProfile", err)
	_, err = x.Cloud.IAM.ListInstanceProfiles(ctx, &iam.ListInstanceProfilesInput{PathPrefix: aws.String(x.finder.ProfilePath(nil)), MaxItems: aws.Int32(1)})
	add("iam:ListInstanceProfiles", err)
	_, err = x.Cloud.Pricing.GetProducts(ctx, &pricing.GetProductsInput{ServiceCode: aws.String("AmazonEC2"), MaxResults: aws.Int32(1), Filters: []pricingtypes.Filter{
		{Type: pricingtypes.FilterTypeTermMatch, Field: aws.String("instanceType"), Value: aws.String("m5.large")}}})
	add("pricing:GetProducts", err)
	for _, action := range []string{"iam:CreateInstanceProfile", "iam:TagInstanceProfile", "iam:AddRoleToInstanceProfile", "iam:RemoveRoleFromInstanceProfile", "iam:DeleteInstanceProfile"} {
		out = append(out, try{action: action, not: "IAM does not let it be tried"})
	}
	return out
}

// passing reports whether a launch was refused because the caller may not pass the role on.
func passing(err error) bool {
	return cloud.Denied(err) && strings.Contains(err.Error(), "iam:PassRole")
}

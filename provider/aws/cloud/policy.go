package cloud

import (
	"regexp"
	"strings"
)

// made matches the resources that a launch makes.
var made = regexp.MustCompile(`:(fleet|instance|volume|network-interface|launch-template|spot-instances-request)/\*?$`)

// Statement returns the Sid of the statement in the installation's policies that allows an action. It returns "" if there is no such statement.
// If several statements allow the action, the resource, an ARN, decides between them.
func Statement(action, resource string) string {
	switch {
	case strings.Contains(resource, ":launch-template/") && (action == "ec2:RunInstances" || action == "ec2:CreateFleet"):
		return "AllowScopedEC2LaunchTemplateAccessActions"
	case made.MatchString(resource) && action == "ec2:CreateTags":
		return "AllowScopedResourceCreationTagging"
	case made.MatchString(resource) && (action == "ec2:RunInstances" || action == "ec2:CreateFleet"):
		return "AllowScopedEC2InstanceActionsWithTags"
	}
	switch action {
	case "ec2:DescribeCapacityReservations", "ec2:DescribeImages", "ec2:DescribeInstances", "ec2:DescribeInstanceStatus",
		"ec2:DescribeInstanceTypeOfferings", "ec2:DescribeInstanceTypes", "ec2:DescribeLaunchTemplates", "ec2:DescribePlacementGroups",
		"ec2:DescribeSecurityGroups", "ec2:DescribeSpotPriceHistory", "ec2:DescribeSubnets":
		return "AllowRegionalReadActions"
	case "ec2:RunInstances", "ec2:CreateFleet":
		return "AllowScopedEC2InstanceAccessActions"
	case "ec2:CreateLaunchTemplate":
		return "AllowScopedEC2InstanceActionsWithTags"
	case "ec2:CreateTags":
		return "AllowScopedResourceTagging"
	case "ec2:TerminateInstances", "ec2:DeleteLaunchTemplate":
		return "AllowScopedDeletion"
	case "iam:PassRole":
		return "AllowPassingInstanceRole"
	case "iam:CreateInstanceProfile":
		return "AllowScopedInstanceProfileCreationActions"
	case "iam:TagInstanceProfile":
		return "AllowScopedInstanceProfileTagActions"
	case "iam:AddRoleToInstanceProfile", "iam:RemoveRoleFromInstanceProfile", "iam:DeleteInstanceProfile":
		return "AllowScopedInstanceProfileActions"
	case "iam:GetInstanceProfile":
		return "AllowInstanceProfileReadActions"
	case "iam:ListInstanceProfiles":
		return "AllowUnscopedInstanceProfileListAction"
	case "eks:DescribeCluster":
		return "AllowAPIServerEndpointDiscovery"
	case "sqs:DeleteMessage", "sqs:GetQueueUrl", "sqs:ReceiveMessage":
		return "AllowInterruptionQueueActions"
	case "arc-zonal-shift:GetManagedResource":
		return "AllowZonalShiftStatusReadOnly"
	case "ssm:GetParameter":
		return "AllowSSMReadActions"
	case "pricing:GetProducts":
		return "AllowPricingReadActions"
	}
	return ""
}

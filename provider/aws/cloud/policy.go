package cloud

import (
	"regexp"
	"strings"
)

// made matches the resources that a launch makes.
var made = regexp.MustCompile(`:(fleet|instance|volume|network-interface|launch-template|spot-instances-request)/\*?$`)

// statements holds, by action, the Sid of the statement that allows it on resources that exist.
var statements = map[string]string{
	"ec2:DescribeCapacityReservations":   "AllowRegionalReadActions",
	"ec2:DescribeImages":                 "AllowRegionalReadActions",
	"ec2:DescribeInstances":              "AllowRegionalReadActions",
	"ec2:DescribeInstanceStatus":         "AllowRegionalReadActions",
	"ec2:DescribeInstanceTypeOfferings":  "AllowRegionalReadActions",
	"ec2:DescribeInstanceTypes":          "AllowRegionalReadActions",
	"ec2:DescribeLaunchTemplates":        "AllowRegionalReadActions",
	"ec2:DescribePlacementGroups":        "AllowRegionalReadActions",
	"ec2:DescribeSecurityGroups":         "AllowRegionalReadActions",
	"ec2:DescribeSpotPriceHistory":       "AllowRegionalReadActions",
	"ec2:DescribeSubnets":                "AllowRegionalReadActions",
	"ec2:RunInstances":                   "AllowScopedEC2InstanceAccessActions",
	"ec2:CreateFleet":                    "AllowScopedEC2InstanceAccessActions",
	"ec2:CreateLaunchTemplate":           "AllowScopedEC2InstanceActionsWithTags",
	"ec2:CreateTags":                     "AllowScopedResourceTagging",
	"ec2:TerminateInstances":             "AllowScopedDeletion",
	"ec2:DeleteLaunchTemplate":           "AllowScopedDeletion",
	"iam:PassRole":                       "AllowPassingInstanceRole",
	"iam:CreateInstanceProfile":          "AllowScopedInstanceProfileCreationActions",
	"iam:TagInstanceProfile":             "AllowScopedInstanceProfileTagActions",
	"iam:AddRoleToInstanceProfile":       "AllowScopedInstanceProfileActions",
	"iam:RemoveRoleFromInstanceProfile":  "AllowScopedInstanceProfileActions",
	"iam:DeleteInstanceProfile":          "AllowScopedInstanceProfileActions",
	"iam:GetInstanceProfile":             "AllowInstanceProfileReadActions",
	"iam:ListInstanceProfiles":           "AllowUnscopedInstanceProfileListAction",
	"eks:DescribeCluster":                "AllowAPIServerEndpointDiscovery",
	"sqs:DeleteMessage":                  "AllowInterruptionQueueActions",
	"sqs:GetQueueUrl":                    "AllowInterruptionQueueActions",
	"sqs:ReceiveMessage":                 "AllowInterruptionQueueActions",
	"arc-zonal-shift:GetManagedResource": "AllowZonalShiftStatusReadOnly",
	"ssm:GetParameter":                   "AllowSSMReadActions",
	"pricing:GetProducts":                "AllowPricingReadActions",
}

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
	return statements[action]
}

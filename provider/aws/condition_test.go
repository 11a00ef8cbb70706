package aws_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/api/awsv1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/provider/aws"
	"tenon.sh/provider/aws/awstest"
)

// want checks a condition of a class.
func (w *world) want(c *awsv1.EC2NodeClass, condition string, status metav1.ConditionStatus, reason string, says ...string) {
	w.Helper()
	is := v1.GetCondition(c, condition)
	if is == nil || is.Status != status || is.Reason != reason {
		w.Errorf("condition %+v, want %s %s %s", is, condition, status, reason)
		return
	}
	for _, part := range says {
		if !strings.Contains(is.Message, part) {
			w.Errorf("%s: %q does not say %q", condition, is.Message, part)
		}
	}
}

func TestAParameterThatNamesNoImageIsNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, untried)
	c := w.class("general", func(c *awsv1.EC2NodeClass) {
		c.Spec.AMIFamily, c.Spec.AMISelectorTerms = new("AL2023"), []awsv1.AMISelectorTerm{{SSMParameter: "/team/none"}}
	})
	w.resolve(c)
	w.want(c, awsv1.ConditionAMIsReady, "False", awsv1.ReasonAMINotFound, "/team/none", "us-west-2")
}

// A lasting problem has the reason that upstream's dashboards and runbooks know.
func TestTheRangeOfTheServicesCannotBeFound(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *aws.Config) {
		untried(c)
		c.EKSControlPlane, c.Version, c.ClusterEndpoint = false, version{"1", "34"}, "https://api.example.com"
	})
	w.account.Fail("eks:DescribeCluster", awstest.Fault{Status: 403, Code: "AccessDeniedException", Message: "no"})
	c := w.class("general", nil)
	w.resolve(c)
	w.want(c, awsv1.ConditionValidationSucceeded, "False", awsv1.ReasonClusterCIDRResolutionFailed, "demo", "eks:DescribeCluster", "AllowAPIServerEndpointDiscovery")

	// Other families do not need it.
	other := w.class("bottlerocket", func(c *awsv1.EC2NodeClass) { c.Spec.AMISelectorTerms[0].Alias = "bottlerocket@latest" })
	if problem := w.resolve(other); problem != "" {
		t.Error(problem)
	}

	w.account.Heal()
	w.account.Fail("eks:DescribeCluster", awstest.Fault{Status: 500, Code: "ServerException", Message: "busy"})
	w.clock.Step(time.Minute)
	w.resolve(c)
	w.want(c, awsv1.ConditionValidationSucceeded, "Unknown", awsv1.ReasonResolutionFailed, "demo")

	w.account.Heal()
	w.clock.Step(time.Minute)
	if problem := w.resolve(c); problem != "" || !v1.IsTrue(c, awsv1.ConditionValidationSucceeded) {
		t.Errorf("EKS answers: %q", problem)
	}
}

func TestThePlacementGroupCannotBeLookedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t, untried)
	w.account.SetPlacementGroups(awstest.PlacementGroup{ID: "pg-1", Name: "racks", Strategy: "cluster"})
	c := w.class("general", func(c *awsv1.EC2NodeClass) {
		c.Spec.PlacementGroupSelector = &awsv1.PlacementGroupSelector{Name: "racks"}
	})
	w.account.Fail("ec2:DescribePlacementGroups", awstest.Fault{Status: 403, Code: "UnauthorizedOperation", Message: "no"})
	w.resolve(c)
	w.want(c, awsv1.ConditionPlacementGroupReady, "False", awsv1.ReasonPlacementGroupResolutionFailed, "racks", "ec2:DescribePlacementGroups", "AllowRegionalReadActions")

	w.account.Heal()
	w.clock.Step(time.Minute)
	if problem := w.resolve(c); problem != "" || !v1.IsTrue(c, awsv1.ConditionPlacementGroupReady) {
		t.Fatalf("EC2 answers: %q", problem)
	}
	// A known group is used while EC2 does not answer.
	w.account.Fail("ec2:DescribePlacementGroups", awstest.Fault{Status: 500, Code: "InternalError"})
	w.clock.Step(2 * time.Minute)
	if problem := w.resolve(c); problem != "" || !v1.IsTrue(c, awsv1.ConditionPlacementGroupReady) {
		t.Errorf("EC2 does not answer: %q", problem)
	}
}

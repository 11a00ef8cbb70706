package aws_test

import (
	"strings"
	"testing"

	"tenon.sh/provider/aws"
	"tenon.sh/provider/aws/awstest"
)

func TestCheckSaysEverythingThatIsWrong(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.must(w.provider.Check(t.Context()))

	bad := newWorld(t, func(c *aws.Config) { c.ClusterName = "another" })
	bad.account.Fail("ec2:DescribeInstanceTypes", awstest.Fault{Status: 403, Code: "UnauthorizedOperation"})
	err := bad.provider.Check(t.Context())
	for _, want := range []string{"reach EC2 in us-west-2", "allow ec2:DescribeInstanceTypes", "describe cluster another", "CLUSTER_ENDPOINT"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}

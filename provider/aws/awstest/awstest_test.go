package awstest_test

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/arczonalshift"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"tenon.sh/provider/aws/awstest"
)

func TestMain(m *testing.M) { os.Exit(awstest.Run(m)) }

func TestEveryAccountHasItsOwn(t *testing.T) {
	t.Parallel()
	a, b := awstest.New(t), awstest.New(t)
	a.NewSubnet(a.NewNetwork(), "us-west-2a", "10.0.1.0/24", map[string]string{"mine": "yes"})
	count := func(account *awstest.Account) int {
		out, err := ec2.NewFromConfig(account.Config()).DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{
			Filters: []ec2types.Filter{{Name: new("tag:mine"), Values: []string{"yes"}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return len(out.Subnets)
	}
	if count(a) != 1 || count(b) != 0 || len(b.Calls("ec2:DescribeSubnets")) != 1 {
		t.Errorf("one account has %d subnets, the other %d", count(a), count(b))
	}
}

func TestAFaultComesWhenItIsDueAndGoes(t *testing.T) {
	t.Parallel()
	a := awstest.New(t)
	a.Fail("ec2:DescribeSubnets", awstest.Fault{Code: "InvalidParameterValue", After: 1, Times: 2})
	got := ""
	for range 5 {
		_, err := ec2.NewFromConfig(a.Config()).DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{})
		got += map[bool]string{true: ".", false: "x"}[err == nil]
	}
	if got != ".xx.." {
		t.Errorf("calls went %s, want .xx..", got)
	}
}

func TestZonalShiftsAreTold(t *testing.T) {
	t.Parallel()
	a := awstest.New(t)
	until := time.Now().Add(time.Hour).Truncate(time.Second)
	a.SetZonalShifts(map[string]time.Time{"usw2-az1": until})
	out, err := arczonalshift.NewFromConfig(a.Config()).GetManagedResource(t.Context(), &arczonalshift.GetManagedResourceInput{ResourceIdentifier: new("arn:aws:eks:us-west-2:1:cluster/demo")})
	if err != nil || len(out.ZonalShifts) != 1 || *out.ZonalShifts[0].AwayFrom != "usw2-az1" || !out.ZonalShifts[0].ExpiryTime.Equal(until) {
		t.Errorf("got %+v, %v", out, err)
	}
}

// Work that empties a bucket takes as long as the bucket's refill, and the meter shows it.
func TestNoWorkIsDoneFasterThanTheLimitsAllow(t *testing.T) {
	t.Parallel()
	a := awstest.New(t)
	client := ec2.NewFromConfig(a.Config(), func(o *ec2.Options) { o.Retryer = awssdk.NopRetryer{} })
	stop := func(machines int) {
		for refused := -1; a.Refused() > refused; { // an empty list of machines is an answer too
			refused = a.Refused()
			_, _ = client.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: slices.Repeat([]string{"i-0123456789abcdef0"}, machines)})
		}
	}
	a.Enforce()
	least, began := a.Meter(), time.Now()
	stop(1000)
	if allowed := least(); allowed != 0 {
		t.Errorf("the limits make 1000 machines take %s", allowed)
	}
	stop(20)
	if took, allowed := time.Since(began), least(); allowed != time.Second || allowed > took {
		t.Errorf("the limits make 1020 machines take %s, and they took %s", allowed, took)
	}
}

func TestWhereThereIsNoMoto(t *testing.T) {
	t.Parallel()
	for ci, want := range map[string][]string{
		"":     {"--- SKIP: TestEveryAccountHasItsOwn", "did not run: no moto_server on the PATH", "pip install"},
		"true": {"--- FAIL: TestEveryAccountHasItsOwn", "no moto_server on the PATH"},
	} {
		again := exec.Command(os.Args[0], "-test.run=^TestEveryAccountHasItsOwn$", "-test.v")
		again.Env = []string{"PATH=/none", "HOME=" + t.TempDir(), "CI=" + ci}
		output, err := again.CombinedOutput()
		if (err != nil) != (ci != "") {
			t.Errorf("CI=%q: %v", ci, err)
		}
		for _, w := range want {
			if !strings.Contains(string(output), w) {
				t.Errorf("CI=%q: the output does not say %q:\n%s", ci, w, output)
			}
		}
	}
}

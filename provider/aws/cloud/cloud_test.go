package cloud_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenon.sh/provider/aws/awstest"
	"tenon.sh/provider/aws/cloud"
)

func TestMain(m *testing.M) { os.Exit(awstest.Run(m)) }

// kindOf returns the kinds of an error.
func kindOf(err error) (kinds string) {
	for _, k := range []struct {
		name string
		is   func(error) bool
	}{{"not-found", cloud.NotFound}, {"exists", cloud.AlreadyExists}, {"dry-run", cloud.DryRunSucceeded}, {"denied", cloud.Denied},
		{"unknown", cloud.Unknown}, {"throttled", cloud.Throttled}, {"passing", cloud.Passing}} {
		if k.is(err) {
			kinds += k.name + " "
		}
	}
	return strings.TrimSpace(kinds)
}

func TestErrorsOfAWSAreToldApart(t *testing.T) {
	t.Parallel()
	const deny = "User is not authorized to perform this, with an explicit deny in a "
	for _, test := range []struct {
		fault      awstest.Fault
		want, says string
	}{
		{awstest.Fault{Code: "InvalidInstanceID.NotFound"}, "not-found", ""},
		{awstest.Fault{Code: "InvalidLaunchTemplateName.NotFoundException"}, "not-found", ""},
		{awstest.Fault{Code: "InvalidPlacementGroup.Unknown"}, "not-found", ""},
		{awstest.Fault{Status: 412, Code: "DryRunOperation"}, "dry-run", ""},
		{awstest.Fault{Status: 403, Code: "UnauthorizedOperation"}, "denied", "allow ec2:DescribeSubnets to the controller's role (statement AllowRegionalReadActions of the controller's policy)"},
		{awstest.Fault{Status: 403, Code: "UnauthorizedOperation", Message: deny + "permissions boundary"}, "denied", "a permissions boundary forbids ec2:DescribeSubnets"},
		{awstest.Fault{Status: 403, Code: "UnauthorizedOperation", Message: deny + "service control policy"}, "denied", "a service control policy forbids ec2:DescribeSubnets"},
		{awstest.Fault{Status: 401, Code: "AuthFailure"}, "unknown", "does not accept the controller's credentials"},
		{awstest.Fault{Status: 400, Code: "RequestExpired"}, "unknown", "have expired"},
		{awstest.Fault{Status: 503, Code: "RequestLimitExceeded"}, "throttled passing", ""},
		{awstest.Fault{Status: 500, Code: "InternalError"}, "passing", ""},
		{awstest.Fault{Status: -1}, "passing", ""},
		{awstest.Fault{Status: 400, Code: "InvalidParameterValue"}, "", ""},
	} {
		account := awstest.New(t)
		account.Fail("ec2:DescribeSubnets", test.fault)
		c, err := cloud.New(account.Config())
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.EC2.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{})
		if got := kindOf(err); got != test.want {
			t.Errorf("%+v is %q, want %q: %v", test.fault, got, test.want, err)
		}
		if explained := (*cloud.ExplainedError)(nil); errors.As(err, &explained) != (test.says != "") || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%+v: %v, want %q", test.fault, err, test.says)
		}
		if got := cloud.ActionOf(err); got != "ec2:DescribeSubnets" {
			t.Errorf("%+v: action %q", test.fault, got)
		}
	}
	if got := kindOf(nil); got != "" {
		t.Errorf("no error is %q", got)
	}
}

func TestTheTextOfAnErrorIsTheSameForTheSameTrouble(t *testing.T) {
	t.Parallel()
	account := awstest.New(t)
	c, err := cloud.New(account.Config())
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range []awstest.Fault{
		{Status: 403, Code: "UnauthorizedOperation", Message: "You may not. Encoded authorization failure message: abc"}, {Status: 500, Code: "InternalError"}, {Status: -1},
	} {
		account.Fail("ec2:DescribeSubnets", fault)
		_, first := c.EC2.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{})
		_, second := c.EC2.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{})
		if a, b := cloud.Text(first), cloud.Text(second); a != b || !strings.Contains(a, fault.Code) {
			t.Errorf("one time %s\nthen     %s", a, b)
		}
		account.Heal()
	}
	if got := cloud.Text(errors.New("read tcp 10.0.0.1:4567->10.0.0.2:443: reset, RequestID: abc-1, api error X: y")); got != "read tcp 10.0.0.2:443: reset, api error X: y" {
		t.Errorf("got %s", got)
	}
}

func TestWhatMotoSaysIsUnderstood(t *testing.T) {
	t.Parallel()
	c, err := cloud.New(awstest.New(t).Config())
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.SQS.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: new("none")})
	if got := kindOf(err); got != "not-found" {
		t.Errorf("no queue: %q, %v", got, err)
	}
	_, err = c.IAM.GetInstanceProfile(t.Context(), &iam.GetInstanceProfileInput{InstanceProfileName: new("none")})
	if got := kindOf(err); got != "not-found" {
		t.Errorf("no profile: %q, %v", got, err)
	}
	in := &iam.CreateInstanceProfileInput{InstanceProfileName: new("one")}
	if _, err = c.IAM.CreateInstanceProfile(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	_, err = c.IAM.CreateInstanceProfile(t.Context(), in)
	if got := kindOf(err); got != "exists" {
		t.Errorf("a profile that is there: %q, %v", got, err)
	}
}

// The SDK's standard environment variables select another endpoint. The environment is global, so this test cannot run in parallel.
func TestTheStandardEnvironmentOfTheSDKIsHeeded(t *testing.T) {
	account := awstest.New(t)
	for name, value := range map[string]string{
		"AWS_REGION": awstest.Region, "AWS_ENDPOINT_URL": account.URL, "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",
	} {
		t.Setenv(name, value)
	}
	sdk, err := cloud.Load(t.Context(), "tenon")
	if err != nil {
		t.Fatal(err)
	}
	c, err := cloud.New(sdk)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.EC2.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{}); err != nil || c.Region != awstest.Region {
		t.Errorf("region %s, %v", c.Region, err)
	}
	if len(account.Calls("ec2:DescribeSubnets")) != 1 {
		t.Error("the call went elsewhere")
	}
}

func TestNoCredentialsAtAllIsSaid(t *testing.T) {
	account := awstest.New(t)
	for name, value := range map[string]string{
		"AWS_REGION": awstest.Region, "AWS_ENDPOINT_URL": account.URL, "AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_EC2_METADATA_DISABLED": "true",
		"AWS_CONFIG_FILE": "/none", "AWS_SHARED_CREDENTIALS_FILE": "/none", "AWS_PROFILE": "",
	} {
		t.Setenv(name, value)
	}
	sdk, err := cloud.Load(t.Context(), "tenon")
	if err != nil {
		t.Fatal(err)
	}
	c, err := cloud.New(sdk)
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.EC2.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{})
	if err == nil || kindOf(err) != "unknown" || !strings.Contains(err.Error(), "or there are none") {
		t.Errorf("%q: %v", kindOf(err), err)
	}
}

package examine_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/api/awsv1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/provider"
	"tenon.sh/provider/aws/awstest"
	"tenon.sh/provider/aws/cloud"
	"tenon.sh/provider/aws/examine"
	"tenon.sh/provider/aws/template"
)

func TestMain(m *testing.M) { os.Exit(awstest.Run(m)) }

// world is an account with a cluster, a network, and a queue to which EventBridge may send.
type world struct {
	testing.TB
	account *awstest.Account
	queue   string
	class   *awsv1.EC2NodeClass
}

const policy = `{"Statement":[{"Effect":"Allow","Principal":{"Service":["events.amazonaws.com","sqs.amazonaws.com"]},"Action":"sqs:SendMessage","Resource":"*"}]}`

func newWorld(t *testing.T, addresses string) *world {
	t.Helper()
	w := &world{TB: t, account: awstest.New(t)}
	w.account.NewCluster("")
	network, tags := w.account.NewNetwork(), map[string]string{"discovery": "demo"}
	subnet := w.account.NewSubnet(network, "us-west-2a", addresses, tags)
	group := w.account.NewSecurityGroup(network, "nodes", tags)
	w.queue = w.account.NewQueue("interruptions")
	w.setPolicy(policy)
	w.class = &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	w.class.Spec.SubnetSelectorTerms = []awsv1.SubnetSelectorTerm{{Tags: awsv1.Tags{"discovery": "demo"}}}
	w.class.Status.AMIs = []awsv1.AMI{{ID: "ami-a1202300000000000"}}
	w.class.Status.Subnets = []awsv1.Subnet{{ID: subnet, Zone: "us-west-2a"}}
	w.class.Status.SecurityGroups = []awsv1.SecurityGroup{{ID: group}}
	return w
}

func (w *world) setPolicy(text string) {
	w.Helper()
	_, err := sqs.NewFromConfig(w.account.Config()).SetQueueAttributes(w.Context(), &sqs.SetQueueAttributesInput{
		QueueUrl: awssdk.String(w.queue), Attributes: map[string]string{"Policy": text},
	})
	if err != nil {
		w.Fatal(err)
	}
}

// found returns all findings that are not OK, one per line, and all findings.
func (w *world) found(queue string) (string, []provider.Finding) {
	w.Helper()
	c, err := cloud.New(w.account.Config())
	if err != nil {
		w.Fatal(err)
	}
	x := examine.New(examine.Config{Cloud: c, STS: sts.NewFromConfig(w.account.Config()), Cluster: awstest.Cluster, Queue: queue})
	all := x.Examine(w.Context(), []provider.Class{{Ref: v1.NodeClassReference{Name: "default"}, Object: w.class}})
	var lines []string
	for _, f := range all {
		if f.Level != provider.OK {
			lines = append(lines, fmt.Sprintf("%s %s: %s → %s", f.Level, f.Object, f.Says, f.Do))
		}
	}
	return strings.Join(lines, "\n"), all
}

func TestAnAccountThatAllowsEverythingHasNoFindings(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "10.0.0.0/24")
	got, all := w.found("interruptions")
	if got != "" {
		t.Error(got)
	}
	for _, part := range []string{"AWS is asked as arn:aws:", "actions are allowed", "EventBridge may send to it", "1 subnets in 1 zones have 251 free addresses", "no machine of the cluster runs: ec2:CreateTags, ec2:TerminateInstances"} {
		if !slices.ContainsFunc(all, func(f provider.Finding) bool { return strings.Contains(f.Says, part) }) {
			t.Errorf("%q is not said: %+v", part, all)
		}
	}
}

// The examination must not create, change or delete anything.
func TestLookingChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "10.0.0.0/24")
	w.found("interruptions")
	for _, call := range w.account.Calls("") {
		operation := call.Action[strings.Index(call.Action, ":")+1:]
		made := slices.Contains([]string{"CreateVpc", "CreateSubnet", "CreateSecurityGroup", "CreateQueue", "CreateCluster", "SetQueueAttributes"}, operation) // by the test itself
		reads := strings.HasPrefix(operation, "Describe") || strings.HasPrefix(operation, "Get") || strings.HasPrefix(operation, "List")
		if !made && !reads && call.Form.Get("DryRun") != "true" {
			t.Errorf("%s was called, and not only tried", call.Action)
		}
	}
	if n := len(w.account.Machines()); n > 0 {
		t.Errorf("%d machines run", n)
	}
}

// If a tried action is refused, the finding names it with the policy's statement that allows it.
func TestARefusedActionIsNamedWithItsStatement(t *testing.T) {
	t.Parallel()
	for action, statement := range map[string]string{
		"ec2:DescribeSpotPriceHistory": "AllowRegionalReadActions", "ec2:RunInstances": "AllowScopedEC2InstanceAccessActions", "ec2:CreateLaunchTemplate": "AllowScopedEC2InstanceActionsWithTags",
		"iam:ListInstanceProfiles": "AllowUnscopedInstanceProfileListAction", "pricing:GetProducts": "AllowPricingReadActions", "ssm:GetParameter": "AllowSSMReadActions",
		"eks:DescribeCluster": "AllowAPIServerEndpointDiscovery", "ec2:TerminateInstances": "AllowScopedDeletion", "ec2:CreateTags": "AllowScopedResourceTagging",
	} {
		t.Run(action, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "10.0.0.0/24")
			w.startMachine()
			w.account.Fail(action, awstest.Fault{Status: 403, Code: map[bool]string{true: "UnauthorizedOperation", false: "AccessDeniedException"}[strings.HasPrefix(action, "ec2:")], Message: "You may not."})
			got, _ := w.found("interruptions")
			if !strings.Contains(got, "problem "+action+": it is not allowed") || !strings.Contains(got, "allow "+action+", by statement "+statement) || strings.Contains(got, "\n") {
				t.Errorf("got %s", got)
			}
		})
	}
}

// startMachine starts a machine with the controller's tags.
func (w *world) startMachine() {
	w.Helper()
	s := &w.class.Status
	tags := map[string]string{"eks:eks-cluster-name": awstest.Cluster, "karpenter.sh/nodepool": "general"}
	client := ec2.NewFromConfig(w.account.Config())
	out, err := client.RunInstances(w.Context(), &ec2.RunInstancesInput{
		ImageId: awssdk.String(s.AMIs[0].ID), InstanceType: "m5.large", MinCount: awssdk.Int32(1), MaxCount: awssdk.Int32(1), SubnetId: awssdk.String(s.Subnets[0].ID),
	})
	if err != nil {
		w.Fatal(err)
	}
	for key, value := range tags {
		_, err := client.CreateTags(w.Context(), &ec2.CreateTagsInput{Resources: []string{*out.Instances[0].InstanceId}, Tags: template.Tags(map[string]string{key: value})})
		if err != nil {
			w.Fatal(err)
		}
	}
}

func TestARoleThatMayNotBePassedIsTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "10.0.0.0/24")
	w.account.Fail("ec2:RunInstances", awstest.Fault{Status: 403, Code: "UnauthorizedOperation", Message: "User: x is not authorized to perform: iam:PassRole on resource: r"})
	if got, _ := w.found("interruptions"); !strings.Contains(got, "problem iam:PassRole") || !strings.Contains(got, "AllowPassingInstanceRole") {
		t.Errorf("got %s", got)
	}
}

func TestAQueueThatBringsNoNoticesIsFound(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		queue, policy string
		messages      int
		want          string
	}{
		"none":                 {"", policy, 0, "warning : no interruption queue is configured"},
		"gone":                 {"other", policy, 0, "problem queue other: it does not exist"},
		"closed":               {"interruptions", `{"Statement":[{"Effect":"Deny","Principal":"*","Action":"sqs:*"}]}`, 0, "problem queue interruptions: its policy does not let events.amazonaws.com"},
		"open to everybody":    {"interruptions", `{"Statement":{"Effect":"Allow","Principal":"*","Action":"sqs:*"}}`, 0, ""},
		"open to somebody":     {"interruptions", `{"Statement":{"Effect":"Allow","Principal":{"Service":"sns.amazonaws.com"},"Action":"sqs:SendMessage"}}`, 0, "problem queue"},
		"full":                 {"interruptions", policy, 101, "warning queue interruptions: 101 messages wait in it"},
		"with a few messages ": {"interruptions", policy, 5, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "10.0.0.0/24")
			w.setPolicy(test.policy)
			for range test.messages {
				w.account.Send(w.queue, "x")
			}
			if got, _ := w.found(test.queue); !strings.HasPrefix(got, test.want) || test.want == "" && got != "" || strings.Contains(got, "\n") {
				t.Errorf("got %s", got)
			}
		})
	}
}

func TestSubnetsWithFewAddressesAreFound(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "10.0.0.0/28")
	if got, _ := w.found("interruptions"); !strings.Contains(got, "in us-west-2a has 11 free addresses") {
		t.Error(got)
	}
	w.class.Spec.SubnetSelectorTerms = []awsv1.SubnetSelectorTerm{{Tags: awsv1.Tags{"discovery": "nothing"}}}
	if got, _ := w.found("interruptions"); !strings.Contains(got, "problem EC2NodeClass default: its terms select no subnet") {
		t.Error(got)
	}
}

func TestWhereAWSDoesNotKnowWhoAsksNothingElseIsAsked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "10.0.0.0/24")
	w.account.Fail("sts:GetCallerIdentity", awstest.Fault{Status: 403, Code: "ExpiredToken"})
	got, all := w.found("interruptions")
	if len(all) != 1 || !strings.Contains(got, "problem : AWS does not answer") {
		t.Error(got)
	}
}

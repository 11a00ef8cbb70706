package accounttest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/zclconf/go-cty/cty"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"tenon.sh/api/awsv1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/lifecycle"
	"tenon.sh/provider"
	tenonaws "tenon.sh/provider/aws"
	"tenon.sh/provider/aws/awstest"
)

// A machine of each capacity type lives and ends, its class too, and IAM would have allowed everything on the way, with
// conditions on tags and all.
func TestThePoliciesLetMachinesLive(t *testing.T) {
	t.Parallel()
	account := awstest.New(t)
	calls := live(t, account)

	in := places()[0]
	in.account = account.ID
	m := readModule(t, in, map[string]cty.Value{"cluster_name": cty.StringVal("demo")})
	var statements []statement
	for _, p := range m.resource("aws_iam_policy", "controller").AsValueMap() {
		d, err := parsePolicy(p.GetAttr("policy").AsString())
		if err != nil {
			t.Fatal(err)
		}
		statements = append(statements, d.Statement...)
	}
	h := &history{place: in, nodeRole: m.value(m.locals["node_role_arn"], nil).AsString(), tags: map[string]map[string]string{}}
	for id, i := range account.Machines() {
		t.Errorf("%s still runs: %v", id, i.State)
	}
	used := map[string]bool{}
	for _, c := range calls {
		used[c.Action] = true
		if c.Action == "ec2:CreateFleet" { // whose machines get its tags
			for _, id := range machinesOf(calls) {
				h.tags["instance/"+id] = tagsOf(c, "TagSpecification.")["instance"]
			}
		}
		for _, r := range h.requests(t, c) {
			if !allowed(statements, r) {
				t.Errorf("%s: no policy allows %s", c.Action, r)
			}
		}
	}
	for _, action := range []string{"ec2:CreateFleet", "ec2:CreateLaunchTemplate", "ec2:CreateTags", "ec2:TerminateInstances", "ec2:DeleteLaunchTemplate",
		"iam:CreateInstanceProfile", "iam:AddRoleToInstanceProfile", "iam:DeleteInstanceProfile", "sqs:ReceiveMessage", "eks:DescribeCluster", "ssm:GetParameter"} {
		if !used[action] {
			t.Errorf("%s was never called: the life is not a whole one", action)
		}
	}
	// What belongs to nobody, or to another cluster, is not to be touched.
	for _, tags := range []map[string]string{nil, {"kubernetes.io/cluster/other": "owned", v1.NodePoolLabelKey: "general"}} {
		h.tags["instance/i-0"] = tags
		r := request{"ec2:TerminateInstances", h.arn("ec2", in.account, "instance/i-0"), keys(tags, nil)}
		if allowed(statements, r) {
			t.Errorf("a policy allows %s", r)
		}
	}
}

// machinesOf are the machines that calls end.
func machinesOf(calls []awstest.Call) (out []string) {
	for _, c := range calls {
		if c.Action == "ec2:TerminateInstances" {
			out = append(out, c.List("InstanceId")...)
		}
	}
	return out
}

// live takes two machines and their class from beginning to end, and returns the calls.
func live(t *testing.T, account *awstest.Account) []awstest.Call {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	account.NewCluster("")
	account.NewRole("KarpenterNodeRole-demo")
	account.NewQueue("demo")
	network, tags := account.NewNetwork(), map[string]string{"karpenter.sh/discovery": "demo"}
	account.NewSubnet(network, "us-west-2a", "10.0.0.0/24", tags)
	account.NewSecurityGroup(network, "nodes", tags)
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{awsv1.AddToScheme, v1.AddToScheme, corev1.AddToScheme} {
		must(add(scheme))
	}
	class := &awsv1.EC2NodeClass{
		ObjectMeta: metav1.ObjectMeta{Name: "default", UID: "class", Generation: 1},
		Spec: awsv1.EC2NodeClassSpec{
			Role: "KarpenterNodeRole-demo", AMISelectorTerms: []awsv1.AMISelectorTerm{{Alias: "al2023@latest"}}, Tags: awsv1.Tags{"team": "a"},
			SubnetSelectorTerms:        []awsv1.SubnetSelectorTerm{{Tags: awsv1.Tags{"karpenter.sh/discovery": "demo"}}},
			SecurityGroupSelectorTerms: []awsv1.SecurityGroupSelectorTerm{{Tags: awsv1.Tags{"karpenter.sh/discovery": "demo"}}},
		},
	}
	objects := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&awsv1.EC2NodeClass{}, &v1.NodeClaim{}).WithObjects(class).Build()
	clock, sdk := clocktesting.NewFakeClock(time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)), account.Config()
	before := len(account.Calls(""))
	ctx := log.IntoContext(t.Context(), logr.Discard())
	p, err := tenonaws.New(ctx, tenonaws.Config{ClusterName: "demo", InterruptionQueue: "demo", EKSControlPlane: true, Client: objects, Clock: clock, SDK: &sdk})
	must(err)
	must(p.Check(ctx))
	must(objects.Get(ctx, client.ObjectKeyFromObject(class), class))
	seen := provider.Class{Ref: v1.NodeClassReference{Group: awsv1.Group, Kind: "EC2NodeClass", Name: class.Name}, Object: class}
	if problem, err := p.Resolve(ctx, seen); err != nil || problem != "" {
		t.Fatal(problem, err)
	}
	must(p.Clean(ctx)) // puts the finalizer on the class
	var machines []engine.Machine
	for _, capacity := range []string{v1.CapacityTypeSpot, v1.CapacityTypeOnDemand} {
		claim := &v1.NodeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: capacity, Labels: map[string]string{v1.NodePoolLabelKey: "general"}},
			Spec: v1.NodeClaimSpec{NodeClassRef: &seen.Ref, Requirements: []v1.Requirement{
				{Key: v1.CapacityTypeLabelKey, Operator: v1.In, Values: []string{capacity}}, {Key: corev1.LabelInstanceTypeStable, Operator: v1.In, Values: []string{"m5.large"}},
			}},
		}
		must(objects.Create(ctx, claim))
		m, err := p.Launch(ctx, claim, seen)
		must(err)
		machines = append(machines, m)
		must(objects.Get(ctx, client.ObjectKeyFromObject(claim), claim))
		claim = lifecycle.Launched(claim, m, clock.Now())
		claim.Status.NodeName = "node-" + capacity
		must(objects.Status().Update(ctx, claim))
	}
	for _, source := range p.Sources() {
		_, err = source.Notices(ctx)
		must(err)
	}
	clock.Step(time.Minute) // a list of machines is believed for a while
	must(p.Clean(ctx))      // tags the machines
	end(t, p, machines, clock)
	must(objects.DeleteAllOf(ctx, &v1.NodeClaim{}))
	must(objects.Delete(ctx, class))
	must(p.Clean(ctx))
	if err := objects.Get(ctx, client.ObjectKeyFromObject(class), class); client.IgnoreNotFound(err) != nil || err == nil {
		t.Fatalf("the class is still there: %v", err)
	}
	return slices.Clone(account.Calls("")[before:])
}

// end stops the machines.
func end(t *testing.T, p *tenonaws.Provider, machines []engine.Machine, clock *clocktesting.FakeClock) {
	t.Helper()
	for range 2 {
		for _, m := range machines {
			if err := p.Terminate(t.Context(), m.ID); err != nil && !errors.Is(err, provider.ErrGone) {
				t.Fatal(err)
			}
		}
		clock.Step(time.Minute)
	}
}

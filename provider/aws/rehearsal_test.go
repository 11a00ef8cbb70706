package aws_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/api/awsv1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/provider/aws"
	"tenon.sh/provider/aws/awstest"
)

// denied returns EC2's refusal of a call because of a missing permission.
func denied(action, resource string) awstest.Fault {
	return awstest.Fault{Status: 403, Code: "UnauthorizedOperation", Message: "You are not authorized to perform this operation. User: arn:aws:sts::1:assumed-role/controller/x " +
		"is not authorized to perform: " + action + " on resource: " + resource + " because no identity-based policy allows the " + action +
		" action. Encoded authorization failure message: abc"}
}

// pool stores a pool of the class.
func (w *world) pool(name, class string, requirements ...v1.Requirement) *v1.NodePool {
	w.Helper()
	p := &v1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	p.Spec.Template.Spec.NodeClassRef = &v1.NodeClassReference{Group: awsv1.Group, Kind: "EC2NodeClass", Name: class}
	p.Spec.Template.Spec.Requirements = requirements
	w.must(w.client.Create(w.Context(), p))
	return p
}

func TestAClassWhoseMachinesMayNotBeStartedSaysWhatToAllow(t *testing.T) {
	t.Parallel()
	const region = "arn:aws:ec2:us-west-2:1:"
	deny := awstest.Fault{Status: 403, Code: "UnauthorizedOperation", Message: "not allowed, with an explicit deny in a service control policy"}
	for name, test := range map[string]struct {
		action string
		fault  awstest.Fault
		reason string
		says   []string
	}{
		"templates": {"ec2:CreateLaunchTemplate", denied("ec2:CreateLaunchTemplate", region+"launch-template/*"), awsv1.ReasonCreateLaunchTemplateAuthFailed,
			[]string{"allow ec2:CreateLaunchTemplate", "AllowScopedEC2InstanceActionsWithTags"}},
		"their tags": {"ec2:CreateLaunchTemplate", denied("ec2:CreateTags", region+"launch-template/*"), awsv1.ReasonCreateLaunchTemplateAuthFailed,
			[]string{"allow ec2:CreateTags", "AllowScopedResourceCreationTagging"}},
		"fleets": {"ec2:CreateFleet", denied("ec2:CreateFleet", region+"fleet/*"), awsv1.ReasonCreateFleetAuthFailed,
			[]string{"allow ec2:CreateFleet", "AllowScopedEC2InstanceActionsWithTags"}},
		"fleets from templates": {"ec2:CreateFleet", denied("ec2:CreateFleet", region+"launch-template/lt-1"), awsv1.ReasonCreateFleetAuthFailed,
			[]string{"allow ec2:CreateFleet", "AllowScopedEC2LaunchTemplateAccessActions"}},
		"fleets, by those above": {"ec2:CreateFleet", deny, awsv1.ReasonCreateFleetAuthFailed, []string{"a service control policy forbids ec2:CreateFleet"}},
		"machines":               {"ec2:RunInstances", denied("ec2:RunInstances", region+"subnet/subnet-1"), awsv1.ReasonRunInstancesAuthFailed, []string{"allow ec2:RunInstances", "AllowScopedEC2InstanceAccessActions"}},
		"the role of machines":   {"ec2:RunInstances", denied("iam:PassRole", "arn:aws:iam::1:role/nodes"), awsv1.ReasonRunInstancesAuthFailed, []string{"allow iam:PassRole", "AllowPassingInstanceRole"}},
		"user data": {"ec2:CreateLaunchTemplate", awstest.Fault{Code: "InvalidUserData.Malformed", Message: "User data is limited to 16384 bytes"},
			awsv1.ReasonUserDataTooLarge, []string{"16384"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			w.account.Fail(test.action, test.fault)
			c := w.class("general", nil)
			problem := w.resolve(c)
			got := v1.GetCondition(c, awsv1.ConditionValidationSucceeded)
			if got.Status != metav1.ConditionFalse || got.Reason != test.reason || v1.IsTrue(c, v1.ConditionReady) {
				t.Errorf("%s, %s: %s", got.Status, got.Reason, got.Message)
			}
			for _, says := range test.says {
				if !strings.Contains(got.Message, says) || !strings.Contains(problem, says) || strings.Contains(got.Message, "abc") {
					t.Errorf("message %q, problem %q, want %q and nothing encoded", got.Message, problem, says)
				}
			}
			if n := len(w.account.Calls(test.action)); n > 3 {
				t.Errorf("%d calls", n)
			}
			w.account.Heal()
			w.clock.Step(2 * time.Minute)
			if problem := w.resolve(c); problem != "" || !v1.IsTrue(c, v1.ConditionReady) {
				t.Errorf("once it is allowed: %q", problem)
			}
			if n := len(w.account.Machines()); n > 0 {
				t.Errorf("%d machines were started", n)
			}
		})
	}
}

func TestWhetherMachinesMayBeStartedIsTriedNowAndThen(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	c := w.resolved("general", nil)
	tried := func() int { return len(w.account.Calls("ec2:RunInstances")) }
	for range 5 {
		w.clock.Step(5 * time.Minute)
		w.resolve(c)
	}
	if tried() != 1 {
		t.Errorf("%d times within half an hour", tried())
	}
	w.clock.Step(10 * time.Minute)
	w.resolve(c)
	if tried() != 2 {
		t.Errorf("%d times after half an hour, want 2", tried())
	}
	c.Annotations["example.com/again"] = "now"
	w.resolve(c)
	if tried() != 3 {
		t.Errorf("%d times after a change, want 3", tried())
	}
	for _, call := range append(w.account.Calls("ec2:RunInstances"), w.account.Calls("ec2:CreateFleet")...) {
		if call.Form.Get("DryRun") != "true" {
			t.Errorf("%s is meant", call.Action)
		}
	}
	if n := len(w.account.Calls("ec2:CreateLaunchTemplate")); n != 1 {
		t.Errorf("%d launch templates", n)
	}
}

// EC2 is not asked repeatedly for a class that it has refused.
func TestARefusalIsBelievedForAWhile(t *testing.T) {
	t.Parallel()
	invalid := awstest.Fault{Code: "InvalidParameterCombination", Message: "The parameter groupName cannot be used with this subnet"}
	for name, test := range map[string]struct {
		action  string
		fault   awstest.Fault
		given   bool // the class names an instance profile
		most    int  // calls
		renewed func(*awsv1.EC2NodeClass)
	}{
		"machines that may not be":   {"ec2:RunInstances", denied("ec2:RunInstances", "subnet/x"), false, 2, nil},
		"machines that cannot be":    {"ec2:RunInstances", invalid, false, 2, nil},
		"machines without a profile": {"ec2:RunInstances", awstest.Fault{Code: "InvalidParameterValue", Message: "Invalid IAM Instance Profile name"}, true, 2, nil},
		"fleets that cannot be":      {"ec2:CreateFleet", invalid, false, 1, nil},
		"templates that cannot be":   {"ec2:CreateLaunchTemplate", invalid, false, 1, nil},
		"machines of another role":   {"ec2:RunInstances", invalid, false, 2, func(c *awsv1.EC2NodeClass) { c.Spec.Role = "others" }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			w.account.NewRole("others")
			network, tags := w.account.NewNetwork(), map[string]string{"many": "yes"}
			for i := range 6 {
				w.account.NewSubnet(network, "us-west-2"+string("ab"[i%2]), fmt.Sprintf("10.0.%d.0/24", i), tags)
			}
			w.account.Fail(test.action, test.fault)
			c := w.class("general", func(c *awsv1.EC2NodeClass) {
				c.Spec.SubnetSelectorTerms = []awsv1.SubnetSelectorTerm{{Tags: tags}}
				if test.given {
					c.Spec.Role, c.Spec.InstanceProfile = "", new("given")
				}
			})
			tried := func(when string, most int) {
				t.Helper()
				before := len(w.account.Calls(test.action))
				if w.resolve(c) == "" {
					t.Errorf("%s: no problem", when)
				}
				if n := len(w.account.Calls(test.action)) - before; n > most || most > 0 && n == 0 {
					t.Errorf("%s: %d calls, want %d at most", when, n, most)
				}
			}
			tried("at first", test.most)
			for range 3 {
				w.clock.Step(30 * time.Second)
				tried("soon after", 0)
			}
			if test.renewed == nil {
				test.renewed = func(c *awsv1.EC2NodeClass) { c.Spec.Tags = map[string]string{"team": "a"} }
			}
			test.renewed(c)
			c.Generation++
			tried("after an edit", test.most)
			w.account.Heal()
			w.clock.Step(2 * time.Minute)
			if problem := w.resolve(c); problem != "" {
				t.Errorf("once nothing is wrong: %s", problem)
			}
		})
	}
}

// untried makes classes ready without a rehearsal.
func untried(c *aws.Config) { c.DisableDryRun = true }

func TestNothingIsTriedWhereThatIsSwitchedOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t, untried)
	w.resolved("general", nil)
	if n := len(w.account.Calls("ec2:CreateLaunchTemplate")) + len(w.account.Calls("ec2:CreateFleet")) + len(w.account.Calls("ec2:RunInstances")); n > 0 {
		t.Errorf("%d calls", n)
	}
}

func TestTroubleWhileTryingIsNoVerdict(t *testing.T) {
	t.Parallel()
	noProfile := awstest.Fault{Code: "InvalidParameterValue", Message: "Value (x) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name"}
	for name, test := range map[string]struct {
		action  string
		fault   awstest.Fault
		given   bool // the class names an instance profile
		status  metav1.ConditionStatus
		reason  string
		message string
	}{
		"throttled":             {"ec2:CreateFleet", awstest.Fault{Status: 503, Code: "RequestLimitExceeded"}, false, "Unknown", awsv1.ReasonResolutionFailed, "RequestLimitExceeded"},
		"internal error":        {"ec2:RunInstances", awstest.Fault{Status: 500, Code: "InternalError"}, false, "Unknown", awsv1.ReasonResolutionFailed, "InternalError"},
		"no answer":             {"ec2:CreateLaunchTemplate", awstest.Fault{Status: -1}, false, "Unknown", awsv1.ReasonResolutionFailed, "launch template"},
		"one subnet in trouble": {"ec2:RunInstances", awstest.Fault{Status: 500, Code: "InternalError", Times: 1}, false, "True", "", ""},
		"no capacity":           {"ec2:RunInstances", awstest.Fault{Code: "InsufficientInstanceCapacity"}, false, "True", "", ""},
		"a young profile":       {"ec2:RunInstances", noProfile, false, "Unknown", awsv1.ReasonResolutionFailed, "Instance Profile"},
		"a missing profile":     {"ec2:RunInstances", noProfile, true, "False", awsv1.ReasonInstanceProfileNotFound, "which spec.instanceProfile names"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			w.account.Fail(test.action, test.fault)
			c := w.class("general", func(c *awsv1.EC2NodeClass) {
				if test.given {
					c.Spec.Role, c.Spec.InstanceProfile = "", new("given")
				}
			})
			w.resolve(c)
			got := v1.GetCondition(c, awsv1.ConditionValidationSucceeded)
			if got.Status != test.status || test.reason != "" && got.Reason != test.reason || !strings.Contains(got.Message, test.message) {
				t.Errorf("%s, %s: %s", got.Status, got.Reason, got.Message)
			}
			w.account.Heal()
			if test.given { // a person must correct this, which takes some time
				w.clock.Step(2 * time.Minute)
			}
			w.clock.Step(10 * time.Second)
			if problem := w.resolve(c); problem != "" {
				t.Errorf("afterwards %q", problem)
			}
			// A ready class stays ready while the answer is unknown.
			w.account.Fail(test.action, test.fault)
			w.clock.Step(time.Hour)
			if w.resolve(c); !test.given && !v1.IsTrue(c, v1.ConditionReady) {
				t.Errorf("a class that was ready: %+v", v1.GetCondition(c, awsv1.ConditionValidationSucceeded))
			}
		})
	}
}

func TestWhatPoolsWouldStartIsTried(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		requirements []v1.Requirement
		kind         func(string) bool
		tenancy      string
	}{
		"their types":          {[]v1.Requirement{in(corev1.LabelInstanceTypeStable, "r5.xlarge")}, func(k string) bool { return k == "r5.xlarge" }, "default"},
		"nothing exotic":       {[]v1.Requirement{in(awsv1.FamilyLabelKey, "g5", "r5")}, func(k string) bool { return strings.HasPrefix(k, "r5.") }, "default"},
		"exotic, if need be":   {[]v1.Requirement{in(awsv1.FamilyLabelKey, "g5")}, func(k string) bool { return strings.HasPrefix(k, "g5.") }, "default"},
		"on tenants of theirs": {[]v1.Requirement{in(awsv1.TenancyLabelKey, "default", "dedicated")}, func(k string) bool { return k != "" }, "dedicated"},
		"in spite of them":     {[]v1.Requirement{in(corev1.LabelInstanceTypeStable, "no.such")}, func(k string) bool { return k == "m5.large" || k == "m6g.large" }, "default"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			w.pool("a", "general", test.requirements...)
			w.pool("b", "other", in(corev1.LabelInstanceTypeStable, "c5.large"))
			w.resolved("general", nil)
			call := w.account.Calls("ec2:RunInstances")[0]
			if kind := call.Form.Get("InstanceType"); !test.kind(kind) {
				t.Errorf("type %s", kind)
			}
			if got := w.account.Calls("ec2:CreateLaunchTemplate")[0].Form.Get("LaunchTemplateData.Placement.Tenancy"); got != test.tenancy {
				t.Errorf("tenancy %s, want %s", got, test.tenancy)
			}
		})
	}
}
